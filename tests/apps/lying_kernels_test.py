"""Kernels that lie: whom the command names, as the table of
docs/memory_faults.md says it. Each row is read from there."""

import atexit
import functools
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import support
from support import ROOT, document

sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)

HERE = pathlib.Path(__file__).resolve().parent
PAGE = ROOT / "docs/memory_faults.md"
LIAR = "shift"
# One of each way to be found, and of each way not to be. `--full` takes all.
SAMPLE = ("past_output", "network_input", "unmaps_input", "raw_exit_0",
          "ends_its_thread", "leaves_writing_thread", "returns_twice",
          "changes_folder", "closes_all", "wrong_at_third",
          "wrong_unless_128", "output_shape", "writes_everywhere")


def rows():
    """Kernel, what `run` does, the verdict of `locate`, and its words."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and re.fullmatch(r"`\w+`", cells[0]):
            found.append((cells[0].strip("`"), cells[2], cells[3], cells[4]))
    return found


def network():
    """first, product, shift, bend, last: the third one lies."""
    weights = struct.pack("<64f", *(((i * 7) % 11 - 5) / 8
                                    for i in range(64)))
    return onnx_model(onnx_graph(
        [onnx_node("Relu", ["x"], ["r"], name="first"),
         onnx_node("MatMul", ["r", "w"], ["m"], name="product"),
         onnx_node("Add", ["m", "b"], ["s"], name=LIAR),
         onnx_node("Tanh", ["s"], ["t"], name="bend"),
         onnx_node("Softmax", ["t"], ["y"], name="last")],
        [value_info("x", dims=(16, 8))], [value_info("y")],
        [proto_tensor("w", [8, 8], FLOAT, (9, weights)),
         floats("b", *(i / 4 - 1 for i in range(8)))]))


@functools.cache
def liars():
    """The network's folder, whose library can tell every lie."""
    scratch = tempfile.TemporaryDirectory()
    atexit.register(scratch.cleanup)
    model = pathlib.Path(scratch.name) / "net.onnx"
    model.write_bytes(network())
    folder = pathlib.Path(scratch.name) / "net"
    made = support.nodewise("convert", model, "--no-fuse", "--emit", "c",
                            "-o", folder)
    assert made.code == 0, made
    source = folder / "lib.c"
    code = re.sub(r"\bnodewise_(add|relu|tanh)\(TVM", r"honest_\1(TVM",
                  source.read_text())
    source.write_text("#define _GNU_SOURCE\n" + code +
                      (HERE / "lying_kernels.c").read_text())
    # A kernel's stack can be unwound, as in a library made from C++.
    subprocess.run(["cc", "-w", "-O1", "-fexceptions", "-shared", "-fPIC",
                    source, "-o", folder / "lib.so", "-lm", "-ldl",
                    "-lpthread"], check=True, timeout=100)
    return folder


def told(lie, verb, *options):
    with unittest.mock.patch.dict(os.environ, NODEWISE_TEST_LIE=lie):
        return support.nodewise(verb, liars(), "--random-inputs", "1",
                                *options)


class LyingKernels(unittest.TestCase):
    def chosen(self):
        full = os.environ.get("NODEWISE_TEST_FULL") == "1"
        return [row for row in rows() if full or row[0] in SAMPLE]

    def test_the_page_has_every_kernel(self):
        made = re.findall(r"ROW\((\w+)\),",
                          (HERE / "lying_kernels.c").read_text())
        self.assertEqual([row[0] for row in rows()], made)
        self.assertGreaterEqual(len(made), 60)

    def test_no_honest_kernel_is_named(self):
        result = told("", "locate", "--json")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(document(result)["culprits"], [])

    def test_locate_names_the_liar_or_no_node(self):
        for lie, _, verdict, words in self.chosen():
            with self.subTest(lie=lie):
                result = told(lie, "locate", "--json", "--node-timeout", "2")
                found = document(result)
                named = {culprit["node"]: culprit["kind"]
                         for culprit in found.get("culprits", [])}
                expected = {} if verdict.startswith("no node") else {
                    LIAR: verdict}
                self.assertEqual(named, expected, result)
                if verdict.endswith(", 2"):
                    self.assertEqual(result.code, 2, result)
                if expected:
                    reason = found["culprits"][0]["evidence"]["reason"]
                    self.assertIn(words, reason)

    def test_the_tally_counts_every_node(self):
        for lie in "past_output", "changes_folder":
            with self.subTest(lie=lie):
                shown = told(lie, "locate").out
                counts = re.search(r"^5 function nodes: (.*)$", shown,
                                   re.MULTILINE).group(1)
                self.assertEqual(sum(map(int, re.findall(r"\d+", counts))), 5)

    def test_what_depends_on_calls_is_not_a_memory_fault(self):
        for lie in "wrong_at_third", "wrong_every_other", "wrong_from_second":
            with self.subTest(lie=lie):
                found = document(told(lie, "run", "--sanitize", "--json"))
                self.assertEqual({fault["kind"]
                                  for fault in found["memory_faults"]},
                                 {"unsteady"})

    def test_sanitizing_and_isolating_find_what_is_left_changed(self):
        for lie, kind, says in (
                ("output_shape", "tensor-changed",
                 "changed the shape of its output 0 from (16, 8) to (1, 8)"),
                ("changes_folder", "process-changed",
                 "left the process changed: the working folder is /")):
            with self.subTest(lie=lie):
                found = document(told(lie, "run", "--sanitize", "--json"))
                fault = found["memory_faults"][0]
                self.assertEqual(fault["kind"], kind)
                self.assertIn(f"({LIAR}) {says}", fault["text"])
                shown = told(lie, "run", "--isolate")
                self.assertEqual(shown.code, 1, shown)
                self.assertIn(f"({LIAR}): {says}", shown.out)

    def test_sweeping_finds_what_needs_more_than_64_bytes(self):
        shown = told("wrong_unless_128", "run", "--sweep")
        self.assertEqual(shown.code, 1, shown)
        self.assertIn("differs between two addresses of the buffers",
                      shown.out)

    def test_run_ends_as_the_page_says(self):
        for lie, ending, _, _ in self.chosen():
            if ending == "never ends":
                continue
            with self.subTest(lie=lie):
                result = told(lie, "run")
                if ending == "SIGPIPE":
                    self.assertEqual(result.code, -signal.SIGPIPE, result)
                elif ending == "shows nothing":
                    self.assertEqual((result.code, result.out), (0, ""))
                elif ending == "as if right":
                    self.assertEqual((result.code, result.out != ""),
                                     (0, True), result)
                else:
                    self.assertEqual((result.code, result.out), (2, ""),
                                     result)
                    self.assertIn(ending.removeprefix("2: "), result.err)


if __name__ == "__main__":
    unittest.main()
