"""A pytest plugin that runs TVM's own tests on a runtime without a compiler.

Nearly every file of theirs imports the compiler, also where only some of its
tests use it. Those parts are stood in for: they can be imported and used as
decorators, and a test that calls one is skipped by the name of what it called.
A test that misses a function which TVM's runtime-only library has is a failure;
the names are read in the sources of the checkout, TVM_SOURCE.
"""

import os
import pathlib
import re
import sys
import traceback
import types
import unittest.mock

import numpy
import pytest
import tvm

# Parts of the Python package that work with a compiler only.
COMPILER_PARTS = ["te", "tir", "relay", "relax", "topi", "target", "script",
                  "meta_schedule", "auto_scheduler", "autotvm", "driver",
                  "micro", "parser", "transform", "dlight", "ir"]

is_in_test = False


class NeedsCompiler(Exception):
    """What a missing part raises when a test calls it. Not pytest's own way to
    skip, which would not pass through the callbacks of the package."""


class Missing(unittest.mock.MagicMock):
    """A part that is not there."""

    def __call__(self, *args, **kwargs):
        if is_in_test:
            raise NeedsCompiler(
                f"needs the compiler ({self._extract_mock_name()})")
        return super().__call__(*args, **kwargs)


class MissingModule(types.ModuleType):
    """A module whose every name is missing."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        missing = Missing(name=f"{self.__name__}.{name}")
        setattr(self, name, missing)
        return missing


class MissingFinder:
    """Imports what lies below a missing module."""

    def find_spec(self, name, _path, _target=None):
        parent = sys.modules.get(name.rpartition(".")[0])
        if isinstance(parent, MissingModule):
            return importlib_spec(name, self)
        return None

    def create_module(self, spec):
        return MissingModule(spec.name)

    def exec_module(self, _module):
        pass


def importlib_spec(name, loader):
    import importlib.machinery  # pylint: disable=import-outside-toplevel
    return importlib.machinery.ModuleSpec(name, loader, is_package=True)


def stand_in_for(name):
    module = MissingModule(f"tvm.{name}")
    sys.modules[module.__name__] = module
    setattr(tvm, name, module)
    return module


def parameter(*values, ids=None):
    def chosen(request):
        return request.param
    return pytest.fixture(chosen, params=values, ids=ids)


def requires(name):
    """The mark of a test that needs a device, a part or a package."""
    mark = pytest.mark.skip(reason=f"needs what {name} names")

    def apply(*args, **_options):
        if len(args) == 1 and callable(args[0]):
            return mark(args[0])
        return mark
    return apply


class Testing(types.ModuleType):
    """What stands for tvm.testing, which works with a compiler only."""
    parameter = staticmethod(parameter)
    fixture = staticmethod(pytest.fixture)
    main = staticmethod(lambda: None)
    uses_gpu = staticmethod(lambda function: function)
    assert_allclose = staticmethod(
        lambda actual, desired, rtol=1e-7, atol=1e-7:
        numpy.testing.assert_allclose(actual, desired, rtol, atol))

    def __getattr__(self, name):
        if name.startswith("requires"):
            return requires(name)
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(name=f"tvm.testing.{name}")


@pytest.fixture
def dev():
    return tvm.cpu(0)


@pytest.fixture
def target():
    return "llvm"


def install():
    sys.meta_path.append(MissingFinder())
    for name in COMPILER_PARTS:
        # tvm.ir has the containers, which the package has loaded already.
        if not hasattr(tvm, name):
            stand_in_for(name)
    tvm.testing = sys.modules["tvm.testing"] = Testing("tvm.testing")
    for name in ["build", "lower", "create_schedule", "IRModule", "Target"]:
        if not hasattr(tvm, name):
            setattr(tvm, name, Missing(name=f"tvm.{name}"))


def runtime_names():
    """The named functions of TVM's runtime-only library, without RPC."""
    folder = pathlib.Path(os.environ["TVM_SOURCE"]) / "src" / "runtime"
    names = set()
    for path in [*folder.glob("*.cc"), *folder.glob("graph_executor/**/*.cc")]:
        names.update(re.findall(r'TVM_REGISTER_GLOBAL\("([^"]+)"\)',
                                path.read_text()))
    return {name for name in names if not name.startswith("rpc.")}


RUNTIME_NAMES = runtime_names()
MISSING_NAME = [
    re.compile(r"needs the (compiler) \(([\w.]+)\)"),
    re.compile(r"module 'tvm\.([\w.]*?)\.?_ffi_(?:node_)?api' has no attribute "
               r"'(\w+)'"),
    re.compile(r"Cannot find global function ()([\w.]+)"),
    re.compile(r"no function ()([\w.]+) is registered"),
]
# What the package says itself of objects without a compiler.
NO_PICKLING = "Do not support object serialization in runtime only mode"


def functions_of(trace):
    return [frame.name for frame in traceback.extract_tb(trace)]


def what_is_missing(message):
    """The named function that an error says is not there, or None."""
    for pattern in MISSING_NAME:
        found = pattern.search(message)
        if found:
            return ".".join(part for part in found.groups() if part)
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call():
    global is_in_test  # pylint: disable=global-statement
    is_in_test = True
    outcome = yield
    is_in_test = False
    if outcome.excinfo is None:
        return
    message = str(outcome.excinfo[1])
    name = what_is_missing(message)
    if NO_PICKLING in message:
        name = "pickling"
    # Until 0.10 the package cannot read the traces of Python 3.11.
    if outcome.excinfo[2] and "c2pyerror" in functions_of(outcome.excinfo[2]):
        name = "an older Python"
    if name is not None and name not in RUNTIME_NAMES:
        try:
            pytest.skip(f"needs {name}, which TVM's runtime has not either")
        except pytest.skip.Exception as skipped:
            outcome.force_exception(skipped)


install()
