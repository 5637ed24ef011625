"""Our own kernels against the reference, on random cases of all operators.

Five thousand sets of numbers with a fixed seed for each; with
NODEWISE_TEST_FULL=1 a hundred thousand.
"""

import os
import unittest

from support import needs_lab, nodewise

SEED = 20261125
RUNS = 100_000 if os.environ.get("NODEWISE_TEST_FULL") else 5_000


@needs_lab
class OursAgainstOurs(unittest.TestCase):
    def check(self, candidate):
        result = nodewise("autotest", "--candidate", candidate, "--runs",
                          str(RUNS), "--seed", str(SEED))
        self.assertEqual(
            result.code, 0,
            f"nodewise autotest --candidate {candidate} --runs {RUNS} "
            f"--seed {SEED}\n{result.out[-4000:]}\n{result.err[-2000:]}")

    def test_the_executor_agrees(self):
        self.check("graph")

    def test_kernels_of_onednn_agree(self):
        self.check("onednn")

    def test_emitted_c_agrees(self):
        self.check("c")


if __name__ == "__main__":
    unittest.main()
