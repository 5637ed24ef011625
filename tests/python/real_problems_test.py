"""docs/real_problems.md: what it says to type, and what that answers. Reports
that need TVM, OpenVINO or an emulator are for
tests/measure/real_problems.py alone."""

import dataclasses
import importlib.util
import pathlib
import re
import sys
import tempfile
import unittest

import package_support

sys.path.insert(0, str(package_support.ROOT / "tests/measure"))

HAS_ONNX = importlib.util.find_spec("onnx") is not None
if HAS_ONNX:
    # pylint: disable=wrong-import-position
    import real_problems
    from real_problems import CASES, page, why_not

# pylint: disable=possibly-used-before-assignment
# The names of all else are those of packages and programs that take minutes.
CHEAP_NEEDS = {"cc"}


@unittest.skipUnless(HAS_ONNX, "this Python has no package onnx")
class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        cls.sections = page.read()

    def outcome(self, row, **changes):
        case = next(each for each in CASES if each.row == row)
        folder = real_problems.made(case, self.root, again=False)
        return real_problems.run(
            case, dataclasses.replace(self.sections[row], **changes), folder)

    def test_each_report_is_answered_as_the_page_says(self):
        for case in CASES:
            if not CHEAP_NEEDS >= set(case.needs):
                continue
            with self.subTest(row=case.row):
                missing = why_not(case)
                if missing is not None:
                    self.skipTest(f"there is no {missing}")
                found = self.outcome(case.row)
                self.assertEqual(found.missing, [])
                self.assertEqual(found.state, self.sections[case.row].state,
                                 found.said)

    def test_the_table_says_what_the_sections_say(self):
        self.assertEqual(page.states_in_table(), {
            row: section.state for row, section in self.sections.items()})
        self.assertEqual(list(self.sections), list(range(1, 26)))

    def test_every_section_with_commands_is_made_again(self):
        self.assertEqual(
            [row for row, section in self.sections.items() if section.steps],
            [case.row for case in CASES])

    def test_a_page_that_says_something_else_is_seen(self):
        step, = self.sections[24].steps
        changed = dataclasses.replace(step, expected=tuple(
            line.replace("block1.square", "block1.mean")
            for line in step.expected))
        self.assertNotEqual(step, changed)
        found = self.outcome(24, steps=(changed,))
        self.assertIn("block1.mean", found.missing[0])

    def test_an_answer_that_names_nothing_is_none(self):
        step, = self.sections[24].steps
        other = dataclasses.replace(
            step, text=re.sub(" --stop-on.*", "", step.text), expected=("...",))
        found = self.outcome(24, steps=(other,))
        self.assertEqual((found.state, found.missing), ("not answered", []))


if __name__ == "__main__":
    unittest.main()
