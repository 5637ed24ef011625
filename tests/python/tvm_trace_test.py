"""TVM's VM, traced: the dumps of its runs, beside those of `nodewise dump`."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import textwrap
import unittest

import tvm_support
from tvm_support import (TENSORS, WithFolder, graph_of, names_in, network,
                         network_of, networks, number, numpy, records_of,
                         tensor, tensors_of, tvm, tvm_side, vm_of)

# pylint: disable=wrong-import-order
import ml_dtypes
import nodewise
from nodewise import _dump_files
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

# No decorator of TVM takes these apart before it reads them.
# pylint: disable=no-self-argument,no-method-argument,invalid-name


@I.ir_module
class Branches:
    """y = x > 0 ? x + x : x * x"""

    @R.function
    def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        is_above = R.greater(x, R.const(0.0, "float32"))
        if is_above:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y


@I.ir_module
class Loop:
    """Doubles x until it is above 100."""

    @R.function
    def main(x: R.Tensor((), "float32")) -> R.Tensor((), "float32"):
        is_above = R.greater(x, R.const(100.0, "float32"))
        if is_above:
            y = x
        else:
            doubled = R.add(x, x)
            y = Loop.main(doubled)
        return y


@I.ir_module
class InPlace:
    """Doubles x where it lies, and adds what lies there then."""

    @T.prim_func(s_tir=True)
    def double(x: T.Buffer((4,), "float32")):
        for i in T.grid(4):
            with T.sblock("double"):
                j = T.axis.remap("S", [i])
                x[j] = x[j] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = InPlace
        sums = R.add(x, x)
        doubled = R.call_tir_inplace(cls.double, (sums,), inplace_indices=[0],
                                     out_ty=[R.Tensor((4,), "float32")])
        y = R.add(doubled, x)
        return y


@I.ir_module
class NonZero:
    """How many there are is known when it runs."""

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor(ndim=2, dtype="int64"):
        y = R.nonzero(x)
        return y


@I.ir_module
class Calls:
    """Ends where test.end says, if that ends anything."""

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        z = R.call_dps_packed("test.end", (y,), out_ty=R.Tensor(
            (4,), "float32"))
        w = R.multiply(z, z)
        return w


@I.ir_module
class Others:
    """Returns one half of x, and can do without the other one."""

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((2,), "float32"):
        halves = R.split(x, 2)
        y = halves[0]
        return y

    @R.function
    def other(x: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        z = R.match_cast(y, R.Tensor((4,), "float32"))
        return z


@I.ir_module
class Numbers:
    """x[i] + n"""

    @T.prim_func(s_tir=True)
    def add_size(x: T.Buffer((4,), "float32"), n: T.int64,
                 y: T.Buffer((4,), "float32")):
        for i in T.grid(4):
            with T.sblock("add"):
                j = T.axis.remap("S", [i])
                y[j] = x[j] + T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((4,), "float32"), rows: R.Tensor(
            ("n", 2), "float32")) -> R.Tensor((4,), "float32"):
        n = T.int64()
        cls = Numbers
        y = R.call_tir(cls.add_size, (x, n), R.Tensor((4,), "float32"))
        return y


@tvm.register_global_func("test.end", override=True)
def end(x, y):
    if x.numpy()[0] < 0:
        raise ValueError("the test ends here")
    x.copyto(y)


class DumpTest(WithFolder):
    def traced(self, name, fused, **options):
        """The dump of the run of a network in TVM's VM."""
        vm, function, arguments = network(name, fused)
        root = self.folder / f"traced_{name}"
        with nodewise.trace_vm(vm, root, **options) as trace:
            vm[function](*arguments)
        folder, = trace.folders
        return pathlib.Path(folder)

    def dumped(self, name, fused):
        """The dump that nodewise makes of the exported library."""
        folder = self.folder / f"dumped_{name}"
        folder.mkdir()
        made = network_of(name)
        tvm_side.compile_to(folder, made.module, fused)
        tvm_side.save(folder / "inputs.params",
                      {key: tvm_side.tensor_of(value)
                       for key, value in made.inputs.items()})
        self.nodewise("dump", folder / "vm.so", "--function", made.function,
                      "--inputs", folder / "inputs.params", "--dump-root",
                      folder, "--what", "tensor,stats", "--no-table")
        return folder / "_tvmdbg_device_CPU_0"

    def test_statistics_and_hashes_are_those_of_nodewise(self):
        for name in ("convnet_with_pooling", "attention", "halves",
                     "integers_and_bools", "short_floats"):
            with self.subTest(name):
                folder = self.traced(name, False, what="tensor,stats")
                ours, theirs = records_of(folder), records_of(
                    self.dumped(name, False))
                self.assertEqual(ours.keys(), theirs.keys())
                for key, numbers in ours.items():
                    numpy.testing.assert_allclose(numbers, theirs[key], 1e-6)
                self.assertIn("read, all as they were made",
                              self.nodewise("inspect", folder))

    def test_statistics_alone_are_a_dump(self):
        folder = self.traced("mlp", True, what="stats")
        self.assertFalse((folder / TENSORS).exists())
        self.assertIn("statistics of 8 entries", self.nodewise("inspect",
                                                               folder))

    def test_only_chosen_kernels_are_recorded_and_what_they_read(self):
        folder = self.traced("mlp", False, select="^add1$")
        self.assertEqual(set(tensors_of(folder)), {"x", "matmul1", "p3",
                                                   "add1"})
        self.assertEqual(len(graph_of(folder)["nodes"]), 11)


