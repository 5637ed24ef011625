"""Nothing throws: of std::filesystem, the product calls only the functions that
return an error."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("runtime", "contrib", "apps")

# Functions that have a form without an error_code, which throws.
CALL = re.compile(
    r"\b(?:fs|filesystem)::"
    r"(absolute|canonical|copy|copy_file|create_directories|create_directory|"
    r"current_path|equivalent|exists|file_size|is_directory|is_empty|"
    r"is_regular_file|last_write_time|permissions|read_symlink|relative|remove|"
    r"remove_all|rename|resize_file|space|status|symlink_status|"
    r"temp_directory_path|weakly_canonical)\(")
# A range for over one throws while it goes on.
RANGE = re.compile(
    r"for \([^;)]*:\s*(?:std::)?(?:fs|filesystem)::"
    r"(?:recursive_)?directory_iterator")
ERRORS = re.compile(r"\b(?:error|ignored|unknown|ec)\)\s*$")


def arguments(text, begin):
    """What stands between the parenthesis before `begin` and its partner."""
    depth, at = 1, begin
    while depth and at < len(text):
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return text[begin:at]


class Throwing(unittest.TestCase):
    def test_no_function_of_filesystem_may_throw(self):
        wrong = []
        for path in sorted(path for folder in FOLDERS
                           for path in (ROOT / folder).rglob("*.cc")):
            text = path.read_text()
            for found in CALL.finditer(text):
                if not ERRORS.search(arguments(text, found.end())):
                    wrong.append(f"{path.relative_to(ROOT)}: {found[0]}")
            wrong += [f"{path.relative_to(ROOT)}: {found[0]}"
                      for found in RANGE.finditer(text)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
