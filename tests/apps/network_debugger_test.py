"""network-debugger: Glow's flags and lines, on models made here.

Nothing in this build is broken, so what is shown of broken layers is shown with
a threshold of 0, which the rounding of a fast backend exceeds.
"""

import math
import pathlib
import re
import struct
import subprocess
import sys
import unittest
import zipfile

import debug_support
import support
from support import Result, Scratch, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)

DEBUGGER = support.BUILD / "bin/network-debugger"
SIDE = 16


def waves(count):
    return [math.sin(0.7 * i + 0.1) for i in range(count)]


def tensor(name, dims, values):
    return proto_tensor(name, dims, FLOAT,
                        (9, struct.pack(f"<{len(values)}f", *values)))


def model(constants=None):
    """t = tanh(x * w), y = softmax(t + b), of 16 x 16 numbers."""
    if constants is None:
        constants = [weight(), bias()]
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["m"], name="mix/1"),
         onnx_node("Tanh", ["m"], ["t"], name="bend"),
         onnx_node("Add", ["t", "b"], ["a"], name="shift"),
         onnx_node("Softmax", ["a"], ["y"], name="last")],
        [value_info("x", dims=("batch", SIDE))], [value_info("y")], constants))


def weight():
    return tensor("w", [SIDE, SIDE], waves(SIDE * SIDE))


def bias():
    return floats("b", *waves(SIDE))


def sample(scale=1.0, name="x"):
    return tensor(name, [SIDE, SIDE],
                  [scale * v for v in waves(SIDE * SIDE)])


