"""What type checkers are told: the stub of the native module, and programs
that mypy reads."""

import ast
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

from package_support import HAS_NATIVE, PACKAGE, nodewise

STUB = PACKAGE / "nodewise/_native.pyi"
# Names that Python gives every class and module.
OF_PYTHON = {"__module__", "__new__", "__init__", "__doc__", "__repr__"}

USES = """
import functools
from typing import Any

import numpy
import nodewise
from nodewise.autotest import autotest, dual, random, random_tensor
from nodewise.testing import assert_close, assert_matches

image = numpy.zeros((1, 3, 16, 16), numpy.float32)
answer = nodewise.locate("net", reference="model.onnx",
                         inputs={"image": image}, top=3, repro="culprits")
reveal_type(answer)
for culprit in answer.culprits:
    reveal_type(culprit.node)
answer.raise_if_wrong().save("answer.json")

with nodewise.load("net", dim={"n": 1}) as net:
    reveal_type(net)
    made = net.run({"image": image})
    reveal_type(made)
    reveal_type(made["p"].numpy().ndim)
    reveal_type(net.step())
    net.patch("x", made["p"])
    assert_close(made["p"], image)

def run(sample: dict[str, Any]) -> dict[str, Any]:
    return sample

def run_model(model: str, inputs: dict[str, Any],
              outputs: list[str]) -> dict[str, Any]:
    return inputs

compared = nodewise.compare_samples(
    run, net, ({"image": image} for _ in range(3)), tolerance={"y": 1e-3},
    metric=functools.partial(nodewise.top1, output="y"))
reveal_type(compared)
reveal_type(compared.metrics[0].value)
nodewise.locate("net", reference="model.onnx", inputs=compared.worst_inputs)
nodewise.locate(nodewise.runtime(run_model), model=b"model")
nodewise.locate(nodewise.runner(run, outputs="y"), model="model.onnx")
reveal_type(nodewise.tensors("dump")["conv1"])
reveal_type(assert_matches("net", "model.onnx", random_inputs=1))

both = dual(numpy, numpy)

@autotest(n=3)
def test_product() -> None:
    k = random(1, 6)
    both.matmul(random_tensor(2, 3, k), random_tensor(2, k, k + 1))

reveal_type(test_product)

try:
    answer.raise_if_wrong()
except nodewise.WrongResult as error:
    reveal_type(error.findings)
"""
REVEALED = [
    "nodewise._answer.Answer", "str", "nodewise._session.Session",
    "dict[str, nodewise._tensors.Tensor]",
    "int", "str | None",
    "nodewise._sample_comparison.SampleComparison", "float",
    "nodewise._tensors.Tensor", "nodewise._answer.Answer", "def ()",
    "tuple[str, ...]"]
# Each line with a part of what is said of it.
MISUSES = {
    'nodewise.locate("net", refrence="model.onnx")': '"refrence"',
    'nodewise.locate("net", reference={"a": 1})': "incompatible type",
    'nodewise.locate("net", strict="yes")': "incompatible type",
    'nodewise.locate("net", top=[1])': "incompatible type",
    'nodewise.load(3)': "incompatible type",
    'nodewise.load("net").run({"x": "text"})': "incompatible type",
    'nodewise.load("net").tensor(3)': "incompatible type",
    'nodewise.runner("net")': "incompatible type",
    'nodewise.verify("net").culprit': "no attribute",
}


