"""docs/checklists.md names tests that exist, for every promise of the lists,
and these tests carry the numbers of the promises that they show."""

import ast
import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs/checklists.md"
MOST_TESTS = 4

ID = r"(?:TV|OV|GL|OF|OFc)-\d\d"
ROW = re.compile(rf"^\| ({ID}) \| (.*?) \| (.*?) \|$", re.M)
# `tests/style/layers_test.py::LayersTest.test_name`
REFERENCE = re.compile(r"`(tests/[\w/]+\.(?:cc|py)::\w+\.\w+)`")

SENTENCE = r"\A[A-Z`].* .*\.\Z"

# OV-14 to OV-16 stands for three.
MENTION = re.compile(rf"({ID})(?: to ({ID}))?")
CPP_TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.M)

Row = collections.namedtuple("Row", "id promise shown tests")


def rows_of(page):
    """The rows of the page, in their order."""
    return [Row(name, promise, shown, REFERENCE.findall(shown))
            for name, promise, shown in ROW.findall(page)]


def reason_of(row):
    """What a row says in place of tests, or beside them."""
    return REFERENCE.sub("", row.shown).strip(" ,")


def ids_in(text):
    """The numbers that a text mentions."""
    ids = []
    for first, last in MENTION.findall(text):
        name, start = first.split("-")
        end = last.split("-")[1] if last else start
        ids += [f"{name}-{n:02}" for n in range(int(start), int(end) + 1)]
    return ids


def with_comments(lines, start, mark):
    """The first of the lines of comment that end just before line `start`."""
    while start > 0 and lines[start - 1].lstrip().startswith(mark):
        start -= 1
    return start


def cpp_tests(text):
    """(name, its text with the comment above it) for each test of a file."""
    lines = text.split("\n")
    for found in CPP_TEST.finditer(text):
        at = text.count("\n", 0, found.start())
        end = lines.index("}", at) + 1
        start = with_comments(lines, at, "//")
        yield f"{found[1]}.{found[2]}", "\n".join(lines[start:end])


def python_tests(text):
    lines = text.split("\n")
    for group in ast.parse(text).body:
        if not isinstance(group, ast.ClassDef):
            continue
        for test in group.body:
            if (isinstance(test, ast.FunctionDef)
                    and test.name.startswith("test")):
                start = with_comments(lines, test.lineno - 1, "#")
                yield (f"{group.name}.{test.name}",
                       "\n".join(lines[start:test.end_lineno]))


def tests_of(path):
    read = cpp_tests if path.suffix == ".cc" else python_tests
    return dict(read(path.read_text(encoding="utf-8")))


def test_files():
    return [path for path in sorted(TESTS.rglob("*"))
            if path.suffix in (".cc", ".h", ".py") and path.is_file()
            and path != pathlib.Path(__file__).resolve()]


def carried(paths):
    """{(id, FILE::TEST)} of the numbers that tests carry, and the files in
    which some stand outside of any test."""
    found, astray = set(), []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if not MENTION.search(text):
            continue
        name = path.relative_to(ROOT)
        count = 0
        for test, part in tests_of(path).items():
            ids = ids_in(part)
            count += len(ids)
            found.update((each, f"{name}::{test}") for each in ids)
        if count != len(ids_in(text)):
            astray.append(str(name))
    return found, astray


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = PAGE.read_text(encoding="utf-8")
        cls.rows = rows_of(cls.page)

    def test_every_promise_has_one_row(self):
        self.assertEqual(
            [row.id for row in self.rows],
            [f"TV-{n:02}" for n in range(1, 49)]
            + [f"OV-{n:02}" for n in range(1, 41)]
            + [f"GL-{n:02}" for n in range(1, 45)]
            + [f"OF-{n:02}" for n in range(1, 47)]
            + [f"OFc-{n:02}" for n in range(1, 9)])

    def test_every_line_that_begins_with_a_number_is_a_row(self):
        self.assertEqual(len(re.findall(rf"^\W*{ID}", self.page, re.M)),
                         len(self.rows))

    def test_every_promise_is_a_sentence(self):
        for row in self.rows:
            self.assertRegex(row.promise, SENTENCE, row.id)

    def test_every_row_names_tests_or_says_why_not(self):
        for row in self.rows:
            self.assertRegex(reason_of(row), r"\A\Z" if row.tests else SENTENCE,
                             row.id)
            self.assertLessEqual(len(row.tests), MOST_TESTS, row.id)
            self.assertEqual(len(set(row.tests)), len(row.tests), row.id)

    def test_every_test_that_is_named_exists(self):
        for row in self.rows:
            for reference in row.tests:
                file, test = reference.split("::")
                self.assertTrue((ROOT / file).is_file(), reference)
                self.assertIn(test, tests_of(ROOT / file), reference)

    def test_rows_and_tests_agree_on_what_is_shown_where(self):
        found, astray = carried(test_files())
        self.assertEqual(astray, [])
        named = {(row.id, test) for row in self.rows for test in row.tests}
        self.assertEqual(sorted(named - found), [], "no comment in the test")
        self.assertEqual(sorted(found - named), [], "not in the page")


CPP = """
// --- A heading.

// TV-01: why.
// More.
TEST_F(SumTest,
       IsRight) {
  if (x) {
  }  // OV-02.
}

TEST(SumTest, IsLeft) {
}
"""
PYTHON = """
class Sum(Scratch):
    # OV-14 to OV-16, TV-03
    def test_right(self):
        # TV-41
        pass

    def helper(self):
        pass
"""


class ReadingTest(unittest.TestCase):
    def test_numbers_are_those_above_and_in_a_test(self):
        self.assertEqual({name: ids_in(text) for name, text in cpp_tests(CPP)},
                         {"SumTest.IsRight": ["TV-01", "OV-02"],
                          "SumTest.IsLeft": []})
        self.assertEqual(
            {name: ids_in(text) for name, text in python_tests(PYTHON)},
            {"Sum.test_right": ["OV-14", "OV-15", "OV-16", "TV-03", "TV-41"]})

    def test_reason_is_what_is_left_of_a_row(self):
        row, other = rows_of(
            "| TV-01 | It is. | `tests/a_test.cc::ATest.Is` |\n| OV-02 | It is not. | There is no such thing. |\n")
        self.assertEqual(row.tests, ["tests/a_test.cc::ATest.Is"])
        self.assertEqual(reason_of(row), "")
        self.assertEqual((other.tests, reason_of(other)),
                         ([], "There is no such thing."))


if __name__ == "__main__":
    unittest.main()
