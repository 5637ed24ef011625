"""Casts to and from short element types against ml_dtypes, bit by bit, and
against onnxruntime."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import onnx_package

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))


class ShortTypesTest(unittest.TestCase):
    def judged_by(self, judge, environment):
        if onnx_package.folder_in(environment) is None:
            self.skipTest(f"ONNX's package is not installed in {environment} "
                          "(./dev setup)")
        with tempfile.TemporaryDirectory() as folder:
            made = onnx_package.run_in(environment, HERE / "short_cases.py",
                                       folder, judge)
            self.assertEqual(made.returncode, 0, made.stderr)
            ran = subprocess.run(
                [BUILD / "bin/nodewise_onnx_backend", folder],
                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=600, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout[-4000:] + ran.stderr)

    def test_casts_give_the_bits_of_ml_dtypes(self):
        self.judged_by("ml_dtypes", onnx_package.TODAY)

    def test_casts_give_the_numbers_of_onnxruntime(self):
        self.judged_by("onnxruntime", onnx_package.VENV)


if __name__ == "__main__":
    unittest.main()
