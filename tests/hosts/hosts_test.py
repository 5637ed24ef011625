"""Programs written for TVM, Python and C++, on this runtime in TVM's place.

Environment: NODEWISE_BUILD is the build folder; TVM_SOURCE names checkouts of
TVM's repository with their submodules, one or several separated by colons, of
any release from 0.8 to 0.19. Nothing of them is kept.
"""

import itertools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (FLOAT, onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        proto_tensor, value_info)

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
TVM_HOST = HERE.parents[1] / "apps/tvm_host/tvm_host.cc"
CPP_HOST = [HERE / "cpp_host.cc", HERE / "cpp_host_values.cc"]
PYTHON = BUILD / "hosts_venv/bin/python"
LIBRARIES = [BUILD / "tests/libraries" / f"{name}.so"
             for name in ("factory", "closure_llvm")]
CHECKOUTS = [pathlib.Path(path).resolve()
             for path in os.environ.get("TVM_SOURCE", "").split(":") if path]

# TVM's own tests in C++ that use the runtime only, and those of their cases
# that ask for what this runtime does not do.
CPP_TESTS = ["object_protocol_test", "ndarray_test", "threading_backend_test",
             "profiling_test", "random_engine_test"]
LEFT_OUT = "-ThreadingBackend.TVMBackendAffinityConfigure"  # Threads roam.

# TVM's tests in Python that may have a case without a compiler.
PYTHON_TESTS = ["test_runtime_*.py", "test_evaluator*.py",
                "test_ir_container.py", "test_param_dict.py",
                "test_roundtrip_runtime_module.py"]
# Cases that ask for the words of TVM's messages; the kind of the error is right.
OTHER_WORDS = ["test_view_larger_than_original_is_invalid",
               "test_view_entirely_outside_bounds_of_original_is_invalid",
               "test_view_partially_outside_bounds_of_original_is_invalid",
               "test_subview_must_be_in_range_of_immediate_parent"]
# What a runtime that runs graphs is made of.
RUNTIME_SOURCES = ["*.cc", "graph_executor/graph_executor.cc",
                   "graph_executor/graph_executor_factory.cc",
                   "memory/*.cc", "minrpc/*.cc"]
# Tests of RPC, of the old VM and of CUDA need what is missing here.
NOT_OURS = re.compile("rpc|vm_profiler|cuda_graph|disco")


