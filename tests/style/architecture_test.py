"""docs/architecture.md names files and identifiers that are there.

A reader who follows the page to change something relies on both: a step in the
wrong file costs an hour, and one that is missing a wrong result without a word.
"""

import collections
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/architecture.md"
CODE = re.compile(r"`([^`\n]+)`")
# `Name` (`file.cc`), also with several names before or files after it.
PLACED = re.compile(r"`(?:\w+::)?(\w+)(?:\(\))?`[^`();.]{0,40}\(`([\w/.]+\.(?:cc|h|py))`\)")
IDENTIFIER = re.compile(r"(?:\w+::)*[A-Z][a-z]\w*(?:\(\))?")
PATH = re.compile(r"[\w./-]+\.(?:cc|h|py|md|cmake|txt|sh)")
WORD = re.compile(r"\w+")


def files_of_project():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, check=True,
                          capture_output=True).stdout.split()


class Architecture(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = re.sub(r"^```.*?^```", "", PAGE.read_text(),
                          flags=re.M | re.S)
        cls.files = files_of_project()
        cls.by_name = collections.defaultdict(list)
        for file in cls.files:
            cls.by_name[pathlib.Path(file).name].append(file)
        cls.words = set()
        for file in cls.files:
            if file.endswith((".cc", ".h", ".inc", ".py", ".cmake", ".c",
                              "CMakeLists.txt")):
                cls.words |= set(WORD.findall((ROOT / file).read_text()))

    def matches(self, path):
        """The files that a path on the page may mean: it may leave out the
        folder, or `include/`."""
        name = pathlib.Path(path).name
        if path.startswith("nodewise/"):
            return [file for file in self.by_name[name]
                    if file.endswith("/include/" + path)]
        return [file for file in self.by_name[name] if file.endswith(path)]

    def test_every_file_is_there(self):
        for text in CODE.findall(self.page):
            # NAME and FAMILY stand for what the reader adds.
            if not PATH.fullmatch(text) or re.search("[A-Z]{4}", text):
                continue
            with self.subTest(file=text):
                self.assertTrue(self.matches(text), "there is no such file")

    def test_every_name_is_in_the_sources(self):
        for text in CODE.findall(self.page):
            if not IDENTIFIER.fullmatch(text):
                continue
            for word in WORD.findall(text):
                with self.subTest(name=text):
                    self.assertIn(word, self.words)

    def test_every_name_is_in_the_file_beside_it(self):
        found = PLACED.findall(self.page)
        self.assertGreater(len(found), 40)
        for name, path in found:
            with self.subTest(name=name, file=path):
                self.assertTrue(any(
                    re.search(rf"\b{name}\b", (ROOT / file).read_text())
                    for file in self.matches(path)), "the name is not there")


if __name__ == "__main__":
    unittest.main()
