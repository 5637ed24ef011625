"""nodewise_add_test(): tests of CTest that ask whether a network is right."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD", TESTS.parent / "build"))
COMMAND = BUILD / "bin/nodewise"
FILE = TESTS.parent / "cmake/nodewise_add_test.cmake"
PAGE = TESTS.parent / "docs/tests.md"
HEAD = """cmake_minimum_required(VERSION 3.25)
project(networks LANGUAGES NONE)
enable_testing()
"""


class AddTestTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        subprocess.run([COMMAND, "demo", "-o", self.folder / "demo"],
                       check=True, stdout=subprocess.DEVNULL)

    def configure(self, lines, *more, command=COMMAND):
        """Configures a project, and returns its exit status and words."""
        (self.folder / "CMakeLists.txt").write_text(
            f"{HEAD}include({FILE})\n{lines}")
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        chosen = [f"-DNODEWISE_COMMAND={command}"] if command else []
        done = subprocess.run(
            ["cmake", "-S", self.folder, "-B", self.folder / "build", "-G",
             "Ninja", *chosen, *more], text=True, capture_output=True,
            check=False)
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def outcomes(self, lines, *more, **options):
        """What becomes of each test, and what CTest prints."""
        code, said = self.configure(lines, *more, **options)
        self.assertEqual(code, 0, said)
        shown = subprocess.run(
            ["ctest", "--test-dir", self.folder / "build", "--verbose"],
            text=True, capture_output=True, check=False).stdout
        found = dict(re.findall(
            r"Test +#\d+: (\S+) \.+(?:\*+)? *(Passed|Failed)", shown))
        return found, shown

    def test_right_networks_pass_and_others_fail(self):
        found, shown = self.outcomes("""
nodewise_add_test(NAME right TARGET demo/model.onnx RANDOM_INPUTS 1)
nodewise_add_test(NAME wrong TARGET demo/net REFERENCE demo/model.onnx
  RANDOM_INPUTS 1 ARCHIVE ${CMAKE_BINARY_DIR}/wrong.json)
nodewise_add_test(NAME refused TARGET demo/no.onnx RANDOM_INPUTS 1)
nodewise_add_test(NAME without_inputs TARGET demo/model.onnx)
""")
        self.assertEqual(found, {"right": "Passed", "wrong": "Failed",
                                 "refused": "Failed",
                                 "without_inputs": "Failed"}, shown)
        self.assertIn("pool (MaxPool) is wrong", shown)
        archive = json.loads((self.folder / "build/wrong.json").read_text())
        self.assertEqual(archive["status"], "differs")

    def test_inputs_and_options_reach_the_command(self):
        (self.folder / "fake").write_text(
            "#!/bin/sh\nprintf '(%s)' \"$PWD\" \"$@\"\n")
        (self.folder / "fake").chmod(0o755)
        _, shown = self.outcomes("""
nodewise_add_test(NAME all TARGET "a net" REFERENCE ort:b.onnx
  INPUTS x.npz "y z.npz" RANDOM_INPUTS -1
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} OPTIONS --strict --seed 5)
""", command=self.folder / "fake")
        self.assertIn(
            f"({(self.folder / 'build').resolve()})(locate)(a net)(--reference)"
            "(ort:b.onnx)(--inputs=x.npz)(--inputs=y z.npz)"
            "(--random-inputs=-1)(--strict)(--seed)(5)", shown)

    def test_libraries_that_the_project_builds_are_targets(self):
        found, shown = self.outcomes("""
enable_language(C)
file(WRITE ${CMAKE_BINARY_DIR}/net.c "int nothing;")
add_library(net MODULE net_of_this.c)
nodewise_add_test(NAME built TARGET net RANDOM_INPUTS 1)
add_test(NAME build COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR})
""".replace("net_of_this.c", "${CMAKE_BINARY_DIR}/net.c"))
        self.assertEqual(found, {"built": "Failed", "build": "Passed"}, shown)
        self.assertRegex(shown, r'"locate" ".*/build/libnet\.so"')

    def test_the_command_is_looked_for_in_path(self):
        (self.folder / "programs").mkdir()
        (self.folder / "programs/nodewise").symlink_to(COMMAND)
        lines = ("nodewise_add_test(NAME right TARGET demo/model.onnx "
                 "RANDOM_INPUTS 1)")
        found, shown = self.outcomes(
            lines, f"-DCMAKE_PROGRAM_PATH={self.folder / 'programs'}",
            command=None)
        self.assertEqual(found, {"right": "Passed"}, shown)
        code, said = self.configure(
            lines, f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
            "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF",
            "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", command=None)
        self.assertNotEqual(code, 0)
        self.assertIn("the command nodewise is neither in the package nor in "
                      "PATH, expected one of both", said)

    def test_calls_that_lack_something_are_refused(self):
        for call, said in (
                ("TARGET net", "has no NAME"),
                ("NAME a", "nodewise_add_test(NAME a): has no TARGET"),
                ("NAME a TARGET net --strict", 'has the arguments "--strict", '
                 "expected those of the command behind OPTIONS"),
                ("NAME a TARGET net INPUTS", "has INPUTS without a value")):
            code, words = self.configure(f"nodewise_add_test({call})")
            self.assertNotEqual(code, 0, call)
            self.assertIn(said, words)

    def test_the_example_of_the_page_runs(self):
        example, = re.findall(r"^```cmake\n(.*?)^```", PAGE.read_text(),
                              re.MULTILINE | re.DOTALL)
        example = re.sub(r"find_package\(nodewise.*\)\n", "", example)
        shutil.copy(self.folder / "demo/model.onnx", self.folder)
        shutil.copytree(self.folder / "demo/net", self.folder / "net")
        found, shown = self.outcomes(example)
        self.assertEqual(found, {"net_is_right": "Failed"}, shown)


if __name__ == "__main__":
    unittest.main()
