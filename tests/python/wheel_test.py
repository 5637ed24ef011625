"""The wheel in an environment that has nothing else."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy
from package_support import BUILD, HAS_NATIVE, PACKAGE, PackageTest

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


class WheelTest(PackageTest):
    def test_an_empty_environment_names_the_culprit(self):
        if not (BUILD / "wheel_venv/is_complete").exists():
            self.skipTest("auditwheel could not be installed")
        if not HAS_NATIVE:
            self.skipTest("the native module was not built")
        net, reference = self.demo()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            tools = BUILD / "wheel_venv/bin"
            self.run_with(tools, tools / "python", PACKAGE / "make_wheel.py",
                          BUILD, folder / "wheel")
            wheel, = (folder / "wheel").iterdir()
            # What type checkers look for.
            for name in ("py.typed", "_native.pyi"):
                self.assertIn("nodewise/" + name,
                              zipfile.ZipFile(wheel).namelist())
            self.run_with("", sys.executable, "-m", "venv", folder / "venv")
            python = folder / "venv/bin/python"
            # numpy is only wanted by who has arrays.
            self.run_with("", python, "-m", "pip", "install", "-q",
                          "--no-index", "--no-deps", wheel)
            said = self.run_with("", python, "-c", CODE, net, reference)
            self.assertIn(" is wrong", said)
            # What it needs beside itself, and numpy, are in this venv.
            others = os.path.dirname(os.path.dirname(numpy.__file__))
            loaded = self.run_with("", python, "-c", LOAD, net,
                                   PYTHONPATH=others)
            self.assertTrue(loaded.startswith("[(1, 10)] " + str(folder)),
                            loaded)
            shown = self.run_with("", folder / "venv/bin/nodewise",
                                  "--version")
            self.assertTrue(shown.startswith("nodewise "), shown)

    def run_with(self, path, *command, **more):
        done = subprocess.run(
            [str(word) for word in command], stdin=subprocess.DEVNULL,
            env={"PATH": f"{path}:/usr/bin:/bin", "HOME": os.environ["HOME"],
                 **more},
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout


if __name__ == "__main__":
    unittest.main()
