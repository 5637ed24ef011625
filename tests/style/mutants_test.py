"""Every mutant of tests/mutants still applies, and breaks a promise that there
is; and what tells a mutant that is noticed from one that is not."""

import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/style")]

# pylint: disable=wrong-import-position
import checklists_test  # noqa: E402
import mutant_runs  # noqa: E402
import mutants  # noqa: E402

FEWEST = 120
# What mutants break, by what `breaks` begins with, and how many at least.
GROUPS = {"TV-": 40, "OV-": 30, "GL-": 20, "OF-": 20, "OFc-": 3,
          "docs/locate.md": 10, "docs/compare.md": 10}


class MutantFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.mutants = mutants.read_mutants()

    def test_each_changes_a_text_that_stands_once_in_its_function(self):
        _, errors = mutants.changes_by_source(self.mutants)
        self.assertEqual([why for _, why in errors], [])

    def test_each_breaks_a_promise_that_there_is(self):
        rows = {row.id for row in checklists_test.rows_of(
            checklists_test.PAGE.read_text(encoding="utf-8"))}
        for mutant in self.mutants:
            if mutant.breaks.startswith("docs/"):
                self.assertTrue((ROOT / mutant.breaks).is_file(), mutant.name)
            else:
                self.assertIn(mutant.breaks, rows, mutant.name)
            self.assertRegex(mutant.change, checklists_test.SENTENCE,
                             mutant.name)

    def test_each_names_a_test_that_there_is(self):
        tests = {}
        for mutant in self.mutants:
            file, test = mutant.test.split("::")
            if file not in tests:
                tests[file] = checklists_test.tests_of(ROOT / file)
            self.assertIn(test, tests[file], mutant.name)

    def test_there_are_enough_of_each_group(self):
        self.assertGreaterEqual(len(self.mutants), FEWEST)
        counts = collections.Counter()
        for mutant in self.mutants:
            counts.update(group for group in GROUPS
                          if mutant.breaks.startswith(group))
        self.assertEqual({group: fewest for group, fewest in GROUPS.items()
                          if counts[group] < fewest}, {}, counts)

    def test_numbers_tell_them_apart(self):
        numbers = {mutants.number_of(m.name) for m in self.mutants}
        self.assertEqual(len(numbers), len(self.mutants))


SOURCE = """
namespace {
// Sum(int a) { return 0; }
const char* kText = "Sum() {";
int Sum(int a) {
  return Other(a, '{') + 1'000;  // }
}
int Sum(int a, int b);
int Sum(
    int a, int b) {
  return a +
         b;
}
class Box {
 public:
  explicit Box(int a) : a_(a), b_{a} { Check(); }
  int Sum() const { return a_; }
};
}  // namespace
int Box::Far(int a) const noexcept { return a; }
"""


def mutant(function="Sum", text="a + b", replacement="a - b"):
    return mutants.Mutant("one", "docs/run.md", "It is.", "box.cc", function,
                          text, replacement, "tests/a_test.cc::ATest.Is")


class ApplyingTest(unittest.TestCase):
    def body_of(self, *fields):
        return mutants.change_of(mutant(*fields), SOURCE).body

    def test_functions_are_found_wherever_they_stand(self):
        for function, text, expected in (
                ("Sum", "a + b", "{\n  return X;\n}"),
                ("Sum", "return Other", "{\n  X(a, '{') + 1'000;  // }\n}"),
                ("Box::Sum", "a_", "{ return X; }"),
                ("Box::Box", "Check()", "{ X; }"),
                ("Box::Far", "a", "{ return X; }")):
            self.assertEqual(self.body_of(function, text, "X"), expected)

    def test_what_does_not_apply_says_why(self):
        for function, text, expected in (
                ("Product", "a", "has no function Product"),
                ("Sum", "a * b", "holds its text 0 times"),
                ("Sum", "a", "holds its text 3 times"),
                ("Sum", "a + b", "changes nothing")):
            with self.assertRaises(mutants.MutantError) as caught:
                self.body_of(function, text, "a +\n         b"
                             if "nothing" in expected else "X")
            self.assertIn(expected, str(caught.exception))

    def test_the_old_body_is_there_too_and_lines_stay_what_they_were(self):
        changes = [mutants.change_of(mutant(), SOURCE),
                   mutants.change_of(mutant("Box::Far", "a", "1")._replace(
                       name="two"), SOURCE)]
        text = mutants.with_mutants(SOURCE, "/box.cc", changes)
        self.assertEqual(text.count('("one"))\n'), 1)
        self.assertIn("return a - b", text)
        self.assertIn("return a +\n         b;", text)
        at, line = 0, 0
        lines = SOURCE.split("\n")
        for shown in text.split("\n"):
            mark = re.fullmatch(r'#line (\d+) "/box.cc"', shown)
            if mark:
                at = int(mark[1]) - 1
            elif at and shown in lines[at]:
                line, at = line + 1, at + 1
            else:
                at += 1
        self.assertGreater(line, len(lines) // 2)


class VerdictTest(unittest.TestCase):
    def verdict(self, plain, mutated):
        return mutant_runs.verdict_of(
            mutant(), mutant_runs.Outcome(plain, "", 0),
            mutant_runs.Outcome(mutated, "", 0))[0]

    def test_only_a_test_that_fails_with_it_and_passes_without_notices(self):
        states = ("passed", "failed", "skipped", "not run")
        noticed = [(plain, mutated) for plain in states for mutated in states
                   if self.verdict(plain, mutated) == "passed"]
        self.assertEqual(noticed, [("passed", "failed")])

    def test_a_sample_is_a_part_that_stays_the_same(self):
        found = mutants.read_mutants()
        sample = mutant_runs.chosen_mutants(found, "", True)
        self.assertEqual(sample, mutant_runs.chosen_mutants(found, "", True))
        self.assertGreater(len(sample), 5)
        self.assertLess(len(sample), len(found) // 3)


if __name__ == "__main__":
    unittest.main()
