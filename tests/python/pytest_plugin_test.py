"""The plug-in of pytest: its fixture, and the archives of what fails."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from package_support import BUILD, PACKAGE, PackageTest

sys.path.insert(0, str(PACKAGE))

# pylint: disable=wrong-import-position
import make_wheel  # noqa: E402

TESTS = """
import pytest

import nodewise as module

def test_wrong(nodewise):
    nodewise.assert_matches(NET, MODEL, random_inputs=1)

def test_close(nodewise):
    nodewise.assert_close(1., 2.)

def test_right(nodewise):
    nodewise.assert_close(1., 1.)
    assert nodewise.locate is module.locate
    assert nodewise.assert_matches(MODEL, random_inputs=1).status == "ok"

@pytest.mark.parametrize("name", ["a/b", "a b"])
def test_refused(nodewise, name):
    nodewise.verify("/no/" + name)

def test_other():
    try:
        module.verify("/no/such")
    except module.Error as error:
        raise RuntimeError("mine") from error

@module.autotest(n=1)
def test_operator():
    module.autotest.dual(abs, float)(-1.)

@pytest.fixture
def broken():
    module.verify("/no/fixture")

def test_setup(broken):
    pass
"""
FAILED = ["test_operator.txt", "test_other.json", "test_refused_a.b_-.json",
          "test_refused_a_b_-.json", "test_setup.json", "test_wrong.json"]


@unittest.skipIf(importlib.util.find_spec("pytest") is None,
                 "pytest is not installed")
class PytestPluginTest(PackageTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        net, model = self.demo()
        (self.here / "test_it.py").write_text(
            f"NET, MODEL = {str(net)!r}, {str(model)!r}\n{TESTS}")

    def pytest(self, *arguments, path=PACKAGE, **environment):
        """Runs pytest, and returns its exit status and what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             *arguments], cwd=self.here, text=True, check=False,
            capture_output=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(path), **environment})
        return done.returncode, done.stdout + done.stderr

    def kept(self, folder="kept"):
        """The names of what was kept, without the test's file and hashes."""
        names = [path.name.removeprefix("test_it.py.")
                 for path in (self.here / folder).iterdir()]
        for name in names:
            self.assertNotRegex(name, r"[^\w.-]")
        return sorted(name if "-" not in name else
                      name.partition("-")[0] + "-" + name[-5:]
                      for name in names)

    def test_the_fixture_has_the_assertions_and_the_package(self):
        code, said = self.pytest("-p", "nodewise.pytest_plugin",
                                 "-k", "right or wrong or close")
        self.assertEqual(code, 1, said)
        self.assertIn("2 failed, 1 passed", said)
        self.assertIn("WrongResult: ", said)
        self.assertIn("AssertionError: Scalars are not close!", said)
        # Neither does it keep what was not asked for.
        self.assertEqual([path.name for path in self.here.iterdir()
                          if path.name != "__pycache__"], ["test_it.py"])
        self.assertNotIn("kept: ", said)

    def test_what_fails_is_kept_under_the_name_of_the_test(self):
        code, said = self.pytest("-p", "nodewise.pytest_plugin",
                                 "--nodewise-report", "kept")
        self.assertEqual(code, 1, said)
        self.assertEqual(self.kept(), FAILED, said)
        for path in (self.here / "kept").iterdir():
            verb = "nodewise report " if path.suffix == ".json" else ""
            self.assertIn(f"kept: {verb}{path}\n", said)

    def test_what_is_kept_is_shown_again(self):
        self.pytest("-p", "nodewise.pytest_plugin", "--nodewise-report=kept",
                    "-k", "wrong or operator")
        path = self.here / "kept/test_it.py.test_wrong.json"
        document = json.loads(path.read_text())
        shown = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "report", path], text=True,
            check=False, stdout=subprocess.PIPE).stdout
        self.assertIn(" is wrong", document["said"])
        self.assertEqual(shown.splitlines()[0].split()[0],
                         document["said"].split()[0])
        text = (self.here / "kept/test_it.py.test_operator.txt").read_text()
        self.assertIn("test_it.py::test_operator", text)
        self.assertIn("The candidate as a program:", text)

    def test_what_an_earlier_run_has_kept_of_a_test_goes(self):
        options = ("-p", "nodewise.pytest_plugin", "--nodewise-report=kept")
        self.pytest(*options, "-k", "wrong or setup")
        (self.here / "kept/notes.txt").write_text("mine")
        text = (self.here / "test_it.py").read_text()
        (self.here / "test_it.py").write_text(text.replace("NET, MODEL, ",
                                                           "MODEL, "))
        _, said = self.pytest(*options, "-k", "wrong")
        self.assertIn("1 passed", said)
        self.assertEqual(self.kept(), ["notes.txt", "test_setup.json"])

    def test_pytest_finds_it_in_an_installed_package(self):
        stage = self.here / "stage"
        stage.mkdir()
        make_wheel.stage(BUILD, stage)
        for options in ((), ("-p", "nodewise.pytest_plugin")):
            code, said = self.pytest(*options, "-k", "right", path=stage,
                                     NODEWISE_COMMAND="")
            self.assertEqual(code, 0, said)

    def test_pytest_runs_where_numpy_is_not_installed(self):
        (self.here / "numpy.py").write_text("raise ImportError('no numpy')")
        (self.here / "test_it.py").write_text(
            "def test_plain(nodewise): assert nodewise.Error")
        code, said = self.pytest("-p", "nodewise.pytest_plugin",
                                 path=f"{self.here}:{PACKAGE}")
        self.assertEqual(code, 0, said)


if __name__ == "__main__":
    unittest.main()
