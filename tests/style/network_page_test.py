"""The C++ examples of some pages are compiled and tested: they stand, line by
line, in a test that has the page's name."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each page, its test, and how many examples it has at least.
PAGES = [
    ("docs/network.md", "tests/contrib/ir/network_page_test.cc", 3),
    ("docs/passes.md", "tests/contrib/passes/passes_page_test.cc", 1),
]

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)


def lines_of(text):
    """The lines of a text without their indentation."""
    return [line.strip() for line in text.strip().splitlines()]


def blocks_of(page):
    """The code blocks of a page: (language, text)."""
    return [(found[1].strip(), found[2]) for found in FENCE.finditer(page)]


def stands_in(lines, others):
    return any(others[at:at + len(lines)] == lines
               for at in range(len(others) - len(lines) + 1))


class PagesTest(unittest.TestCase):
    def test_every_example_stands_in_the_test(self):
        for page, test, least in PAGES:
            tested = lines_of((ROOT / test).read_text(encoding="utf-8"))
            text = (ROOT / page).read_text(encoding="utf-8")
            examples = [text for language, text in blocks_of(text)
                        if language == "cpp"]
            self.assertGreaterEqual(len(examples), least, page)
            missing = [text for text in examples
                       if not stands_in(lines_of(text), tested)]
            self.assertEqual(missing, [], page)

    def test_every_block_names_its_language(self):
        for page, _, _ in PAGES:
            text = (ROOT / page).read_text(encoding="utf-8")
            for language, block in blocks_of(text):
                self.assertNotEqual(language, "", block)


class StandsInTest(unittest.TestCase):
    def test_indentation_does_not_count(self):
        page = "So:\n```cpp\nif (a) {\n  b();\n}\n```\n"
        [(language, text)] = blocks_of(page)
        self.assertEqual(language, "cpp")
        code = lines_of("void F() {\n  if (a) {\n    b();\n  }\n}\n")
        self.assertTrue(stands_in(lines_of(text), code))

    def test_a_changed_or_missing_line_counts(self):
        code = lines_of("void F() {\n  a();\n  b();\n}\n")
        for text in ("a();\nc();\n", "a();\n\nb();\n", "void F() {\nb();\n"):
            self.assertFalse(stands_in(lines_of(text), code), text)


if __name__ == "__main__":
    unittest.main()
