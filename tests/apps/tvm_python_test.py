"""The calls that TVM's Python package makes, of every version, without TVM.

The package is plain ctypes over TVM's C API: what is passed here is what its
releases 0.8 to 0.19 pass, argument by argument.
"""

import ctypes
import gc
import struct
import sys
import unittest

from c_api import (ARRAY, BYTES, CALLBACK, CPU, HANDLE, INT, LIBRARIES, MODULE,
                   NOTHING, OBJECT, FUNCTION, ByteArray, Runtime, Tensor, Value,
                   floats, handle, number, pack, text)

EXISTS, WARP_SIZE = 0, 2


class PythonHost:
    """What the package keeps of callbacks and exceptions. `counts` are the
    functions that it registers to count references with."""

    def __init__(self, runtime, counts):
        self._api = runtime.api
        self._api.TVMGetLastPythonError.restype = ctypes.c_void_p
        self._kept = []
        for name, function in counts.items():
            assert self._api.TVMBackendRegisterEnvCAPI(
                name.encode(), function) == 0

    def function(self, body):
        """A function of the runtime that calls `body` with nothing; what that
        raises is handed to the runtime as the package does it."""
        def callback(_args, _codes, _count, _result, _resource):
            try:
                body()
            except Exception as error:  # pylint: disable=broad-except
                self._api.TVMAPISetLastPythonError(ctypes.py_object(error))
                return -1
            return 0
        self._kept.append(CALLBACK(callback))
        made = ctypes.c_void_p()
        assert self._api.TVMFuncCreateFromCFunc(
            self._kept[-1], None, None, ctypes.byref(made)) == 0
        return made

    def call(self, function, *args):
        """Calls; raises the exception of the callback that failed."""
        values, codes = pack(args)
        result, code = Value(), ctypes.c_int()
        if self._api.TVMFuncCall(function, values, codes, len(args),
                                 ctypes.byref(result),
                                 ctypes.byref(code)) == 0:
            return
        raised = self._api.TVMGetLastPythonError()
        if raised is None:
            raise RuntimeError(self._api.TVMGetLastError())
        error = ctypes.cast(ctypes.c_void_p(raised), ctypes.py_object).value
        self._api.TVMDropLastPythonError()
        raise error


