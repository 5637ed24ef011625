"""nodewise locate --method bisect and --series, on compiled C."""

import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)


def with_sine(code):
    """Emitted C that computes another function than tanh."""
    return re.sub(r"\btanh(f?)\(", r"sin\1(", code)


def without_attributes(text):
    """A graph whose nodes do not say what they compute."""
    return text.replace('"nodewise.', '"other.')


def network():
    """y = softmax(softmax(tanh(x * w + b)) + b)."""
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["m"], name="product"),
         onnx_node("Add", ["m", "b"], ["a"], name="sum"),
         onnx_node("Tanh", ["a"], ["t"], name="bend"),
         onnx_node("Softmax", ["t"], ["s"], name="weights"),
         onnx_node("Add", ["s", "b"], ["u"], name="shift"),
         onnx_node("Softmax", ["u"], ["y"], name="last")],
        [value_info("x", dims=(2, 2))], [value_info("y")],
        [proto_tensor("w", [2, 2], FLOAT,
                      (9, struct.pack("<4f", 0.1, 0.7, -3.0, 2.0))),
         floats("b", 1.0, -1.0)]))


@unittest.skipIf(shutil.which("cc") is None, "no C compiler (cc)")
class Bisect(Scratch):
    def setUp(self):
        super().setUp()
        self.model = self.write("net.onnx", network())
        self.net = self.folder / "net"
        made = nodewise("convert", self.model, "--emit", "c", "-o", self.net)
        self.assertEqual(made.code, 0, made)
        self.code = (self.net / "lib.c").read_text()
        self.compile("lib.so", self.code)

    def compile(self, name, code):
        (self.net / "other.c").write_text(code)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "other.c", "-o", name,
                        "-lm"], cwd=self.net, check=True, timeout=100)
        (self.net / "other.c").unlink()
        return self.net / name

    def build(self, name, library, change=lambda text: text):
        """A folder with this library and the same graph and parameters."""
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(library, folder / "lib.so")
        shutil.copy(self.net / "params.params", folder)
        graph = (self.net / "graph.json").read_text()
        (folder / "graph.json").write_text(change(graph))
        return folder

    def located(self, target, *options):
        return nodewise("locate", target, "--random-inputs", "1", *options)

    def test_the_node_that_was_spoiled_is_found_by_halving(self):
        bad = self.build("bad", self.compile("bad.so", with_sine(self.code)))
        shown = self.located(bad, "--method", "bisect")
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("first divergence  bend, broken\n", shown.out)
        self.assertIn("masked before it  no, every node before it", shown.out)
        self.assertIn("culprit: bend, broken\n", shown.out)
        found = document(self.located(bad, "--method", "bisect", "--json"))
        self.assertEqual([c["node"] for c in found["culprits"]], ["bend"])
        self.assertEqual(found["first_divergence"], "bend")
        self.assertEqual(found["masked"], "no")
        self.assertEqual(found["nodes_on_path"], 4)
        ends = [(q["taken"], q["left"]) for q in found["questions"][:2]]
        self.assertEqual(ends, [(0, 0.0), (4, 1.0)])

    def test_a_function_that_crashes_is_a_verdict_however_it_is_halved(self):
        crashing = self.code.replace(
            "#include <math.h>", "#include <math.h>\n#include <signal.h>\n"
            "static float odd(float x) { raise(SIGFPE); return x; }", 1)
        crashing = re.sub(r"\btanhf?\(", "odd(", crashing)
        self.assertIn("odd(", crashing)
        bad = self.build("bad", self.compile("bad.so", crashing))
        old = self.build("old", self.net / "lib.so")
        for options in (["--method", "bisect"],
                        ["--method", "bisect", "--reference", old]):
            with self.subTest(options=options):
                shown = self.located(bad, *options, "--node-timeout", "20")
                self.assertEqual((shown.code, shown.err), (1, ""), shown)
                self.assertIn("culprit: bend, crashes\n", shown.out)
                self.assertIn("crashed with SIGFPE", shown.out)
                self.assertIn("outputs: equal to the reference's, with 1 node "
                              "computed by it", shown.out)

    def test_a_sound_build_has_nothing_to_bisect(self):
        shown = self.located(self.net, "--method", "bisect")
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("no culprit\n", shown.out)

    def test_an_older_build_judges_nodes_that_say_nothing(self):
        spoiled = self.compile("bad.so", with_sine(self.code))
        old = self.build("old", self.net / "lib.so", without_attributes)
        new = self.build("new", spoiled, without_attributes)
        options = ["--method", "bisect", "--reference", old]
        shown = self.located(new, *options)
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn("culprit: bend, broken\n", shown.out)
        self.assertIn("function nodewise_matmul_add_tanh makes the difference",
                      shown.out)
        found = document(self.located(new, *options, "--json"))
        self.assertEqual([g["function"] for g in found["guilty"]],
                         ["nodewise_matmul_add_tanh"])
        self.assertFalse(found["in_storage"])

    def test_the_first_bad_build_of_a_series_is_found_with_its_function(self):
        bad = self.compile("v4.so", with_sine(self.code))
        builds = [self.net / f"v{i}.so" for i in range(6)]
        for build in builds[:3]:
            shutil.copy(self.net / "lib.so", build)
        builds[3].write_text("no library")
        shutil.copy(bad, builds[5])
        shown = self.located(self.net, "--series", *builds)
        self.assertEqual((shown.code, shown.err), (1, ""), shown)
        self.assertIn(f"first bad build: {builds[4]}, after {builds[2]}\n",
                      shown.out)
        self.assertIn(f"which could not run: {builds[3]}\n", shown.out)
        self.assertIn("culprit: bend, broken\n", shown.out)
        found = document(self.located(self.net, "--json", "--series", *builds))
        self.assertEqual(found["first_bad"], str(builds[4]))
        self.assertEqual(found["skipped_between"], [str(builds[3])])
        self.assertEqual([c["node"] for c in found["culprits"]], ["bend"])

    def test_a_series_of_folders_without_a_bad_one_is_fine(self):
        folders = [self.build(name, self.net / "lib.so") for name in "abc"]
        shown = self.located(folders[0], "--series", *folders)
        self.assertEqual((shown.code, shown.err), (0, ""), shown)
        self.assertIn("no bad build", shown.out)

    def test_bad_use_names_what_is_expected(self):
        old = self.build("old", self.net / "lib.so", without_attributes)
        for target, options, expected in (
                (old, ["--method", "bisect"],
                 "so the reference cannot compute it"),
                (self.net, ["--series", self.net / "lib.so"],
                 "expected two or more"),
                (self.net, ["--series", old, old, "--reference", old],
                 "--series: is given with --reference")):
            with self.subTest(options=options):
                self.assertIn(expected, self.refused(
                    "locate", target, "--random-inputs", "1", *options))


if __name__ == "__main__":
    unittest.main()
