"""Messages of the libraries: they name no option of the command.

A C++ or Python program that reads them has no options. What such a message
advises is a Way (nodewise/support/ways.h), which has a name for each reader.
"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
OPTION = re.compile(r"(?:^|[\s(\"`'])--[a-z][a-z-]+")
# Files that a reader runs commands from, and other programs' options.
ALLOWED = {"contrib/repro/repro_texts.cc",
           "contrib/lab/autotest/candidates/candidate_list.cc",
           "contrib/lab/autotest/finding_folder.cc",
           "contrib/foreign/known_programs.cc"}
SOURCES = ("runtime", "contrib")
# What the C++ API calls the ways for which it has nothing of its own.
WAYS = "runtime/support/ways.cc"


def options_in(text):
    """The texts of a source that name an option."""
    code = re.sub(r"//.*", "", text)
    return [each for each in TEXT.findall(code) if OPTION.search(each)]


class LibraryWords(unittest.TestCase):
    def test_no_text_of_a_library_names_an_option(self):
        files = subprocess.run(
            ["git", "ls-files", *SOURCES], cwd=ROOT, text=True, check=True,
            capture_output=True).stdout.split()
        found = [f"{file}: {text}" for file in files
                 if file.endswith((".cc", ".h")) and
                 file not in ALLOWED | {WAYS}
                 for text in options_in((ROOT / file).read_text())]
        self.assertEqual(found, [])

    def test_one_that_does_is_seen(self):
        self.assertEqual(options_in('f("expected more (--all)");'),
                         ['"expected more (--all)"'])
        self.assertEqual(options_in('f("a--b");  // --no-fuse'), [])


if __name__ == "__main__":
    unittest.main()