class CallsTest(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()

    def shape(self, *dims):
        made, code = self.runtime.call_global(
            "runtime.ShapeTuple", *(number(dim) for dim in dims))
        self.assertEqual(code, OBJECT)
        self.addCleanup(self.runtime.api.TVMObjectFree,
                        ctypes.c_void_p(made.v_handle))
        return handle(made.v_handle, OBJECT)

    def array(self, name, *args):
        """The DLTensor that a function makes."""
        made, code = self.runtime.call_global(name, *args)
        self.assertEqual(code, ARRAY)
        pointer = ctypes.cast(made.v_handle, ctypes.POINTER(Tensor))
        self.addCleanup(self.runtime.api.TVMArrayFree, pointer)
        return pointer

    def dims_of(self, array):
        return array.contents.shape[:array.contents.rank]

    def filled(self, *values):
        array = self.array("runtime.TVMArrayAllocWithScope",
                           self.shape(len(values)), text("float32"), CPU,
                           NOTHING)
        data = (ctypes.c_float * len(values))(*values)
        self.runtime.check(self.runtime.api.TVMArrayCopyFromBytes(
            array, data, ctypes.c_size_t(ctypes.sizeof(data))))
        return array

    def values_of(self, array, count):
        data = (ctypes.c_float * count)()
        self.runtime.check(self.runtime.api.TVMArrayCopyToBytes(
            array, data, ctypes.c_size_t(ctypes.sizeof(data))))
        return list(data)

    def test_nd_empty_of_08_passes_a_pointer(self):
        dims = (ctypes.c_int64 * 2)(2, 3)
        array = self.array(
            "runtime.TVMArrayAllocWithScope",
            handle(ctypes.addressof(dims), HANDLE), number(2),
            text("float32"), CPU, NOTHING)
        self.assertEqual(self.dims_of(array), [2, 3])

    def test_nd_empty_since_09_passes_a_shape_tuple(self):
        array = self.array("runtime.TVMArrayAllocWithScope", self.shape(2, 3),
                           text("int8"), CPU, text("global"))
        self.assertEqual(self.dims_of(array), [2, 3])
        self.assertEqual((array.contents.code, array.contents.bits), (0, 8))

    def test_nd_array_copies_in_and_out(self):
        # TV-31
        self.assertEqual(self.values_of(self.filled(1, 2, 3), 3), [1, 2, 3])

    def test_view_of_09_has_another_shape(self):
        view = self.array("runtime.TVMArrayCreateView",
                          handle(ctypes.addressof(self.filled(1, 2, 3, 4)
                                                  .contents), ARRAY),
                          self.shape(2, 2))
        self.assertEqual(self.dims_of(view), [2, 2])
        self.assertEqual(self.values_of(view, 4), [1, 2, 3, 4])

    def test_view_since_017_has_a_type_and_an_offset_too(self):
        view = self.array("runtime.TVMArrayCreateView",
                          handle(ctypes.addressof(self.filled(1, 2, 3, 4)
                                                  .contents), ARRAY),
                          self.shape(2), text("float32"), number(8))
        self.assertEqual(self.values_of(view, 2), [3, 4])

    def test_device_says_whether_it_is_there(self):
        for device, there in ((1, 1), (2, 0), (4, 0)):
            found, _ = self.runtime.call_global(
                "runtime.GetDeviceAttr", number(device), number(0),
                number(EXISTS))
            self.assertEqual(found.v_int64, there)
        _, code = self.runtime.call_global(
            "runtime.GetDeviceAttr", number(1), number(0), number(WARP_SIZE))
        self.assertEqual(code, 4)  # None in Python.

    def seconds(self, *timing):
        """What time_evaluator() reads of the executor's `run`."""
        library = self.runtime.load(LIBRARIES / "factory.so")
        created, _ = self.runtime.call(library, "default", CPU)
        x, _data = floats([1, 2, 3, 4])
        self.runtime.call(ctypes.c_void_p(created.v_handle), "set_input",
                          text("x"), handle(ctypes.addressof(x), 7))
        evaluator, code = self.runtime.call_global(
            "runtime.RPCTimeEvaluator", handle(created.v_handle, MODULE),
            text("run"), number(1), number(0), *timing)
        self.assertEqual(code, FUNCTION)
        function = ctypes.c_void_p(evaluator.v_handle)
        blob, code = self.runtime.call_function(function)
        self.assertEqual(code, BYTES)
        array = ctypes.cast(blob.v_handle, ctypes.POINTER(ByteArray)).contents
        seconds = struct.unpack(f"@{array.size // 8}d",
                                array.data[:array.size])
        self.runtime.api.TVMFuncFree(function)
        self.runtime.free(ctypes.c_void_p(created.v_handle))
        self.runtime.free(library)
        return seconds

    def test_time_evaluator_of_every_version(self):
        preprocess = text("cache_flush_cpu_non_first_arg")
        for version, rest in (
                ("0.8", [text("")]),
                ("0.9", [number(0), number(1), text("")]),
                ("0.10 to 0.13", [number(100), number(0), number(1),
                                  preprocess]),
                ("0.14", [number(100), number(0), number(1), number(1 << 20),
                          text("")])):
            with self.subTest(version=version):
                found = self.seconds(number(5), number(3), number(0), *rest)
                self.assertEqual(len(found), 3)
                self.assertTrue(all(second > 0 for second in found), found)

    def test_module_says_what_it_implements_itself(self):
        library = self.runtime.load(LIBRARIES / "factory.so")
        name = text("tvmgen_default_fused_add")
        for query, answer in ((0, 0), (1, 1)):
            found, code = self.runtime.call_global(
                "runtime.ModuleImplementsFunction",
                handle(library.value, MODULE), name, number(query))
            self.assertEqual((found.v_int64, code), (answer, INT))
        self.runtime.free(library)

    def test_tuples_and_adts_are_taken_apart(self):
        array = self.filled(1)
        made, _ = self.runtime.call_global(
            "runtime.ADT", number(7),
            handle(ctypes.addressof(array.contents), ARRAY))
        adt = handle(made.v_handle, OBJECT)
        tag, _ = self.runtime.call_global("runtime.GetADTTag", adt)
        size, _ = self.runtime.call_global("runtime.GetADTSize", adt)
        field, code = self.runtime.call_global("runtime.GetADTFields", adt,
                                               number(0))
        self.assertEqual((tag.v_int64, size.v_int64, code), (7, 1, ARRAY))
        self.runtime.api.TVMArrayFree(ctypes.c_void_p(field.v_handle))
        self.runtime.api.TVMObjectFree(ctypes.c_void_p(made.v_handle))


class Refusal(Exception):
    """Raised by callbacks; no other test has one."""


class ExceptionsTest(unittest.TestCase):
    """A callback that raises, under the counting that each release brings."""

    def setUp(self):
        self.runtime = Runtime()
        self.ups = self.downs = 0

    def stand_ins(self):
        """Py_IncRef and Py_DecRef of a test."""
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        real = {name: getattr(ctypes.pythonapi, name)
                for name in ("Py_IncRef", "Py_DecRef")}
        for function in real.values():
            function.argtypes = [ctypes.c_void_p]
            function.restype = None

        def count_up(value):
            self.ups += 1
            real["Py_IncRef"](value)

        def count_down(value):
            self.downs += 1
            real["Py_DecRef"](value)
        self.kept = kind(count_up), kind(count_down)
        return {"Py_IncRef": self.kept[0], "Py_DecRef": self.kept[1]}

    def release_014(self):
        return {name: getattr(ctypes.pythonapi, name)
                for name in ("Py_IncRef", "Py_DecRef")}

    def release_019(self):
        return {name: getattr(ctypes.pythonapi, name)
                for name in ("Py_IncRef", "Py_DecRef", "PyGILState_Ensure",
                             "PyGILState_Release", "PyErr_CheckSignals")}

    def tearDown(self):
        # The test's functions disappear with it; Python's own stay.
        PythonHost(self.runtime, self.release_019())

    def raise_three_deep(self, host):
        """Raises in a callback below two others; gives the exception back."""
        error = Refusal("from the callback")

        def raises():
            raise error
        inner = host.function(raises)
        middle = host.function(lambda: host.call(inner))
        outer = host.function(lambda: host.call(middle))
        with self.assertRaises(Refusal) as caught:
            host.call(outer)
        self.assertIs(caught.exception, error)
        return error

    def test_exception_comes_back_from_three_callbacks_deep(self):
        for counts in self.release_014, self.release_019, self.stand_ins:
            with self.subTest(counts=counts.__name__):
                self.raise_three_deep(PythonHost(self.runtime, counts()))

    def test_exception_comes_back_through_a_kernel(self):
        host = PythonHost(self.runtime, self.release_019())

        def raises():
            raise Refusal("below a kernel")
        library = self.runtime.load(LIBRARIES / "closure_llvm.so")
        kernel = self.runtime.find(library, "calls_argument")
        callback = host.function(raises)
        with self.assertRaises(Refusal):
            host.call(kernel, handle(callback.value, FUNCTION))

    def test_every_reference_is_given_back(self):
        host = PythonHost(self.runtime, self.stand_ins())
        for _ in range(50):
            self.raise_three_deep(host)
        self.assertEqual(self.ups, self.downs)
        self.assertGreaterEqual(self.ups, 50)

    def test_no_exception_is_kept(self):
        host = PythonHost(self.runtime, self.release_019())
        error = self.raise_three_deep(host)
        error.__traceback__ = None
        del host  # The host's callbacks refer to the exception.
        gc.collect()
        # `error` and the argument of getrefcount().
        self.assertEqual(sys.getrefcount(error), 2)

    def test_later_failure_raises_no_stale_exception(self):
        host = PythonHost(self.runtime, self.release_019())

        def raises():
            raise Refusal("once")
        function = host.function(raises)
        self.assertEqual(self.runtime.api.TVMFuncCall(
            function, None, None, 0, None, None), -1)
        with self.assertRaisesRegex(RuntimeError, "/nowhere.so"):
            self.runtime.load("/nowhere.so")
        self.assertIsNone(self.runtime.api.TVMGetLastPythonError())


if __name__ == "__main__":
    unittest.main()
