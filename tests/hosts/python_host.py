"""A program for TVM's Python package, as a user of TVM writes it.

usage: python_host.py FACTORY.so MODULE.so

with libnodewise_runtime.so in place of libtvm_runtime.so. The factory is the
tests' `factory`, x + {10, 20, 30, 40}; the module has calls_argument(f, x...).
Each check prints a line; the exit status is 1 if one failed. What a release
does not have yet is left out there.
"""

import contextlib
import gc
import io
import os
import sys
import tempfile
import threading
import traceback

import numpy as np
import tvm
from tvm.contrib import graph_executor

FACTORY, CLOSURE = sys.argv[1:3]
RELEASE = tuple(int(part) for part in tvm.__version__.split(".")[:2])
CPU = tvm.cpu(0)
X = np.array([1, 2, 3, 4], "float32")
SUM = [11, 22, 33, 44]

checks = []


def check(since=(0, 8)):
    """Marks a function as a check of the releases from `since` on."""
    def add(function):
        if RELEASE >= since:
            checks.append(function)
        return function
    return add


def executor():
    library = tvm.runtime.load_module(FACTORY)
    return graph_executor.GraphModule(library["default"](CPU))


def debugger(**options):
    from tvm.contrib.debugger import debug_executor
    library = tvm.runtime.load_module(FACTORY)
    return debug_executor.GraphModuleDebug(
        library["debug_create"]("default", CPU), [CPU],
        library["get_graph_json"](), **options)


def raised_by(function, *args):
    """The exception that a call ends with."""
    try:
        function(*args)
    except Exception as error:  # pylint: disable=broad-except
        return error
    raise AssertionError("nothing was raised")


# --- arrays and devices -----------------------------------------------------


@check()
def arrays_go_to_and_from_numpy():
    for dtype in ("float32", "float64", "int8", "uint8", "int64", "bool"):
        values = np.arange(6).reshape(2, 3).astype(dtype)
        array = tvm.nd.array(values)
        assert (array.shape, array.dtype) == ((2, 3), dtype)
        assert (array.numpy() == values).all()
    assert tvm.nd.array(X).device == CPU
    assert tvm.nd.empty((2, 2), "int16").shape == (2, 2)
    assert tvm.nd.array(np.float32(3)).numpy() == 3


@check()
def arrays_are_assigned_and_copied():
    array = tvm.nd.empty((4,))
    array[:] = X
    other = tvm.nd.empty((4,))
    array.copyto(other)
    assert (other.numpy() == X).all()
    other.copyfrom(X * 2)
    assert (other.numpy() == X * 2).all()
    assert (array.copyto(CPU).numpy() == X).all()


@check()
def arrays_go_through_dlpack():
    array = tvm.nd.from_dlpack(tvm.nd.array(X).to_dlpack())
    gc.collect()
    assert (array.numpy() == X).all()


@check(since=(0, 9))
def view_shares_memory():
    array = tvm.nd.array(X)
    view = array._create_view((2, 2))
    array[:] = X + 1
    assert view.numpy().tolist() == [[2, 3], [4, 5]]


@check(since=(0, 17))
def view_may_begin_later():
    array = tvm.nd.array(X)
    view = array._create_view((2,), dtype="float32", relative_byte_offset=8)
    assert view.numpy().tolist() == [3, 4]
    assert isinstance(raised_by(lambda: array._create_view((5,))), ValueError)


@check()
def memory_scopes_are_refused():
    error = raised_by(lambda: tvm.nd.empty((2,), mem_scope="texture"))
    assert "memory scope texture is not supported" in str(error)


@check()
def devices_say_whether_they_are_there():
    assert CPU.exist and not tvm.cuda(0).exist and not tvm.opencl(0).exist
    assert CPU.warp_size is None
    CPU.sync()


# --- modules ----------------------------------------------------------------