def add_test(name, fused):
    def test(self):
        traced, dumped = self.traced(name, fused), self.dumped(name, fused)
        self.assertEqual((traced / TENSORS).read_bytes(),
                         (dumped / TENSORS).read_bytes())
        ours, theirs = (json.loads((folder / "_tvmdbg_graph_dump.json")
                                   .read_text()) for folder in (traced, dumped))
        # Where memory that was let go of is used again, is not in the library.
        del ours["attrs"]["storage_id"], theirs["attrs"]["storage_id"]
        self.assertEqual(ours, theirs)
    setattr(DumpTest, f"test_{name}_{'fused' if fused else 'plain'}_has_the_"
            "bytes_of_nodewise_dump", test)


for each in ("convnet_with_pooling", "attention", "quantised",
             "outputs_and_tuples", "halves", "short_floats",
             "integers_and_bools", "sorted_values", "open_batch",
             "open_lengths"):
    for is_fused in (False, True):
        add_test(each, is_fused)


class ShortFloatTest(unittest.TestCase):
    def test_every_short_float_is_the_number_of_ml_dtypes(self):
        for ours, theirs in (("e4m3_float8", "float8_e4m3fn"),
                             ("e5m2_float8", "float8_e5m2"),
                             ("float8_e4m3fnuz", "float8_e4m3fnuz"),
                             ("float8_e5m2fnuz", "float8_e5m2fnuz"),
                             ("float8_e8m0fnu", "float8_e8m0fnu"),
                             ("float4_e2m1fn", "float4_e2m1fn")):
            count = 16 if ours.startswith("float4") else 256
            bits = numpy.arange(count, dtype=numpy.uint8)
            numpy.testing.assert_equal(
                _dump_files.values_of(ours, memoryview(bits)),
                bits.view(getattr(ml_dtypes, theirs)).astype(float), ours)


