"""Where `./dev test` puts today's TVM, for the tests that want it, and what
they share."""

import os
import pathlib
import subprocess
import unittest

import params_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/tvm"
VENV = ROOT / "build/tvm_venv"
PYTHON = VENV / "bin/python"
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
NODEWISE = BUILD / "bin/nodewise"
IS_FULL = "NODEWISE_TEST_FULL" in os.environ


def package(name):
    """The version and folder of a package there, or None."""
    found = sorted(VENV.glob(f"lib/python3*/site-packages/{name}-*.dist-info"))
    if not found:
        return None
    version = found[0].name.removesuffix(".dist-info").split("-")[1]
    return version, found[0].parent


def need(name="apache_tvm"):
    """Skips the test where TVM is not installed."""
    found = package(name)
    if found is None:
        raise unittest.SkipTest(f"{name} is not installed in build/tvm_venv: "
                                "./dev test could not get it from PyPI")
    return found


def run(*arguments, cwd=None, timeout=3000):
    """Runs the Python that has TVM."""
    return subprocess.run([PYTHON, *map(str, arguments)], cwd=cwd,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=timeout, check=False)


def compare(folder, *options):
    """Runs nodewise on the vm.so of a folder with what TVM's VM was given
    there. Returns "" if every output has TVM's bits, else "refused: ..." or
    "differs: ..."."""
    made = folder / "nodewise.params"
    made.unlink(missing_ok=True)
    given = folder / "inputs.params"
    if params_file.read(given):
        options = ["--inputs", given, *options]
    ran = subprocess.run(
        [NODEWISE, "run", folder / "vm.so", "--output", made, *options],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        check=False)
    if ran.returncode != 0:
        return f"refused: {ran.returncode}: {ran.stderr.strip()}"
    found = params_file.read(made)
    wanted = params_file.read(folder / "expected.params")
    if len(found) != len(wanted):
        return f"differs: {len(found)} outputs, TVM has {len(wanted)}"
    for i, (ours, theirs) in enumerate(zip(found, wanted)):
        if ours[1:] != theirs[1:]:
            return f"differs: output {i}: {ours[1:3]}, TVM has {theirs[1:3]}"
    return ""
