"""Runs the examples of a page on Python, one after the other."""

import contextlib
import io
import re


def check(test, path):
    """Fails the test where an example prints something else than the block
    behind it."""
    examples = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?",
                          path.read_text(), re.DOTALL)
    test.assertGreater(len(examples), 1)
    names = {}
    for code, expected in examples:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)  # pylint: disable=exec-used
        test.assertEqual(out.getvalue(), expected, code)