class StubTest(unittest.TestCase):
    def setUp(self):
        if not HAS_NATIVE:
            self.skipTest("the native module was not built")

    @staticmethod
    def names_of(body):
        return {node.name: node for node in body
                if isinstance(node, (ast.FunctionDef, ast.ClassDef))}

    def test_the_stub_has_the_names_of_the_module(self):
        # pylint: disable-next=import-outside-toplevel
        from nodewise import _native
        stated = self.names_of(ast.parse(STUB.read_text()).body)
        present = {name: value for name, value in vars(_native).items()
                   if not name.startswith("__")}
        self.assertEqual(set(stated), set(present))
        for name, value in present.items():
            if isinstance(value, type):
                with self.subTest(name):
                    self.assertEqual(
                        set(self.names_of(stated[name].body)) - OF_PYTHON,
                        set(vars(value)) - OF_PYTHON)

    def test_functions_take_as_many_arguments_as_the_stub_says(self):
        # pylint: disable-next=import-outside-toplevel
        from nodewise import _native
        checked = 0
        for name, node in self.names_of(
                ast.parse(STUB.read_text()).body).items():
            of_class = (self.names_of(node.body)
                        if isinstance(node, ast.ClassDef) else {name: node})
            owner = getattr(_native, name)
            for each, stated in of_class.items():
                value = (vars(owner)[each] if isinstance(node, ast.ClassDef)
                         else owner)
                signature = re.search(r"\((.*)\) ->", value.__doc__ or "")
                if not signature or "__" in each:
                    continue
                with self.subTest(f"{name}.{each}"):
                    # nanobind says more of an array than Python can read.
                    plain = re.sub(r"\[[^\[\]]*=[^\[\]]*\]", "",
                                   signature.group(1))
                    given = ast.parse(f"def f({plain}): pass")
                    self.assertEqual(_count(stated), _count(given.body[0]))
                checked += 1
        self.assertGreater(checked, 25)


def _count(function):
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args)


class PackageTypesTest(unittest.TestCase):
    def test_public_functions_have_a_type_for_everything(self):
        lacks = []
        for module in (nodewise, nodewise.testing, nodewise.autotest):
            for name in module.__all__:
                if name in ("Session", "load", "Tensor", "TensorFile",
                            "tensors") and not HAS_NATIVE:
                    continue
                lacks += _untyped(f"{module.__name__}.{name}",
                                  getattr(module, name))
        self.assertEqual(lacks, [])


def _untyped(name, value):
    """What lacks a type in a function, or in the methods of a class."""
    if isinstance(value, type):
        for each, member in vars(value).items():
            member = getattr(member, "fget", member)
            member = getattr(member, "func", member)
            is_ours = (isinstance(member, types.FunctionType) and
                       member.__name__ != "<lambda>" and
                       member.__code__.co_filename.startswith(str(PACKAGE)))
            if is_ours and not (each.startswith("_") and
                                not each.startswith("__")):
                yield from _untyped(f"{name}.{each}", member)
    elif isinstance(value, types.FunctionType):
        signature = inspect.signature(value)
        untyped = [parameter for parameter in signature.parameters.values()
                   if parameter.annotation is parameter.empty and
                   parameter.name != "self"]
        is_init = name.endswith("__init__")
        if untyped or (signature.return_annotation is signature.empty and
                       not is_init):
            yield name


class MypyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("mypy") is None:
            raise unittest.SkipTest("mypy is not installed")
        # One for all tests, since most of the time goes into numpy's types.
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def said(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--no-error-summary", *arguments],
            cwd=self.folder, env={**os.environ, "MYPYPATH": str(PACKAGE)},
            capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done)
        return done.stdout

    def of_program(self, text):
        (self.folder / "program.py").write_text(text)
        # As it is where the package is installed, only the program is judged.
        said = self.said("--strict", "--follow-imports=silent", "program.py")
        return [re.sub(r"^program\.py:\d+: ", "", line)
                for line in said.splitlines()]

    def test_a_program_is_sound_and_knows_what_it_has(self):
        said = self.of_program(USES)
        self.assertEqual(
            said, [f'note: Revealed type is "{each}"' for each in REVEALED])

    def test_wrong_uses_are_seen(self):
        lines = ["import nodewise", *MISUSES]
        said = [line for line in self.of_program("\n".join(lines))
                if line.startswith("error")]
        self.assertEqual(len(said), len(MISUSES), said)
        for line, expected in zip(said, MISUSES.values()):
            self.assertIn(expected, line)

    def test_the_package_itself_is_sound(self):
        self.assertEqual(
            [line for line in self.said(
                "-p", "nodewise", "--ignore-missing-imports",
                "--disable-error-code=import-untyped").splitlines()
             if ": error: " in line], [])


if __name__ == "__main__":
    unittest.main()
