"""The runtime through Python's ctypes, as bindings of TVM use it.

Environment: NODEWISE_BUILD is the build folder.
"""

import ctypes
import os
import pathlib

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"])
LIBRARIES = BUILD / "tests" / "libraries"

# TVM's codes of what an argument or result is.
INT, HANDLE, NULL, DEVICE, TENSOR, OBJECT, MODULE, FUNCTION, TEXT, BYTES = (
    0, 3, 4, 6, 7, 8, 9, 10, 11, 12)
ARRAY, BOOL = 13, 15


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


class ByteArray(ctypes.Structure):
    """TVMByteArray."""
    _fields_ = [("data", ctypes.POINTER(ctypes.c_char)),
                ("size", ctypes.c_size_t)]


# A callback: arguments, their codes, how many, where the result goes, resource.
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Value), ctypes.POINTER(ctypes.c_int),
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

CPU = ("v_device", Device(1, 0), DEVICE)


def number(value):
    return "v_int64", value, INT


def text(value):
    return "v_str", value.encode(), TEXT


def handle(value, code):
    return "v_handle", value, code


NOTHING = handle(None, NULL)


def floats(values):
    """A float32 tensor and the memory it points to."""
    data = (ctypes.c_float * len(values))(*values)
    shape = (ctypes.c_int64 * 1)(len(values))
    tensor = Tensor(ctypes.addressof(data), Device(1, 0), 1, 2, 32, 1, shape,
                    None, 0)
    return tensor, data


def pack(args):
    """The arrays of values and codes for (field, value, type code) triples."""
    values = (Value * len(args))(
        *(Value(**{field: value}) for field, value, _ in args))
    codes = (ctypes.c_int * len(args))(*(code for _, _, code in args))
    return values, codes


class Runtime:
    def __init__(self):
        self.api = ctypes.CDLL(str(BUILD / "lib" / "libnodewise_runtime.so"),
                               mode=ctypes.RTLD_LOCAL)
        self.api.TVMGetLastError.restype = ctypes.c_char_p

    def check(self, result):
        if result != 0:
            raise RuntimeError(self.api.TVMGetLastError().decode())

    def load(self, path):
        module = ctypes.c_void_p()
        self.check(self.api.TVMModLoadFromFile(
            str(path).encode(), b"", ctypes.byref(module)))
        return module

    def free(self, module):
        self.check(self.api.TVMModFree(module))

    def find(self, module, name):
        """The function of a module, which the caller frees."""
        function = ctypes.c_void_p()
        self.check(self.api.TVMModGetFunction(
            module, name.encode(), 1, ctypes.byref(function)))
        return function

    def find_global(self, name):
        """A registered function, which the caller frees."""
        function = ctypes.c_void_p()
        self.check(self.api.TVMFuncGetGlobal(name.encode(),
                                             ctypes.byref(function)))
        return function

    def call_function(self, function, *args):
        """Calls with (field, value, type code) triples; gives back the value
        and its type code."""
        values, codes = pack(args)
        result, result_code = Value(), ctypes.c_int(-1)
        self.check(self.api.TVMFuncCall(
            function, values, codes, len(args), ctypes.byref(result),
            ctypes.byref(result_code)))
        return result, result_code.value

    def call(self, module, name, *args):
        """Calls a module's function as call_function() does."""
        function = self.find(module, name)
        try:
            return self.call_function(function, *args)
        finally:
            self.api.TVMFuncFree(function)

    def call_global(self, name, *args):
        """Calls a registered function as call_function() does."""
        function = self.find_global(name)
        try:
            return self.call_function(function, *args)
        finally:
            self.api.TVMFuncFree(function)
