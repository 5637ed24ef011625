"""Sizes that only data decides: what a verb's inputs say of them."""

import pathlib
import struct
import sys
import unittest

from support import Scratch, Tensor, document, nodewise, params_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (BOOL, FLOAT, INT64, attribute,  # noqa: E402
                        ints, onnx_graph, onnx_model, onnx_node,
                        proto_tensor, value_info)


def scalar(name, value):
    kind, code, field = ((INT64, "<q", 9) if isinstance(value, int)
                         else (FLOAT, "<f", 9))
    return proto_tensor(name, [], kind, (field, struct.pack(code, value)))


def head_of_a_detector():
    """Boxes and scores of n places; those that are kept, and what a Loop, a
    Range and a Reshape make of their number."""
    body = onnx_graph(
        [onnx_node("Identity", ["go"], ["on"]),
         onnx_node("Identity", ["sum"], ["each"]),
         onnx_node("Add", ["sum", "one"], ["next"])],
        [value_info("i", INT64, ()), value_info("go", BOOL, ()),
         value_info("sum", dims=())],
        [value_info("on", BOOL, ()), value_info("next", dims=()),
         value_info("each", dims=())])
    nodes = [
        onnx_node("Relu", ["x"], ["r"], name="relu"),
        onnx_node("Split", ["r", "parts"], ["b", "s"], attribute("axis", 1),
                  name="split"),
        onnx_node("Transpose", ["b"], ["boxes"],
                  attribute("perm", [0, 2, 1]), name="turn"),
        onnx_node("NonMaxSuppression", ["boxes", "s", "most", "iou", "least"],
                  ["kept"], name="nms"),
        onnx_node("Gather", ["kept", "two"], ["places"], attribute("axis", 1),
                  name="places"),
        onnx_node("Shape", ["places"], ["count1"], name="shape"),
        onnx_node("Squeeze", ["count1"], ["count"], name="count"),
        onnx_node("Squeeze", ["boxes", "first"], ["flat"], name="flat"),
        onnx_node("Gather", ["flat", "places"], ["picked"],
                  attribute("axis", 0), name="pick"),
        onnx_node("Exp", ["picked"], ["y"], name="exp"),
        onnx_node("Greater", ["s", "least"], ["is_high"], name="high"),
        onnx_node("NonZero", ["is_high"], ["where"], name="where"),
        onnx_node("Loop", ["count", "", "zero"], ["last", "steps"],
                  attribute("body", body), name="loop"),
        onnx_node("ReduceSum", ["where"], ["sum1"], attribute("keepdims", 0),
                  name="total"),
        onnx_node("Range", ["none", "count", "unit"], ["range"],
                  name="range"),
        onnx_node("Unsqueeze", ["sum1", "first"], ["side"], name="side"),
        onnx_node("Expand", ["one", "side"], ["grown"], name="grow"),
    ]
    constants = [ints("parts", 4, 1), scalar("most", 4), scalar("iou", 0.5),
                 scalar("least", 0.25), scalar("two", 2), ints("first", 0),
                 scalar("zero", 0.0), scalar("one", 1.0), scalar("none", 0),
                 scalar("unit", 1)]
    outputs = [value_info("y"), value_info("where", INT64),
               value_info("steps"), value_info("range", INT64),
               value_info("grown")]
    return onnx_model(onnx_graph(
        nodes, [value_info("x", dims=(1, 5, "n"))], outputs, constants))


def detections(*scores):
    """Boxes side by side, with these scores, as the file of inputs has them."""
    count = len(scores)
    rows = [[2 * i for i in range(count)], [0] * count,
            [2 * i + 1 for i in range(count)], [1] * count, list(scores)]
    return params_bytes({"x": Tensor("float32", (1, 5, count),
                                     [v for row in rows for v in row])})


class FoundSizes(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("head.onnx", head_of_a_detector())
        self.inputs = self.write("x.params", detections(.9, .1, .5, .7))

    def outputs_of(self, target, inputs, *options):
        path = self.folder / "out.npz"
        result = nodewise("run", target, "--inputs", inputs, "-o", path,
                          "--json", *options)
        self.assertEqual(result.code, 0, result)
        return path.read_bytes(), document(result)["outputs"]

    def test_every_verb_knows_them_from_the_inputs(self):
        for verb in (["profile"], ["locate"],
                     ["dump", "--dump-root", self.folder / "d"],
                     ["run", "--stop-on", "nan"]):
            with self.subTest(verb=verb[0]):
                result = nodewise(verb[0], self.model, "--inputs", self.inputs,
                                  *verb[1:])
                self.assertEqual(result.code, 0, result)

    def test_drawn_inputs_tell_them_too(self):
        result = nodewise("profile", self.model, "--random-inputs", "1",
                          "--dim", "n=3")
        self.assertEqual(result.code, 0, result)

    def test_a_folder_gives_what_the_model_gives(self):
        net = self.folder / "net"
        made = nodewise("convert", self.model, "--inputs", self.inputs, "-o",
                        net)
        self.assertEqual(made.code, 0, made)
        # The interpreter runs the model.
        data, outputs = self.outputs_of(net, self.inputs, "--backend",
                                        "reference")
        self.assertEqual([output["shape"] for output in outputs],
                         [[3, 4], [3, 3], [3], [3], [5]])
        self.assertEqual(data, self.outputs_of(self.model, self.inputs)[0])

    def test_inputs_that_make_other_sizes_are_an_error_of_the_node(self):
        net = self.folder / "net"
        nodewise("convert", self.model, "--inputs", self.inputs, "-o", net)
        other = self.write("other.params", detections(.9, .1, .1, .7))
        error = self.refused("run", net, "--inputs", other)
        self.assertIn("(nms): ", error)
        self.assertIn("makes int64[2, 3] of these inputs, expected "
                      "int64[3, 3], for which the graph was made", error)
        self.assertEqual(
            nodewise("run", self.model, "--inputs", other).code, 0)

    def test_without_inputs_the_error_says_what_tells_them(self):
        error = self.refused("convert", self.model, "--dim", "n=4", "-o",
                             self.folder / "net")
        self.assertIn("operation nms (NonMaxSuppression): output kept: is "
                      "int64[?, 3], expected all its sizes known before the "
                      "run (--inputs FILE, whose run tells them", error)

    def test_a_fault_of_the_inputs_is_told_as_such(self):
        wrong = self.write("w.params", params_bytes(
            {"x": Tensor("float64", (1, 5, 2), [0.0] * 10)}))
        for verb in ("convert", "profile"):
            extra = ["-o", self.folder / "net"] if verb == "convert" else []
            error = self.refused(verb, self.model, "--inputs", wrong, *extra)
            self.assertIn("input x: is float64 (1, 5, 2), expected float32",
                          error)

    def test_a_file_says_the_open_sides_of_inputs_to_convert(self):
        model = self.write("neg.onnx", onnx_model(onnx_graph(
            [onnx_node("Neg", ["x"], ["y"])],
            [value_info("x", dims=("?", 2))], [value_info("y")])))
        x = self.write("x.pb", proto_tensor(
            "x", [3, 2], FLOAT, (9, struct.pack("<6f", *range(6)))))
        made = nodewise("convert", model, "--input", f"x={x}", "-o",
                        self.folder / "net")
        self.assertEqual(made.code, 0, made)
        self.assertEqual(
            nodewise("run", self.folder / "net", "--input", f"x={x}").code, 0)


if __name__ == "__main__":
    unittest.main()
