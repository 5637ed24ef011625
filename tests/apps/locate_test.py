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


def with_a_call(statement):
    """Emitted C in which the node with tanh does something else before."""
    def spoiled(code):
        return ("#include <stdlib.h>\n" +
                re.sub(r"\btanh(f?)\(", rf"({statement}, tanh\1)(", code))
    return spoiled


CRASH = with_a_call("*(volatile int*)16 = 1")


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

    def test_a_sound_model_accuses_no_node(self):
        for options in ([], ["--no-fuse"], ["--method", "intermediate"],
                        ["--method", "recursive"],
                        ["--reference", "interpreter"]):
            with self.subTest(options=options):
                shown = self.located(self.model, *options)
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("\nno culprit\n", shown.out)

    def test_a_sound_library_accuses_no_node(self):
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

    def test_exact_inputs_are_for_nodes_that_need_not_round(self):
        shown = nodewise("locate", self.model, "--inputs", "exact",
                         "--no-fuse", "--json")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        on_exact_inputs = {verdict["node"]: verdict["on_exact_inputs"]
                           for verdict in document(shown)["verdicts"]}
        self.assertEqual(on_exact_inputs["product"],
                         "on exact inputs and weights, so this is about the "
                         "kernel: equal")
        self.assertIn("(Tanh) rounds any input", on_exact_inputs["bend"])

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

    def test_a_function_that_crashes_is_named_and_the_other_judged(self):
        shown = self.located(self.compiled(CRASH))
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn(
            "culprit: bend, crashes\n"
            "  operations  product, sum, bend\n"
            "  computes    MatMul+Add+Tanh\n"
            "  reason      crashed with SIGSEGV at address 0x10\n"
            "  instead     the reference computed it for the others\n"
            "\n"
            "2 function nodes: 1 crashes, 1 healthy\n"
            "outputs: equal to the reference's, with 1 node computed by it\n",
            shown.out)

    def test_the_document_says_how_a_node_ended_the_run(self):
        folder = self.compiled(with_a_call("exit(5)"))
        for method in ([], ["--method", "intermediate"]):
            with self.subTest(method=method):
                shown = self.located(folder, "--json", *method)
                self.assertEqual((shown.code, shown.err), (1, ""), shown)
                culprit = document(shown)["culprits"][0]
                self.assertEqual(culprit["kind"], "crashes")
                self.assertEqual(culprit["evidence"]["failure"], "exit")
                self.assertEqual(culprit["evidence"]["stand_in"], True)
                self.assertEqual(culprit["evidence"]["reason"],
                                 "ended the process with exit status 5")

    def test_bisecting_names_a_function_that_crashes(self):
        shown = self.located(self.compiled(CRASH), "--method", "bisect")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: bend, crashes\n", shown.out)
        self.assertIn("crashed with SIGSEGV at address 0x10", shown.out)

    def test_a_function_that_never_returns_hangs(self):
        folder = self.compiled(with_a_call(
            "({ for (volatile int on = 1; on;) {} 0; })"))
        shown = self.located(folder, "--node-timeout", "1")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: bend, hangs\n", shown.out)
        self.assertIn("had not returned after 1000 ms and was stopped",
                      shown.out)

    def test_the_reference_stands_in_for_nodes_that_are_chosen(self):
        folder = self.compiled(CRASH)
        shown = self.located(folder, "--stand-in", "^be", "--json")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        found = document(shown)
        self.assertEqual(found["stand_ins"], ["bend"])
        self.assertEqual([v["kind"] for v in found["verdicts"]],
                         ["inconclusive", "healthy"])
        for verb in ("run", "profile"):
            with self.subTest(verb=verb):
                shown = nodewise(verb, folder, "--random-inputs", "1",
                                 "--stand-in", "^be")
                self.assertEqual((shown.code, shown.err), (0, ""), shown)
                self.assertIn("1 node computed by the reference: bend\n",
                              shown.out)

    def test_stand_ins_that_cannot_be_are_refused(self):
        error = self.refused("run", self.model, "--random-inputs", "1",
                             "--stand-in", "bent")
        self.assertIn('stand-in: "bent" is found in no function node', error)
        net = LIBRARY.artefact(self.folder / "tvm", add_bias_graph(),
                               {"bias": BIAS})
        error = self.refused("run", net, "--random-inputs", "1", "--stand-in",
                             "add")
        self.assertIn("the reference cannot stand in for it", error)

    def test_a_node_that_cannot_be_replaced_ends_the_search(self):
        folder = self.compiled(CRASH)
        path = folder / "graph.json"
        graph = json.loads(path.read_text())
        for node in graph["nodes"]:
            if node["name"] == "bend":
                node["attrs"] = {name: value
                                 for name, value in node["attrs"].items()
                                 if not name.startswith("nodewise")}
        path.write_text(json.dumps(graph))
        shown = self.located(folder)
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("culprit: bend, crashes\n", shown.out)
        self.assertIn("nothing: what comes after it was not judged", shown.out)
        self.assertIn("the reference cannot stand in for it", shown.err)

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
        self.assertIn("is not a folder", self.refused(
            "locate", self.model, "--method", "replay"))

    def test_recursion_names_the_function_that_was_spoiled(self):
        shown = self.located(self.compiled(with_sine), "--method", "recursive")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: bend, broken\n", shown.out)
        self.assertIn("2 function nodes: 1 broken, 1 inherits\n", shown.out)
        self.assertRegex(shown.out, r"took [\d.]+ s and at most [\d.]+ MiB")

    def test_nodes_that_say_nothing_need_something_to_compare_with(self):
        net = LIBRARY.artefact(self.folder / "tvm", add_bias_graph(),
                               {"bias": BIAS})
        error = self.refused("locate", net, "--random-inputs", "1")
        self.assertIn("its nodes do not say what they compute", error)
        self.assertIn("--reference MODEL.onnx", error)

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
                (["--method", "bisekt"], "did you mean bisect?"),
                (["--method", "bisect", "--repeats", "3"],
                 "means nothing with --method bisect"),
                (["--method", "replay"],
                 "--random-inputs: means nothing for a dump"),
                (["--method", "intermediate", "--repeats", "3"],
                 "means nothing with --method intermediate")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "locate", self.model, "--random-inputs", "1", *options))


if __name__ == "__main__":
    unittest.main()
