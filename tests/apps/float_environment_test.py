"""What libraries and nodes do to the floating-point environment, and who says
so: see docs/memory_faults.md."""

import pathlib
import platform
import random
import shutil
import struct
import subprocess
import sys
import unittest

from support import Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, attribute, floats, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, proto_tensor, value_info)

LIBRARY_SAYS = "loading it left subnormal numbers treated as zero"


def bent():
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


def through_subnormals():
    """y = x * 1e-20 * 1e-20 * 1e38, whose second product is subnormal."""
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "s"], ["a"], name="small"),
         onnx_node("Mul", ["a", "s"], ["b"], name="tiny"),
         onnx_node("Mul", ["b", "l"], ["y"], name="back")],
        [value_info("x", dims=(2, 2))], [value_info("y")],
        [floats("s", 1e-20, 1e-20), floats("l", 1e38, 1e38)]))


@unittest.skipUnless(platform.machine() == "x86_64", "sets MXCSR")
class Compiled(Scratch):
    def compiled(self, model, leaves="", flags=()):
        """The folder of a compiled library, whose first node leaves this."""
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        folder = self.folder / "net"
        made = nodewise("convert", self.write("net.onnx", model), "--emit", "c",
                        "--no-fuse" if flags else "--no-layouts", "-o", folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        code = source.read_text()
        end = "  free(scratch);\n  return result;\n"
        if leaves:
            self.assertIn(end, code)
        source.write_text("#define _GNU_SOURCE\n#include <fenv.h>\n" +
                          code.replace(end, f"  {leaves};\n{end}", 1))
        subprocess.run(["cc", "-O2", *flags, "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        return folder

    def ran(self, verb, folder, *options, code=0):
        shown = nodewise(verb, folder, "--random-inputs", "1", *options)
        self.assertEqual(shown.code, code, shown)
        return shown

    def culprits(self, found):
        return [(c["node"], c["kind"]) for c in found["culprits"]]

    def located(self, folder, code):
        """What a live run and its dump played back have found."""
        live = self.ran("locate", folder, "--json", code=code)
        root = self.folder / "dumps"
        self.ran("dump", folder, "--dump-root", root)
        again = nodewise("locate", root, "--method", "replay", "--json")
        self.assertEqual(again.code, code, again)
        return document(live), document(again)


class FastLibrary(Compiled):
    FAST = ("-ffast-math",)

    def test_is_judged_live_as_its_dump_is(self):
        folder = self.compiled(through_subnormals(), flags=self.FAST)
        live, again = self.located(folder, 1)
        self.assertEqual(self.culprits(live), [("tiny", "broken")])
        self.assertEqual(self.culprits(again), [("tiny", "broken")])
        self.assertIn("outputs are wrong because of that",
                      live["culprits"][0]["evidence"]["reason"])

    def test_is_a_finding_of_every_verb_and_no_reason_to_fail(self):
        folder = self.compiled(bent(), flags=self.FAST)
        for verb in (["run"], ["run", "--sanitize"], ["run", "--isolate"],
                     ["run", "--until", "last"], ["profile"], ["locate"],
                     ["dump", "--dump-root", self.folder / "d"]):
            with self.subTest(verb=verb):
                shown = self.ran(verb[0], folder, *verb[1:])
                self.assertIn("nodewise: warning: ", shown.err)
                self.assertIn(f"lib.so: {LIBRARY_SAYS}", shown.err)
        found = document(self.ran("run", folder, "--json"))
        self.assertEqual(found["status"], "ok")
        self.assertEqual([f["kind"] for f in found["float_environment"]],
                         ["floats-changed-by-library"])

    def test_computes_as_it_would_anywhere(self):
        folder = self.compiled(through_subnormals(), flags=self.FAST)
        for options in ([], ["--until", "back"], ["--isolate"]):
            with self.subTest(options=options):
                shown = self.ran("run", folder, "--json", *options)
                self.assertEqual(document(shown)["outputs"][0]["max"], 0)


class Node(Compiled):
    SAYS = "left the rounding mode changed (upward, was to nearest)"

    def test_that_leaves_traps_set_is_named_and_not_the_next(self):
        folder = self.compiled(bent(), "feenableexcept(FE_INEXACT)")
        found = document(self.ran("locate", folder, "--json", code=1))
        self.assertEqual(self.culprits(found), [("bend", "changes floats")])
        self.assertIn("left traps set for inexact results",
                      found["culprits"][0]["evidence"]["reason"])
        self.assertEqual([v["kind"] for v in found["verdicts"]],
                         ["changes floats", "healthy"])

    def test_that_leaves_the_rounding_changed_is_named_live_and_of_a_dump(self):
        folder = self.compiled(bent(), "fesetround(FE_UPWARD)")
        for found in self.located(folder, 1):
            self.assertEqual(self.culprits(found),
                             [("bend", "changes floats")])

    def test_is_a_finding_where_nodes_are_checked(self):
        folder = self.compiled(bent(), "fesetround(FE_UPWARD)")
        for option, member in (("--sanitize", "memory_faults"),
                               ("--isolate", "failures"),
                               ("--sweep", "unsteady")):
            with self.subTest(option=option):
                shown = self.ran("run", folder, option, code=1)
                self.assertIn(f"(bend) {self.SAYS}\n", shown.out)
                found = document(self.ran("run", folder, option, "--json",
                                          code=1))
                self.assertEqual([f["kind"] for f in found[member]],
                                 ["floats-left-changed"])

    def test_is_a_warning_where_they_only_run(self):
        folder = self.compiled(bent(), "fesetround(FE_UPWARD)")
        for verb in (["run", "--until", "last"],
                     ["dump", "--dump-root", self.folder / "d"]):
            with self.subTest(verb=verb):
                shown = self.ran(verb[0], folder, *verb[1:])
                self.assertIn(f"(bend) {self.SAYS}\n", shown.err)
        for verb in ("run", "profile"):
            with self.subTest(verb=verb):
                shown = self.ran(verb, folder)
                self.assertIn(f"{self.SAYS} (nodewise run --sanitize says",
                              shown.err)

    def test_is_warned_of_where_a_search_looks_at_other_things(self):
        folder = self.compiled(bent(), "fesetround(FE_UPWARD)")
        shown = self.ran("locate", folder, "--method", "bisect")
        self.assertIn(f"(bend) {self.SAYS}\n", shown.err)


class Softmax(Scratch):
    """A Softmax of large numbers: oneDNN takes subnormal numbers for zeros."""

    def model(self, seed):
        drawn = random.Random(seed)

        def normal(name, dims):
            count = 1
            for side in dims:
                count *= side
            values = [drawn.gauss(0, 1) for _ in range(count)]
            return proto_tensor(name, list(dims), FLOAT,
                                (9, struct.pack(f"<{count}f", *values)))
        return onnx_model(onnx_graph(
            [onnx_node("Conv", ["x", "k"], ["c"], name="conv"),
             onnx_node("Relu", ["c"], ["r"], name="relu"),
             onnx_node("MaxPool", ["r"], ["p"],
                       attribute("kernel_shape", [2, 2]),
                       attribute("strides", [2, 2]), name="pool"),
             onnx_node("Flatten", ["p"], ["f"], name="flat"),
             onnx_node("MatMul", ["f", "w"], ["m"], name="product"),
             onnx_node("Softmax", ["m"], ["y"], name="last")],
            [value_info("x", dims=(1, 3, 10, 10))], [value_info("y")],
            [normal("k", (8, 3, 3, 3)), normal("w", (128, 40))]))

    def test_that_is_healthy_is_accused_with_no_seed(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                path = self.write(f"{seed}.onnx", self.model(seed))
                shown = nodewise("locate", path, "--random-inputs", str(seed),
                                 "--json")
                self.assertEqual(shown.code, 0, shown)
                found = document(shown)
                self.assertEqual(found["culprits"], [])


if __name__ == "__main__":
    unittest.main()
