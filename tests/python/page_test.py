"""The examples of the pages on Python, run one after the other."""

import os
import sys
import unittest

import package_support
import page_examples
from package_support import HAS_NATIVE

sys.path.insert(0, str(package_support.ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import WithBuilds, image_network  # noqa: E402


class PageTest(WithBuilds):
    def test_every_example_prints_what_the_page_says(self):
        self.write("model.onnx", image_network())
        self.compiled("net", image_network("AveragePool"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for name in ("python.md", "tests.md", "session.md"):
            with self.subTest(name):
                if name == "session.md" and not HAS_NATIVE:
                    self.skipTest("the native module was not built")
                page_examples.check(self, package_support.ROOT / "docs" / name)


if __name__ == "__main__":
    unittest.main()