@check()
def factory_runs():
    module = executor()
    module.run(x=X)
    assert module.get_output(0).numpy().tolist() == SUM
    out = tvm.nd.empty((4,))
    module.get_output(0, out)
    assert out.numpy().tolist() == SUM
    assert module.get_num_outputs() == 1
    assert (module.get_input("x").numpy() == X).all()


@check()
def executor_survives_its_library():
    module = executor()
    gc.collect()
    module.set_input("x", tvm.nd.array(X))
    module.run()
    assert module.get_output(0).numpy().tolist() == SUM


@check()
def executor_is_created_from_its_parts():
    library = tvm.runtime.load_module(FACTORY)
    module = graph_executor.create(library["get_graph_json"](), library, CPU)
    module.run(x=X, p0=X)
    assert module.get_output(0).numpy().tolist() == (X + X).tolist()


@check()
def module_tells_about_itself():
    library = tvm.runtime.load_module(FACTORY)
    assert library.type_key == "GraphExecutorFactory"
    assert [m.type_key for m in library.imported_modules] == ["library"]
    assert hash(library) == hash(library)
    assert "GraphExecutorFactory" in repr(library)
    assert isinstance(raised_by(lambda: library["nothing"]), AttributeError)
    for refused in library.get_source, lambda: library.save("saved.so"):
        assert isinstance(raised_by(refused), tvm.TVMError)


@check(since=(0, 9))
def module_implements_what_it_has_itself():
    library = tvm.runtime.load_module(FACTORY)
    name = "tvmgen_default_fused_add"
    assert library.implements_function("default")
    assert not library.implements_function(name)
    assert library.implements_function(name, query_imports=True)


@check(since=(0, 12))
def module_has_properties():
    library = tvm.runtime.load_module(FACTORY)
    assert library.is_binary_serializable and not library.is_dso_exportable
    assert library.imported_modules[0].is_runnable


@check()
def kernel_is_called():
    add = tvm.runtime.load_module(FACTORY).get_function(
        "tvmgen_default_fused_add", query_imports=True)
    out = tvm.nd.empty((4,))
    add(tvm.nd.array(X), tvm.nd.array(X), out)
    assert out.numpy().tolist() == (X + X).tolist()
    assert isinstance(raised_by(add, 1, 2, 3), Exception)


@check()
def zero_copy_is_seen_and_kept_alive():
    module = executor()
    array = tvm.nd.array(X)
    module.module["set_input_zero_copy"]("x", array)
    array[:] = X * 2
    del array
    gc.collect()
    module.run()
    assert module.get_output(0).numpy().tolist() == [12, 24, 36, 48]


# --- timing -----------------------------------------------------------------


@check()
def module_is_benchmarked():
    module = executor()
    module.set_input("x", X)
    result = module.benchmark(CPU, number=3, repeat=4)
    assert len(result.results) == 4 and result.mean > 0
    result = module.benchmark(CPU, number=3, repeat=2, end_to_end=True,
                              x=tvm.nd.array(X))
    assert len(result.results) == 2
    assert "mean (ms)" in str(result)


@check()
def functions_are_timed():
    module = executor().module
    count = [0]

    def before(*_args):
        count[0] += 1
    tvm.register_func("host.before", before, override=True)
    timed = module.time_evaluator("get_num_outputs", CPU, number=2, repeat=5,
                                  f_preproc="host.before")
    assert len(timed().results) == 5 and count == [5]
    flushed = module.time_evaluator("get_num_outputs", CPU, number=1, repeat=2,
                                    f_preproc="cache_flush_cpu_non_first_arg")
    assert len(flushed().results) == 2
    slow = module.time_evaluator("get_num_outputs", CPU, number=1, repeat=1,
                                 min_repeat_ms=20)
    assert slow().mean > 0


# --- functions --------------------------------------------------------------


