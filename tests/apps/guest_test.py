"""What a network's functions do to the process that they are guests of."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from debug_support import DebugLibrary, chain
from support import (DATA, NODEWISE, Scratch, Tensor, document, nodewise,
                     npy_bytes, params_bytes)

LIBRARY = DebugLibrary()


def catches(process, number):
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE).group(1)
    return int(caught, 16) >> (number - 1) & 1


class GuestTest(Scratch):
    def arguments(self, verb, *functions):
        net = LIBRARY.artefact(self.folder / "chain", chain(*functions), {})
        data = self.folder / "data.npy"
        data.write_bytes(npy_bytes(DATA))
        return [verb, net, "--input", f"data={data}"]

    def run_chain(self, verb, *functions, options=()):
        return nodewise(*self.arguments(verb, *functions), *options)

    def test_what_a_function_prints_is_not_in_the_document(self):
        for verb, options in [("run", []), ("run", ["--isolate"]),
                              ("run", ["--sweep"]), ("profile", []),
                              ("dump", ["--dump-root", self.folder / "d"])]:
            with self.subTest(verb=verb, options=options):
                result = self.run_chain(verb, "speak",
                                        options=["--json", *options])
                self.assertEqual(result.code, 0, result)
                self.assertEqual(document(result)["verb"], verb)
                self.assertIn("spoken by a kernel", result.err)

    def test_what_a_function_prints_is_not_in_the_csv(self):
        result = self.run_chain("profile", "speak", options=["--csv"])
        self.assertEqual(result.code, 0, result)
        self.assertTrue(result.out.startswith("node,name,"),
                        result.out)
        self.assertNotIn("spoken by a kernel", result.out)
        self.assertIn("spoken by a kernel", result.err)

    def test_closed_streams_do_not_become_files_of_ours(self):
        for closed in itertools.product((False, True), repeat=3):
            with self.subTest(closed=closed):
                root = self.folder / "dump"

                def close(closed=closed):
                    for number in range(3):
                        if closed[number]:
                            os.close(number)

                child = subprocess.run(
                    [NODEWISE, *self.arguments("dump", "speak"), "--dump-root",
                     root], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    preexec_fn=close, check=False)
                self.assertEqual(child.returncode, 2 if closed[1] else 0)
                found, = document(nodewise("inspect", root, "--json"))["files"]
                self.assertFalse(found["cut"])
                for file in root.rglob("*"):
                    if file.is_file():
                        self.assertNotIn(b"spoken", file.read_bytes())
                shutil.rmtree(root)

    def test_denormal_numbers_are_shown_though_functions_flush_them(self):
        net = LIBRARY.artefact(self.folder / "chain",
                               chain("flush_denormals", "copy"), {})
        tiny = Tensor("float32", DATA.shape, (-1e-40, 3e-40, 0, 0, 0, 0))
        inputs = self.write("in.params", params_bytes({"data": tiny}))
        result = nodewise("run", net, "--inputs", inputs, "--json")
        output, = document(result)["outputs"]
        self.assertAlmostEqual(output["min"], -1e-40, delta=1e-44)
        self.assertAlmostEqual(output["max"], 3e-40, delta=1e-44)
        result = nodewise("run", net, "--inputs", inputs, "--stop-on",
                          "abs>1e-42")
        self.assertEqual(result.code, 1, result)

    def test_bus_error_is_not_a_silent_end(self):
        # This is what happens when a mapped file becomes shorter.
        with subprocess.Popen([NODEWISE, *self.arguments("run", "hang")],
                              stderr=subprocess.PIPE) as child:
            while not catches(child.pid, signal.SIGBUS):
                time.sleep(0.01)
            child.send_signal(signal.SIGBUS)
            _, said = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 2)
        # It may come before the node runs.
        self.assertRegex(said, rb"(node 1 \(hang_0\)|nodewise): crashed with "
                         rb"SIGBUS, or a file became shorter while it was read")

    def test_isolation_says_which_function_exits(self):
        result = self.run_chain("run", "copy", "quit", options=["--isolate"])
        self.assertEqual(result.code, 1)
        self.assertIn("node 2 (quit_1): ended the process with exit status 0",
                      result.out)


if __name__ == "__main__":
    unittest.main()
