"""Elements of less than a byte, and floats of one, through a whole run."""

import pathlib
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (attribute, field, floats, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, proto_tensor, value_info)

E4M3, INT4, UINT2 = 17, 22, 25


def casting(source, target, dims, constants=()):
    return onnx_model(onnx_graph(
        [onnx_node("Cast", ["x"], ["y"], attribute("to", target),
                   name="cast")],
        [] if constants else [value_info("x", source, dims)],
        [value_info("y", target, dims)], constants),
        opset=25, ir_version=13)


class ShortTypesTest(Scratch):
    def ran(self, *arguments):
        ran = nodewise("run", *arguments, "--json")
        self.assertEqual(ran.code, 0, ran)
        return document(ran)["outputs"][0]

    def test_packed_files_are_read_and_written(self):
        net = self.write("net.onnx", casting(INT4, UINT2, (5,)))
        x = self.write("x.pb", proto_tensor("x", [5], INT4,
                                            (9, bytes([0x21, 0xF3, 0x08]))))
        y = self.folder / "y.pb"
        shown = self.ran(net, "--input", f"x={x}", "-o", y)
        self.assertEqual(shown["dtype"], "uint2")
        # 1, 2, 3, -1 and -8 lose their upper bits.
        self.assertEqual(shown["first"], [1, 2, 3, 3, 0])
        self.assertIn(field(9, bytes([0b11111001, 0])), y.read_bytes())

    def test_floats_of_a_byte_pass_from_node_to_node(self):
        net = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Cast", ["x"], ["a"], attribute("to", E4M3),
                       name="down"),
             onnx_node("Identity", ["a"], ["b"], name="same"),
             onnx_node("Cast", ["b"], ["y"], attribute("to", 1), name="up")],
            [value_info("x", dims=(3,))], [value_info("y", dims=(3,))],
            [floats("x", 1.06, -500, 0.001)]), opset=25, ir_version=13))
        for options in ((), ("--no-fuse",), ("--reference",)):
            with self.subTest(options=options):
                self.assertEqual(self.ran(net, *options)["first"],
                                 [1, -448, 0.001953125])

    def test_a_dump_has_their_numbers(self):
        net = self.write("net.onnx", casting(1, E4M3, (2,)))
        dumps = [self.folder / name for name in ("a", "b")]
        for dump in dumps:
            made = nodewise("dump", net, "--random-inputs", "1",
                            "--dump-root", dump)
            self.assertEqual(made.code, 0, made)
        same = nodewise("compare", *dumps)
        self.assertEqual(same.code, 0, same)


if __name__ == "__main__":
    unittest.main()
