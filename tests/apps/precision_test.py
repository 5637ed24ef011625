"""Models in a lower precision: `convert --precision`, and the same options of
other verbs."""

import json
import pathlib
import random
import struct
import sys
import unittest

from support import Scratch, Tensor, document, nodewise, params_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)


def weights(name, *dims):
    source = random.Random(name)
    count = 1
    for size in dims:
        count *= size
    numbers = [source.uniform(-1, 1) for _ in range(count)]
    return proto_tensor(name, list(dims), FLOAT,
                        (9, struct.pack(f"<{count}f", *numbers)))


def classifier(rows=2, opset=13):
    """y = softmax(relu(x * w + b) * v): fc1, act, fc2, soft."""
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["p"], name="fc1"),
         onnx_node("Relu", ["p"], ["r"], name="act"),
         onnx_node("MatMul", ["r", "v"], ["m"], name="fc2"),
         onnx_node("Softmax", ["m"], ["y"], name="soft")],
        [value_info("x", dims=(rows, 8))], [value_info("y")],
        [weights("w", 8, 6), weights("v", 6, 3)]), opset)


class Precision(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", classifier())

    def convert(self, *options):
        return nodewise("convert", self.model, *options)

    def converted(self, *options):
        result = self.convert("-o", self.folder / "net", "--json", *options)
        self.assertEqual(result.code, 0, result)
        return document(result)

    def outputs(self, target, *options):
        out = self.folder / "out.npz"
        result = nodewise("run", target, "--random-inputs", "1", "-o", out,
                          *options)
        self.assertEqual(result.code, 0, result)
        return out.read_bytes()


class Convert(Precision):
    def test_each_operation_has_its_error(self):
        found = self.converted("--precision", "int8", "--calibrate",
                               "random:1", "--calibrate", "random:2")
        found = found["precision"]
        self.assertEqual((found["name"], found["samples"], found["lowered"],
                          found["merged"]), ("int8", 2, 3, 2))
        self.assertEqual([each["operation"] for each in found["left_alone"]],
                         ["soft"])
        self.assertEqual([each["operation"] for each in found["errors"]],
                         ["fc1", "act", "fc2", "soft"])
        for each in found["errors"]:
            self.assertGreater(each["relative_l2"], 0)
            self.assertLess(each["relative_l2"], 0.05)
            self.assertGreater(each["max_abs"], 0)

    def test_the_text_names_what_was_left_alone_and_the_errors(self):
        # GL-05
        result = self.convert("-o", self.folder / "net", "--precision", "int8",
                              "--calibrate", "random:1")
        self.assertEqual(result.code, 0, result)
        self.assertIn("int8: 3 operations lowered, 1 left alone, 2 merged "
                      "into products of integers\n", result.out)
        self.assertIn("  soft  Softmax  input 0: ", result.out)
        self.assertIn("error against float32, over 1 sample:\n", result.out)

    def test_a_folder_runs_as_the_model_does_in_that_precision(self):
        # GL-04
        for name in ("fp16", "bf16", "int8"):
            with self.subTest(precision=name):
                options = ("--precision", name, "--calibrate", "random:3")
                self.converted(*options)
                self.assertEqual(self.outputs(self.folder / "net"),
                                 self.outputs(self.model, *options))
                self.assertNotEqual(self.outputs(self.folder / "net"),
                                    self.outputs(self.model))
                verified = nodewise("verify", self.folder / "net")
                self.assertEqual(verified.code, 0, verified)

    def test_what_is_kept_stays_float32(self):
        found = self.converted("--precision", "int8", "--calibrate",
                               "random:1", "--keep", "^fc")["precision"]
        self.assertEqual([(each["operation"], each["reason"])
                          for each in found["left_alone"]][:2],
                         [("fc1", "is kept"), ("fc2", "is kept")])

    def test_samples_come_from_files_and_test_sets(self):
        values = [i / 8 - 1 for i in range(16)]
        file = self.write("x.params", params_bytes(
            {"x": Tensor("float32", [2, 8], values)}))
        folder = self.folder / "test_data_set_0"
        folder.mkdir()
        (folder / "input_0.pb").write_bytes(
            proto_tensor("x", [2, 8], FLOAT,
                         (9, struct.pack("<16f", *values))))
        options = ("--precision", "int8", "--calibrate")
        by_file = self.converted(*options, file)["precision"]
        by_folder = self.converted(*options, folder)["precision"]
        self.assertEqual(by_file, by_folder)

    def test_int8_without_a_sample_is_refused(self):
        error = self.refused("convert", self.model, "-o", self.folder / "net",
                             "--precision", "int8")
        self.assertIn("--precision int8: there are no sample inputs, expected "
                      "at least one (--calibrate FILE", error)
        self.assertFalse((self.folder / "net").exists())

    def test_int8_needs_a_finite_number(self):
        file = self.write("x.params", params_bytes(
            {"x": Tensor("float32", [2, 8], [float("nan")] * 16)}))
        error = self.refused("convert", self.model, "-o", self.folder / "net",
                             "--precision", "int8", "--calibrate", file)
        self.assertIn("int8: with 1 sample input, no float32 value "
                      "of the model has a finite number", error)

    def test_sensitivity_without_a_sample_is_refused(self):
        error = self.refused("convert", self.model, "--precision", "bf16",
                             "--sensitivity")
        self.assertIn("--sensitivity: there are no sample inputs, expected "
                      "at least one (--calibrate FILE", error)

    def test_old_models_are_raised(self):
        model = self.write("old.onnx", classifier(opset=9))
        for name in ("fp16", "bf16", "int8"):
            with self.subTest(precision=name):
                result = nodewise("convert", model, "-o", self.folder / "old",
                                  "--precision", name, "--calibrate",
                                  "random:1", "--json")
                self.assertEqual(result.code, 0, result)
                found = document(result)["precision"]
                self.assertEqual([each["operation"]
                                  for each in found["errors"]],
                                 ["fc1", "act", "fc2", "soft"])
                for each in found["errors"]:
                    self.assertLess(each["relative_l2"], 0.05)

    def test_options_that_mean_nothing_are_refused(self):
        table = [
            (["--keep", "x"], "--keep: is given without --precision"),
            (["--calibrate", "x.npz"], "--calibrate: is given without"),
            (["--sensitivity"], "--sensitivity: is given without"),
            (["--precision", "fp8"], "expected fp16, bf16 or int8"),
            (["--precision", "fp16", "--keep", "("],
             "is not a regular expression"),
            (["--precision", "int8", "--calibrate", "random:x"],
             "expected random:SEED"),
            (["--precision", "int8", "--calibrate", "random:1",
              "--calibration", "max"], "expected minmax, percentile"),
            (["--precision", "int8", "--calibrate", "none.npz"], "none.npz"),
        ]
        for options, message in table:
            with self.subTest(options=options):
                error = self.refused("convert", self.model, "-o",
                                     self.folder / "net", *options)
                self.assertIn(message, error)

    def test_a_folder_has_no_use_for_them(self):
        self.converted()
        error = self.refused("run", self.folder / "net", "--precision", "fp16")
        self.assertIn("is not an .onnx file, expected one with --precision",
                      error)


class Sensitivity(Precision):
    OPTIONS = ("--precision", "int8", "--calibrate", "random:1",
               "--sensitivity")

    def test_operations_are_ranked_and_nothing_is_written(self):
        result = self.convert(*self.OPTIONS, "--json")
        self.assertEqual(result.code, 0, result)
        found = document(result)["precision"]["sensitivity"]
        errors = [each["error"] for each in found["ranking"]]
        self.assertEqual(errors, sorted(errors, reverse=True))
        self.assertEqual({each["operation"] for each in found["ranking"]},
                         {"fc1", "act", "fc2"})
        self.assertEqual([each["kept"] for each in found["curve"]],
                         [0, 1, 2, 3])
        self.assertEqual(found["curve"][3]["error"], 0)
        self.assertNotIn("written", document(result))

    def test_the_text_ends_with_what_to_keep(self):
        result = self.convert(*self.OPTIONS)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out.splitlines()[-1],
                         "^(no operation stands out: nothing to keep"
                         r"|suggested: --keep '\^\(.*\)\$')$")


class OtherVerbs(Precision):
    def test_they_lower_as_convert_does_and_say_so(self):
        result = nodewise("run", self.model, "--random-inputs", "1",
                          "--precision", "int8", "--calibrate", "random:1")
        self.assertEqual(result.code, 0, result)
        self.assertIn("int8: 3 operations lowered, 1 left alone", result.err +
                      result.out)

    def test_dumps_have_the_lowered_nodes(self):
        root = self.folder / "root"
        result = nodewise("dump", self.model, "--random-inputs", "1",
                          "--reference", "--precision", "fp16", "--dump-root",
                          root)
        self.assertEqual(result.code, 0, result)
        graph = next(root.rglob("*graph*.json"))
        names = [node["name"]
                 for node in json.loads(graph.read_text())["nodes"]]
        self.assertIn("x_float16", names)


if __name__ == "__main__":
    unittest.main()
