"""Models and archives as Glow writes them by default, with its own operators
and the types of all values as attributes; tests/onnx/glow_test.py has what
each operator calculates."""

import pathlib
import struct
import subprocess
import sys
import unittest
import zipfile

import debug_support
import support
from support import Scratch, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, INT32, INT64, attribute, floats,  # noqa: E402
                        message, onnx_graph, onnx_model, onnx_node,
                        proto_tensor, value_info)

INT8 = 3


def typed(which, kind, shape, scale=None, offset=None):
    """What Glow says of an input or output of a node."""
    said = [attribute(f"{which}_elemKind", kind),
            attribute(f"{which}_shape", list(shape))]
    if scale is not None:
        said += [attribute(f"{which}_qScale", scale),
                 attribute(f"{which}_qOffset", offset)]
    return said


def glow_node(op, inputs, outputs, *attributes, name=None):
    return onnx_node(f"Glow_{op}", inputs, outputs, *attributes,
                     name=name or outputs[0])


def noted(made, number, **note):
    """An input or constant with Glow's note of its type."""
    text = "".join(f"${key}:{value}" for key, value in note.items())
    return made + message((number, text))


def lookup_model(constants, *more):
    """Sums of rows of a table, and what they are above 0."""
    return onnx_model(onnx_graph(
        [*more,
         glow_node("SparseLengthsSum", ["table", "which", "lengths"], ["sls"],
                   *typed("i0", "float", [3, 2]), *typed("i1", "index64", [8]),
                   *typed("i2", "index32", [5]), *typed("o0", "float", [5, 2]),
                   attribute("LengthsMode", "Variable"),
                   attribute("AvgLength", 0.0)),
         glow_node("Relu", ["sls"], ["relu"], *typed("i0", "float", [5, 2]),
                   *typed("o0", "float", [5, 2])),
         onnx_node("Identity", ["relu"], ["out"], *typed("i0", "float", [5, 2]),
                   *typed("o0", "float", [5, 2]), name="out_save")],
        [value_info("which", INT64, [8]), value_info("lengths", INT32, [5])],
        [value_info("out", FLOAT, [5, 2])], constants), opset=9, ir_version=7)


def table():
    return noted(proto_tensor("table", [3, 2], FLOAT, (9, struct.pack(
        "<6f", 1.0, -1.2, 2.3, -3.4, 4.5, -5.7))), 12, elemKind="float",
        layout="*")


def which():
    return proto_tensor("which", [8], INT64, (9, struct.pack(
        "<8q", 2, 0, 1, 2, 0, 0, 0, 0)))


def lengths():
    return proto_tensor("lengths", [5], INT32, (9, struct.pack(
        "<5i", 2, 0, 2, 1, 3)))


