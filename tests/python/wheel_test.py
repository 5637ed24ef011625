"""The wheel in an environment that has nothing else."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy
from package_support import BUILD, HAS_NATIVE, ROOT, PackageTest, make_wheel

LOAD = """
import nodewise, numpy, sys
with nodewise.load(sys.argv[1]) as net:
    made = net.run({"image": numpy.zeros((1, 3, 32, 32), "float32")})
print([each.numpy().shape for each in made.values()], nodewise.__file__)
"""
CODE = """
import nodewise, sys
answer = nodewise.locate(sys.argv[1], reference=sys.argv[2], random_inputs=1)
print(answer.said)
"""
# What it needs beside itself, and numpy, are in this venv.
OTHERS = os.path.dirname(os.path.dirname(numpy.__file__))


class WheelTest(PackageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not (BUILD / "wheel_venv/is_complete").exists():
            raise unittest.SkipTest("auditwheel could not be installed")
        if not HAS_NATIVE:
            raise unittest.SkipTest("the native module was not built")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.venv = pathlib.Path(folder.name) / "venv"
        wheel = make_wheel(pathlib.Path(folder.name) / "wheel")
        cls.files = zipfile.ZipFile(wheel).namelist()
        cls.run_alone(sys.executable, "-m", "venv", cls.venv)
        # numpy is only wanted by who has arrays.
        cls.run_alone(cls.venv / "bin/python", "-m", "pip", "install", "-q",
                      "--no-index", "--no-deps", wheel)

    @staticmethod
    def run_alone(*command, **more):
        done = subprocess.run(
            [str(word) for word in command], stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"], **more},
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done)
        return done.stdout

    def python(self, code, *words, **more):
        return self.run_alone(self.venv / "bin/python", "-c", code, *words,
                              **more)

    def test_an_empty_environment_names_the_culprit(self):
        self.assertIn(" is wrong", self.python(CODE, *self.demo()))

    def test_a_network_is_loaded_by_what_the_wheel_brings(self):
        net, _ = self.demo()
        loaded = self.python(LOAD, net, PYTHONPATH=OTHERS)
        self.assertTrue(loaded.startswith(f"[(1, 10)] {self.venv}"), loaded)

    def test_two_libraries_are_compared_as_the_page_says(self):
        example, = re.findall(r"```python\n(import nodewise\n[^`]*?autotest.*?)"
                              "```", (ROOT / "docs/tests.md").read_text(),
                              re.DOTALL)
        said = self.python("import numpy\n" + example, PYTHONPATH=OTHERS)
        self.assertIn("softmax: the candidate differs", said)
        self.assertIn("v1 = numpy.array([[[0.25, -0.5]]], 'float32')", said)

    def test_type_checkers_find_its_types(self):
        for name in ("py.typed", "_native.pyi"):
            self.assertIn("nodewise/" + name, self.files)

    def test_the_command_runs(self):
        shown = self.run_alone(self.venv / "bin/nodewise", "--version")
        self.assertTrue(shown.startswith("nodewise "), shown)


if __name__ == "__main__":
    unittest.main()
