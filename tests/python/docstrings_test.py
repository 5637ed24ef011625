"""The examples in the docstrings of the package, each run by itself in a
folder with a model and a wrong build of it."""

import doctest
import inspect
import os
import pathlib
import sys
import types
import unittest

import package_support
from package_support import HAS_NATIVE, nodewise, numpy, onnxruntime

sys.path.insert(0, str(package_support.ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import WithBuilds, image_network  # noqa: E402

from nodewise import autotest, testing  # noqa: E402

# What has no example that runs here, and why.
LEFT_OUT = {
    "nodewise.trace_vm": "needs TVM; tvm_page_test.py runs the page's",
    "nodewise.VmTrace": "needs TVM; tvm_page_test.py runs the page's",
}
NEEDS_NATIVE = ("Session", "Tensor", "TensorFile", "load", "tensors", "dump",
                "run")


def public():
    """The names that a user may import, and what they stand for."""
    for module in (nodewise, testing, autotest):
        yield module.__name__, module
        for name in module.__all__:
            if not HAS_NATIVE and name in NEEDS_NATIVE:
                continue
            value = getattr(module, name)
            if not isinstance(value, types.ModuleType):
                yield f"{module.__name__}.{name}", value


def names_of(name):
    """What an example may use without importing it."""
    names = {"nodewise": nodewise, "numpy": numpy, "pathlib": pathlib,
             "onnxruntime": onnxruntime, "os": os}
    if name.startswith("nodewise.testing"):
        names |= {each: getattr(testing, each) for each in testing.__all__}
    if name.startswith("nodewise.autotest"):
        names |= {each: getattr(autotest, each) for each in autotest.__all__}
        names["both"] = autotest.dual(numpy, numpy)
    return names


class DocstringsTest(WithBuilds):
    def test_every_public_name_has_an_example(self):
        lacks = [name for name, value in public() if name not in LEFT_OUT and
                 ">>> " not in (inspect.getdoc(value) or "")]
        self.assertEqual(lacks, [])
        self.assertLessEqual(set(LEFT_OUT), {name for name, _ in public()})

    def test_every_example_prints_what_it_says(self):
        self.write("model.onnx", image_network())
        self.compiled("net", image_network("AveragePool"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        parser, ran = doctest.DocTestParser(), 0
        for name, value in public():
            if name in LEFT_OUT:
                continue
            test = parser.get_doctest(inspect.getdoc(value), names_of(name),
                                      name, None, 0)
            said = []
            runner = doctest.DocTestRunner(
                optionflags=doctest.NORMALIZE_WHITESPACE)
            with self.subTest(name):
                found = runner.run(test, out=said.append)
                self.assertEqual(found.failed, 0, "".join(said))
                ran += found.attempted
        self.assertGreater(ran, 100)


if __name__ == "__main__":
    unittest.main()
