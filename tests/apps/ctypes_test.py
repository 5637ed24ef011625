"""The runtime from Python's ctypes, which loads it privately: the undefined
symbols of a library of TVM's C target must be found all the same.

Environment: NODEWISE_BUILD is the build folder.
"""

import ctypes
import os
import pathlib
import unittest

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"])
LIBRARIES = BUILD / "tests" / "libraries"

INT, TENSOR, DEVICE, MODULE, TEXT = 0, 7, 6, 9, 11


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class Value(ctypes.Union):
    _fields_ = [("v_int64", ctypes.c_int64), ("v_float64", ctypes.c_double),
                ("v_handle", ctypes.c_void_p), ("v_str", ctypes.c_char_p),
                ("v_device", Device)]


class Tensor(ctypes.Structure):
    """DLTensor."""
    _fields_ = [("data", ctypes.c_void_p), ("device", Device),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def floats(values):
    """A float32 tensor and the memory it points to."""
    data = (ctypes.c_float * len(values))(*values)
    shape = (ctypes.c_int64 * 1)(len(values))
    tensor = Tensor(ctypes.addressof(data), Device(1, 0), 1, 2, 32, 1, shape,
                    None, 0)
    return tensor, data


class Runtime:
    def __init__(self):
        self._api = ctypes.CDLL(str(BUILD / "lib" / "libnodewise_runtime.so"),
                                mode=ctypes.RTLD_LOCAL)
        self._api.TVMGetLastError.restype = ctypes.c_char_p

    def _check(self, result):
        if result != 0:
            raise RuntimeError(self._api.TVMGetLastError().decode())

    def load(self, path):
        module = ctypes.c_void_p()
        self._check(self._api.TVMModLoadFromFile(
            str(path).encode(), b"", ctypes.byref(module)))
        return module

    def free(self, module):
        self._check(self._api.TVMModFree(module))

    def call(self, module, name, *args):
        """Calls with (field, value, type code) triples; gives back the value
        and its type code."""
        function = ctypes.c_void_p()
        self._check(self._api.TVMModGetFunction(
            module, name.encode(), 1, ctypes.byref(function)))
        values = (Value * len(args))(
            *(Value(**{field: value}) for field, value, _ in args))
        codes = (ctypes.c_int * len(args))(*(code for _, _, code in args))
        result, result_code = Value(), ctypes.c_int(-1)
        try:
            self._check(self._api.TVMFuncCall(
                function, values, codes, len(args), ctypes.byref(result),
                ctypes.byref(result_code)))
        finally:
            self._api.TVMFuncFree(function)
        return result, result_code.value


class CtypesTest(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()

    def run_artefact(self, name):
        """The output for x = 1, 2, 3, 4."""
        library = self.runtime.load(LIBRARIES / f"{name}.so")
        created, code = self.runtime.call(
            library, "default", ("v_device", Device(1, 0), DEVICE))
        self.assertEqual(code, MODULE)
        executor = ctypes.c_void_p(created.v_handle)
        x, _x_data = floats([1, 2, 3, 4])
        out, out_data = floats([0, 0, 0, 0])
        self.runtime.call(executor, "set_input", ("v_str", b"x", TEXT),
                          ("v_handle", ctypes.addressof(x), TENSOR))
        self.runtime.call(executor, "run")
        self.runtime.call(executor, "get_output", ("v_int64", 0, INT),
                          ("v_handle", ctypes.addressof(out), TENSOR))
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
