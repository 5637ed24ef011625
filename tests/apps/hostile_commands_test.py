"""A fixed sample of what `./dev measure` does with spoiled files and options;
see tests/measure/hostile_commands.py."""

import os
import sys
import tempfile
import unittest

from support import HAS_LAB, ROOT

sys.path.insert(0, str(ROOT / "tests/measure"))
# pylint: disable=wrong-import-position
import hostile_commands

COMMANDS = 3000 if os.environ.get("NODEWISE_TEST_FULL") else 200
SEED = 1


class HostileCommands(unittest.TestCase):
    def test_every_spoiled_command_ends_and_says_where_the_fault_is(self):
        with tempfile.TemporaryDirectory() as folder:
            measurement = hostile_commands.Measurement(folder, SEED)
            failures = list(measurement.try_all(range(COMMANDS),
                                                os.cpu_count()))
        self.assertEqual(failures, [])

    def test_every_verb_is_among_them(self):
        verbs = {c.arguments[0] for c in hostile_commands.verb_cases.CASES}
        for verb in ("demo", "run", "profile", "dump", "compare", "locate",
                     "align", "repro", "verify", "inspect", "convert",
                     "extract", *["autotest"] * HAS_LAB):
            self.assertIn(verb, verbs)


if __name__ == "__main__":
    unittest.main()
