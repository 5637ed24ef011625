"""Tensors that have their channels last in memory: what people give and get has
the model's order."""

import pathlib
import struct
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)


def weights(name, *dims):
    count = 1
    for side in dims:
        count *= side
    values = [(i * 7 % 11 - 5) / 16 for i in range(count)]
    return proto_tensor(name, dims, FLOAT,
                        (9, struct.pack(f"<{count}f", *values)))


class Layouts(Scratch):
    def setUp(self):
        super().setUp()
        # As many channels as rows, so that no shape tells the orders apart.
        self.model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Conv", ["x", "v"], ["m"], name="first"),
             onnx_node("Conv", ["m", "w"], ["y"], name="second")],
            [value_info("x", dims=(1, 4, 8, 8))], [value_info("y")],
            [weights("v", 8, 4, 1, 1), weights("w", 4, 8, 1, 1)])))

    def run_model(self, *options):
        result = nodewise("run", self.model, "--random-inputs", "1", "--json",
                          *options)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return document(result)

    def test_the_tensor_between_two_convolutions_has_its_channels_last(self):
        folder = self.folder / "net"
        self.assertEqual(
            nodewise("convert", self.model, "-o", folder).code, 0)
        self.assertIn("nodewise.channels_last",
                      (folder / "graph.json").read_text())

    def test_until_shows_and_patch_takes_it_as_the_model_has_it(self):
        between = self.folder / "m.npz"
        reference = self.folder / "reference.npz"
        self.run_model("--until", "first", "--output", between)
        self.run_model("--until", "first", "--reference", "--output",
                       reference)
        same = nodewise("compare", reference, between)
        self.assertEqual(same.code, 0, same)
        self.assertEqual(
            self.run_model("--patch", f"first={between}")["outputs"],
            self.run_model()["outputs"])

    def test_a_dump_agrees_with_the_references(self):
        for root, options in (("dump", ()), ("reference", ("--reference",))):
            result = nodewise("dump", self.model, "--random-inputs", "1",
                              "--dump-root", self.folder / root, *options)
            self.assertEqual(result.code, 0, result)
        result = nodewise("compare", self.folder / "reference",
                          self.folder / "dump", "--json")
        self.assertEqual(result.code, 0, result)
        compared = [each["tensor"] for each in document(result)["tensors"]]
        self.assertIn("first", compared)


if __name__ == "__main__":
    unittest.main()