class FlowTest(WithFolder):
    def trace(self, vm, **options):
        return nodewise.trace_vm(vm, self.folder / "dump", **options)

    def test_the_branch_that_was_taken_is_recorded(self):
        vm = vm_of(Branches)
        with self.trace(vm) as trace:
            vm["main"](number(3))
            vm["main"](number(-3))
        self.assertEqual([names_in(graph_of(each)) for each in trace.folders],
                         [["x", "greater", "add"],
                          ["x", "greater", "multiply"]])

    def test_each_turn_of_a_loop_is_a_node(self):
        vm = vm_of(Loop)
        with self.trace(vm) as trace:
            made = vm["main"](number(30))
        graph = graph_of(trace.folders[0])
        self.assertEqual(names_in(graph), [
            "x", "greater", "add", "greater_1", "add_1", "greater_2"])
        self.assertEqual(graph["heads"], [[4, 0, 0]])
        self.assertEqual(graph["nodes"][4]["inputs"], [[2, 0, 0], [2, 0, 0]])
        self.assertEqual(made.numpy(), 120)

    def test_what_was_written_last_is_read(self):
        vm = vm_of(InPlace)
        with self.trace(vm, what="tensor,stats") as trace:
            vm["main"](tensor(1, 2, 3, 4))
        graph = graph_of(trace.folders[0])
        self.assertEqual(names_in(graph), ["x", "add", "double", "add_1"])
        self.assertEqual([node["inputs"] for node in graph["nodes"]],
                         [[], [[0, 0, 0], [0, 0, 0]], [[1, 0, 0]],
                          [[2, 0, 0], [0, 0, 0]]])
        made = tensors_of(trace.folders[0])
        self.assertEqual(made["add"].numpy().tolist(), [2, 4, 6, 8])
        self.assertEqual(made["double"].numpy().tolist(), [4, 8, 12, 16])
        self.assertIn("5 read, all as", self.nodewise("inspect",
                                                      trace.folders[0]))

    def test_what_a_kernel_read_before_it_wrote_there_is_recorded(self):
        vm = vm_of(InPlace)
        with self.trace(vm, select="double") as trace:
            vm["main"](tensor(1, 2, 3, 4))
        made = tensors_of(trace.folders[0])
        self.assertEqual(set(made), {"x", "add", "double"})
        self.assertEqual(made["add"].numpy().tolist(), [2, 4, 6, 8])

    def test_only_what_is_returned_is_an_output(self):
        vm = vm_of(Others)
        with self.trace(vm) as trace:
            vm["main"](tensor(1, 2, 3, 4))
        graph = graph_of(trace.folders[0])
        self.assertEqual(graph["nodes"][1]["attrs"]["num_outputs"], "2")
        self.assertEqual(graph["heads"], [[1, 0, 0]])

    def test_numbers_among_the_arguments_are_recorded(self):
        vm = vm_of(Numbers)
        with self.trace(vm) as trace:
            made = vm["main"](tensor(1, 2, 3, 4), tvm.runtime.empty((5, 2)))
        self.assertEqual(made.numpy().tolist(), [6, 7, 8, 9])
        node = graph_of(trace.folders[0])["nodes"][-1]
        self.assertEqual(node["attrs"]["call_numbers"], "1=5")
        self.assertEqual(node["inputs"], [[0, 0, 0]])

    def test_sizes_that_a_call_finds_out_are_recorded(self):
        vm = vm_of(NonZero)
        with self.trace(vm) as trace:
            vm["main"](tensor(0, 2, 0, 4))
        folder, = trace.folders
        self.assertEqual(tensors_of(folder)["relax.run.nonzero"].numpy()
                         .tolist(), [[1, 3]])
        self.assertEqual(graph_of(folder)["heads"], [[1, 0, 0]])

    def test_a_function_that_was_taken_before_is_traced_too(self):
        vm, name, arguments = network("outputs_and_tuples")
        function = vm[name]
        with self.trace(vm) as trace:
            vm[name](*arguments)
            function(*arguments)
            function(*arguments)
        texts = [(pathlib.Path(each) / "_nodewise_graph.json").read_text()
                 for each in trace.folders]
        self.assertEqual(len(texts), 3)
        for text in texts[1:]:
            graph, first = json.loads(text), json.loads(texts[0])
            del graph["attrs"]["storage_id"], first["attrs"]["storage_id"]
            self.assertEqual(graph, first)

    def test_only_the_chosen_run_is_recorded(self):
        for is_watched in (True, False):
            vm = vm_of(Others)
            main, other = vm["main"], vm["other"]
            with self.trace(vm, function="other", run=2) as trace:
                for each in range(3):
                    (vm["main"] if is_watched else main)(tensor(0, 0, 0, 0))
                    (vm["other"] if is_watched else other)(
                        tensor(each, 0, 0, 0))
            folder, = trace.folders
            self.assertEqual(tensors_of(folder)["x"].numpy()[0], 1)
            self.assertEqual(names_in(graph_of(folder)), ["x", "add"])

    def test_nothing_is_changed(self):
        vm, name, arguments = network("transformer_block", True)
        module, plain = vm.module, vm[name](*arguments).numpy()
        with self.trace(vm):
            traced = vm[name](*arguments).numpy()
        self.assertEqual(traced.tobytes(), plain.tobytes())
        self.assertIs(vm.module, module)


