"""docs/tvm_python.md does what it says: its blocks run as they stand."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import tvm_package

PAGE = tvm_package.ROOT / "docs/tvm_python.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Runs shell blocks where they stand between those of Python, which share
# their names.
RUNNER = """
import subprocess
def shell(text):
    subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True)
"""


def program():
    """The blocks of the page as one program."""
    text = PAGE.read_text()
    parts = []
    for kind, code in BLOCK.findall(text):
        parts.append(code if kind == "python" else f"shell({code!r})\n")
    return RUNNER + "".join(parts)


class PageTest(unittest.TestCase):
    def test_blocks_run_as_they_stand(self):
        # TV-21
        tvm_package.need()
        path = f"{tvm_package.NODEWISE.parent}{os.pathsep}{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "page.py"
            script.write_text(program())
            ran = subprocess.run(
                [tvm_package.PYTHON, script], cwd=folder,
                env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("Node Name", ran.stdout)
        self.assertRegex(ran.stdout, r"dump/_tvmdbg_device_CPU_0: 6 tensors")

    def test_page_has_the_blocks_that_are_tested(self):
        kinds = [kind for kind, _ in BLOCK.findall(PAGE.read_text())]
        self.assertGreaterEqual(kinds.count("python"), 6)
        self.assertGreaterEqual(kinds.count("sh"), 5)


if __name__ == "__main__":
    unittest.main()
