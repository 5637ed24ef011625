"""The notebooks in docs/notebooks: every cell is run, and shows what is stored.
"""

import json
import os
import shutil
import sys
import tempfile
import unittest

import notebook_runner
from package_support import BUILD, HAS_NATIVE, ROOT

sys.path.insert(0, str(ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import loosely  # noqa: E402

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def in_short(output):
    """What an output says, without figures that depend on the processor, and
    of HTML its first sentence and whether there is a picture."""
    data = output.get("data", {})
    html = "".join(data.get("text/html", ()))
    return (output["output_type"], sorted(data),
            loosely("".join(output.get("text", ()))),
            loosely("".join(data.get("text/plain", ()))),
            loosely(html.partition("</p>")[0]), "<svg" in html)


class NotebookTest(unittest.TestCase):
    def setUp(self):
        if not HAS_NATIVE:
            self.skipTest("the native module was not built")
        if shutil.which("cc") is None:
            self.skipTest("no C compiler (cc)")

    def test_every_cell_shows_what_is_stored(self):
        self.assertGreater(len(NOTEBOOKS), 0)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        self.addCleanup(os.chdir, os.getcwd())
        os.environ["PATH"] = f"{BUILD / 'bin'}:{path}"
        for notebook in NOTEBOOKS:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for cell, outputs in notebook_runner.run(notebook):
                    if outputs is None:
                        continue
                    with self.subTest(notebook.name, cell=cell["source"][:1]):
                        self.assertEqual(
                            [in_short(each) for each in outputs],
                            [in_short(each) for each in cell["outputs"]],
                            "run tests/python/notebook_runner.py to store it")
                os.chdir(ROOT)

    def test_notebooks_have_what_jupyter_asks_for(self):
        for path in NOTEBOOKS:
            notebook = json.loads(path.read_text())
            self.assertEqual(notebook["nbformat"], 4)
            for number, cell in enumerate(
                    (each for each in notebook["cells"]
                     if each["cell_type"] == "code"), 1):
                self.assertEqual(cell["execution_count"], number)
                for output in cell["outputs"]:
                    self.assertIn(output["output_type"],
                                  ("stream", "execute_result"))

    def test_a_cell_shows_what_jupyter_shows(self):
        names = {"_shell": notebook_runner._shell}
        outputs = notebook_runner.run_cell(
            "!echo 'a b'\nx = 3\nprint(x)\nx + 1", names)
        self.assertEqual(outputs[0]["text"], ["a b\n", "3\n"])
        self.assertEqual(outputs[1]["data"], {"text/plain": ["4"]})
        self.assertEqual(notebook_runner.run_cell("y = x\nNone", names), [])


if __name__ == "__main__":
    unittest.main()
