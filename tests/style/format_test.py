"""The sources are laid out as .clang-format says, and it leaves the texts in
them as they are."""

import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("runtime", "contrib", "apps", "tests")
# The version that the sources are laid out by. Others lay out some lines
# otherwise.
VERSION = "14"
FILES_AT_A_TIME = 100

# Google's style reads raw strings of these delimiters as C++, and wraps and
# indents what programs or users get to see.
REFLOWED = re.compile(r'R"(?:cc|CC|cpp|Cpp|CPP|c\+\+|C\+\+)\(')


def sources():
    return sorted(path for folder in FOLDERS
                  for path in (ROOT / folder).rglob("*")
                  if path.suffix in (".cc", ".h"))


def version_of(program):
    text = subprocess.run([program, "--version"], text=True,
                          capture_output=True, check=False).stdout
    found = re.search(r"version (\d+)", text)
    return found[1] if found else "?"


class Format(unittest.TestCase):
    def test_sources_are_laid_out_as_clang_format_says(self):
        program = shutil.which("clang-format")
        if program is None:
            self.skipTest("clang-format is not installed")
        if version_of(program) != VERSION:
            self.skipTest(f"clang-format is not version {VERSION}")
        files = sources()
        self.assertTrue(files)
        wrong = []
        for i in range(0, len(files), FILES_AT_A_TIME):
            done = subprocess.run(
                [program, "--dry-run", "--Werror", "--ferror-limit=1",
                 *files[i:i + FILES_AT_A_TIME]],
                cwd=ROOT, text=True, capture_output=True, check=False)
            if done.returncode:
                wrong += re.findall(r"^(\S+?:\d+):", done.stderr, re.M) or [
                    done.stderr]
        self.assertEqual(wrong, [], "run ./dev format")

    def test_texts_have_no_delimiter_that_clang_format_reads_as_code(self):
        wrong = [f"{path.relative_to(ROOT)}: {found[0]}"
                 for path in sources()
                 for found in REFLOWED.finditer(path.read_text())]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
