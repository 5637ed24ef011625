"""With USE_PROFILER OFF nothing of the debug executor is built, and what
asks for it is told which option to set.

Environment: NODEWISE_BUILD is the build folder; what is tested is in its
folder minimal.
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"]) / "minimal"
LIBRARY = BUILD / "lib/libnodewise_runtime.so"
SOURCES = ROOT / "tests/data/libraries"

sys.path.insert(0, str(ROOT / "tests/style"))
import layers_test  # pylint: disable=wrong-import-position

DEVICE, TEXT = 6, 11  # TVM's type codes.


def run(*command):
    return subprocess.run([str(word) for word in command], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          timeout=60, check=False)


def compiled_sources():
    """What the compiler read, files that are compiled together included."""
    read = run("ninja", "-C", BUILD, "-t", "deps").stdout
    return {pathlib.Path(source) for source in
            re.findall(r"(?m)^ +(/.*\.cc)$", read)}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("number", ctypes.c_int32)]


class Value(ctypes.Union):
    _fields_ = [("text", ctypes.c_char_p), ("device", Device)]


class Api:
    """The few calls of the C API that these tests need."""

    def __init__(self):
        self._api = ctypes.CDLL(str(LIBRARY))
        self._api.TVMGetLastError.restype = ctypes.c_char_p

    def names(self):
        count = ctypes.c_int()
        names = ctypes.POINTER(ctypes.c_char_p)()
        self._api.TVMFuncListGlobalNames(ctypes.byref(count),
                                         ctypes.byref(names))
        return [names[i].decode() for i in range(count.value)]

    def named(self, name):
        function = ctypes.c_void_p()
        self._api.TVMFuncGetGlobal(name.encode(), ctypes.byref(function))
        return function

    def of_library(self, path, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._api.TVMModLoadFromFile(str(path).encode(), b"",
                                     ctypes.byref(module))
        self._api.TVMModGetFunction(module, name.encode(), 0,
                                    ctypes.byref(function))
        return function

    def error_of(self, function, *args):
        """The error of a call with (field, value, type code) triples."""
        values = (Value * len(args))(
            *(Value(**{field: value}) for field, value, _ in args))
        codes = (ctypes.c_int * len(args))(*(code for _, _, code in args))
        result, code = Value(), ctypes.c_int()
        if self._api.TVMFuncCall(function, values, codes, len(args),
                                 ctypes.byref(result),
                                 ctypes.byref(code)) == 0:
            return ""
        return self._api.TVMGetLastError().decode()


def debugger_classes():
    """Every class that the headers of the debugger's folders declare."""
    public = ROOT / "runtime/include/nodewise"
    headers = [header for folder in layers_test.DEBUGGER
               for place in (ROOT / folder, public / folder.split("/")[1])
               for header in place.glob("*.h")]
    declared = re.compile(r"^(?:class|struct|enum class) (\w+)[^;]*\{", re.M)
    return {name for header in headers
            for name in declared.findall(header.read_text())}


def make_net(folder):
    """An artefact that runs, in a folder of its own."""
    net = pathlib.Path(folder) / "net"
    net.mkdir()
    run("cc", "-shared", "-fPIC", "-I", ROOT / "runtime/include", "-o",
        net / "lib.so", ROOT / "tests/demo/net.c", "-lm")
    run(sys.executable, ROOT / "tests/demo/make_artefact.py", net)
    return net


