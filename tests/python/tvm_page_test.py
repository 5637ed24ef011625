"""The examples of docs/tvm_vm.md, run one after the other."""

import contextlib
import io
import os
import re
import sys

import tvm_support

sys.path.insert(0, str(tvm_support.ROOT / "tests/apps"))

# pylint: disable=wrong-import-position
from howto_test import image_network  # noqa: E402


class PageTest(tvm_support.WithFolder):
    def test_every_example_prints_what_the_page_says(self):
        page = (tvm_support.ROOT / "docs/tvm_vm.md").read_text()
        examples = re.findall(
            r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", page, re.DOTALL)
        self.assertGreater(len(examples), 1)
        (self.folder / "model.onnx").write_bytes(image_network())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        names = {}
        for code, expected in examples:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)  # pylint: disable=exec-used
            self.assertEqual(out.getvalue(), expected, code)


if __name__ == "__main__":
    import unittest
    unittest.main()
