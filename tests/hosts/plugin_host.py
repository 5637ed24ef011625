"""A host on TVM's package that uses a plug-in of C++ on TVM's headers.

usage: plugin_host.py PLUGIN.so FACTORY.so
"""

import gc
import sys

import numpy
import tvm

plugin = tvm.runtime.load_module(sys.argv[1])
x = tvm.nd.array(numpy.arange(5, dtype="float32"))


def failure(function, *args):
    try:
        function(*args)
    except tvm.TVMError as error:
        return str(error)
    raise AssertionError("nothing was raised")


for _ in range(20):
    assert plugin["sum"](x) == 10
    assert plugin["apply"](tvm.runtime.convert(lambda n: n * 2), 21) == 42
    assert plugin["apply"](plugin["make_adder"](40), 2) == 42
    words = plugin["make_array"]()
    assert [str(word) for word in words] == ["a", "b", "c"]
    assert plugin["join"](words, "-") == "a-b-c"
    assert plugin["join"](tvm.runtime.convert(
        [tvm.runtime.String("p"), tvm.runtime.String("q")]), "+") == "p+q"
    arrays = {f"k{i}": x for i in range(9)}
    assert plugin["lookup"](tvm.runtime.convert(arrays), "k7").shape == (5,)
    assert plugin["product"](tvm.runtime.ShapeTuple([2, 3, 4])) == 24
    assert tuple(plugin["make_shape"](2)) == (3, 3)
    for count in (0, 1, 4, 5, 40):
        made = plugin["make_map"](count)
        assert len(made) == count
        assert {str(key): str(value) for key, value in made.items()} == \
            {f"k{i}": f"v{i}" for i in range(count)}
    numbers = plugin["make_module"]()
    assert numbers.type_key == "numbers" and numbers["answer"]() == 42
    assert plugin["ask"](numbers, "answer") == 42
    factory = tvm.runtime.load_module(sys.argv[2])
    assert plugin["kind_of"](factory) == "GraphExecutorFactory"
    made = plugin["executor"](factory, tvm.cpu())
    assert plugin["ask"](made, "get_num_inputs") == 2
    executor = factory["default"](tvm.cpu())
    assert plugin["ask"](executor, "get_num_outputs") == 1
    assert plugin["ask"](executor, "nothing") == -1
    made = plugin["make_ndarray"](3)
    assert made.numpy().tolist() == [0, 1, 2]
    assert plugin["sum"](made) == 3
    assert "too small" in failure(plugin["fail"], 3)
    assert "never set: x" in failure(plugin["ask"], executor, "run")
    gc.collect()
print(f"TVM {tvm.__version__}: ok")
