"""Where `./dev setup` puts ONNX's own package, for the tests that want it."""

import pathlib
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / "build/venv"
PYTHON = VENV / "bin/python"


def folder():
    """The package's folder, or None where it is not installed."""
    found = sorted(VENV.glob("lib/python3*/site-packages/onnx"))
    return found[0] if found else None


def need():
    """The package's folder; skips the test where there is none."""
    found = folder()
    if found is None:
        raise unittest.SkipTest(
            "ONNX's package is not installed in build/venv (./dev setup)")
    return found


def run(*arguments):
    """Runs the Python that has the package."""
    return subprocess.run([PYTHON, *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=600, check=False)
