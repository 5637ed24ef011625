"""Where `./dev setup` puts ONNX's own packages, for the tests that want them.

There are two: the last one that brings its cases as files, and today's, which
makes them in memory and whose cases are written as files here."""

import hashlib
import pathlib
import shutil
import subprocess
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = ROOT / "build/venv"
PYTHON = VENV / "bin/python"
TODAY = ROOT / "build/onnx_today_venv"


def folder_in(environment):
    """The package's folder, or None where it is not installed."""
    found = sorted(environment.glob("lib/python3*/site-packages/onnx"))
    return found[0] if found else None


def folder():
    return folder_in(VENV)


def need():
    """The package's folder; skips the test where there is none."""
    found = folder()
    if found is None:
        raise unittest.SkipTest(
            "ONNX's package is not installed in build/venv (./dev setup)")
    return found


def run_in(environment, *arguments):
    """Runs the Python that has a package."""
    return subprocess.run([environment / "bin/python", *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600, check=False)


def run(*arguments):
    return run_in(VENV, *arguments)


def need_cases():
    """The folder of cases of the package that has files."""
    return need() / "backend/test/data"


def need_cases_of_today():
    """The folder of cases of today's package, written when they are first
    asked for; skips the test where the package is not installed."""
    if folder_in(TODAY) is None:
        raise unittest.SkipTest("ONNX's package of today is not installed in "
                                f"{TODAY} (./dev setup)")
    maker = HERE / "generate_cases.py"
    made_by = hashlib.sha256(maker.read_bytes()).hexdigest()
    cases, stamp = TODAY / "cases", TODAY / "cases_made_by"
    if not stamp.exists() or stamp.read_text() != made_by:
        shutil.rmtree(cases, ignore_errors=True)
        made = run_in(TODAY, maker, cases)
        if made.returncode != 0:
            raise RuntimeError(made.stderr)
        stamp.write_text(made_by)
    return cases
