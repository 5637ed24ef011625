"""Nothing that is built or installed takes libraries from the working
directory, and all of it has the checks of compiler and linker."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["NODEWISE_BUILD"])

# What a program in the folder of a stranger must not load.
PLANTED = """#include <stdio.h>
__attribute__((constructor)) static void Loaded(void) {
  puts("loaded from the working directory");
}
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          check=False, **options)


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(*folders):
    found = [path for folder in folders if folder.is_dir()
             for path in sorted(folder.iterdir()) if is_elf(path)]
    assert found, folders
    return found


class Binary:
    """One program or library, as readelf sees it."""

    def __init__(self, path):
        self.path = path
        self.dynamic = run("readelf", "-dW", path).stdout
        self.segments = run("readelf", "-lW", path).stdout
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", self.dynamic)

    def calls(self):
        """Names of the functions of other libraries that it calls."""
        table = run("readelf", "-W", "--dyn-syms", self.path).stdout
        return re.findall(r" UND (\w+)", table)

    def run_path(self):
        """The folders in which the loader looks for libraries."""
        return [folder for path in re.findall(
            r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", self.dynamic)
                for folder in path.split(":")]


class HardeningTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        prefix = cls.folder / "prefix"
        done = run("cmake", "--install", BUILD, "--prefix", prefix)
        assert done.returncode == 0, done.stderr
        cls.installed = binaries(prefix / "bin", prefix / "lib")
        # The tests' own kernels are compiled as TVM compiles them.
        cls.built = [path for path in binaries(
            BUILD / "bin", BUILD / "lib", BUILD / "minimal/bin",
            BUILD / "minimal/lib") if "kernels" not in path.name]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_installed_are_the_programs_and_the_library(self):
        names = {path.name for path in self.installed}
        self.assertLessEqual({"nodewise", "libnodewise_runtime.so"}, names)

    def test_no_library_is_looked_for_in_the_working_directory(self):
        for path in self.built + self.installed:
            for folder in Binary(path).run_path():
                self.assertRegex(folder, r"^(/|\$ORIGIN/)", path)

    def test_what_is_installed_looks_beside_itself_alone(self):
        for path in self.installed:
            for folder in Binary(path).run_path():
                self.assertRegex(folder, r"^\$ORIGIN/\.\./lib[^.:]*$", path)

    def test_library_that_lies_in_the_working_directory_is_not_loaded(self):
        where = self.folder / "strange"
        where.mkdir()
        (where / "planted.c").write_text(PLANTED)
        program = BUILD / "bin/nodewise"
        needed = Binary(program).needed
        self.assertIn("libz.so.1", needed)
        for name in needed:
            if name.startswith("ld-"):
                continue  # The loader is found by its path.
            done = run("cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o",
                       where / name, where / "planted.c")
            self.assertEqual(done.returncode, 0, done.stderr)
        for path in [program, self.folder / "prefix/bin/nodewise"]:
            done = run(path, "--version", cwd=where)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("working directory", done.stdout)

    def test_addresses_of_functions_are_read_only_once_it_runs(self):
        for path in self.built + self.installed:
            binary = Binary(path)
            self.assertTrue("GNU_RELRO" in binary.segments, path)
            self.assertTrue(re.search(r"BIND_NOW|Flags:.* NOW",
                                      binary.dynamic), path)

    def test_no_stack_is_executable(self):
        for path in self.built + self.installed:
            self.assertTrue(re.search(r"GNU_STACK.* RW ",
                                      Binary(path).segments), path)

    def test_stacks_and_buffers_are_checked(self):
        for path in self.installed:
            calls = Binary(path).calls()
            self.assertTrue("__stack_chk_fail" in calls, path)
            self.assertTrue([name for name in calls if re.fullmatch(
                r"__\w+_chk", name)], path)

    def test_every_file_of_the_product_is_compiled_with_the_checks(self):
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        checked = [entry for entry in commands
                   if re.search(r"/(runtime|contrib|apps)/", entry["file"])]
        self.assertTrue(checked)
        for entry in checked:
            for flag in ["-fstack-protector-strong", "-D_FORTIFY_SOURCE=2",
                         "-D_GLIBCXX_ASSERTIONS"]:
                self.assertTrue(flag in entry["command"].split(),
                                f"{entry['file']}: {flag}")


if __name__ == "__main__":
    unittest.main()