@check()
def values_pass_through_callbacks():
    echo = tvm.runtime.convert(lambda value: value)
    for value in (1, -2**62, 1.5, "text", "", None, "\u00e9"):
        assert echo(value) == value and type(echo(value)) is type(value)
    assert echo(True) == 1
    if RELEASE >= (0, 18):
        assert echo(True) is True and echo(False) is False
    assert echo(CPU) == CPU
    assert echo(bytearray(b"a\0b")) == bytearray(b"a\0b")
    assert str(echo(tvm.DataType("float16"))) == "float16"
    assert (echo(tvm.nd.array(X)).numpy() == X).all()
    assert echo(tvm.runtime.load_module(FACTORY)).type_key.startswith("Graph")


@check()
def functions_pass_through_functions():
    apply = tvm.runtime.convert(lambda f, x: f(x))
    assert apply(lambda x: x * 2, 21) == 42
    make = tvm.runtime.convert(lambda y: lambda x: x + y)
    assert make(40)(2) == 42
    calls = tvm.runtime.load_module(CLOSURE)["calls_argument"]
    assert calls(tvm.runtime.convert(lambda x: x + 1), 41) == 42


@check()
def functions_are_registered():
    tvm.register_func("host.add", lambda a, b: a + b, override=True)
    assert tvm.get_global_func("host.add")(1, 2.5) == 3.5
    assert "host.add" in tvm._ffi.registry.list_global_func_names()
    assert isinstance(raised_by(
        lambda: tvm.register_func("host.add", lambda: 0)), Exception)
    tvm._ffi.registry.remove_global_func("host.add")
    assert tvm.get_global_func("host.add", allow_missing=True) is None


@check()
def containers_pass_through_callbacks():
    echo = tvm.runtime.convert(lambda value: value)
    array = tvm.nd.array(X)
    items = echo([array, array])
    assert len(items) == 2 and (items[1].numpy() == X).all()
    assert list(echo(["a", "b"])) == ["a", "b"]
    mapping = echo({"a": tvm.runtime.String("x"), "b": array})
    assert mapping["a"] == "x" and set(mapping.keys()) == {"a", "b"}
    assert "a" in mapping and "c" not in mapping and len(mapping) == 2
    assert tuple(echo(tvm.runtime.ShapeTuple([1, 2, 3]))) == (1, 2, 3)
    text = tvm.runtime.String("hello")
    assert echo(text) == "hello" and text + "!" == "hello!"


@check()
def tuples_are_made():
    array = tvm.nd.array(X)
    adt = tvm.runtime.container.ADT(3, [array, tvm.runtime.ShapeTuple([4])])
    assert adt.tag == 3 and len(adt) == 2 and tuple(adt[1]) == (4,)
    assert tvm.runtime.container.tuple_object([array]).tag == 0


# --- exceptions -------------------------------------------------------------


class Refusal(Exception):
    """A type that the package does not know."""


@check()
def exceptions_come_back_from_callbacks():
    def raises():
        raise ValueError("from the callback")
    function = tvm.runtime.convert(raises)
    # Before 0.11 the package cannot read the traces of Python 3.11 twice.
    if RELEASE >= (0, 11) or sys.version_info < (3, 11):
        inner = function
        function = tvm.runtime.convert(lambda: tvm.runtime.convert(
            lambda: inner())())
    for _ in range(20):
        error = raised_by(function)
        assert "from the callback" in str(error)
        assert isinstance(error, ValueError)


@check(since=(0, 14))
def exceptions_are_the_same_object():
    thrown = Refusal("exactly this")

    def raises(*_args):
        raise thrown
    inner = tvm.runtime.convert(raises)
    assert raised_by(tvm.runtime.convert(lambda: inner())) is thrown
    kernel = tvm.runtime.load_module(CLOSURE)["calls_argument"]
    assert raised_by(kernel, inner) is thrown
    names = [frame.name for frame in
             traceback.extract_tb(raised_by(kernel, inner).__traceback__)]
    assert "raises" in names
    error = raised_by(tvm.runtime.load_module, "/nowhere/net.so")
    assert error is not thrown