def run(command, folder, **variables):
    """What a command printed; the test fails with that if it does."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **{k: str(v) for k, v in variables.items()}},
        check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}\n"
                             f"{done.stdout}")
    return done.stdout


def release_of(checkout):
    header = checkout / "include/tvm/runtime/c_runtime_api.h"
    if not header.exists():
        return None
    return re.search('TVM_VERSION "(.*)"', header.read_text()).group(1)


class Host(unittest.TestCase):
    """The tests of one checkout; subclasses name it."""
    checkout = None

    def setUp(self):
        if self.checkout is None:
            self.skipTest("TVM_SOURCE names no checkout of TVM 0.8 to 0.19")
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        os.symlink(BUILD / "lib/libnodewise_runtime.so",
                   self.folder / "libtvm_runtime.so")

    def python(self, *words, package=None, **variables):
        if not PYTHON.exists():
            self.skipTest("the packages that TVM imports are not installed")
        path = [str(package or self.checkout / "python"), str(HERE)]
        return run([PYTHON, *words], self.folder,
                   **{"TVM_FFI": "ctypes", "TVM_USE_RUNTIME_LIB": 1,
                      "TVM_LIBRARY_PATH": self.folder,
                      "TVM_SOURCE": self.checkout,
                      "PYTHONDONTWRITEBYTECODE": 1,
                      "PYTHONPATH": ":".join(path), **variables})

    def test_python_program(self):
        # TV-26, TV-31, TV-32
        self.python(HERE / "python_host.py", *LIBRARIES)

    def test_python_program_through_cython(self):
        if not PYTHON.exists():
            self.skipTest("the packages that TVM imports are not installed")
        # TVM's setup must be beside the headers, and writes into its own
        # folder.
        for part in self.checkout.iterdir():
            if part.name != "python":
                os.symlink(part, self.folder / part.name)
        package = self.folder / "python"
        shutil.copytree(self.checkout / "python", package)
        run([PYTHON, "setup.py", "build_ext", "--inplace"], package,
            TVM_LIBRARY_PATH=self.folder, TVM_USE_RUNTIME_LIB=1,
            CFLAGS="-O0")
        self.assertTrue(list(package.rglob("core.*.so")))
        self.python(HERE / "python_host.py", *LIBRARIES, package=package,
                    TVM_FFI="cython")

    def test_tvms_own_python_tests(self):
        folder = self.checkout / "tests/python"
        files = [path for pattern in PYTHON_TESTS
                 for path in sorted(folder.glob(f"*/{pattern}"))
                 if not NOT_OURS.search(path.name)]
        out = self.python(
            "-m", "pytest", "-q", "-p", "tvm_tests_plugin", "-p",
            "no:cacheprovider", "--noconftest", f"--rootdir={self.folder}",
            "-k", " and ".join(f"not {name}" for name in OTHER_WORDS), *files)
        passed = re.search(r"(\d+) passed", out)
        self.assertTrue(passed and int(passed.group(1)) > 0, out)
        print(out.splitlines()[-1])

    def compile(self, name, sources, *options):
        """A program on TVM's headers, and what they need, with ours linked in
        the place of TVM's library."""
        includes = [self.checkout / "include",
                    self.checkout / "3rdparty/dlpack/include",
                    self.checkout / "3rdparty/dmlc-core/include"]
        for include in includes:
            if not include.exists():
                self.skipTest(f"the checkout has no {include.parent.name}: "
                              "fetch its submodules")
        run(["g++", "-std=c++17", "-g", "-w",
             "-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>",
             *(f"-isystem{include}" for include in includes), *sources,
             TVM_HOST, "-o", name, f"-L{self.folder}", "-ltvm_runtime",
             f"-Wl,-rpath,{BUILD / 'lib'}", *options], self.folder)
        return self.folder / name

    def tvms_own_runtime(self):
        """TVM's runtime, compiled from the checkout and kept in the build."""
        library = BUILD / f"tvm_runtime/{release_of(self.checkout)}.so"
        if library.exists():
            return library
        source = self.checkout / "src/runtime"
        third = self.checkout / "3rdparty"
        includes = [self.checkout / "include", source, self.checkout,
                    third / "compiler-rt", third / "dlpack/include",
                    third / "dmlc-core/include"]
        compiles = "\n".join(
            f"g++ -std=c++17 -O1 -fPIC -w -DTVM_KALLOC_ALIGNMENT=64 "
            f"-DTVM_THREADPOOL_USE_OPENMP=0 "
            f"'-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>' "
            f"{' '.join(f'-I{include}' for include in includes)} "
            f"-c {path} -o {number}.o"
            for number, path in enumerate(itertools.chain.from_iterable(
                sorted(source.glob(pattern)) for pattern in RUNTIME_SOURCES)))
        (self.folder / "compiles").write_text(compiles)
        run(["sh", "-c", "tr '\\n' '\\0' < compiles | "
             "xargs -0 -n 1 -P 2 sh -c"], self.folder)
        library.parent.mkdir(exist_ok=True)
        run(["sh", "-c", f"g++ -shared -o runtime.so *.o -ldl -lpthread && "
             f"mv runtime.so {library}"], self.folder)
        return library

    def test_emitted_c_runs_on_tvms_own_executor(self):
        if not PYTHON.exists():
            self.skipTest("there is no numpy to write files with")
        nodes = [onnx_node("MatMul", ["x", "w"], ["v0"])]
        nodes += [onnx_node("Softmax", [f"v{i}"], [f"v{i + 1}"])
                  for i in range(6)]
        # Some storage is shared, and some is not.
        nodes.append(onnx_node("Sum", ["v4", "v5", "v6"], ["y"]))
        weights = struct.pack("<4f", 0.1, 0.7, -3.0, 2.0)
        (self.folder / "net.onnx").write_bytes(onnx_model(onnx_graph(
            nodes, [value_info("x", dims=(2, 2))], [value_info("y")],
            [proto_tensor("w", [2, 2], FLOAT, (9, weights))])))
        command = BUILD / "bin/nodewise"
        run([command, "convert", "net.onnx", "--emit", "c", "-o", "net"],
            self.folder)
        run(["cc", "-O2", "-shared", "-fPIC", "lib.c", "-o", "lib.so", "-lm"],
            self.folder / "net")
        run([PYTHON, "-c", "import numpy; numpy.savez('in.npz', x=numpy.array("
             "[[1, -2], [0.5, 3]], numpy.float32))"], self.folder)
        run([command, "run", "net", "--inputs", "in.npz", "--output",
             "ours.npz"], self.folder)
        run([PYTHON, HERE / "own_executor.py", self.tvms_own_runtime(), "net",
             "in.npz", "theirs.npz"], self.folder)
        run([PYTHON, "-c", "import numpy; ours = numpy.load('ours.npz')['y']; "
             "theirs = numpy.load('theirs.npz')['arr_0']; "
             "assert ours.std() > 0 and ours.tobytes() == theirs.tobytes(), "
             "(ours, theirs)"], self.folder)

    def test_plugin_in_a_python_program(self):
        self.compile("plugin.so", [HERE / "plugin.cc"], "-O1", "-shared",
                     "-fPIC")
        self.python(HERE / "plugin_host.py", self.folder / "plugin.so",
                    LIBRARIES[0])

    def test_cpp_program(self):
        # TV-25
        program = self.compile("host", CPP_HOST, "-O1")
        run([program, *LIBRARIES], self.folder)

    def test_cpp_program_under_the_sanitizers(self):
        program = self.compile(
            "sanitized", CPP_HOST,
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
        prefix = ["setarch", "-R"] if shutil.which("setarch") else []
        run([*prefix, program, *LIBRARIES], self.folder)

    def test_tvms_own_cpp_tests(self):
        ran = 0
        for name in CPP_TESTS:
            sources = list((self.checkout / "tests/cpp").rglob(f"{name}.cc"))
            if not sources:
                continue
            with self.subTest(test=name):
                program = self.compile(
                    name, sources[:1], f"-I{self.checkout / 'src'}",
                    "-lgtest", "-lgtest_main", "-lpthread")
                run([program, f"--gtest_filter={LEFT_OUT}"], self.folder)
                ran += 1
        self.assertGreater(ran, 0)


def load_tests(loader, _tests, _pattern):
    """The tests once for every checkout."""
    suite = unittest.TestSuite()
    for checkout in CHECKOUTS or [None]:
        release = release_of(checkout) if checkout else None
        if checkout and release is None:
            sys.exit(f"TVM_SOURCE: {checkout} is not a checkout of TVM: it has no "
                     "include/tvm/runtime/c_runtime_api.h")
        name = "Host" + (release or "").replace(".", "_")
        host = type(name, (Host,), {"checkout": checkout})
        suite.addTests(loader.loadTestsFromTestCase(host))
    return suite


if __name__ == "__main__":
    unittest.main()
