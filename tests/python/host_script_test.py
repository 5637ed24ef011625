"""Host scripts for TVM 0.8 and 0.14 of which only the imports are changed."""

import pathlib
import unittest
import warnings

import numpy as np
from package_support import HAS_NATIVE, ROOT, PackageTest, nodewise

FIXTURES = ROOT.parent / "shared/fixtures"
# What people write; the first lines are all that is changed.
DEPLOY_0_8 = """
from nodewise import tvm
from nodewise.tvm.contrib import graph_executor

loaded_lib = tvm.runtime.load_module(path + "/lib.so")
loaded_json = open(path + "/graph.json").read()
loaded_params = bytearray(open(path + "/params.params", "rb").read())
dev = tvm.device("llvm -mcpu=core-avx2", 0)
module = graph_executor.create(loaded_json, loaded_lib, dev)
module.load_params(loaded_params)
for name, value in inputs.items():
    module.set_input(name, tvm.nd.array(value))
module.run()
outputs = [module.get_output(i).asnumpy()
           for i in range(module.get_num_outputs())]
"""
FACTORY_0_14 = """
from nodewise import tvm
from nodewise.tvm.contrib import graph_executor

dev = tvm.cpu(0)
lib = tvm.runtime.load_module(path + "/factory.so")
gmod = graph_executor.GraphModule(lib["default"](dev))
gmod.run(**inputs)
outputs = [gmod.get_output(i).numpy() for i in range(gmod.get_num_outputs())]
"""
DEBUG_0_14 = """
import json
from nodewise import tvm
from nodewise.tvm.contrib.debugger import debug_executor as graph_runtime

lib = tvm.runtime.load_module(path + "/lib.so")
graph = open(path + "/graph.json").read()
params = tvm.runtime.load_param_dict(open(path + "/params.params", "rb").read())
m = graph_runtime.create(graph, lib, tvm.cpu(0), dump_root=dump)
m.set_input(**params)
m.run(**inputs)
outputs = [m.get_output(i).numpy() for i in range(m.get_num_outputs())]
table = str(m.profile())
names = [node["name"] for node in json.loads(graph)["nodes"]]
seconds = m.run_individual(1, 2)
last = m.debug_get_output(names[-1]).numpy()
"""
TIMED = """
import numpy
from nodewise import tvm
from nodewise.tvm.contrib import graph_runtime

lib = tvm.runtime.load_module(path + "/lib.so")
m = graph_runtime.create(open(path + "/graph.json").read(), lib, tvm.cpu())
m.load_params(open(path + "/params.params", "rb").read())
m.set_input(**inputs)
timer = m.module.time_evaluator("run", tvm.cpu(), number=1, repeat=3)
results = numpy.array(timer().results) * 1000
summary = str(m.benchmark(tvm.cpu(), repeat=2, number=1))
"""


@unittest.skipUnless(HAS_NATIVE, "the native module was not built")
class HostScriptTest(PackageTest):
    def run_script(self, script, path, inputs):
        names = {"path": str(path), "inputs": inputs,
                 "dump": str(self.folder / "dumps")}
        with warnings.catch_warnings():
            # Such scripts leave it to Python to close their files.
            warnings.simplefilter("ignore", ResourceWarning)
            exec(script, names)  # pylint: disable=exec-used
        return names

    def demo_and_inputs(self):
        net, _ = self.demo()
        with nodewise.load(net) as session:
            inputs = {name: np.random.default_rng(1).random(
                [int(side) for side in kind.split("[")[1][:-1].split(",")],
                "float32") for name, kind in session.inputs.items()}
            expected = [each.numpy() for each in session.run(inputs).values()]
        return net, inputs, expected

    def test_a_deploy_script_of_0_8_runs(self):
        net, inputs, expected = self.demo_and_inputs()
        made = self.run_script(DEPLOY_0_8, net, inputs)["outputs"]
        np.testing.assert_array_equal(made, expected)

    def test_a_debug_script_of_0_14_runs_and_leaves_a_dump(self):
        net, inputs, expected = self.demo_and_inputs()
        names = self.run_script(DEBUG_0_14, net, inputs)
        np.testing.assert_array_equal(names["outputs"], expected)
        np.testing.assert_array_equal(names["last"].ravel(),
                                      expected[0].ravel())
        self.assertIn("Duration", names["table"])
        self.assertEqual(len(names["seconds"]), len(names["names"]))
        self.assertEqual(len(names["seconds"][0]), 2)
        self.assertTrue(any((self.folder / "dumps").rglob("*.params")))

    def test_time_evaluator_and_benchmark_time_runs(self):
        net, inputs, _ = self.demo_and_inputs()
        names = self.run_script(TIMED, net, inputs)
        self.assertEqual(names["results"].shape, (3,))
        self.assertTrue((names["results"] > 0).all(), names["results"])
        self.assertIn("median (ms)", names["summary"])

    def test_what_tvm_made_gives_what_tvm_recorded(self):
        if not FIXTURES.exists():
            self.skipTest("there are no artefacts of real TVM here")
        from nodewise import tvm
        for script, pattern in ((DEPLOY_0_8, "tvm-0.8/*/params.params"),
                                (DEPLOY_0_8, "tvm-0.14/*/params.params"),
                                (FACTORY_0_14, "tvm-0.14/*/factory.so")):
            for file in sorted(FIXTURES.glob(pattern)):
                with self.subTest(str(file)):
                    folder = pathlib.Path(file).parent
                    inputs, recorded = (
                        tvm.runtime.load_param_dict(
                            (folder / name).read_bytes())
                        for name in ("inputs.params", "outputs.params"))
                    made = self.run_script(script, folder, inputs)["outputs"]
                    self.assertEqual(len(made), len(recorded))
                    # In a file they are in no order.
                    for got, name in zip(made, sorted(recorded)):
                        np.testing.assert_array_equal(got,
                                                      recorded[name].numpy())


@unittest.skipUnless(HAS_NATIVE, "the native module was not built")
class ArrayTest(PackageTest):
    def test_parameters_come_back_as_they_were_saved(self):
        from nodewise import tvm
        saved = {"a": np.arange(3.), "b": np.ones((2, 2), "int8")}
        loaded = tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(saved))
        self.assertEqual(list(loaded), ["a", "b"])
        for name, array in saved.items():
            np.testing.assert_array_equal(loaded[name].numpy(), array)
            self.assertEqual(loaded[name].dtype, array.dtype.name)

    def test_an_array_is_a_copy_and_its_numbers_take_its_type(self):
        from nodewise import tvm
        mine = np.zeros(3, "float32")
        array = tvm.nd.array(mine)
        mine[:] = 1
        self.assertEqual(array.numpy().tolist(), [0, 0, 0])
        array[:] = [1.5, 2, 3]
        self.assertEqual(array.asnumpy().tolist(), [1.5, 2, 3])
        self.assertEqual(array.dtype, "float32")
        with self.assertRaisesRegex(ValueError, "do not match"):
            array.copyfrom(np.zeros(4))

    def test_a_device_has_the_name_and_number_that_it_was_asked_by(self):
        from nodewise import tvm
        self.assertEqual(tvm.device("llvm", 0), tvm.cpu(0))
        self.assertEqual(repr(tvm.cpu(0)), "cpu(0)")
        self.assertTrue(tvm.cpu(0).exist)
        self.assertFalse(tvm.cuda(0).exist)
        with self.assertRaisesRegex(ValueError, "expected one of"):
            tvm.device("abacus")


if __name__ == "__main__":
    unittest.main()
