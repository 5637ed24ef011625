"""The cases that ONNX's package brings, run by the reference."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import onnx_package

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))


# Operators whose results have sizes that only data decides. The bodies of Scan
# and Loop leave theirs open, and what a function makes of a number is not
# a constant.
OPEN = {"Compress", "If", "Loop", "NonMaxSuppression", "NonZero", "OneHot",
        "Range", "Scan", "Unique"}

# Its weights are all the same, so its logits are, about 5e9 each: a softmax of
# them shows nothing but in which order a kernel has added numbers.
DECIDED_BY_ROUNDING = {"light/light_squeezenet"}


class Cases(unittest.TestCase):
    """The cases of one package."""

    NOT_RUN = HERE / "not_run.txt"

    def data(self):
        return onnx_package.need_cases()

    def ran(self, *options, may_differ=frozenset()):
        ran = subprocess.run(
            [BUILD / "bin/nodewise_onnx_backend", self.data(),
             "--not-run", self.NOT_RUN, *options],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=3000, check=False)
        print(ran.stdout.rpartition("FAILED")[2])
        failed = set(re.findall(r"(?m)^FAILED (\S+):", ran.stdout))
        self.assertEqual(ran.returncode, 1 if failed else 0, ran.stderr)
        self.assertLessEqual(failed, may_differ, ran.stdout[-20000:])
        return ran.stdout


class BackendTest(Cases):
    def test_every_case_passes_that_is_not_listed(self):
        self.ran()

    def test_every_case_passes_as_a_graph_unless_sizes_are_open(self):
        for options, may_differ in (((), DECIDED_BY_ROUNDING),
                                    (("--reference",), set())):
            with self.subTest(options=options):
                out = self.ran("--as-graph", *options, may_differ=may_differ)
                found = re.findall(r"(?m)^OPEN .*?operation \S+ \((\w+)\)",
                                   out)
                self.assertEqual(len(found), out.count("OPEN "))
                self.assertLessEqual(set(found), OPEN)

    def test_cases_pass_as_compiled_c(self):
        """A sample; with --full all cases."""
        if shutil.which("gcc") is None:
            self.skipTest("there is no gcc")
        is_full = os.environ.get("NODEWISE_TEST_FULL")
        sample = () if is_full else ("--filter", "node/test_b")
        out = self.ran("--as-c", "gcc", *sample)
        passed = int(re.search(r"(?m)^(\d+) passed, 0 failed", out)[1])
        self.assertGreaterEqual(passed, 25 if sample else 1100)

    def test_the_list_is_what_the_cases_say(self):
        ran = onnx_package.run(HERE / "classify_cases.py", self.data())
        self.assertEqual(ran.stdout, self.NOT_RUN.read_text(), ran.stderr)


class TodaysBackendTest(Cases):
    NOT_RUN = HERE / "not_run_today.txt"

    def data(self):
        return onnx_package.need_cases_of_today()

    def test_every_case_passes_that_is_not_listed(self):
        self.ran()

    def test_the_list_is_what_the_cases_say(self):
        ran = onnx_package.run_in(onnx_package.TODAY,
                                  HERE / "classify_cases.py", self.data())
        self.assertEqual(ran.stdout, self.NOT_RUN.read_text(), ran.stderr)


if __name__ == "__main__":
    unittest.main()
