"""Networks that Python keeps loaded: run, stopped, looked into, changed."""

import gc
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy
from package_support import (BUILD, HAS_NATIVE, INPUTS, PACKAGE, PackageTest,
                             data_dependent_model, nodewise, onnxruntime_of,
                             open_model)
from onnx_bytes import (FLOAT, onnx_graph, onnx_model, onnx_node,
                        proto_tensor, value_info)

TYPES = ["bool", "float16", "float32", "float64", "int8", "int16", "int32",
         "int64", "uint8", "uint16", "uint32", "uint64"]
ML_TYPES = ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
            "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4",
            "uint4", "int2", "uint2"]


def address(array):
    return array.__array_interface__["data"][0]


def slow_model(nodes=4000, side=256):
    """Takes the reference seconds, a node a moment."""
    chain = [onnx_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"], name=f"n{i}")
             for i in range(nodes)]
    weights = numpy.eye(side, dtype=numpy.float32).tobytes()
    return onnx_model(onnx_graph(
        chain, [value_info("v0", dims=(side, side))],
        [value_info(f"v{nodes}", dims=(side, side))],
        [proto_tensor("w", [side, side], FLOAT, (9, weights))]))


@unittest.skipUnless(HAS_NATIVE, "the native module was not built")
class SessionTest(PackageTest):
    def loaded(self, target=None, **options):
        session = nodewise.load(self.model if target is None else target,
                                **options)
        self.addCleanup(session.close)
        return session

    def test_a_run_has_the_outputs_of_onnxruntime(self):
        made = self.loaded().run(INPUTS)
        expected = onnxruntime_of(str(self.model), INPUTS, ["y"])
        self.assertEqual(list(made), ["y"])
        numpy.testing.assert_array_equal(made["y"], expected["y"])

    def test_an_artefact_names_its_inputs_outputs_and_nodes(self):
        with nodewise.load(self.demo()[0]) as net:
            self.assertEqual(list(net.inputs.values()), ["float32[1, 3, 32, 32]"])
            self.assertEqual(len(net.outputs), 1)
            self.assertGreater(len(net.nodes), 3)

    def test_bytes_are_a_target_and_are_called_so(self):
        net = self.loaded(self.model.read_bytes())
        self.assertEqual(net.name, "target")
        with self.assertRaises(nodewise.Error) as caught:
            nodewise.load(b"nothing of the kind")
        self.assertTrue(str(caught.exception).startswith("target: "),
                        caught.exception)

    def test_outputs_that_are_held_stay_and_others_use_their_memory(self):
        net = self.loaded()
        held = net.run(INPUTS)["y"].numpy()
        before = held.copy()
        other = address(net.run({"x": numpy.zeros(3, "float32")})["y"].numpy())
        numpy.testing.assert_array_equal(held, before)
        self.assertNotEqual(other, address(held))
        gc.collect()
        self.assertEqual(address(net.run()["y"].numpy()), other)

    def test_outputs_survive_the_session(self):
        net = self.loaded()
        held = numpy.asarray(net.run(INPUTS)["y"])
        net.close()
        del net
        gc.collect()
        self.assertEqual(held.tolist(), [11, 14, 0])

    def test_a_closed_session_says_so(self):
        net = self.loaded()
        net.close()
        self.assertIn("is closed", self.refusal(net.run))

    def test_a_bound_array_is_read_where_it_lies(self):
        net = self.loaded()
        mine = numpy.ones(64, "float32")[:3]
        net.bind("x", mine)
        first = net.run()["y"].numpy().tolist()
        mine[:] = 3
        second = net.run()["y"].numpy().tolist()
        self.assertEqual((first, second), ([11, 12, 0], [13, 16, 0]))

    def test_a_bound_array_decides_open_sizes_and_is_read_where_it_lies(self):
        net = self.loaded(open_model())
        mine = numpy.ones((6, 2), "float32")[::2]
        net.bind("x", mine)
        first = net.run()["y"].numpy().copy()
        mine[1] = 3
        second = net.run()["y"].numpy().copy()
        net.set({"x": numpy.ones((1, 2), "float32")})
        third = net.run()["y"].numpy().copy()
        self.assertEqual((first.tolist(), second.tolist(), third.tolist()),
                         ([[2, 2]] * 3, [[2, 2], [6, 6], [2, 2]], [[2, 2]]))
        self.assertEqual(mine[1].tolist(), [3, 3])

    def test_writing_to_the_memory_of_an_input_sets_it(self):
        net = self.loaded()
        net.input("x").numpy()[:] = 3
        self.assertEqual(net.run()["y"].numpy().tolist(), [13, 16, 0])

    def test_a_step_runs_one_node(self):
        net = self.loaded(no_fuse=True)
        net.set(INPUTS)
        self.assertEqual([net.step(), net.step()], ["times", "plus"])
        self.assertEqual(net.position, "last")
        self.assertEqual(net.tensor("plus").numpy().tolist(), [11, 14, -1])
        self.assertIn("not been computed", self.refusal(net.tensor, "last"))
        net.resume()
        self.assertIsNone(net.position)

    def test_after_a_run_every_tensor_can_be_read(self):
        with nodewise.load(self.demo()[0]) as net:
            image = numpy.random.default_rng(1).random((1, 3, 32, 32), "float32")
            held = net.run({"image": image})
            before = {name: each.numpy().copy() for name, each in held.items()}
            read = {node: net.tensor(node).numpy().copy() for node in net.nodes}
            for name, each in held.items():
                numpy.testing.assert_array_equal(each, before[name])
            # Memory is used again, so that some were gone.
            net.restart()
            for node in net.nodes:
                net.step()
                numpy.testing.assert_array_equal(net.tensor(node), read[node])

    def test_a_patch_changes_what_depends_on_it(self):
        net = self.loaded(no_fuse=True)
        net.set(INPUTS)
        net.run_until("last")
        net.patch("times", numpy.float32([5, 5, 50]))
        self.assertEqual(net.recompute(), ("plus", "last"))
        self.assertEqual(net.tensor("last").numpy().tolist(), [15, 15, 40])
        self.assertEqual(net.run()["y"].numpy().tolist(), [15, 15, 40])
        net.clear_patches()
        self.assertEqual(net.run()["y"].numpy().tolist(), [11, 14, 0])

    def test_a_timed_run_says_how_long_each_node_took(self):
        net = self.loaded(no_fuse=True)
        net.run(INPUTS, timed=True)
        times = net.times()
        self.assertEqual(list(times), ["times", "plus", "last"])
        self.assertTrue(all(0 < each < 1 for each in times.values()), times)

    def test_runs_are_timed_without_python(self):
        net = self.loaded()
        net.set(INPUTS)
        seconds = net.time_runs(5)
        self.assertEqual(len(seconds), 5)
        self.assertTrue(all(0 < each < 1 for each in seconds), seconds)
        self.assertIn("runs", self.refusal(net.time_runs, -1))

    def test_a_recorded_run_leaves_a_dump(self):
        net = self.loaded(no_fuse=True)
        net.record(self.folder / "recorded")
        net.run(INPUTS)
        made = nodewise.tensors(net.dump_folder)
        self.assertEqual(list(made), ["x", "c", "d", "times", "plus", "last"])
        self.assertEqual(made["plus"].numpy().tolist(), [11, 14, -1])
        with self.assertRaises(KeyError):
            made["nothing"]

    def test_open_sizes_are_those_of_the_inputs_at_hand(self):
        net = self.loaded(open_model())
        self.assertEqual(net.inputs, {"x": "float32[rows, 2]"})
        self.assertIn("sizes are open", self.refusal(net.step))
        for rows in (1, 3, 2):
            x = numpy.full((rows, 2), rows, "float32")
            numpy.testing.assert_array_equal(net.run({"x": x})["y"], 2 * x)

    def test_sizes_that_data_decides_are_run_by_the_reference(self):
        net = self.loaded(data_dependent_model())
        for x in ([0, 1, 0, 1], [1, 1, 1, 0]):
            x = numpy.float32(x)
            numpy.testing.assert_array_equal(net.run({"x": x})["y"],
                                             -numpy.stack(numpy.nonzero(x)))
        self.assertEqual(net.tensor("where").numpy().tolist(), [[0, 1, 2]])
        self.assertIn("data decides", self.refusal(net.step))

    def test_threads_take_turns(self):
        net = self.loaded()
        made = []

        def run(value):
            for _ in range(200):
                made.append(net.run(INPUTS)["y"].numpy().tolist())

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(made, [[11, 14, 0]] * 800)

    def test_what_does_not_fit_is_located(self):
        net = self.loaded()
        said = [self.refusal(net.run, {"x": numpy.zeros(4, "float32")}),
                self.refusal(net.run, {"x": numpy.zeros(3)}),
                self.refusal(net.run, {"z": numpy.zeros(3, "float32")}),
                self.refusal(net.run, {"x": [1, 2, 3]}),
                self.refusal(net.run, numpy.zeros(3)),
                self.refusal(net.tensor, "nothing"),
                self.refusal(nodewise.load, self.model, backend="fast")]
        for text, word in zip(said, ["x", "float64", "z", "list", "dict",
                                     "nothing", "backend"]):
            self.assertIn(word, text)

    def test_ctrl_c_ends_a_run_between_two_nodes(self):
        path = self.folder / "slow.onnx"
        path.write_bytes(slow_model())
        code = f"""
import signal, sys
# What starts the tests may have Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {str(PACKAGE)!r})
import numpy, nodewise
nodewise.__path__.append({str(BUILD / "lib/python")!r})
net = nodewise.load({str(path)!r}, backend="reference", no_fuse=True)
inputs = {{"v0": numpy.ones((256, 256), "float32")}}
print("running", flush=True)
try:
    for _ in range(1000):
        net.run(inputs)
except KeyboardInterrupt:
    print("interrupted")
    net.restart()
    print(net.step())
"""
        with subprocess.Popen([sys.executable, "-c", code], text=True,
                              stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), "running\n")
            time.sleep(1)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            try:
                rest, _ = process.communicate(timeout=60)
            finally:
                process.kill()
        self.assertEqual(rest.split(), ["interrupted", "n0"])
        # A run to its end would take 4 seconds more.
        self.assertLess(time.monotonic() - start, 2)