def as_float(value):
    """Rounded to a float32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


class Debugger(Scratch):
    def setUp(self):
        super().setUp()
        self.write("net.onnx", model())
        self.write("x.pb", sample())

    def run_here(self, *arguments):
        """Runs the command in the test's folder."""
        child = subprocess.run([DEBUGGER, *map(str, arguments)],
                               stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=60, check=False, cwd=self.folder)
        return Result(child.returncode, child.stdout.decode(),
                      child.stderr.decode())

    def debugged(self, *flags):
        return self.run_here("--model", "net.onnx", "--inputs", "x.pb",
                             "-fuse=false", *flags)

    def glow_archive(self):
        """The archive that Glow writes: constants are members of their own."""
        with zipfile.ZipFile(self.folder / "onnxifi_function_0.zip", "w",
                             zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("f/model", model(constants=[]))
            archive.writestr("f/weights", "2\n")
            archive.writestr("f/weight_0", weight())
            archive.writestr("f/weight_1", bias())

    def test_the_documents_own_command_line_runs(self):
        # GL-02, GL-03, GL-07, GL-08, GL-09, GL-10
        self.glow_archive()
        self.write("input_0.onnx", onnx_graph([], [], [], [sample()]))
        shown = self.run_here("--model", "onnxifi_function_0.zip", "--inputs",
                              "input_0.onnx", "-glow_global_fp16",
                              "-backend=Interpreter")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("converted to float16: ", shown.out)
        self.assertIn("All layers match with no errors\n", shown.out)

    def test_each_layer_begins_and_ends_with_a_line(self):
        # GL-11, GL-12, GL-13
        shown = self.debugged()
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        place = r"\[layer_log\.cc:\d+\] "
        for name, kind in (("mix/1", "MatMul"), ("bend", "Tanh"),
                           ("shift", "Add"), ("last", "Softmax")):
            self.assertRegex(shown.out, (
                rf"{place}Verifying layer: {name}\tType: {kind}\n"
                rf"{place}DONE Verifying layer: {name}\n\n"))

    def test_a_layer_that_differs_is_shown_between_these_lines(self):
        # GL-14, GL-15, GL-16
        for comparator in ("Intermediate", "RecursiveLayerComparator"):
            with self.subTest(comparator=comparator):
                shown = self.debugged("-backend=OneDNN", "-threshold=0",
                                      f"-comparator={comparator}")
                self.assertEqual((shown.code, shown.err), (1, ""), shown)
                self.assertRegex(shown.out, (
                    r"Verifying layer: mix/1\tType: MatMul\n"
                    r" +Error at output index \d+, got \S+ expected \S+\n"
                    r" +Y: \d+ of 256 elements beyond the threshold 0, largest "
                    r"error \S+\n"
                    r" +Results differ\n"
                    r" +dumping tensors\.\n"
                    r"\[layer_log\.cc:\d+\] DONE Verifying layer: mix/1\n"))
                self.assertIn("Errors found!\n", shown.out)

    def test_what_is_expected_is_what_the_reference_made(self):
        # GL-14
        shown = self.debugged("-backend=OneDNN", "-threshold=0",
                              "-dump_tensors", "-dump_dir=out")
        self.assertEqual(shown.code, 1, shown)
        element, got, expected = re.search(
            r"layer: mix/1\t.*\n +Error at output index (\d+), got (\S+) "
            r"expected (\S+)\n", shown.out).groups()
        (reference,) = debug_support.read_params(
            self.folder / "out/ref_Y_mix_1").values()
        right = reference.values[int(element)]
        self.assertEqual(as_float(float(expected)), right)
        self.assertNotEqual(as_float(float(got)), right)

    def test_without_a_backend_the_reference_itself_is_tested(self):
        # GL-09
        shown = self.debugged("-threshold=0")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("Comparing the Interpreter backend against", shown.out)
        self.assertIn("All layers match with no errors\n", shown.out)

    def test_float16_is_what_the_layers_compute_in(self):
        # GL-04
        kinds = {}
        for flag in ("-glow_global_fp16", "-glow_global_fp16=false"):
            shown = self.debugged(flag)
            self.assertEqual((shown.code, shown.err), (0, ""), shown)
            kinds[flag] = re.findall(r"\] Verifying layer: .*\tType: (\w+)",
                                     shown.out)
        inner = ["MatMul", "Tanh", "Add", "Softmax"]
        self.assertEqual(kinds, {
            "-glow_global_fp16": ["Cast", *inner, "Cast"],
            "-glow_global_fp16=false": inner})
    def test_a_healthy_network_of_large_numbers_has_no_errors(self):
        # Whose rounding errors are beyond Glow's threshold.
        self.write("x.pb", sample(scale=1000.0))
        for flags in [], ["-threshold=1e-5"], ["-comparator=Recursive"]:
            with self.subTest(flags=flags):
                shown = self.debugged("-backend=OneDNN", *flags)
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("All layers match with no errors\n", shown.out)
        shown = self.debugged("-backend=OneDNN", "-threshold=1.1e-5")
        self.assertEqual(shown.code, 1, shown)

    def test_the_threshold_lets_pass_what_is_within_it(self):
        # GL-29
        shown = self.debugged("-backend=OneDNN", "-threshold=1e-3")
        self.assertEqual(shown.code, 0, shown)

    def test_time_and_memory_of_both_comparators_are_printed(self):
        # GL-06, GL-41
        for comparator in ("Intermediate", "Recursive"):
            shown = self.debugged(f"--comparator={comparator}")
            self.assertRegex(shown.out, (
                rf"\] {comparator} comparator: 4 layers in [\d.]+ s, at most "
                r"[\d.]+ MiB of memory \(VmHWM"))

    def test_the_recursive_comparator_needs_less_memory(self):
        # GL-06, GL-41
        layers, side = 16, 1024
        self.write("long.onnx", onnx_model(onnx_graph(
            [onnx_node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(layers)],
            [value_info("t0", dims=(side, side))],
            [value_info(f"t{layers}")])))
        self.write("long.pb", tensor("t0", [side, side], [1.0] * side * side))
        needed = {}
        for comparator in ("Intermediate", "Recursive"):
            shown = self.run_here("--model=long.onnx", "--inputs=long.pb",
                                  "-fuse=false", f"-comparator={comparator}")
            self.assertEqual((shown.code, shown.err), (0, ""), shown)
            needed[comparator] = float(
                re.search(r"at most ([\d.]+) MiB", shown.out)[1])
        self.assertLess(2 * needed["Recursive"], needed["Intermediate"])

    def test_tensors_of_a_broken_layer_make_a_test_case(self):
        # GL-17, GL-18, GL-19, GL-20, GL-21, GL-22, GL-23, GL-43, GL-44
        shown = self.debugged("-backend=OneDNN", "-threshold=0",
                              "-dump_tensors", "-dump_dir", "out")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("dumping tensors.\n", shown.out)
        out = self.folder / "out"
        mix = sorted(p.name for p in out.iterdir() if "mix" in p.name)
        self.assertEqual(mix, ["input_A_mix_1", "input_B_mix_1",
                               "layer_mix_1.onnx", "ref_Y_mix_1"])
        made = nodewise("run", out / "layer_mix_1.onnx", "--reference",
                        "--input", f"A={out}/input_A_mix_1",
                        "--input", f"B={out}/input_B_mix_1",
                        "--output", out / "again.params")
        self.assertEqual(made.code, 0, made)
        again = debug_support.read_params(out / "again.params")
        expected = debug_support.read_params(out / "ref_Y_mix_1")
        self.assertEqual(list(again.values()), list(expected.values()))

    def test_a_switch_can_be_given_a_value(self):
        shown = self.debugged("-backend=OneDNN", "-threshold=0",
                              "--dump_tensors=false")
        self.assertEqual(shown.code, 1, shown)
        self.assertEqual(len(list(self.folder.iterdir())), 2)

    def test_every_file_of_inputs_is_a_run(self):
        # GL-08
        self.write("other.pb", sample(0.5))
        shown = self.run_here("--model=net.onnx", "--inputs", "x.pb",
                              "--input", "other.pb")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertEqual(re.findall(r"\] Inputs: (.*)", shown.out),
                         ["x.pb", "other.pb"])

    def test_files_with_one_input_each_are_one_run(self):
        self.write("two.onnx", onnx_model(onnx_graph(
            [onnx_node("Add", ["p", "q"], ["y"], name="sum")],
            [value_info("p", dims=(2,)), value_info("q", dims=(2,))],
            [value_info("y")])))
        self.write("p.pb", floats("p", 1.0, 2.0))
        self.write("q.pb", floats("q", 3.0, 4.0))
        shown = self.run_here("--model", "two.onnx", "--inputs", "q.pb",
                              "--inputs", "p.pb")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        lacking = self.run_here("--model", "two.onnx", "--inputs", "q.pb")
        self.assertEqual(lacking.code, 2)
        self.assertIn("q.pb: has no tensor for p, expected", lacking.err)

    def test_an_input_that_is_too_short_is_an_error(self):
        self.write("short.pb", tensor("x", [SIDE], waves(SIDE)))
        shown = self.run_here("--model", "net.onnx", "--inputs", "short.pb")
        self.assertEqual(shown.code, 2)
        self.assertIn("short.pb: tensor x is float32 (16,), expected float32",
                      shown.err)

    def test_a_model_in_an_archive_is_found_by_what_is_there(self):
        # GL-03
        with zipfile.ZipFile(self.folder / "some.bin", "w") as archive:
            archive.writestr("readme", "text")
            archive.writestr("deep/net.onnx", model())
        shown = self.run_here("--model", "some.bin", "--inputs", "x.pb")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_archives_that_hold_no_model_are_errors(self):
        path = self.folder / "some.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", "text")
            archive.writestr("b", "text")
        shown = self.run_here("--model", "some.zip", "--inputs", "x.pb")
        self.assertEqual(shown.code, 2)
        self.assertIn("some.zip: holds a, b, expected one member", shown.err)
        path.write_bytes(path.read_bytes()[:-5])
        shown = self.run_here("--model", "some.zip", "--inputs", "x.pb")
        self.assertEqual(shown.code, 2)
        self.assertIn("some.zip: ", shown.err)

    def test_constants_that_an_archive_lacks_are_an_error(self):
        self.glow_archive()
        with zipfile.ZipFile(self.folder / "bad.zip", "w") as archive:
            archive.writestr("model", model(constants=[]))
            archive.writestr("weights", "3")
            archive.writestr("weight_0", weight())
        shown = self.run_here("--model", "bad.zip", "--inputs", "x.pb")
        self.assertEqual(shown.code, 2)
        self.assertIn('bad.zip: has no member "weight_1"', shown.err)

    def test_bad_use_names_the_flag(self):
        for flags, expected in (
                (["--modle", "x"], "--modle: there is no such flag"),
                (["-threshold=much"], '-threshold: found "much", expected a '
                                      "number"),
                (["-threshold=-1"], "-threshold: "),
                (["-comparator=Other"], "expected Intermediate or Recursive"),
                (["-dump_tensors=maybe"], "expected true or false"),
                (["--inputs"], "-inputs: has no value"),
                (["stray"], "stray: is one argument too many"),
                (["--inputs", "x.pb"], "-model: is missing"),
                (["--model", "net.onnx"], "-inputs: is missing"),
                (["--model", "net.onnx", "--inputs", "x.pb", "-backend=GPU"],
                 "backend GPU: there is none of that name")):
            with self.subTest(flags=flags):
                shown = self.run_here(*flags)
                self.assertEqual(shown.code, 2, shown)
                self.assertTrue(shown.err.startswith("network-debugger: "))
                self.assertIn(expected, shown.err)

    def test_help_lists_the_flags(self):
        shown = self.run_here("-help")
        self.assertEqual((shown.code, shown.err), (0, ""))
        for flag in ("model", "inputs", "backend", "comparator", "threshold",
                     "dump_tensors", "glow_global_fp16"):
            self.assertIn(f"  -{flag}", shown.out)


if __name__ == "__main__":
    unittest.main()
