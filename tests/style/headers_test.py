"""Each public header compiles alone; source files are short and name no folder
of the machine they were written on."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE_FOLDERS = [ROOT / "runtime/include", ROOT / "contrib/include",
                   ROOT / "contrib/lab/include"]

# Programs in C include these.
C_HEADERS = ("packed_abi.h", "ffi_abi.h", "c_api.h")

# Each takes a second or two: without --full, those of one in so many names.
STEP = 1 if os.environ.get("NODEWISE_TEST_FULL") else 4

WARNINGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
CXX = [os.environ.get("CXX", "g++"), "-std=c++20", "-x", "c++"]
C99 = [os.environ.get("CC", "gcc"), "-std=c99", "-x", "c"]

MAX_LINES = 1000
CODE = (".cc", ".h", ".c", ".inc", ".py", ".sh", ".cmake", ".txt")
# `nodewise_compile_with` says why this does nothing.
OWN_OPTIONS = re.compile(
    r"set_source_files_properties\([^)]*\.cc\b[^)]*COMPILE_(?:OPTIONS|FLAGS)")
HOME_PATH = re.compile(rb"(?:-[IL]|(?<![\w.}*~-]))/(?:work|root|home/\w+)/")


def compile_alone(job):
    """Returns what the compiler had to say, or None if it was content."""
    compiler, header = job
    folders = [f"-I{folder}" for folder in INCLUDE_FOLDERS]
    # Twice, so that a header without an include guard is seen.
    done = subprocess.run(compiler + WARNINGS + folders + ["-"],
                          input=f'#include "{header}"\n' * 2, text=True,
                          capture_output=True, check=False)
    if done.returncode == 0:
        return None
    return f"{header}, by {compiler[0]} {compiler[1]}:\n{done.stderr}"


def public_headers():
    return sorted(str(path.relative_to(folder)) for folder in INCLUDE_FOLDERS
                  for path in folder.rglob("*.h"))


def is_in_sample(header):
    """Other headers do not decide whether a header is in the sample."""
    return zlib.crc32(header.encode()) % STEP == 0


def compile_jobs(headers):
    return ([(CXX, header) for header in headers if is_in_sample(header)]
            + [(C99, header) for header in headers
               if header.rsplit("/", 1)[-1] in C_HEADERS])


def source_files():
    """Every file that is ours, whether or not git knows it yet."""
    tops = ("cmake", "scripts", "runtime", "contrib", "apps", "tests", "docs",
            ".ci")
    below = [path for top in tops for path in sorted((ROOT / top).rglob("*"))
             if "__pycache__" not in path.parts]
    return [path for path in sorted(ROOT.iterdir()) + below if path.is_file()]


class HeadersTest(unittest.TestCase):
    def test_public_headers_compile_alone(self):
        jobs = compile_jobs(public_headers())
        self.assertTrue(jobs, "found no public header")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            said = [text for text in pool.map(compile_alone, jobs) if text]
        if said:
            self.fail("\n" + "\n".join(said))


class SourceFilesTest(unittest.TestCase):
    def test_no_source_file_is_over_1000_lines(self):
        long_ones = {}
        for path in source_files():
            if path.suffix in CODE or path.name == "dev":
                lines = path.read_bytes().count(b"\n")
                if lines > MAX_LINES:
                    long_ones[str(path.relative_to(ROOT))] = lines
        self.assertEqual(long_ones, {})

    def test_a_file_with_options_of_its_own_has_no_precompiled_headers(self):
        self.assertEqual([
            str(path.relative_to(ROOT)) for path in source_files()
            if (path.suffix == ".cmake" or path.name == "CMakeLists.txt")
            and OWN_OPTIONS.search(path.read_text(encoding="utf-8"))], [])
        self.assertRegex(
            "set_source_files_properties(\n  a.cc b.cc\n"
            "  PROPERTIES COMPILE_OPTIONS -O2)", OWN_OPTIONS)

    def test_no_file_names_a_folder_of_a_developers_machine(self):
        places = []
        for path in source_files():
            for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
                if HOME_PATH.search(line):
                    places.append(f"{path.relative_to(ROOT)}:{number}")
        self.assertEqual(places, [])

    def test_the_search_for_such_folders_finds_them(self):
        folder = b"/root" + b"/x"
        for before in b"", b'"', b"-I", b"in ":
            self.assertRegex(before + folder, HOME_PATH)
        # After a letter it is the end of another path.
        self.assertNotRegex(b"docs" + folder, HOME_PATH)


if __name__ == "__main__":
    unittest.main()
