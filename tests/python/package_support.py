"""What tests of the Python package share. They run in build/venv."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", ROOT / "build"))
PACKAGE = ROOT / "apps/python"
os.environ.setdefault("NODEWISE_COMMAND", str(BUILD / "bin/nodewise"))
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests/support")]

# pylint: disable=wrong-import-position
import nodewise  # noqa: E402
# Where the build leaves the native module.
nodewise.__path__.append(str(BUILD / "lib/python"))
HAS_NATIVE = importlib.util.find_spec("nodewise._native") is not None
import numpy  # noqa: E402
import onnxruntime  # noqa: E402
from onnx_bytes import (INT64, floats, onnx_graph,  # noqa: E402
                        onnx_model, onnx_node, value_info)


def model():
    """y = relu(x * c + d)"""
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
         onnx_node("Add", ["m", "d"], ["a"], name="plus"),
         onnx_node("Relu", ["a"], ["y"], name="last")],
        [value_info("x", dims=(3,))], [value_info("y", dims=(3,))],
        [floats("c", 1, 2, 3), floats("d", 10, 10, -10)]))


def open_model(rows="rows"):
    """y = relu(x * 2), for any number of rows unless told how many."""
    return onnx_model(onnx_graph(
        [onnx_node("Mul", ["x", "two"], ["m"], name="times"),
         onnx_node("Relu", ["m"], ["y"], name="last")],
        [value_info("x", dims=(rows, 2))],
        [value_info("y", dims=(rows, 2))], [floats("two", 2)]))


def data_dependent_model():
    """The numbers of the elements that are not 0."""
    return onnx_model(onnx_graph(
        [onnx_node("NonZero", ["x"], ["where"], name="find"),
         onnx_node("Neg", ["where"], ["y"], name="minus")],
        [value_info("x", dims=(4,))],
        [value_info("y", INT64, (1, "found"))]))


INPUTS = {"x": numpy.array([1, 2, 3], numpy.float32)}


def onnxruntime_of(path, inputs, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    return dict(zip(outputs, session.run(outputs, inputs)))


def make_wheel(folder):
    """Packs what was built into a wheel there, and returns its path."""
    tools = BUILD / "wheel_venv/bin"
    made = subprocess.run(
        [tools / "python", PACKAGE / "make_wheel.py", BUILD, folder],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    if made.returncode:
        raise AssertionError(made)
    wheel, = pathlib.Path(folder).iterdir()
    return wheel


class PackageTest(unittest.TestCase):
    """A test with a folder that has a model, and a wrong build of another."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.folder / "model.onnx"
        cls.model.write_bytes(model())

    def demo(self):
        """An artefact with a wrong operation, and the model it is made of."""
        folder = self.folder / "demo"
        if not folder.exists():
            subprocess.run([os.environ["NODEWISE_COMMAND"], "demo", "-o",
                            folder], check=True, stdout=subprocess.DEVNULL)
        return folder / "net", folder / "model.onnx"

    def refusal(self, call, *arguments, **options):
        with self.assertRaises(nodewise.Error) as caught:
            call(*arguments, **options)
        return str(caught.exception)
