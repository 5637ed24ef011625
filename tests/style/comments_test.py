"""A long source says why it does what it does: one line in twenty-five at
least is a comment, unless the file is a table, whose rows speak for
themselves."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("runtime", "contrib", "apps")
LONG = 150
LEAST = 0.04

# Files of table rows, by path from the root. None needs to be left out today.
TABLES = ()

# Comments first, then what may hold the signs of one: raw strings, strings and
# characters.
PIECE = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)"'
    r'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*\'''', re.S)


def share_of_comments(text):
    """The share of lines that hold a comment and nothing else."""
    lines = text.splitlines()
    whole = set()
    for piece in PIECE.finditer(text):
        if not piece.group("comment"):
            continue
        begin = text.rfind("\n", 0, piece.start()) + 1
        if text[begin:piece.start()].strip():
            continue
        first = text.count("\n", 0, piece.start())
        whole.update(range(first, first + piece.group().count("\n") + 1))
    return len(whole) / max(1, len(lines))


def silent_files():
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.cc")):
            name = str(path.relative_to(ROOT))
            text = path.read_text(encoding="utf-8")
            if name in TABLES or text.count("\n") <= LONG:
                continue
            share = share_of_comments(text)
            if share < LEAST:
                yield f"{name}: {share:.1%} of its lines are comments"


class CommentsTest(unittest.TestCase):
    def test_no_long_source_is_silent(self):
        self.assertEqual(list(silent_files()), [], "say why, not what")

    def test_every_table_that_is_left_out_is_there(self):
        for name in TABLES:
            with self.subTest(name=name):
                self.assertTrue((ROOT / name).is_file())

    def test_what_looks_like_a_comment_in_a_string_is_not_one(self):
        text = ('const char* a = "// no";\n'
                'const char* b = R"x(\n// no\n)x";\n'
                "int c = '\"';  // beside code\n"
                "// one\n"
                "/* two\n   three */\n")
        self.assertAlmostEqual(share_of_comments(text), 3 / 8)


if __name__ == "__main__":
    unittest.main()