@unittest.skipUnless(HAS_NATIVE, "the native module was not built")
class TensorTest(PackageTest):
    def round_trip(self, array):
        from nodewise import _tensors
        tensor = nodewise.Tensor(_tensors.held_by("x", array))
        return tensor, tensor.numpy()

    def test_every_type_of_numpy_comes_back_with_its_memory(self):
        for name in TYPES:
            with self.subTest(name):
                array = numpy.zeros((2, 3), name)
                tensor, back = self.round_trip(array)
                self.assertEqual((tensor.dtype, tensor.shape), (name, (2, 3)))
                self.assertEqual(back.dtype, array.dtype)
                self.assertEqual(address(back), address(array))

    def test_types_beyond_numpy_come_back_with_their_memory(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("ml_dtypes is not installed")
        for name in ML_TYPES:
            with self.subTest(name):
                array = numpy.zeros((2, 3), getattr(ml_dtypes, name))
                tensor, back = self.round_trip(array)
                self.assertEqual((tensor.dtype, tensor.shape), (name, (2, 3)))
                self.assertEqual(back.dtype, array.dtype)
                self.assertEqual(address(back), address(array))

    def test_memory_outlives_the_array_that_it_came_from(self):
        array = numpy.arange(1000.)
        _, back = self.round_trip(array)
        del array
        gc.collect()
        numpy.empty(1000)
        self.assertEqual(back.sum(), 499500)

    def test_strides_are_kept(self):
        array = numpy.arange(12.).reshape(3, 4)[::2, ::-1]
        _, back = self.round_trip(array)
        numpy.testing.assert_array_equal(back, array)

    def test_dlpack_shares_memory(self):
        array = numpy.arange(6, dtype="float32")
        tensor, _ = self.round_trip(array)
        self.assertEqual(address(numpy.from_dlpack(tensor)), address(array))

    def test_what_is_not_numbers_in_host_memory_is_refused(self):
        for bad in (numpy.array(["a"]), numpy.array([object()]),
                    numpy.zeros(3, ">f4"), numpy.zeros(3, "M8[s]"), "text",
                    numpy.zeros(2, [("a", "f4")])):
            self.assertIn("x: is a", self.refusal(self.round_trip, bad))


if __name__ == "__main__":
    unittest.main()
