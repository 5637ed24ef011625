"""The command line itself: help, versions, and bad use."""

import json
import re
import subprocess
import unittest

from support import HAS_LAB, NODEWISE, ROOT, Scratch, document, nodewise


VERBS = ("demo", "run", "profile", "dump", "compare", "locate", "align", "repro",
         "report", "inspect", "verify", "convert", "extract",
         *["autotest"] * HAS_LAB)


class Help(unittest.TestCase):
    def test_help_lists_every_verb(self):
        result = nodewise("help")
        self.assertEqual(result.code, 0)
        for verb in VERBS:
            self.assertRegex(result.out, rf"(?m)^  {verb} ")

    def test_help_has_help(self):
        for ask in (["help"], ["--help"]):
            self.assertEqual(nodewise("help", *ask), nodewise("help"))

    def test_every_verb_has_help_with_examples(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = nodewise(verb, "--help")
                self.assertEqual(result.code, 0)
                self.assertIn("--json", result.out)
                self.assertIn(f"  nodewise {verb} ", result.out)
                self.assertEqual(result.out, nodewise("help", verb).out)

    def test_the_page_of_locate_has_the_table_of_its_help(self):
        shown = nodewise("locate", "--help").out
        table = shown[shown.index("what is done, by TARGET"):
                      shown.index("\nexamples:")]
        self.assertIn("```\n" + table + "```",
                      (ROOT / "docs/locate.md").read_text())

    def test_the_page_for_assistants_names_verbs_options_and_members(self):
        page = (ROOT / "docs/skill.md").read_text()
        for verb, words in re.findall(r"`nodewise ([a-z]+)([^`]*)`", page):
            options = nodewise(verb, "--help").out
            for option in re.findall(r"--[a-z-]+", words):
                self.assertIn(option, options, verb)
        members = re.findall(r"^- `([a-z]+)`:", page, re.MULTILINE)
        self.assertGreater(len(members), 4)
        schema = json.loads(
            (ROOT / "contrib/report/nodewise-1.schema.json").read_text())
        for member in members:
            self.assertIn(member,
                          schema["$defs"]["verb_locate"]["properties"])

    def test_help_fits_80_columns(self):
        for verb in VERBS:
            for line in nodewise(verb, "--help").out.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_version_is_one_line(self):
        self.assertRegex(nodewise("--version").out,
                         r"\Anodewise \d+\.\d+\.\d+\n\Z")


class BadUse(Scratch):
    def test_bad_use_exits_with_2_and_names_what_is_wrong(self):
        table = [
            (["insepct", "x"], "did you mean inspect?"),
            (["frobnicate"], "expected one of help, demo"),
            (["run"], "TARGET is missing"),
            (["run", "a", "b"], "b is one argument too many"),
            (["run", "a", "--threds", "3"], "did you mean --threads?"),
            (["run", "a", "--threads", "0"], "from 1 to 1024"),
            (["run", "a", "--threads", "x"], '"x", expected a whole number'),
            (["run", "a", "--random-inputs", "-1"], "expected a whole number"),
            (["run", "a", "--lib", "x", "--lib", "y"], "given 2 times"),
            (["run", "a", "--lib", ""], "--lib is empty, expected FILE"),
            (["run", "a", "--sanitize=false"],
             '--sanitize is given the value "false", expected none'),
            (["run", "a", "--json="], '--json is given the value ""'),
            (["verify", "a", "--all"], "unknown option --all"),
            (["inspect"], "FILE is missing"),
        ]
        for arguments, message in table:
            with self.subTest(arguments=arguments):
                error = self.refused(*arguments)
                self.assertIn(message, error)
                self.assertRegex(error, r"nodewise (\w+ --help|help)\)\n")

    def test_flag_with_a_value_is_not_a_flag(self):
        for flag in ("--json=1", "--json=true", "--json="):
            with self.subTest(flag=flag):
                result = nodewise("verify", "a", flag)
                self.assertEqual((result.code, result.out), (2, ""))
                self.assertIn("--json is given the value ", result.err)

    def test_what_is_behind_an_option_is_its_value(self):
        error = self.refused("verify", "a", "--lib", "--json=1")
        self.assertNotIn("is given the value", error)

    def test_options_may_stand_in_front_of_what_they_are_for(self):
        for option in (("--random-inputs", "1"), ("--lib", "x.so"),
                       ("--input", "x=x.npy")):
            result = nodewise("run", *option, "nowhere")
            self.assertIn("nowhere", result.err, option)
            self.assertNotIn("has no value", result.err, option)

    def test_option_without_its_value_is_named(self):
        self.assertIn("--lib has no value", nodewise("run", "a", "--lib").err)

    def test_no_verb_shows_help_on_stderr(self):
        result = nodewise()
        self.assertEqual((result.code, result.out), (2, ""))
        self.assertIn("usage: nodewise VERB", result.err)

    def test_two_dashes_end_the_options(self):
        self.assertIn("--x: no such file", self.refused_target("--", "--x"))

    def refused_target(self, *arguments):
        result = nodewise("verify", *arguments)
        self.assertEqual(result.code, 2)
        return result.err

    def test_errors_in_json_are_taken_apart(self):
        error = document(nodewise("run", "a", "--threds=3", "--json"))
        self.assertEqual(list(error), ["schema", "verb", "version", "command",
                                       "status", "errors", "notes", "report"])
        self.assertEqual(error["errors"], [{
            "where": "run", "found": "unknown option --threds",
            "expected": "",
            "hint": "did you mean --threads?; nodewise run --help",
            "text": "run: unknown option --threds (did you mean --threads?; "
                    "nodewise run --help)",
            "kind": "cannot-judge", "severity": "error", "part": "command",
            "place": {"name": "run"}, "numbers": {}}])

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            child = subprocess.run([NODEWISE, "help"], stdout=full,
                                   stderr=subprocess.PIPE, check=False)
        self.assertEqual(child.returncode, 2)
        self.assertIn(b"No space left", child.stderr)


if __name__ == "__main__":
    unittest.main()
