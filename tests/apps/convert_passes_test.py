"""`convert --passes --text`: a network as text, before and after passes."""

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

UINT8 = 2


def quantised():
    """y = Relu of x between quantised numbers: a pair that comes to nothing,
    and one operation that nothing needs."""
    zero = proto_tensor("zero", [], UINT8, (9, bytes([128])))
    return onnx_model(onnx_graph(
        [onnx_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="q"),
         onnx_node("DequantizeLinear", ["q", "scale", "zero"], ["f"],
                   name="f"),
         onnx_node("Relu", ["f"], ["y"], name="relu")],
        [value_info("x", dims=(2, 3))], [value_info("y")],
        [proto_tensor("scale", [], FLOAT, (9, struct.pack("<f", 0.5))), zero]))


class ConvertText(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "net.onnx"
        self.model.write_bytes(quantised())

    def text(self, *options):
        path = self.folder / "net.txt"
        shown = nodewise("convert", self.model, "--text", path, *options)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        return shown.out, path.read_text()

    # OV-21.
    def test_a_pass_is_seen_in_the_text_before_and_after_it(self):
        _, before = self.text()
        told, after = self.text("--passes", "merge_quantised")
        self.assertIn("= QuantizeLinear@", before)
        self.assertNotIn("FakeQuantize", before)
        self.assertIn("= FakeQuantize@", after)
        self.assertNotIn("= QuantizeLinear@", after)
        self.assertIn("pass merge_quantised: 2 operations\n", told)
        self.assertIn("operation q: merged into FakeQuantize", told)

    def test_splitting_again_gives_the_text_as_it_was(self):
        kinds = []
        for passes in ((), ("--passes", "merge_quantised,split_quantised")):
            _, text = self.text(*passes)
            kinds.append([word.split("(")[0] for word in text.split()
                          if "@" in word])
        self.assertEqual(len(kinds[0]), 3)
        self.assertEqual(kinds[0], kinds[1])

    def test_the_text_reads_back_as_the_network_that_it_was(self):
        _, text = self.text("--passes", "merge_quantised")
        path = self.folder / "net.txt"
        verified = nodewise("verify", path)
        self.assertEqual(verified.code, 0, verified)
        again = nodewise("convert", path, "--text", "-")
        self.assertEqual((again.code, again.err), (0, ""), again)
        self.assertEqual(again.out, text)
        outputs = []
        for target in (self.model, path):
            out = self.folder / "y.npz"
            ran = nodewise("run", target, "--random-inputs", "1", "-o", out)
            self.assertEqual(ran.code, 0, ran)
            outputs.append(out.read_bytes())
        self.assertEqual(*outputs)

    def test_stdout_has_the_text_alone(self):
        shown = nodewise("convert", self.model, "--text", "-", "--passes",
                         "merge_quantised")
        self.assertTrue(shown.out.startswith("version "), shown)
        self.assertTrue(shown.out.endswith("}\n"), shown)
        self.assertIn("merged into FakeQuantize", shown.err)
        found = document(nodewise("convert", self.model, "--text", "-",
                                  "--passes", "merge_quantised", "--json"))
        self.assertEqual(found["network"], shown.out)
        self.assertEqual([one["pass"] for one in found["passes"]],
                         ["merge_quantised"])

    def test_passes_change_what_the_folder_holds(self):
        folder = self.folder / "net"
        shown = nodewise("convert", self.model, "-o", folder, "--passes",
                         "merge_quantised,remove_unused")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("FakeQuantize", (folder / "graph.json").read_text())

    def test_the_passes_that_there_are_are_listed(self):
        listed = nodewise("convert", self.model, "--passes", "help")
        self.assertEqual((listed.code, listed.err), (0, ""), listed)
        for name in ("known_part", "merge_quantised", "remove_unused",
                     "split_quantised"):
            self.assertIn(name, listed.out)
        wrong = nodewise("convert", self.model, "--text", "-", "--passes",
                         "merge_quantized")
        self.assertEqual(wrong.code, 2, wrong)
        self.assertIn('pass "merge_quantized": there is none of that name',
                      wrong.err)
        self.assertIn("did you mean merge_quantised?", wrong.err)

    def test_a_text_that_is_not_a_network_is_refused_with_its_fault(self):
        path = self.folder / "bad.txt"
        path.write_text('version 2; network "n" { opset "" 13; '
                        'input %0 "x": float32[2]; output %7; }')
        shown = nodewise("run", path, "--random-inputs", "1")
        self.assertEqual(shown.code, 2, shown)
        self.assertIn("bad.txt: network n: output 0: is value %7", shown.err)


if __name__ == "__main__":
    unittest.main()
