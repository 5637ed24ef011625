"""The wheel on a bare Debian 13, which has Python and nothing else of what is
needed here. Only with --full."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import package_support
from package_support import BUILD, HAS_NATIVE, make_wheel

sys.path.insert(0, str(package_support.ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import WithBuilds, image_network  # noqa: E402

# Has the mounts end with what runs.
ENTER = ["unshare", "--mount", "--pid", "--fork"]
MOUNT = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
PYTHON = "/opt/venv/bin/python"
# What the README's example takes for granted.
IMAGE = """import numpy
image = numpy.random.default_rng(1).random((1, 3, 16, 16), "float32")
"""
LOAD = """
with nodewise.load("model.onnx") as net:
    print([each.numpy().shape for each in net.run({"image": image}).values()])
"""


def why_not():
    """Why such a machine cannot be made here; "" if it can be."""
    if not os.environ.get("NODEWISE_TEST_FULL"):
        return "a machine is made with --full alone"
    if not HAS_NATIVE:
        return "the native module was not built"
    if not (BUILD / "wheel_venv/is_complete").exists():
        return "auditwheel could not be installed"
    if os.geteuid() != 0:
        return "debootstrap needs root"
    for program in "debootstrap", "unshare", "chroot":
        if not shutil.which(program):
            return f"{program} is not installed"
    if subprocess.run([*ENTER, "true"], capture_output=True,
                      check=False).returncode:
        return "nothing can be mounted here (a container without the right to)"
    return ""


class BareDebianTest(WithBuilds):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why_not():
            raise unittest.SkipTest(why_not())
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.machine = pathlib.Path(folder.name) / "debian"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase",
             "--include=python3,python3-venv", "trixie", cls.machine],
            capture_output=True, text=True, check=False)
        if made.returncode:
            raise unittest.SkipTest("debootstrap could not make a Debian 13: "
                                    + made.stdout.strip().rpartition("\n")[2])
        cls.install()

    @classmethod
    def install(cls):
        """The wheel, and what it depends on of the packages on PyPI."""
        wheels = cls.machine / "opt/wheels"
        make_wheel(wheels)
        python = (cls.machine / "usr/bin/python3").readlink().name
        tags = [word for tag in ("manylinux2014", "manylinux_2_28")
                for word in ("--platform", f"{tag}_{os.uname().machine}")]
        fetched = subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--only-binary",
             ":all:", "--python-version", python.removeprefix("python"), *tags,
             "-d", wheels, "nanobind-backend", "numpy"],
            capture_output=True, text=True, check=False)
        if fetched.returncode:
            raise unittest.SkipTest("packages from PyPI could not be fetched: "
                                    + fetched.stderr.strip()[-200:])
        for command in (["python3", "-m", "venv", "/opt/venv"],
                        [PYTHON, "-m", "pip", "install", "-q", "--no-index",
                         "--find-links", "/opt/wheels", "nodewise[numpy]"]):
            done = cls.enter(*command)
            if done.returncode:
                raise AssertionError(done)

    @classmethod
    def enter(cls, *command):
        return subprocess.run(
            [*ENTER, "sh", "-c", MOUNT, cls.machine, *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                 "LANG": "C.UTF-8"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False)

    def run_there(self, code):
        """Runs Python code beside a model and a wrong build of it."""
        self.write("model.onnx", image_network())
        self.compiled("net", image_network("AveragePool"))
        shutil.copytree(self.folder, self.machine / "opt/files",
                        dirs_exist_ok=True)
        return self.enter("env", "-C", "/opt/files", PYTHON, "-c",
                          IMAGE + code)

    def test_the_example_of_the_readme_names_the_culprit(self):
        example, = re.findall(r"```python\n(.*?)```", (
            package_support.ROOT / "README.md").read_text(), re.DOTALL)
        done = self.run_there(example)
        self.assertTrue(done.stdout.startswith("pool1 (MaxPool) is wrong"),
                        done)
        self.assertIn("WrongResult: pool1 (MaxPool) is wrong", done.stderr)
        self.assertEqual(done.returncode, 1, done)
        self.assertFalse(list(self.machine.glob("usr/bin/*cc")))

    def test_a_model_is_loaded_and_run(self):
        done = self.run_there("import nodewise\n" + LOAD)
        self.assertEqual(done.stdout, "[(1, 10)]\n", done)

    def test_the_command_runs(self):
        done = self.enter("/opt/venv/bin/nodewise", "--version")
        self.assertTrue(done.stdout.startswith("nodewise "), done)


if __name__ == "__main__":
    unittest.main()
