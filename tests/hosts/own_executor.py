"""Runs an artefact with a runtime of TVM 0.8 to 0.19, over its C API:

    own_executor.py LIBTVM_RUNTIME FOLDER INPUTS.npz OUTPUTS.npz

TVM's Python package needs its compiler for some imports; this needs numpy.
"""

import ctypes
import pathlib
import sys

import numpy as np

INT, HANDLE, TENSOR, MODULE, TEXT, BYTES = 0, 3, 7, 9, 11, 12
TYPES = {np.dtype(np.float32): (2, 32), np.dtype(np.int64): (0, 64)}


class Value(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("pointer", ctypes.c_void_p),
                ("text", ctypes.c_char_p)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int),
                ("device_id", ctypes.c_int), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Runtime:
    """The functions of TVM's C API that this needs."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        self.library.TVMGetLastError.restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            sys.exit(self.library.TVMGetLastError().decode())

    def call(self, function, *arguments):
        values = (Value * max(len(arguments), 1))()
        codes = (ctypes.c_int * max(len(arguments), 1))()
        for i, (code, argument) in enumerate(arguments):
            codes[i] = code
            if code == INT:
                values[i].integer = argument
            elif code == TEXT:
                values[i].text = argument
            else:
                values[i].pointer = argument
        result, code = Value(), ctypes.c_int()
        self.check(self.library.TVMFuncCall(
            function, values, codes, len(arguments), ctypes.byref(result),
            ctypes.byref(code)))
        return result

    def method(self, module, name):
        function = ctypes.c_void_p()
        self.check(self.library.TVMModGetFunction(
            module, name, 0, ctypes.byref(function)))
        return function

    def executor(self, folder):
        module, create = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.TVMModLoadFromFile(
            str(folder / "lib.so").encode(), b"so", ctypes.byref(module)))
        self.check(self.library.TVMFuncGetGlobal(
            b"tvm.graph_executor.create", ctypes.byref(create)))
        graph = (folder / "graph.json").read_bytes()
        cpu = (INT, 1), (INT, 0)
        return ctypes.c_void_p(self.call(
            create, (TEXT, graph), (MODULE, module.value), *cpu).pointer)


def tensor_of(array):
    code, bits = TYPES[array.dtype]
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(array.ctypes.data, 1, 0, array.ndim, code, bits, 1, shape,
                  None, 0)


def array_of(tensor):
    dtype = next(key for key, value in TYPES.items()
                 if value == (tensor.code, tensor.bits))
    shape = tensor.shape[:tensor.ndim]
    size = int(np.prod(shape)) * dtype.itemsize
    data = ctypes.string_at(tensor.data + tensor.offset, size)
    return np.frombuffer(data, dtype).reshape(shape)


def main(library, folder, inputs, outputs):
    folder = pathlib.Path(folder)
    runtime = Runtime(library)
    executor = runtime.executor(folder)
    params = (folder / "params.params").read_bytes()
    blob = Bytes(params, len(params))
    runtime.call(runtime.method(executor, b"load_params"),
                 (BYTES, ctypes.addressof(blob)))
    for name, array in np.load(inputs).items():
        tensor = tensor_of(np.ascontiguousarray(array))
        runtime.call(runtime.method(executor, b"set_input"),
                     (TEXT, name.encode()), (TENSOR, ctypes.addressof(tensor)))
    runtime.call(runtime.method(executor, b"run"))
    count = runtime.call(runtime.method(executor, b"get_num_outputs")).integer
    get = runtime.method(executor, b"get_output")
    made = [runtime.call(get, (INT, i)).pointer for i in range(count)]
    np.savez(outputs, *(array_of(ctypes.cast(
        tensor, ctypes.POINTER(Tensor)).contents) for tensor in made))


if __name__ == "__main__":
    main(*sys.argv[1:])
