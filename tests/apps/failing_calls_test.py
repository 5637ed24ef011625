"""Every verb with one call to the C library failing, and with little memory.

A sample; NODEWISE_TEST_FULL=1 (./dev test --full) takes every file call, every
block that an input may decide the size of, and 100 limits of the address
space, which takes about an hour.
"""

import os
import random
import subprocess
import tempfile
import unittest

import failing_calls
import verb_cases
from failing_calls import Bench, Sound, explain, faults_of, limited
from support import BUILD

FULL = bool(os.environ.get("NODEWISE_TEST_FULL"))
SEED = 1
# Blocks from here on have a size that an input decides; smaller ones are what
# a message or a name needs.
LEAST = 1024
# What each verb is tried with in the sample.
CALLS, BLOCKS, LIMITS = 2, 2, 2
# A network that is made, dumped and searched: seconds for each run.
SLOW = ("demo",)


class Disturbed(unittest.TestCase):
    """What the tests share."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.bench = Bench(folder.name)

    def cases(self):
        return [case for case in verb_cases.CASES
                if FULL or case.name not in SLOW]


class FailingCalls(Disturbed):
    def numbers(self, count, most):
        """All calls, or a few of them, the last among these."""
        if FULL or count <= most:
            return range(1, count + 1)
        rng = random.Random(SEED)
        return sorted({count, *rng.sample(range(1, count), most - 1)})

    def each_call(self, kind, least, most):
        for case in self.cases():
            sound = Sound(self.bench, case, kind, least)
            for number in self.numbers(sound.calls, most):
                ended = self.bench.run(case, kind, number, least)
                faults = faults_of(self.bench, sound, ended)
                with self.subTest(case=case.name, number=number):
                    self.assertEqual(faults, [], explain(
                        case, kind, number, least, ended, faults))

    def test_file_call_that_fails_is_said_and_leaves_nothing_half_done(self):
        self.each_call("file", 1, CALLS)

    def test_block_that_cannot_be_had_is_said_and_leaves_nothing(self):
        self.each_call("memory", LEAST, BLOCKS)


class LittleMemory(Disturbed):
    """Limits of the address space, from what a program needs to start to what
    the command needs."""

    least = {}

    def least_for(self, program):
        asks = {"nodewise": "--version", "network-debugger": "-help"}[program]

        def starts(size):
            return subprocess.run(
                [BUILD / "bin" / program, asks], capture_output=True,
                env=self.bench.environment(program), preexec_fn=limited(size), check=False).returncode == 0
        if program not in self.least:
            self.least[program] = failing_calls.least_that_works(
                starts, 16, 4096)
        return self.least[program]

    def enough_for(self, case, sound, low):
        def works(size):
            ended = self.bench.run(case, limit=limited(size))
            return ended.code == sound.ended.code
        return failing_calls.least_that_works(works, low, low + 256,
                                              step=1 if FULL else 8)

    def test_too_little_memory_is_said_in_one_line_never_by_a_signal(self):
        for case in self.cases():
            sound = Sound(self.bench, case, "file", 1)
            low = self.least_for(case.program)
            high = self.enough_for(case, sound, low)
            count = 100 if FULL else LIMITS
            for i in range(count):
                size = low + (high - low) * i / count
                ended = self.bench.run(case, limit=limited(size))
                faults = faults_of(self.bench, sound, ended)
                with self.subTest(case=case.name, mebibytes=size):
                    self.assertEqual(faults, [], explain(
                        case, "limit", size, "", ended, faults))


if __name__ == "__main__":
    unittest.main()
