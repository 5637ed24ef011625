"""A project outside of this one can use what `cmake --install` leaves."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"])
PAGE = TESTS.parent / "docs/cpp.md"


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True,
                          capture_output=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def page_program():
    """The C++ of docs/cpp.md in one function. Each piece may use what those
    before it declare, and declare it anew."""
    pieces = re.findall(r"^```cpp\n(.*?)^```", PAGE.read_text(),
                        re.MULTILINE | re.DOTALL)
    assert pieces
    lines = [line for piece in pieces for line in piece.splitlines()]
    includes = [line for line in lines if line.startswith("#include")]
    body = [re.sub("^#include.*$", "", piece, flags=re.MULTILINE)
            for piece in pieces]
    return "\n".join([*includes, "int main() {", "nodewise::NDArray tensor;",
                      "{".join(body), "}" * len(pieces), ""])


def block(page, language):
    """The one block of code in that language on a page."""
    found, = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(),
                        re.MULTILINE | re.DOTALL)
    return found


class InstallTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.net = cls.folder / "net"
        cls.net.mkdir()
        run("cc", "-shared", "-fPIC", "-O2", "-I",
            TESTS.parent / "runtime/include", "-o", cls.net / "lib.so",
            TESTS / "demo/net.c", "-lm")
        run(sys.executable, TESTS / "demo/make_artefact.py", cls.net)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_installed_command_finds_its_adapters(self):
        self.assertTrue((self.prefix / "share/nodewise/adapters/"
                         "onnxruntime_adapter.py").is_file())
        done = subprocess.run([self.prefix / "bin/nodewise", "run",
                               "ort:missing.onnx"], text=True,
                              capture_output=True, check=False)
        self.assertIn("missing.onnx: ", done.stderr)

    def test_installed_command_runs(self):
        out = run(self.prefix / "bin/nodewise", "run", self.net, "--inputs",
                  self.folder / "input.params")
        self.assertIn("float32", out)

    def test_consumer_project_finds_the_package_and_runs_an_artefact(self):
        build = self.folder / "consumer"
        run("cmake", "-S", TESTS / "install/consumer", "-B", build, "-G",
            "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        out = run(build / "consumer", self.net, self.folder / "input.params")
        # softmax of (7.75, 10, 0): by hand from the weights.
        self.assertAlmostEqual(float(out), 0.0953455, places=5)

    def test_program_of_a_repro_folder_shows_the_failure_until_it_is_mended(
            self):
        model, net = self.folder / "relu.onnx", self.folder / "relu"
        model.write_bytes(onnx_model(onnx_graph(
            [onnx_node("Relu", ["x"], ["y"], name="relu")],
            [value_info("x", dims=(2, 3))], [value_info("y")])))
        nodewise = self.prefix / "bin/nodewise"
        run(nodewise, "convert", model, "--emit", "c", "-o", net)
        sound = (net / "lib.c").read_text()
        wrong = re.sub(r"out0\[(\w+)\] = ", r"out0[\1] = 1 + ", sound)
        self.assertNotEqual(sound, wrong)

        def compile_library(code, folder):
            (net / "lib.c").write_text(code)
            run("cc", "-shared", "-fPIC", net / "lib.c", "-o",
                folder / "lib.so", "-lm")

        compile_library(wrong, net)
        repro = self.folder / "repro"
        run(nodewise, "repro", net, "--random-inputs", "1", "--node", "relu",
            "-o", repro)
        run("cmake", "-S", repro, "-B", repro / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", repro / "build")
        shown = subprocess.run([repro / "build/repro", repro], text=True,
                               capture_output=True, check=False)
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn("6 elements are wrong", shown.stdout)
        compile_library(sound, repro)
        self.assertIn("0 elements are wrong",
                      run(repro / "build/repro", repro))

    def test_program_of_a_finding_in_c_shows_it(self):
        # A C compiler that takes one function for another.
        wrong = self.folder / "wrong" / "cc"
        wrong.parent.mkdir()
        wrong.write_text(f"#!/bin/sh\nexec {shutil.which('cc')} -Dtanh=sin "
                         "\"$@\"\n")
        wrong.chmod(0o755)
        findings = self.folder / "findings"
        subprocess.run(
            [self.prefix / "bin/nodewise", "autotest", "--op", "Tanh",
             "--candidate", "c", "--runs", "160", "--seed", "1", "-o",
             findings], check=False, capture_output=True,
            env={**os.environ,
                 "PATH": f"{wrong.parent}:{os.environ['PATH']}"})
        finding = findings / "001_Tanh"
        for compiler, status in ((wrong, 1), (shutil.which("cc"), 0)):
            build = finding / f"build{status}"
            (finding / "net/lib.so").unlink(missing_ok=True)
            run("cmake", "-S", finding, "-B", build, "-G", "Ninja",
                f"-DCMAKE_PREFIX_PATH={self.prefix}",
                f"-DCMAKE_C_COMPILER={compiler}")
            run("cmake", "--build", build)
            shown = subprocess.run([build / "repro", finding], text=True,
                                   capture_output=True, check=False)
            self.assertEqual(shown.returncode, status, shown)
            self.assertEqual("output 0, element" in shown.stdout,
                             status == 1)

    def test_tvms_name_is_a_link_to_the_library(self):
        # TV-24
        link = self.library_folder() / "libtvm_runtime.so"
        self.assertEqual(os.readlink(link), "libnodewise_runtime.so")

    def test_program_linked_against_tvm_runs_by_the_search_path(self):
        # TV-24
        """What TVM's library is to it: a name, and functions in C."""
        folder = self.folder / "linked"
        folder.mkdir()
        (folder / "tvm.c").write_text("const char* TVMGetLastError(void)"
                                      "{ return \"TVM's\"; }")
        (folder / "host.c").write_text(
            "#include <stdio.h>\nconst char* TVMGetLastError(void);\n"
            "int TVMModLoadFromFile(const char*, const char*, void**)"
            " __attribute__((weak));\nint main(void) { void* m;\n"
            "if (TVMModLoadFromFile) TVMModLoadFromFile(\"no.so\", \"\", &m);\n"
            "puts(TVMGetLastError()); return 0; }")
        run("cc", "-shared", "-fPIC", "-Wl,-soname,libtvm_runtime.so",
            folder / "tvm.c", "-o", folder / "libtvm_runtime.so")
        run("cc", folder / "host.c", "-o", folder / "host", "-L", folder,
            "-ltvm_runtime")
        out = run(folder / "host", env={
            **os.environ, "LD_LIBRARY_PATH": str(self.library_folder())})
        self.assertIn("no.so", out)

    def test_tvm_that_is_installed_already_stays(self):
        for kept in "file", "link":
            with self.subTest(kept=kept):
                prefix = self.folder / f"beside_{kept}"
                library = prefix / self.library_folder().relative_to(
                    self.prefix)
                library.mkdir(parents=True)
                tvm = library / "libtvm_runtime.so"
                if kept == "file":
                    tvm.write_text("TVM's")
                else:
                    tvm.symlink_to("libtvm_runtime.so.0.14")
                out = run("cmake", "--install", BUILD, "--prefix", prefix)
                self.assertIn("Kept: ", out)
                self.assertTrue(kept == "link" or tvm.read_text() == "TVM's")

    def library_folder(self):
        (library,) = self.prefix.rglob("libnodewise_runtime.so")
        return library.parent

    def test_tvm_host_is_found_without_the_libraries_of_ours(self):
        project = self.folder / "tvm_host"
        project.mkdir()
        (project / "main.cc").write_text("int main() {}\n")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(host LANGUAGES CXX)\n"
            "find_package(nodewise REQUIRED COMPONENTS tvm_host)\n"
            "add_executable(host main.cc)\n"
            "target_link_libraries(host PRIVATE nodewise::tvm_host)\n"
            "if(TARGET absl::base)\n  message(FATAL_ERROR found)\nendif()\n"
            "get_target_property(sources nodewise::tvm_host"
            " INTERFACE_SOURCES)\n"
            "message(STATUS \"sources ${sources}\")\n"
            "file(WRITE ${CMAKE_BINARY_DIR}/logging.cc \"#ifndef"
            " DMLC_USE_LOGGING_LIBRARY\n#error none\n#endif\n\")\n"
            "add_library(logging OBJECT ${CMAKE_BINARY_DIR}/logging.cc)\n"
            "target_compile_definitions(logging PRIVATE $<TARGET_PROPERTY:"
            "nodewise::tvm_host,INTERFACE_COMPILE_DEFINITIONS>)\n")
        out = run("cmake", "-S", project, "-B", project / "build", "-G",
                  "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        source = re.search("sources (.*)", out).group(1)
        self.assertTrue(pathlib.Path(source).exists(), source)
        # As TVM's own target has it.
        run("cmake", "--build", project / "build", "--target", "logging")

    def test_page_compiles_and_links(self):
        project = self.folder / "page"
        project.mkdir()
        (project / "main.cc").write_text(page_program())
        lines = re.findall(r"^```cmake\n(.*?)^```", PAGE.read_text(),
                           re.MULTILINE | re.DOTALL)
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(page LANGUAGES CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
            "add_executable(my_program main.cc)\n" + "".join(lines))
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")

    def test_a_project_adds_a_test_of_a_network(self):
        project = self.folder / "add_test"
        project.mkdir()
        run(self.prefix / "bin/nodewise", "demo", "-o", project / "demo")
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(networks LANGUAGES CXX)\nenable_testing()\n"
            "find_package(nodewise REQUIRED)\n"
            "nodewise_add_test(NAME net TARGET demo/net REFERENCE"
            " demo/model.onnx RANDOM_INPUTS 1)\n")
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        shown = subprocess.run(
            ["ctest", "--test-dir", project / "build", "--verbose"], text=True,
            capture_output=True, check=False)
        self.assertIn("pool (MaxPool) is wrong", shown.stdout)
        self.assertIn(f"{self.prefix / 'bin/nodewise'}", shown.stdout)
        self.assertNotEqual(shown.returncode, 0)

    def programs(self, *more):
        """The programs of tests/install/contrib, built."""
        project = self.folder / "programs"
        if not project.exists():
            shutil.copytree(TESTS / "install/contrib", project)
        build = project / ("build" + "_".join(more).replace("/", "_")[-20:])
        run("cmake", "-S", project, "-B", build, "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", *more)
        return project, build

    def test_the_schema_and_the_page_for_assistants_are_installed(self):
        folder = self.prefix / "share/nodewise"
        json.loads((folder / "nodewise-1.schema.json").read_text())
        self.assertIn("name: nodewise", (folder / "skill.md").read_text())

    def test_a_program_names_the_culprit_of_a_compiled_network(self):
        _, build = self.programs()
        run("cmake", "--build", build)
        demo = self.folder / "demo"
        run(self.prefix / "bin/nodewise", "demo", "-o", demo)
        shown = subprocess.run(
            [build / "diagnose", demo / "net", demo / "model.onnx"], text=True,
            capture_output=True, check=False)
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn("(fused_6): should hold pool", shown.stderr)
        found = json.loads(shown.stdout)
        self.assertEqual(found["culprits"][0]["explanations"][0]["what"],
                         "AveragePool instead of MaxPool")

    def test_a_runner_of_ones_own_is_diagnosed(self):
        _, build = self.programs()
        run("cmake", "--build", build, "--target", "own_runner")
        self.assertRegex(run(build / "own_runner"), r"\(size\): ")

    def test_a_test_of_an_operator_is_five_lines(self):
        project, build = self.programs()
        run("cmake", "--build", build, "--target", "dual")
        self.assertEqual(run(build / "dual"), "OK\n")
        shown = subprocess.run([build / "dual", "wrong"], text=True,
                               capture_output=True, check=False)
        self.assertEqual(shown.returncode, 1, shown)
        lines = re.findall(r"^ *(const (?:generator|DualObject) .*;.*)$",
                           shown.stdout, re.MULTILINE)
        self.assertEqual(len(lines), 3, shown.stdout)
        # What it prints compiles, and fails in the same way.
        dual = (project / "dual.cc").read_text()
        (project / "printed.cc").write_text(re.sub(
            r" *onnx\[.*\n", "".join(line + "\n" for line in lines), dual))
        self.programs()
        run("cmake", "--build", build, "--target", "printed")
        shown = subprocess.run([build / "printed", "wrong"], text=True,
                               capture_output=True, check=False)
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn("mismatch", shown.stdout)

    def test_kernels_are_tested_as_the_page_says(self):
        page = TESTS.parent / "docs/autotest.md"
        project = self.folder / "own_kernels"
        shutil.copytree(TESTS / "install/own_kernels", project)
        (project / "my_backend_test.cc").write_text(block(page, "cpp"))
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(own_kernels LANGUAGES CXX)\n"
            "set(CMAKE_CXX_STANDARD 20)\n" + block(page, "cmake"))
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        test = project / "build/my_backend_test"
        self.assertIn("[  PASSED  ] 2 tests.", run(test))
        wrong = subprocess.run(
            [test], text=True, capture_output=True, check=False,
            env={**os.environ, "LEAVES_OUT_THE_LAST": "1",
                 "NODEWISE_SEED": "1"})
        self.assertIn("[  PASSED  ] 1 test.", wrong.stdout)
        shown = re.findall("^(?:const|NODEWISE_SEED).*$", wrong.stdout,
                           re.MULTILINE)
        self.assertEqual(len(shown), 4, wrong.stdout)
        for line in shown:
            self.assertIn(line, page.read_text())

    def test_a_project_can_add_it_as_a_folder(self):
        _, build = self.programs(f"-DNODEWISE_SOURCE={TESTS.parent}",
                                 "-DUSE_COMMAND=OFF")
        out = run("ninja", "-C", build, "-t", "query", "diagnose")
        self.assertIn("libnodewise_diagnose.a", out)

    def test_a_component_that_was_not_built_is_named(self):
        project = self.folder / "lacks"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\n"
            "project(lacks LANGUAGES CXX)\n"
            "find_package(nodewise REQUIRED COMPONENTS opencl)\n")
        shown = subprocess.run(
            ["cmake", "-S", project, "-B", project / "build", "-G", "Ninja",
             f"-DCMAKE_PREFIX_PATH={self.prefix}"], text=True,
            capture_output=True, check=False)
        self.assertNotEqual(shown.returncode, 0)
        self.assertRegex(re.sub(r"\s+", " ", shown.stderr),
                         "built without the component opencl")

    def test_copy_of_the_options_in_the_build_folder_wins(self):
        build = self.folder / "options"
        build.mkdir()
        (build / "config.cmake").write_text("set(USE_COMMAND OFF)\n"
                                            "set(USE_CONTRIB OFF)\n")
        out = run("cmake", "-S", TESTS.parent, "-B", build, "-G", "Ninja")
        self.assertIn("USE_COMMAND OFF", out)

    def test_option_on_the_command_line_wins_over_the_file(self):
        build = self.folder / "given"
        out = run("cmake", "-S", TESTS.parent, "-B", build, "-G", "Ninja",
                  "-DUSE_COMMAND=OFF", "-DUSE_CONTRIB=OFF")
        self.assertIn("USE_COMMAND OFF", out)


if __name__ == "__main__":
    unittest.main()
