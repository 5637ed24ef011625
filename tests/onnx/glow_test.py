"""Operators that Glow writes, against their definitions (glow_reference.py) and
the numbers of Glow's own tests."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import onnx_package

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))
PAGE = onnx_package.ROOT / "docs/network_debugger.md"


class GlowTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        onnx_package.need()
        # pylint: disable=consider-using-with
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        made = onnx_package.run(HERE / "glow_cases.py", cls.folder.name)
        assert made.returncode == 0, made.stderr
        cls.operators = set(made.stdout.splitlines()[1].split())

    def judged(self, *flags):
        ran = subprocess.run(
            [BUILD / "bin/nodewise_onnx_backend", self.folder.name, *flags],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout[-4000:] + ran.stderr)

    def test_they_calculate_what_glow_defines(self):
        self.judged()

    def test_they_calculate_it_as_graphs_with_the_fastest_kernels(self):
        self.judged("--as-graph")

    def test_every_operator_that_the_page_lists_as_run_has_a_case(self):
        text = PAGE.read_text(encoding="utf-8")
        table = text[text.index("## Glow's operators"):]
        row = next(line for line in table.splitlines()
                   if line.startswith("| run |"))
        listed = {word.strip(" `") for word in
                  row.split("|")[2].replace("`", "").split(",")}
        self.assertEqual(listed, self.operators)


if __name__ == "__main__":
    unittest.main()
