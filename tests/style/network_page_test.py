"""The C++ examples of docs/network.md are compiled and tested: they stand, line
by line, in tests/contrib/ir/network_page_test.cc."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/network.md"
TEST = ROOT / "tests/contrib/ir/network_page_test.cc"

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


class NetworkPageTest(unittest.TestCase):
    def test_every_example_stands_in_the_test(self):
        tested = lines_of(TEST.read_text(encoding="utf-8"))
        examples = [text for language, text
                    in blocks_of(PAGE.read_text(encoding="utf-8"))
                    if language == "cpp"]
        self.assertGreaterEqual(len(examples), 3)
        missing = [text for text in examples
                   if not stands_in(lines_of(text), tested)]
        self.assertEqual(missing, [])

    def test_every_block_names_its_language(self):
        for language, text in blocks_of(PAGE.read_text(encoding="utf-8")):
            self.assertNotEqual(language, "", text)


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
