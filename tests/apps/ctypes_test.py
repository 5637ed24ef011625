"""The runtime from Python's ctypes, which loads it privately: the undefined
symbols of a library of TVM's C target must be found all the same.
"""

import ctypes
import unittest

import support
from c_api import BYTES, CPU, INT, LIBRARIES, MODULE, TENSOR, TEXT, ByteArray
from c_api import Runtime, floats, handle, number, text

FACTORY = LIBRARIES / "factory.so"
DEVICE = "_tvmdbg_device_CPU_0"


def output_of(runtime, executor):
    """The output for x = 1, 2, 3, 4."""
    x, _x_data = floats([1, 2, 3, 4])
    out, out_data = floats([0, 0, 0, 0])
    runtime.call(executor, "set_input", text("x"),
                 handle(ctypes.addressof(x), TENSOR))
    runtime.call(executor, "run")
    runtime.call(executor, "get_output", number(0),
                 handle(ctypes.addressof(out), TENSOR))
    return list(out_data)


class CtypesTest(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()

    def run_artefact(self, name):
        """The output for x = 1, 2, 3, 4."""
        library = self.runtime.load(LIBRARIES / f"{name}.so")
        created, code = self.runtime.call(library, "default", CPU)
        self.assertEqual(code, MODULE)
        executor = ctypes.c_void_p(created.v_handle)
        output = output_of(self.runtime, executor)
        self.runtime.free(executor)
        self.runtime.free(library)
        return output

    def test_c_target_finds_the_runtime(self):
        self.assertEqual(self.run_artefact("factory_c"), [11, 22, 33, 44])

    def test_llvm_target_runs(self):
        self.assertEqual(self.run_artefact("factory"), [11, 22, 33, 44])

    def test_errors_become_messages(self):
        with self.assertRaisesRegex(RuntimeError, "/nowhere/net.so"):
            self.runtime.load("/nowhere/net.so")


class DebuggerTest(support.Scratch):
    """A host that asks for the debug executor; all else stays as it was."""

    def setUp(self):
        super().setUp()
        self.runtime = Runtime()
        self.library = self.runtime.load(FACTORY)
        self.addCleanup(self.runtime.free, self.library)

    def module(self, created):
        value, code = created
        self.assertEqual(code, MODULE)
        executor = ctypes.c_void_p(value.v_handle)
        self.addCleanup(self.runtime.free, executor)
        return executor

    def graph_json(self):
        value, code = self.runtime.call(self.library, "get_graph_json")
        self.assertEqual(code, TEXT)
        return value.v_str.decode()

    def created_from_parts(self):
        return self.module(self.runtime.call_global(
            "tvm.graph_executor_debug.create", text(self.graph_json()),
            handle(self.library.value, MODULE), number(1), number(0)))

    def test_one_line_makes_the_debug_executor_of_a_factory(self):
        # TV-23, TV-25, TV-26
        for create in (["default", CPU],
                       ["debug_create", text("default"), CPU]):
            with self.subTest(create=create[0]):
                executor = self.module(self.runtime.call(self.library,
                                                         *create))
                self.assertEqual(output_of(self.runtime, executor),
                                 [11, 22, 33, 44])
                count, code = self.runtime.call(executor, "get_num_inputs")
                self.assertEqual((count.v_int64, code), (2, INT))
                # Only one that can debug knows what nodes make.
                function = self.runtime.find(executor, "debug_get_output")
                self.assertEqual(bool(function), create[0] != "default")
                if function:
                    self.runtime.api.TVMFuncFree(function)

    def test_run_records_nothing_unless_a_root_is_set(self):
        # TV-30
        executor = self.created_from_parts()
        p0, _p0_data = floats([5, 5, 5, 5])
        self.runtime.call(executor, "set_input", text("p0"),
                          handle(ctypes.addressof(p0), TENSOR))
        output_of(self.runtime, executor)
        folder, _ = self.runtime.call(executor, "nodewise.get_dump_folder")
        self.assertEqual(folder.v_str, b"")

    def test_library_graph_and_device_make_one_that_dumps_to_its_root(self):
        # TV-27, TV-32, TV-33
        executor = self.created_from_parts()
        self.runtime.call(executor, "nodewise.set_dump_root",
                          text(str(self.folder)))
        p0, _p0_data = floats([5, 5, 5, 5])
        self.runtime.call(executor, "set_input", text("p0"),
                          handle(ctypes.addressof(p0), TENSOR))
        self.assertEqual(output_of(self.runtime, executor), [6, 7, 8, 9])
        dumped = self.folder / DEVICE / "_nodewise_graph.json"
        self.assertEqual(dumped.read_text(), self.graph_json())

    def test_bytes_of_a_dump_are_parameters(self):
        # TV-22
        inputs = self.write("x.params", support.params_bytes(
            {"x": support.Tensor("float32", (4,), (1, 2, 3, 4))}))
        dumped = support.nodewise("dump", FACTORY, "--inputs", inputs,
                                  "--dump-root", self.folder)
        self.assertEqual(dumped.code, 0, dumped)
        data = (self.folder / DEVICE / "output_tensors.params").read_bytes()
        held = ctypes.create_string_buffer(data, len(data))
        given = ByteArray(ctypes.cast(held, ctypes.POINTER(ctypes.c_char)),
                          len(data))
        executor = self.created_from_parts()
        known, code = self.runtime.call(
            executor, "load_params", handle(ctypes.addressof(given), BYTES))
        self.assertEqual((known.v_int64, code), (2, INT))
        self.runtime.call(executor, "run")
        out, out_data = floats([0, 0, 0, 0])
        self.runtime.call(executor, "get_output", number(0),
                          handle(ctypes.addressof(out), TENSOR))
        self.assertEqual(list(out_data), [11, 22, 33, 44])


if __name__ == "__main__":
    unittest.main()
