"""What adapters keep of the models that they convert, and what they dump."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

from package_support import (BUILD, ROOT, PackageTest, floats, nodewise,
                             numpy, onnx_graph, onnx_model, onnx_node,
                             value_info)

ADAPTERS = ROOT / "apps/adapters"
sys.path.insert(0, str(ADAPTERS))

# pylint: disable=wrong-import-position
import adapter_models  # noqa: E402

DUMPING_ADAPTER = f"""
    import sys
    sys.path.insert(0, {str(ADAPTERS)!r})
    from adapter_protocol import numpy, serve

    class Model:
        name = "numpy of the test"
        output_names = ["y"]

        def __init__(self, path, shapes, options):
            assert path is None and shapes == {{"x": (64,)}}, (path, shapes)
            self.factor = numpy.float32(options.factor)

        def dump(self, inputs):
            m = inputs["x"] * numpy.float32(2)
            a = m + numpy.float32(0.25)
            a[::4] *= self.factor
            # The first name is that of another value in the model.
            return {{"a": m, "file": a, "y": numpy.maximum(a, 0),
                    "w": "is kept to itself"}}

    def add_options(parser):
        parser.add_argument("--factor", type=float, default=1)

    serve(Model, add_options)
"""


class KeptTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(tempfile, "tempdir",
                                            str(self.folder)))
        self.made = 0

    def kept(self, *parts):
        def make(folder):
            self.made += 1
            (folder / "file").write_text(str(self.made))
        return adapter_models.folder_kept("kind", parts, make)

    def test_what_was_made_of_a_model_is_made_once(self):
        model = self.folder / "model"
        model.write_text("one")
        first = self.kept("1.0", model)
        self.assertEqual(self.kept("1.0", model), first)
        self.assertEqual((first / "file").read_text(), "1")
        self.assertNotEqual(self.kept("1.1", model), first)
        model.write_text("two")
        self.assertNotEqual(self.kept("1.0", model), first)
        self.assertEqual(self.made, 3)

    def test_parts_do_not_run_together(self):
        self.assertNotEqual(self.kept("ab", "c"), self.kept("a", "bc"))

    def test_what_failed_is_not_kept(self):
        def fail(folder):
            (folder / "half").touch()
            raise RuntimeError("no such operator")
        with self.assertRaisesRegex(RuntimeError, "no such operator"):
            adapter_models.folder_kept("kind", ["model"], fail)
        self.assertEqual((self.kept("model") / "file").read_text(), "1")
        place, = self.folder.glob("nodewise_made_*")
        self.assertEqual(len(list(place.iterdir())), 1)

    def test_the_oldest_is_forgotten_and_what_is_being_made_is_not(self):
        oldest = self.kept("0")
        os.utime(oldest, (1, 1))
        being_made = oldest.parent / "part_other"
        being_made.mkdir()
        for i in range(1, adapter_models.MOST_KEPT + 1):
            self.kept(str(i))
        self.assertFalse(oldest.exists())
        self.assertTrue(being_made.exists())
        self.assertEqual(len(list(oldest.parent.iterdir())),
                         adapter_models.MOST_KEPT + 1)

    def test_what_was_left_half_made_long_ago_goes(self):
        left = self.kept("0").parent / "part_left"
        left.mkdir()
        long_ago = time.time() - 2 * adapter_models.LONGEST_S
        os.utime(left, (long_ago, long_ago))
        for i in range(1, adapter_models.MOST_KEPT + 1):
            self.kept(str(i))
        self.assertFalse(left.exists())

    def test_a_folder_that_others_may_write_to_is_refused(self):
        self.kept("0").parent.chmod(0o777)
        with self.assertRaisesRegex(PermissionError, "others can write there"):
            self.kept("1")


class ToolTest(unittest.TestCase):
    def failure(self, code):
        with self.assertRaises(RuntimeError) as caught:
            adapter_models.run_tool([sys.executable, "-c", code], "the tool")
        return str(caught.exception)

    def test_what_a_tool_calls_its_error_is_quoted(self):
        self.assertEqual(
            "the tool ended with 3: no kernel for Det", self.failure(
                "print('/tmp/a.mlir:3: error: no kernel for Det'); "
                "print('see the manual'); exit(3)"))

    def test_the_last_line_is_quoted_of_one_that_calls_nothing_so(self):
        self.assertIn("ValueError: no way", self.failure(
            "print('reading'); raise ValueError('no way')"))

    def test_a_tool_that_says_nothing_is_quoted_with_its_status(self):
        self.assertEqual("the tool ended with 4: it printed nothing",
                         self.failure("exit(4)"))


class DumpTest(PackageTest):
    """y = relu(x * 2 + 0.25), where each value has numbers enough to be known
    by."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model.write_bytes(onnx_model(onnx_graph(
            [onnx_node("Mul", ["x", "c"], ["m"], name="times"),
             onnx_node("Add", ["m", "d"], ["a"], name="plus"),
             onnx_node("Relu", ["a"], ["y"], name="last")],
            [value_info("x", dims=(64,))], [value_info("y", dims=(64,))],
            [floats("c", 2), floats("d", 0.25)])))

    def dumped(self, *words):
        script = self.folder / "dumping.py"
        script.write_text(textwrap.dedent(DUMPING_ADAPTER))
        numpy.savez(self.folder / "in.npz", x=numpy.random.default_rng(
            1).standard_normal(64, numpy.float32))
        return subprocess.run(
            [sys.executable, "-I", script, *words], check=False,
            capture_output=True, text=True, cwd=self.folder)

    def compared(self, *words):
        done = self.dumped("--inputs", "in.npz", "--dump", "out.npz", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return nodewise.compare(self.model, self.folder / "out.npz")

    def test_tensors_are_found_by_their_numbers(self):
        answer = self.compared()
        self.assertEqual(answer.status, "ok", answer)
        with numpy.load(self.folder / "out.npz") as file:
            self.assertEqual(set(file), {"x", "y", "numpy:a", "numpy:file"})

    def test_a_fault_is_named(self):
        answer = self.compared("--factor", "1.5")
        self.assertTrue(answer.is_wrong, answer)
        self.assertIn("plus (Add)", answer.said)

    def test_a_dump_without_inputs_is_refused(self):
        done = self.dumped("--dump", "out.npz")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected --inputs with it", done.stderr)

    def test_neither_a_request_nor_a_dump_is_refused(self):
        done = self.dumped()
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a request of nodewise, or --dump", done.stderr)


class InstalledTest(unittest.TestCase):
    def test_every_adapter_is_installed(self):
        self.assertEqual(
            {path.name for path in ADAPTERS.glob("*.py")},
            {path.name for path in
             (BUILD / "share/nodewise/adapters").glob("*.py")})


if __name__ == "__main__":
    unittest.main()
