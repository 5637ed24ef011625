"""nodewise locate --repro: folders of nodes that crash, hang or write astray."""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

from support import NODEWISE, Scratch, document, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, floats, onnx_graph, onnx_model,  # noqa: E402
                        onnx_node, proto_tensor, value_info)


def network():
    """y = softmax(tanh(x * w + b)), each a node of its own without fusion."""
    return onnx_model(onnx_graph(
        [onnx_node("MatMul", ["x", "w"], ["m"], name="product"),
         onnx_node("Add", ["m", "b"], ["a"], name="sum"),
         onnx_node("Tanh", ["a"], ["t"], name="bend"),
         onnx_node("Softmax", ["t"], ["y"], name="last")],
        [value_info("x", dims=(3, 2))], [value_info("y")],
        [proto_tensor("w", [2, 2], FLOAT,
                      (9, struct.pack("<4f", 0.1, 0.7, -3.0, 2.0))),
         floats("b", 1.0, -1.0)]))


def when_tanh_reads(condition, statement):
    """Emitted C that does something for some elements that tanh reads."""
    helper = ("#include <math.h>\n#include <signal.h>\n#include <unistd.h>\n"
              "static float odd(float x) {\n"
              f"  if ({condition}) {{ {statement}; }}\n"
              "  return (tanhf)(x);\n}\n")
    return lambda code: helper + re.sub(r"\btanhf?\(", "odd(", code)


class FailingRepro(Scratch):
    def compiled(self, spoil):
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")
        model = self.write("net.onnx", network())
        folder = self.folder / "net"
        made = nodewise("convert", model, "--no-fuse", "--emit", "c", "-o",
                        folder)
        self.assertEqual(made.code, 0, made)
        source = folder / "lib.c"
        source.write_text(spoil(source.read_text()))
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "lib.c", "-o",
                        "lib.so", "-lm"], cwd=folder, check=True, timeout=100)
        return folder

    def written(self, net, *options):
        """What locate says, and the folder of the one culprit, moved."""
        shown = nodewise("locate", net, "--random-inputs", "1", "--repro",
                         self.folder / "repros", "--json", *options)
        self.assertEqual(shown.code, 1, shown)
        found = document(shown)
        self.assertEqual(len(found["repros"]), 1, found)
        moved = self.folder / "moved it"
        shutil.move(found["repros"][0]["folder"], moved)
        shutil.rmtree(net)
        return found, moved

    def run_command(self, folder):
        about = json.loads((folder / "repro.json").read_text())
        words = about["command"].split()
        self.assertEqual(words[0], "nodewise")
        self.assertIn(f"    {about['command']}\n",
                      (folder / "README.md").read_text())
        child = subprocess.run(
            [NODEWISE, *words[1:]], cwd=folder, text=True, check=False,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=100)
        return about, child

    def test_a_crash_is_shown_by_the_folder_alone(self):
        found, folder = self.written(self.compiled(when_tanh_reads(
            "x > 0.25f", "raise(SIGFPE)")))
        self.assertEqual(found["culprits"][0]["kind"], "crashes")
        repro = found["repros"][0]
        self.assertEqual((repro["failure"], repro["fails_alone"]),
                         ("crash", True))
        about, child = self.run_command(folder)
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: bend, crashes\n", child.stdout)
        self.assertIn("SIGFPE", child.stdout)
        self.assertEqual(about["verdict"], "crashes")
        # Some zeros are there, but not everywhere: then it would not crash.
        self.assertTrue(about["shrunk"])
        data = (folder / "data/inputs.params").read_bytes()
        numbers = struct.unpack("<6f", data[-24:])
        self.assertEqual(len([x for x in numbers if x > 0.25]), 1, numbers)
        self.assertEqual(numbers.count(0), 5, numbers)

    def test_a_hang_is_shown_by_the_folder_alone(self):
        found, folder = self.written(
            self.compiled(when_tanh_reads("x > 0.25f", "for (;;) pause()")),
            "--node-timeout", "1", "--repeats", "0")
        self.assertEqual(found["culprits"][0]["kind"], "hangs")
        about, child = self.run_command(folder)
        self.assertTrue(about["command"].endswith(" --node-timeout 1"))
        self.assertEqual(child.returncode, 1, child)
        self.assertIn("culprit: bend, hangs\n", child.stdout)
