"""The examples of docs/tvm_vm.md, run one after the other."""

import os
import sys

import page_examples
import tvm_support

sys.path.insert(0, str(tvm_support.ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import image_network  # noqa: E402


class PageTest(tvm_support.WithFolder):
    def test_every_example_prints_what_the_page_says(self):
        (self.folder / "model.onnx").write_bytes(image_network())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        page_examples.check(self, tvm_support.ROOT / "docs/tvm_vm.md")


if __name__ == "__main__":
    import unittest
    unittest.main()
