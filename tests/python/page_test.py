"""The examples of the pages on Python, run one after the other."""

import contextlib
import io
import os
import re
import sys
import unittest

import package_support
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
                self.check(name)

    def check(self, name):
        page = (package_support.ROOT / "docs" / name).read_text()
        examples = re.findall(
            r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", page, re.DOTALL)
        self.assertGreater(len(examples), 3)
        names = {}
        for code, expected in examples:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)  # pylint: disable=exec-used
            self.assertEqual(out.getvalue(), expected, code)


if __name__ == "__main__":
    unittest.main()