class FailureTest(WithFolder):
    def test_a_run_that_fails_leaves_what_was_made_before(self):
        vm = vm_of(Calls)
        with self.assertRaisesRegex(ValueError, "the test ends here"):
            with nodewise.trace_vm(vm, self.folder) as trace:
                vm["main"](tensor(-1, 0, 0, 0))
        folder, = trace.folders
        self.assertEqual(set(tensors_of(folder)), {"x", "add"})
        self.assertEqual(names_in(graph_of(folder)), ["x", "add", "test.end"])
        self.assertNotIn("cut short", self.nodewise("inspect", folder))

    def test_a_run_that_fails_between_kernels_has_no_outputs(self):
        vm = vm_of(Others)
        with nodewise.trace_vm(vm, self.folder) as trace:
            with self.assertRaisesRegex(RuntimeError, "match_cast"):
                vm["other"](tensor(1, 2, 3))
        graph = graph_of(trace.folders[0])
        self.assertEqual(names_in(graph), ["x", "add"])
        self.assertEqual(graph["heads"], [])

    def test_the_run_after_one_that_failed_is_whole(self):
        for is_watched in (True, False):
            vm = vm_of(Calls)
            function = None if is_watched else vm["main"]
            with nodewise.trace_vm(vm, self.folder) as trace:
                for first in (-1, 1):
                    try:
                        (function or vm["main"])(tensor(first, 0, 0, 0))
                    except ValueError:
                        pass
            self.assertEqual(
                [names_in(graph_of(each)) for each in trace.folders],
                [["x", "add", "test.end"],
                 ["x", "add", "test.end", "multiply"]])
            self.assertEqual([graph_of(each)["heads"]
                              for each in trace.folders], [[], [[3, 0, 0]]])

    def test_a_crash_leaves_a_dump_that_names_the_kernel(self):
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(tvm_support.ROOT / "tests/python")!r})
            from tvm_trace_test import Calls, nodewise, tensor, tvm, vm_of
            import os, signal

            @tvm.register_global_func("test.end", override=True)
            def end(x, y):
                os.kill(os.getpid(), signal.SIGKILL)

            vm = vm_of(Calls)
            with nodewise.trace_vm(vm, {str(self.folder)!r}):
                vm["main"](tensor(1, 2, 3, 4))
            """)], check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, -signal.SIGKILL, done)
        shown = self.nodewise("inspect", self.folder)
        self.assertRegex(shown, r"(?s)add____topo-index:1.*cut short: 1 tensor "
                         r"missing.*test\.end____topo-index:2____output-num:0")

    def test_a_disk_error_ends_the_dump_and_not_the_run(self):
        vm = vm_of(Calls)
        (self.folder / "file").write_text("")
        result = None
        with self.assertRaisesRegex(nodewise.Error, "could not record"):
            with nodewise.trace_vm(vm, self.folder / "file"):
                result = vm["main"](tensor(1, 2, 3, 4)).numpy()
        self.assertEqual(result.tolist(), [4, 16, 36, 64])

    def test_what_was_recorded_before_a_full_disk_can_be_read(self):
        vm, _, arguments = network("mlp")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        files = len(os.listdir("/proc/self/fd"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Room for the names, and for the first weights.
        resource.setrlimit(resource.RLIMIT_FSIZE, (75000, before[1]))
        try:
            with self.assertRaisesRegex(nodewise.Error, "File too large"):
                with nodewise.trace_vm(vm, self.folder):
                    vm["main"](*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertEqual(len(os.listdir("/proc/self/fd")), files)
        self.assertRegex(self.nodewise("inspect", self.folder),
                         r"(?s) p0_.*cut short: 1 tensor missing")

    def test_recording_nothing_is_an_error(self):
        vm = vm_of(Calls)
        with self.assertRaisesRegex(nodewise.Error, "no kernel in 0 runs"):
            with nodewise.trace_vm(vm, self.folder):
                pass
        with self.assertRaisesRegex(nodewise.Error, "of 1 run$"):
            with nodewise.trace_vm(vm, self.folder, run=2):
                vm["main"](tensor(1, 2, 3, 4))

    def test_code_without_bytecode_is_an_error(self):
        vm = tvm_support.relax.VirtualMachine(
            tvm.relax.build(networks.mlp().module, target=tvm_side.TARGET,
                            exec_mode="compiled"), tvm.cpu())
        with self.assertRaisesRegex(nodewise.Error, "in 1 run, .*exec_mode"):
            with nodewise.trace_vm(vm, self.folder):
                vm["main"](*tvm_side.arguments(networks.mlp().inputs))

    def test_what_is_not_a_vm_is_refused_by_its_type(self):
        with self.assertRaisesRegex(TypeError, "vm: is a int"):
            nodewise.trace_vm(3, self.folder)
        with self.assertRaisesRegex(nodewise.Error, 'what=: found "all"'):
            nodewise.trace_vm(vm_of(Calls), self.folder, what="all")


if __name__ == "__main__":
    unittest.main()
