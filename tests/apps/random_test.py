"""Models that draw random numbers: seeds, and programs that draw others.

The program is a small Python script without packages.
"""

import pathlib
import sys
import textwrap
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (attribute, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, value_info)

# Says that all numbers that are drawn are 1 to 4.
RUNTIME = """
    import json, struct, sys

    request = json.load(open(sys.argv[-1]))
    answer = {"version": 1, "runtime": "fake 1.0", "outputs": []}
    for number, name in enumerate(request["outputs"]):
        with open(f"{request['output_folder']}/{number}.bin", "wb") as out:
            sign = -1 if name in ("y", "z") else 1
            out.write(struct.pack("<4f", *[sign * i for i in (1, 2, 3, 4)]))
        answer["outputs"].append({"name": name, "dtype": "float32",
                                  "shape": [4], "file": f"{number}.bin"})
    json.dump(answer, open(request["answer"], "w"))
"""


# By another implementation of SplitMix64 and xoshiro256**, for seed 3.
KNOWN = (-0.47471478, -0.41854610, -0.53390180, -0.77197193)


def model(*attributes):
    """a and b are drawn like x; y = -a, z = -b."""
    return onnx_model(onnx_graph(
        [onnx_node("RandomUniformLike", ["x"], ["a"], *attributes,
                   name="first"),
         onnx_node("RandomUniformLike", ["x"], ["b"], *attributes,
                   name="second"),
         onnx_node("Neg", ["a"], ["y"], name="minus"),
         onnx_node("Neg", ["b"], ["z"], name="less")],
        [value_info("x", dims=(4,))],
        [value_info("y", dims=(4,)), value_info("z", dims=(4,))]))


class RandomTest(Scratch):
    def drawn(self, target, *options):
        """What is made of the outputs, and the notes."""
        ran = nodewise("run", target, "--random-inputs", "1", "--json",
                       *options)
        self.assertEqual(ran.code, 0, ran)
        found = document(ran)
        return ([output["first"] for output in found["outputs"]],
                found["notes"])

    def test_one_seed_gives_the_same_numbers(self):
        net = self.write("net.onnx", model())
        numbers, notes = self.drawn(net)
        self.assertNotEqual(numbers[0], numbers[1])
        self.assertEqual(notes, ["2 operations draw random numbers: those "
                                 "without a seed of their own draw from seed "
                                 "1"])
        self.assertEqual(self.drawn(net, "--seed", "1")[0], numbers)
        self.assertEqual(self.drawn(net, "--reference")[0], numbers)
        other, notes = self.drawn(net, "--seed", "2")
        self.assertNotEqual(other[0], numbers[0])
        self.assertIn("from seed 2", notes[0])

    def test_the_numbers_are_those_of_every_machine(self):
        net = self.write("net.onnx", model(attribute("seed", 3.0)))
        numbers, _ = self.drawn(net)
        self.assertEqual(numbers[0], numbers[1])
        self.assertEqual(self.drawn(net, "--seed", "2")[0], numbers)
        for number, known in zip(numbers[0], KNOWN):
            self.assertAlmostEqual(number, known, places=7)

    def test_an_extracted_model_draws_what_the_whole_did(self):
        net = self.write("net.onnx", model())
        part = self.folder / "part.onnx"
        took = nodewise("extract", net, "--to", "z", "-o", part)
        self.assertEqual(took.code, 0, took)
        self.assertEqual(self.drawn(part, "--seed", "9")[0],
                         self.drawn(net)[0][1:])

    def test_another_program_that_draws_others_is_not_accused(self):
        net = self.write("net.onnx", model())
        script = self.write("runtime.py", textwrap.dedent(RUNTIME).encode())
        located = nodewise("locate", f"exec:'{sys.executable}' -I {script}",
                           "--model", net, "--random-inputs", "1", "--json")
        found = document(located)
        self.assertEqual(found["culprits"], [], located)
        kinds = {verdict["node"]: verdict["kind"]
                 for verdict in found["verdicts"]}
        self.assertEqual(kinds["first"], "inconclusive", located)
        self.assertEqual(kinds["second"], "inconclusive", located)

    def test_what_is_compiled_has_no_seed(self):
        refused = nodewise("run", self.write("graph.json", b"{}"), "--seed",
                           "1")
        self.assertEqual(refused.code, 2)
        self.assertIn("--seed", refused.err)


if __name__ == "__main__":
    unittest.main()
