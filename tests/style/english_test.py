"""Plain English: what code, messages, tests and pages say does without a few
words and openings that leave the reader to guess."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("README.md", "dev", "cmake", "scripts", "runtime", "contrib", "apps",
        "docs", "tests")
ENDINGS = (".cc", ".h", ".c", ".inc", ".py", ".sh", ".cmake", ".txt", ".md",
           ".toml", ".json")

# Within names of tests, too.
WORDS = re.compile(r"(?<![A-Za-z])(?:nobody|somebody|whoever|whatever)"
                   r"|Nobody|Somebody|Whoever|Whatever")

# "X is no Y", for "X is not a Y".
IS_NO = re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no "
                   r"(?!longer\b|more\b|less\b|larger\b|better\b|such\b)")

# A comment that begins so continues another one, which it does not name.
OPENING = re.compile(r"(?://+|#|\"\"\") ?(?:Of|The same) ")

# What an option is for; the option is not of something, but for it.
HELP = re.compile(r'"of [A-Za-z][\w .]{0,30}: ')

REASONS = {WORDS: "say who or what is meant",
           IS_NO: 'write "is not a"',
           OPENING: "give the sentence a subject of its own",
           HELP: 'write "for ...: "'}


def faults(text):
    """The lines that hold a pattern, by number, with what to do."""
    return [(number, line.strip(), reason)
            for number, line in enumerate(text.splitlines(), 1)
            for pattern, reason in REASONS.items() if pattern.search(line)]


def files():
    """Every text of ours; data of others is in tests/data."""
    for top in TOPS:
        path = ROOT / top
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            parts = file.relative_to(ROOT).parts
            if (file.is_file() and (file.suffix in ENDINGS or file == path)
                    and parts[:2] != ("tests", "data")
                    and file != pathlib.Path(__file__).resolve()):
                yield file


class EnglishTest(unittest.TestCase):
    def test_no_text_of_ours_leaves_the_reader_to_guess(self):
        found = [f"{file.relative_to(ROOT)}:{number}: {line}\n    {reason}"
                 for file in files()
                 for number, line, reason in faults(
                     file.read_text(encoding="utf-8", errors="replace"))]
        self.assertEqual(found, [], "\n".join(found))

    def test_each_pattern_is_found(self):
        for line in ("Nobody knows", "TEST(A, AccusesNobody)", "x is no list",
                     "// Of a node", "# The same for y", '"""Of z."""', '"of ort: the provider"'):
            with self.subTest(line=line):
                self.assertEqual(len(faults(line)), 1)

    def test_plain_sentences_pass(self):
        for line in ("it is no longer", "there is no list", "no node is wrong",
                     "// If a node", "the same for both"):
            with self.subTest(line=line):
                self.assertEqual(faults(line), [])


if __name__ == "__main__":
    unittest.main()