@check(since=(0, 14))
def exceptions_are_freed():
    class Large:
        alive = 0

        def __init__(self):
            Large.alive += 1

        def __del__(self):
            Large.alive -= 1

    def raises():
        large = Large()
        raise Refusal(large)
    function = tvm.runtime.convert(raises)
    for _ in range(50):
        raised_by(function)
    gc.collect()
    assert Large.alive <= 1, Large.alive


@check()
def threads_have_errors_of_their_own():
    def raises(number):
        raise ValueError(f"of thread {number}")
    function = tvm.runtime.convert(raises)
    seen = {}

    def work(number):
        for _ in range(50):
            seen[number] = str(raised_by(function, number))
            assert f"of thread {number}" in seen[number]
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4


@check()
def runtime_errors_are_tvm_errors():
    module = executor()
    error = raised_by(module.run)
    assert isinstance(error, tvm.error.InternalError), type(error)
    assert "never set: x" in str(error)
    load = tvm.get_global_func("runtime.ModuleLoadFromFile")
    error = raised_by(load, "/nowhere/net.so", "so")
    assert "cannot open shared object" in str(error)


# --- the debugger -----------------------------------------------------------


@check()
def debugger_runs_and_dumps():
    with tempfile.TemporaryDirectory() as folder:
        module = debugger(dump_root=folder)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            module.run(x=X)
        assert "tvmgen_default_fused_add" in shown.getvalue()
        assert module.get_output(0).numpy().tolist() == SUM
        (dump,) = os.listdir(folder)
        files = set(os.listdir(os.path.join(folder, dump)))
        assert {"_tvmdbg_graph_dump.json", "output_tensors.params",
                "_tvmdbg_execution_trace.json"} <= files, files


@check()
def debugger_profiles():
    module = debugger(dump_root=None)
    report = module.profile(x=X)
    module.exit()
    assert "tvmgen_default_fused_add" in str(report)
    assert len(report.calls) == 1
    assert report.calls[0]["Name"] == "tvmgen_default_fused_add"
    assert "tvmgen_default_fused_add" in report.csv() + report.json()


@check(since=(0, 9))
def functions_and_reports_are_profiled():
    profiling = tvm.runtime.profiling
    library = tvm.runtime.load_module(FACTORY)
    profiled = profiling.profile_function(
        library["default"](CPU), CPU, [], "get_num_outputs", 2)
    assert dict(profiled()) == {}
    report = profiling.Report(
        [{"Name": tvm.runtime.String("a"),
          "Duration (us)": profiling.Duration(3.0)}],
        {"cpu0": {"Duration (us)": profiling.Duration(3.0)}}, {})
    assert "a " in report.table() and report.csv().endswith('3,"a"\n')


# --- the rest ---------------------------------------------------------------


@check()
def parameters_are_saved_and_loaded():
    saved = tvm.runtime.save_param_dict({"x": tvm.nd.array(X)})
    loaded = tvm.runtime.load_param_dict(bytes(saved))
    assert (loaded["x"].numpy() == X).all()
    module = executor()
    module.load_params(tvm.runtime.save_param_dict(
        {"p0": tvm.nd.array(X), "x": tvm.nd.array(X)}))
    module.run()
    assert module.get_output(0).numpy().tolist() == (X + X).tolist()


@check()
def build_is_described():
    info = tvm.support.libinfo()
    assert info["USE_PROFILER"] == "ON" and info["USE_LLVM"] == "OFF"
    assert tvm.runtime.enabled("cpu")
    assert not tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("cuda")


@check(since=(0, 9))
def threads_are_counted():
    assert tvm.runtime.num_threads() >= 1


def main():
    failed = 0
    for function in checks:
        try:
            function()
            print(f"ok {function.__name__}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {function.__name__}\n{traceback.format_exc()}",
                  flush=True)
    print(f"TVM {tvm.__version__}: {len(checks) - failed} of {len(checks)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