class LibraryTest(unittest.TestCase):

    def test_no_symbol_is_of_the_debugger(self):
        # TV-23
        classes = debugger_classes()
        self.assertIn("DebugExecutor", classes)
        symbols = run("nm", "--demangle", LIBRARY).stdout
        present = set(re.findall(r"nodewise::(\w+)", symbols))
        self.assertIn("GraphExecutor", present)
        self.assertEqual(classes & present, set())

    def test_option_is_on_in_the_configuration_file(self):
        # TV-23
        self.assertRegex((ROOT / "config.cmake").read_text(),
                         r"(?m)^set\(USE_PROFILER ON\)$")

    def test_no_source_of_the_debugger_is_compiled(self):
        folders = {source.parent for source in compiled_sources()}
        self.assertIn(ROOT / "runtime/graph", folders)
        for folder in layers_test.DEBUGGER:
            self.assertNotIn(ROOT / folder, folders)

    def test_creators_that_are_registered_only_name_the_option(self):
        api = Api()
        creators = [name for name in api.names()
                    if re.search("debug|profil", name)]
        self.assertIn("tvm.graph_executor_debug.create", creators)
        for name in creators:
            self.assertIn("USE_PROFILER", api.error_of(api.named(name)), name)

    def test_debug_create_of_a_factory_names_the_option(self):
        with tempfile.TemporaryDirectory() as folder:
            blob = pathlib.Path(folder) / "blob.c"
            path = pathlib.Path(folder) / "lib.so"
            run(sys.executable, SOURCES / "make_blob.py", "factory",
                "__tvm_dev_mblob", SOURCES / "add_graph.json", blob,
                pathlib.Path(folder) / "blob.bin")
            run("cc", "-shared", "-fPIC", "-I", ROOT / "runtime/include",
                "-o", path, SOURCES / "add_llvm.c", blob)
            api = Api()
            error = api.error_of(api.of_library(path, "debug_create"),
                                 ("text", b"default", TEXT),
                                 ("device", Device(1, 0), DEVICE))
        self.assertIn("USE_PROFILER", error)


class CommandTest(unittest.TestCase):

    def assert_refused(self, *words):
        shown = run(BUILD / "bin/nodewise", *words)
        self.assertEqual(shown.returncode, 2, shown)
        self.assertEqual(shown.stdout, "")
        self.assertIn(f"nodewise: {words[-1]}: ", shown.stderr)
        self.assertIn("-DUSE_PROFILER=ON", shown.stderr)

    def test_verbs_that_need_the_debugger_name_the_option(self):
        self.assert_refused("profile")
        self.assert_refused("dump")

    def test_verb_with_options_that_this_build_has_not_names_the_option(self):
        shown = run(BUILD / "bin/nodewise", "dump", "net", "--what", "stats")
        self.assertEqual(shown.returncode, 2)
        self.assertIn("USE_PROFILER", shown.stderr)

    def test_help_of_such_a_verb_names_the_option(self):
        self.assert_refused("help", "profile")

    def test_ways_to_look_into_a_run_name_the_option(self):
        for flag in ("--sanitize", "--isolate", "--sweep"):
            self.assert_refused("run", "net", flag)
        for option in ("--until", "--patch", "--stop-on"):
            shown = run(BUILD / "bin/nodewise", "run", "net", option, "a=b")
            self.assertEqual(shown.returncode, 2)
            self.assertIn(f"{option}: needs", shown.stderr)
            self.assertIn("USE_PROFILER", shown.stderr)

    def test_plain_run_works(self):
        with tempfile.TemporaryDirectory() as folder:
            net = make_net(folder)
            shown = run(BUILD / "bin/nodewise", "run", net, "--random-inputs",
                        1)
        self.assertEqual(shown.returncode, 0, shown)

    def test_dump_of_another_build_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            net = make_net(folder)
            dump = pathlib.Path(folder) / "dump"
            run(BUILD.parent / "bin/nodewise", "dump", net, "--random-inputs",
                1, "--dump-root", dump)
            shown = run(BUILD / "bin/nodewise", "inspect", dump)
            expected = run(BUILD.parent / "bin/nodewise", "inspect", dump)
        self.assertEqual(shown.returncode, 0, shown)
        self.assertIn("tensors", shown.stdout)
        self.assertEqual(shown.stdout, expected.stdout)


if __name__ == "__main__":
    unittest.main()
