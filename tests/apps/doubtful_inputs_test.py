"""Inputs and dumps that look fine, and of which nothing can be judged.

Each is an error that says what was found, and never "no culprit" alone.
"""

import math
import pathlib
import shutil
import subprocess
import sys

from support import BUILD, Scratch, Tensor, nodewise, npy_bytes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

DUMP = "_tvmdbg_device_CPU_0"


def network(last="Softmax"):
    return onnx_model(onnx_graph(
        [onnx_node("Tanh", ["x"], ["a"], name="bend"),
         onnx_node(last, ["a"], ["y"], name="last")],
        [value_info("x", dims=(2, 2))], [value_info("y")]))


class GivenNan(Scratch):
    MESSAGE = "input x: element 2 is NaN, expected numbers"

    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", network())
        self.nan = self.write("nan.npy", npy_bytes(
            Tensor("float32", (2, 2), (1, 2, math.nan, 4))))

    def test_a_search_that_sees_no_inputs_of_nodes_does_not_say_all_is_well(
            self):
        net = self.folder / "net"
        nodewise("convert", self.model, "-o", net)
        for options in (["--method", "bisect"],
                        ["--method", "recursive"],
                        ["--method", "bisect", "--reference", net],
                        ["--series", net, net]):
            with self.subTest(options=options):
                shown = nodewise("locate", net, "--input", f"x={self.nan}",
                                 *options)
                self.assertEqual(shown.code, 2, shown)
                self.assertIn(self.MESSAGE, shown.err)

    def test_the_usual_search_names_the_node_that_is_given_it(self):
        shown = nodewise("locate", self.model, "--input", f"x={self.nan}")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: bend, bad input\n", shown.out)

    def test_the_network_debugger_does_not_say_that_all_layers_match(self):
        for comparator in ("Intermediate", "Recursive"):
            child = subprocess.run(
                [BUILD / "bin/network-debugger", "--model", self.model,
                 "--inputs", self.nan, f"-comparator={comparator}"],
                text=True, check=False, capture_output=True, timeout=100)
            self.assertEqual(child.returncode, 2, child)
            self.assertIn(self.MESSAGE, child.stderr)
            self.assertNotIn("All layers match", child.stdout)


class DoubtfulDump(Scratch):
    def dumped(self, name, last="Softmax"):
        model = self.write(f"{name}.onnx", network(last))
        made = nodewise("dump", model, "--random-inputs", "1", "--dump-root",
                        self.folder / name)
        self.assertEqual(made.code, 0, made)
        return self.folder / name / DUMP

    def test_a_dump_whose_hashes_are_cut_short_is_an_error(self):
        dump = self.dumped("net")
        records = dump / "_nodewise_nodes.bin"
        whole = records.read_bytes()
        # The last records are of `last`: what it read, its time, and its result.
        records.write_bytes(whole[:-3 * 32 + 8])
        self.assertIn("_nodewise_nodes.bin: has no hashes of what 1 node read "
                      "(last), expected those of all nodes",
                      self.refused("locate", dump, "--method", "replay"))
        records.write_bytes(whole)
        self.assertEqual(nodewise("locate", dump, "--method", "replay").code, 0)

    def test_the_graph_of_another_network_accuses_no_node(self):
        dump, other = self.dumped("net"), self.dumped("other", "LogSoftmax")
        shutil.copy(other / "_nodewise_graph.json", dump)
        self.assertIn("one of the two is of another network",
                      self.refused("locate", dump, "--method", "replay"))


class Unnamed(Scratch):
    def test_a_program_without_a_model_is_told_what_is_missing(self):
        self.assertIn("ort:: has no model, expected ort:MODEL.onnx",
                      self.refused("locate", "ort:", "--random-inputs", "1"))
