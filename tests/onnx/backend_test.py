"""The cases that ONNX's package brings, run by the reference."""

import os
import pathlib
import subprocess
import unittest

import onnx_package

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))


class BackendTest(unittest.TestCase):
    def test_every_case_passes_that_is_not_listed(self):
        data = onnx_package.need() / "backend/test/data"
        ran = subprocess.run(
            [BUILD / "bin/nodewise_onnx_backend", data,
             "--not-run", HERE / "not_run.txt"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=3000, check=False)
        print(ran.stdout.rpartition("FAILED")[2])
        self.assertEqual(ran.returncode, 0, ran.stdout[-20000:] + ran.stderr)

    def test_the_list_is_what_the_cases_say(self):
        onnx_package.need()
        listed = (HERE / "not_run.txt").read_text()
        ran = onnx_package.run(HERE / "classify_cases.py", "--print")
        self.assertEqual(ran.stdout, listed, ran.stderr)


if __name__ == "__main__":
    unittest.main()
