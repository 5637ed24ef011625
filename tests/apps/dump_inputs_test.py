"""`nodewise locate` between two dumps of runs that were not given the same."""

import pathlib
import struct
import sys
import unittest

from support import Scratch, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

SIDES = (1, 3, 8, 8)
PLANE = 64


def npy(values):
    """A .npy file of float32 with SIDES."""
    head = (f"{{'descr': '<f4', 'fortran_order': False, 'shape': {SIDES}, }}")
    head = head.ljust(117) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) +
            head.encode() + struct.pack(f"<{len(values)}f", *values))


def picture():
    return [((i * 37) % 101) / 50 - 1 for i in range(3 * PLANE)]


class DumpInputs(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Tanh", ["x"], ["t"], name="tanh"),
             onnx_node("Abs", ["t"], ["y"], name="abs")],
            [value_info("x", dims=SIDES)], [value_info("y", dims=SIDES)])))

    def dump(self, name, values):
        result = nodewise("dump", self.model, "--input",
                          f"x={self.write(name + '.npy', npy(values))}",
                          "--dump-root", self.folder / name)
        self.assertEqual(0, result.code, result.err)
        return self.folder / name

    def told(self, values):
        result = nodewise("locate", self.dump("other", values), "--reference",
                          self.dump("right", picture()))
        self.assertEqual(1, result.code, result.err)
        sentence = " ".join(result.out.split("\n\n")[0].split())
        self.assertTrue(sentence.startswith(
            "x, an input or a parameter, is not the same in both runs: "),
            sentence)
        return sentence

    def test_channels_in_reverse_order_are_told(self):
        planes = [picture()[i * PLANE:(i + 1) * PLANE] for i in range(3)]
        self.assertIn("in reverse order along axis 1",
                      self.told(planes[2] + planes[1] + planes[0]))

    def test_a_picture_that_was_not_normalised_is_told(self):
        self.assertIn("all is 127.5 times what is expected, plus 127.5",
                      self.told([127.5 * x + 127.5 for x in picture()]))

    def test_sides_in_another_order_are_told(self):
        x = picture()
        turned = [x[c * PLANE + p] for p in range(PLANE) for c in range(3)]
        self.assertIn("with the axes in the order 0, 2, 3, 1",
                      self.told(turned))

    def test_several_steps_at_once_are_told(self):
        x = picture()
        given = [255 * x[(2 - c) * PLANE + p]
                 for p in range(PLANE) for c in range(3)]
        said = self.told(given)
        for step in ("(channels last)", "(BGR for RGB)", "times 255"):
            self.assertIn(step, said)

    def test_a_normalisation_for_each_channel_is_told(self):
        factors, means = (58, 57, 50), (124, 116, 104)
        given = [factors[i // PLANE] * x + means[i // PLANE]
                 for i, x in enumerate(picture())]
        self.assertIn("times 58 plus 124; times 57 plus 116; times 50 plus 104",
                      self.told(given))

    def test_an_input_that_was_never_set_is_told(self):
        self.assertIn("all wrong elements are 0, as in an input that was "
                      "never set", self.told([0] * (3 * PLANE)))

    def test_another_picture_is_said_to_be_one(self):
        self.assertIn("no other order of axes or channels, and no scale, "
                      "relates the two",
                      self.told([((i * i * 53) % 97) / 48 - 1
                                 for i in range(3 * PLANE)]))


if __name__ == "__main__":
    unittest.main()
