"""The runtime from Python's ctypes, which loads it privately: the undefined
symbols of a library of TVM's C target must be found all the same.
"""

import ctypes
import unittest

from c_api import CPU, LIBRARIES, MODULE, TENSOR, Runtime, floats, handle
from c_api import number, text


class CtypesTest(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()

    def run_artefact(self, name):
        """The output for x = 1, 2, 3, 4."""
        library = self.runtime.load(LIBRARIES / f"{name}.so")
        created, code = self.runtime.call(library, "default", CPU)
        self.assertEqual(code, MODULE)
        executor = ctypes.c_void_p(created.v_handle)
        x, _x_data = floats([1, 2, 3, 4])
        out, out_data = floats([0, 0, 0, 0])
        self.runtime.call(executor, "set_input", text("x"),
                          handle(ctypes.addressof(x), TENSOR))
        self.runtime.call(executor, "run")
        self.runtime.call(executor, "get_output", number(0),
                          handle(ctypes.addressof(out), TENSOR))
        self.runtime.free(executor)
        self.runtime.free(library)
        return list(out_data)

    def test_c_target_finds_the_runtime(self):
        self.assertEqual(self.run_artefact("factory_c"), [11, 22, 33, 44])

    def test_llvm_target_runs(self):
        self.assertEqual(self.run_artefact("factory"), [11, 22, 33, 44])

    def test_errors_become_messages(self):
        with self.assertRaisesRegex(RuntimeError, "/nowhere/net.so"):
            self.runtime.load("/nowhere/net.so")


if __name__ == "__main__":
    unittest.main()
