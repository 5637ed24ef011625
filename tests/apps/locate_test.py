"""nodewise locate, on models and folders of `convert` made here."""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

import support
from support import (BIAS, Scratch, add_bias_graph, document, nodewise)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)

LIBRARY = support.Library()


def with_sine(code):
    """Emitted C that computes another function than tanh."""
    return re.sub(r"\btanh(f?)\(", r"sin\1(", code)


def network():
    """y = softmax(tanh(x * w + b)): a fused node, and another one."""
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["m"], name="product"),
         onnx_node("Add", ["m", "b"], ["a"], name="sum"),
         onnx_node("Tanh", ["a"], ["t"], name="bend"),
         onnx_node("Softmax", ["t"], ["y"], name="last")],
        [value_info("x", dims=(2, 2))], [value_info("y")],
        [proto_tensor("w", [2, 2], FLOAT,
                      (9, struct.pack("<4f", 0.1, 0.7, -3.0, 2.0))),
         floats("b", 1.0, -1.0)]))


class Locate(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", network())

    def compiled(self, spoil=lambda code: code):
        """The folder of a compiled library, whose source was changed."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / "net"
        made = nodewise("convert", self.model, "--emit", "c", "-o", folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        source.write_text(spoil(source.read_text()))
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        return folder

    def located(self, target, *options):
        return nodewise("locate", target, "--random-inputs", "1", *options)

    def test_a_sound_model_accuses_nobody(self):
        for options in ([], ["--no-fuse"], ["--method", "intermediate"],
                        ["--method", "recursive"],
                        ["--reference", "interpreter"]):
            with self.subTest(options=options):
                shown = self.located(self.model, *options)
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("\nno culprit\n", shown.out)

    def test_a_sound_library_accuses_nobody(self):
        shown = self.located(self.compiled())
        self.assertEqual((shown.code, shown.err), (0, ""), shown)

    def test_the_function_that_was_spoiled_is_named(self):
        folder = self.compiled(with_sine)
        shown = self.located(folder)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: bend, broken\n"
                      "  operations  product, sum, bend\n", shown.out)
        self.assertIn("explains    100.0 % of the error", shown.out)
        self.assertIn("2 function nodes: 1 broken, 1 inherits\n", shown.out)

    def test_the_document_has_culprits_and_verdicts(self):
        folder = self.compiled(with_sine)
        shown = self.located(folder, "--json")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        found = document(shown)
        self.assertEqual(found["status"], "differs")
        self.assertEqual([c["node"] for c in found["culprits"]], ["bend"])
        culprit = found["culprits"][0]
        self.assertEqual((culprit["kind"], culprit["output"]), ("broken", 0))
        self.assertEqual(culprit["source_nodes"], ["product", "sum", "bend"])
        self.assertGreater(culprit["evidence"]["share"], 0.99)
        self.assertEqual([v["kind"] for v in found["verdicts"]],
                         ["broken", "inherits"])
        self.assertTrue(found["outputs_differ"])

    def test_memory_that_is_shared_wrongly_is_a_plan_fault(self):
        self.model.write_bytes(onnx_model(onnx_graph(
            [onnx_node("Softmax", ["x"], ["a"], name="a"),
             onnx_node("Softmax", ["a"], ["b"], name="b"),
             onnx_node("Softmax", ["b"], ["c"], name="c"),
             onnx_node("Add", ["a", "c"], ["y"], name="y")],
            [value_info("x", dims=(2, 3))], [value_info("y")])))
        folder = self.folder / "net"
        made = nodewise("convert", self.model, "--no-fuse", "--no-reuse", "-o",
                        folder)
        self.assertEqual(made.code, 0, made)
        path = folder / "graph.json"
        graph = json.loads(path.read_text())
        ids = graph["attrs"]["storage_id"][1]
        names = [node["name"] for node in graph["nodes"]]
        ids[names.index("c")] = ids[names.index("a")]
        path.write_text(json.dumps(graph))
        shown = self.located(folder)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: c, plan fault\n", shown.out)
        self.assertIn("writes over a:0, which y still reads", shown.out)

    def dumped(self, target, *options):
        root = self.folder / "dumps"
        made = nodewise("dump", target, "--random-inputs", "1", "--dump-root",
                        root, "--no-table", *options)
        self.assertEqual(made.code, 0, made)
        return root

    def test_a_dump_names_the_function_that_was_spoiled(self):
        root = self.dumped(self.compiled(with_sine))
        shutil.rmtree(self.folder / "net")  # Nothing of it is needed.
        shown = nodewise("locate", root, "--method", "replay")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: bend, broken\n", shown.out)
        self.assertIn("2 function nodes: 1 broken, 1 inherits\n", shown.out)
        found = document(nodewise("locate", root, "--method", "replay",
                                  "--json"))
        self.assertEqual([c["node"] for c in found["culprits"]], ["bend"])
        self.assertTrue(found["outputs_differ"])

    def test_a_dump_of_a_part_says_what_was_not_judged(self):
        root = self.dumped(self.compiled(), "--select", "last|bend")
        shown = nodewise("locate", root, "--method", "replay")
        self.assertEqual(shown.code, 0, shown)
        self.assertIn("outputs: not compared\n", shown.out)
        self.assertRegex(shown.out, r"not judged  bend  .*: was not recorded")

    def test_dumps_in_which_nothing_can_be_judged_are_errors(self):
        root = self.dumped(self.compiled(), "--what", "stats")
        self.assertIn("no node could be judged: bend: ", self.refused(
            "locate", root, "--method", "replay"))
        self.assertIn("is no folder", self.refused(
            "locate", self.model, "--method", "replay"))

    def test_recursion_names_the_function_that_was_spoiled(self):
        shown = self.located(self.compiled(with_sine), "--method", "recursive")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: bend, broken\n", shown.out)
        self.assertIn("2 function nodes: 1 broken, 1 inherits\n", shown.out)
        self.assertRegex(shown.out, r"took [\d.]+ s and at most [\d.]+ MiB")

    def test_nodes_that_do_not_say_what_they_compute_are_an_error(self):
        net = LIBRARY.artefact(self.folder / "tvm", add_bias_graph(),
                               {"bias": BIAS})
        error = self.refused("locate", net, "--random-inputs", "1")
        self.assertIn("no node could be checked: add_bias: ", error)

    def test_what_differs_before_anything_runs_is_the_first_culprit(self):
        folder, other = self.compiled(), self.folder / "other"
        shutil.copytree(folder, other)
        params = other / "params.params"
        params.write_bytes(support.with_one(
            params.read_bytes(), struct.pack("<f", -3), struct.pack("<f", 3)))
        shown = self.located(other, "--reference", folder)
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("1 difference from the reference, so nothing was run:\n"
                      "  parameter  w  found 3 at element 2; 1 of 4 elements "
                      "differ  expected -3\n", shown.out)
        found = document(self.located(other, "--reference", folder, "--json"))
        self.assertEqual([d["name"] for d in found["differences"]], ["w"])

    def test_a_reference_that_is_the_same_changes_nothing(self):
        folder = self.compiled(with_sine)
        shown = self.located(folder, "--reference", folder)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: bend, broken\n", shown.out)

    def test_bad_use_names_what_is_expected(self):
        for options, expected in (
                (["--reference", "other"], "--reference: other: "),
                (["--method", "bisekt"], "expected one of auto, intermediate"),
                (["--method", "replay"],
                 "--random-inputs: means nothing with --method replay"),
                (["--method", "intermediate", "--repeats", "3"],
                 "means nothing with --method intermediate")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "locate", self.model, "--random-inputs", "1", *options))


if __name__ == "__main__":
    unittest.main()