class GlowModel(Scratch):
    def run_model(self, model, **inputs):
        self.write("net.onnx", model)
        given = []
        for name, tensor in inputs.items():
            self.write(f"{name}.pb", tensor)
            given += ["--input", f"{name}={self.folder / name}.pb"]
        made = nodewise("run", self.folder / "net.onnx", "--reference", *given,
                        "--output", self.folder / "out.params")
        self.assertEqual(made.code, 0, made)
        (tensor,) = debug_support.read_params(
            self.folder / "out.params").values()
        return tuple(tensor[-1])

    def refusal(self, *nodes, inputs=("x",)):
        self.write("net.onnx", onnx_model(onnx_graph(
            list(nodes), [value_info(name, FLOAT, [2, 2]) for name in inputs],
            [value_info("y")]), opset=9))
        shown = nodewise("verify", self.folder / "net.onnx")
        self.assertNotEqual(shown.code, 0, shown)
        return shown.out + shown.err

    def test_lookups_run_with_the_constants_of_the_model(self):
        made = self.run_model(lookup_model([table()]), which=which(),
                              lengths=lengths())
        for found, expected in zip(made, (5.5, 0, 0, 0, 6.8, 0, 1, 0, 3, 0)):
            self.assertAlmostEqual(found, expected, 5)

    def test_an_archive_with_glows_operators_is_debugged(self):
        # GL-03
        with zipfile.ZipFile(self.folder / "function_0.zip", "w") as archive:
            archive.writestr("model", lookup_model([]))
            archive.writestr("weights", "1\n")
            archive.writestr("weight_0", table())
        self.write("input_0.onnx", onnx_graph([], [], [],
                                              [which(), lengths()]))
        child = subprocess.run(
            [support.BUILD / "bin/network-debugger", "--model",
             "function_0.zip", "--inputs", "input_0.onnx", "-backend=OneDNN"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
            check=False, cwd=self.folder, text=True)
        self.assertEqual((child.returncode, child.stderr), (0, ""), child)
        self.assertIn("Verifying layer: sls\tType: SparseLengthsSum\n",
                      child.stdout)
        self.assertIn("All layers match with no errors\n", child.stdout)

    def test_notes_of_how_constants_were_made_are_left_out(self):
        folded = onnx_node("Glow__ConstFoldSubgraph", [], ["table"],
                           attribute("ConstFoldSubgraph",
                                     onnx_graph([], [], [])), name="fold")
        dummy = onnx_node("Glow__StaticPHDummyNode", [], [],
                          *typed("o0", "float", [2]), name="static")
        self.run_model(lookup_model([table()], folded, dummy),
                       which=which(), lengths=lengths())

    def test_scales_are_those_of_a_note_where_a_node_says_none(self):
        model = onnx_model(onnx_graph(
            [glow_node("Dequantize", ["q"], ["d"],
                       *typed("o0", "float", [3])),
             onnx_node("Identity", ["d"], ["out"])],
            [noted(value_info("q", INT8, [3]), 3, offline=0, elemKind="i8",
                   qScale="0.500000000000000000000000000000", qOffset=-3)],
            [value_info("out", FLOAT, [3])]), opset=9)
        made = self.run_model(model, q=proto_tensor(
            "q", [3], INT8, (9, struct.pack("<3b", -3, 1, 127))))
        self.assertEqual(made, (0.0, 2.0, 65.0))

    def test_what_is_not_supported_is_refused_by_its_name_with_the_reason(self):
        types = [*typed("i0", "float", [2, 2]), *typed("o0", "float", [2, 2])]
        for op, reason in (
                ("SGD", "is for training"), ("ReluGrad", "is for training"),
                ("GaussianFill", "draws random numbers"),
                ("Touch", "leaves its result as the memory was"),
                ("CPUMaxSplat", "of one of Glow's backends alone"),
                ("TFLiteCustomOperator", "any operator of TensorFlow Lite's"),
                ("NonMaxSuppression", "finds boxes in a way of its own")):
            with self.subTest(op=op):
                text = self.refusal(glow_node(op, ["x"], ["y"], *types))
                self.assertIn(f"node y (Glow_{op}", text)
                self.assertIn(reason, text)
        text = self.refusal(glow_node("Matmul", ["x"], ["y"], *types))
        self.assertIn("did you mean MatMul?", text)

    def test_forms_that_are_not_supported_are_refused_with_the_reason(self):
        pool = [attribute("Kernels", [1, 1]), attribute("Strides", [1, 1]),
                attribute("Pads", [0, 0, 0, 0])]
        text = self.refusal(glow_node("MaxPool", ["x"], ["p", "y"], *pool))
        self.assertIn("output Argmax: is read, which is not supported", text)
        text = self.refusal(glow_node(
            "VectorNorm", ["x"], ["y"], *typed("o0", "float", [2]),
            attribute("Axis", 0), attribute("P", 3)))
        self.assertIn("is not supported with a norm other than of 2", text)
        text = self.refusal(glow_node(
            "Relu", ["x"], ["y"], *typed("i0", "ui8fused", [2, 2]),
            *typed("o0", "float", [2, 2])))
        self.assertIn("is not supported with rows of ui8fused", text)

    def test_an_offset_that_does_not_fit_its_type_is_an_error(self):
        text = self.refusal(glow_node(
            "Quantize", ["x"], ["y"], *typed("i0", "float", [2, 2]),
            *typed("o0", "i8", [2, 2], 0.5, 128)))
        self.assertIn("attribute o0_qOffset: is 128, expected -128 to 127",
                      text)

    def test_the_model_is_written_in_onnxs_operators(self):
        self.write("net.onnx", onnx_model(onnx_graph(
            [glow_node("Relu", ["x"], ["r"], *typed("o0", "float", [2])),
             onnx_node("Identity", ["r"], ["y"])],
            [value_info("x", FLOAT, [2])], [value_info("y", FLOAT, [2])]),
            opset=9))
        shown = nodewise("inspect", self.folder / "net.onnx")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("opset 21", shown.out)
        self.assertRegex(shown.out, r"Relu +1")

    def test_floats_of_inputs_are_not_needed_for_a_splat(self):
        made = self.run_model(onnx_model(onnx_graph(
            [glow_node("Splat", [], ["s"], *typed("o0", "float", [2]),
                       attribute("Value", 2.5)),
             glow_node("Add", ["x", "s"], ["a"], *typed("o0", "float", [2])),
             onnx_node("Identity", ["a"], ["y"])],
            [value_info("x", FLOAT, [2])], [value_info("y", FLOAT, [2])]),
            opset=9), x=floats("x", 1.0, 2.0))
        self.assertEqual(made, (3.5, 4.5))


if __name__ == "__main__":
    unittest.main()
