"""The source for C++ programs on TVM's headers (apps/tvm_host) cannot be
compiled without them; tests/hosts does it where a checkout of TVM is at hand.
Here: what it calls is there.
"""

import ctypes
import pathlib
import re
import unittest

from c_api import Runtime

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "apps/tvm_host"
# Macros of TVM's headers, not functions of its C API.
MACROS = re.compile("TVM_|TVMArgs$|TVMArgsSetter$|TVMArgValue$|TVMRetValue$")


class TvmHostTest(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()
        self.source = "\n".join(path.read_text()
                                for path in sorted(FOLDER.iterdir()))

    def test_named_functions_that_it_calls_are_there(self):
        names = set(re.findall(r'"(runtime\.[A-Z]\w+)"', self.source))
        types = {"runtime.String", "runtime.ShapeTuple", "runtime.ADT",
                 "runtime.Object"}
        self.assertGreater(len(names), 15)
        for name in sorted(names - {"runtime.Object"}):
            with self.subTest(name=name):
                function = self.runtime.find_global(name)
                self.assertIsNotNone(function.value)
                self.runtime.api.TVMFuncFree(function)
        for name in sorted(types | {"Array", "Map"}):
            index = ctypes.c_uint()
            self.runtime.check(self.runtime.api.TVMObjectTypeKey2Index(
                name.encode(), ctypes.byref(index)))

    def test_functions_of_the_c_api_that_it_calls_are_exported(self):
        names = {name for name in re.findall(r"\b(TVM\w+)\(", self.source)
                 if not MACROS.match(name)}
        self.assertGreater(len(names), 20)
        for name in sorted(names):
            self.assertTrue(hasattr(self.runtime.api, name), name)


if __name__ == "__main__":
    unittest.main()
