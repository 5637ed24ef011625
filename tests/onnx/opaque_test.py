"""Models with operators that onnxruntime has and nodewise has not: the rest is
computed here, and onnxruntime runs each of them alone."""

import json
import os
import pathlib
import subprocess
import tempfile
import textwrap
import unittest

import onnx_package

BUILD = pathlib.Path(os.environ.get("NODEWISE_BUILD",
                                    onnx_package.ROOT / "build"))

# Two with weights as constants, of one the model states no type; one with
# inputs alone; one in the branches of an If; one of an opset of its own.
MAKER = """
    import sys
    import numpy, onnx, onnx.parser, onnx.numpy_helper
    folder = sys.argv[1]
    draw = numpy.random.default_rng(7)

    def make(name, text, **weights):
        model = onnx.parser.parse_model(text)
        for key, shape in weights.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(
                draw.standard_normal(shape).astype("f4"), key))
        onnx.save(model, f"{folder}/{name}.onnx")

    HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
    make("constant", HEAD + '''
    net (float[2, 3] x) => (float[2, 5] y, float[2, 3] z)
    <float[2, 4] d, float[2, 3] a> {
      a = Relu (x)
      d = com.microsoft.CDist <metric = "euclidean"> (a, c)
      m = MatMul (d, w)
      y = Tanh (m)
      z = Neg (a)
    }''', c=(4, 3), w=(4, 5))
    make("unstated", HEAD + '''
    net (float[n, 3] x, float[m, 3] v) => (float[n, m] y) {
      d = com.microsoft.CDist <metric = "sqeuclidean"> (x, v)
      y = Sqrt (d)
    }''')
    make("branch", HEAD + '''
    net (bool c, float[2, 3] x) => (float[2, 2] y) {
      y = If (c) <
        then_branch = yes () => (float[2, 2] s) {
          s = com.microsoft.CDist <metric = "sqeuclidean"> (x, x)
        },
        else_branch = no () => (float[2, 2] e) <float[2, 2] d> {
          d = com.microsoft.CDist <metric = "euclidean"> (x, x)
          e = Neg (d)
        }>
    }''')
"""
SIZES = {"constant": [], "unstated": ["--dim", "n=4", "--dim", "m=2"],
         "branch": []}


class OpaqueOperatorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        onnx_package.need()
        asked = onnx_package.run("-c", "import onnxruntime")
        if asked.returncode != 0:
            raise unittest.SkipTest("onnxruntime is not installed in "
                                    "build/venv (./dev setup)")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        made = onnx_package.run("-c", textwrap.dedent(MAKER), cls.folder)
        assert made.returncode == 0, made.stderr

    def nodewise(self, *arguments, code=0):
        shown = subprocess.run(
            [BUILD / "bin/nodewise", *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=100, check=False,
            env={**os.environ, "NODEWISE_PYTHON": str(onnx_package.PYTHON)})
        self.assertEqual(shown.returncode, code, shown)
        return shown.stdout

    def model(self, name):
        return self.folder / f"{name}.onnx"

    def test_outputs_are_those_of_onnxruntime_alone(self):
        for name, sizes in SIZES.items():
            for how in ([], ["--reference"]):
                with self.subTest(name=name, how=how):
                    ours, theirs = (self.folder / f"{name}_{side}.npz"
                                    for side in ("ours", "theirs"))
                    asked = ["--random-inputs", "1", *sizes]
                    self.nodewise("run", f"ort:{self.model(name)}", "-o",
                                  theirs, *asked)
                    self.nodewise("run", self.model(name), "--opaque", "ort",
                                  "-o", ours, *how, *asked)
                    self.nodewise("compare", ours, theirs, "--rule", "by-type")

    def test_without_onnxruntime_the_rest_is_the_same(self):
        part, whole = self.folder / "part.npz", self.folder / "whole.npz"
        model = self.model("constant")
        asked = ["--random-inputs", "1"]
        shown = self.nodewise("run", model, "-o", part, *asked, code=2)
        self.assertIn("without output y, which depends on CDist_1", shown)
        self.nodewise("run", model, "--opaque", "ort", "-o", whole, *asked)
        compared = json.loads(self.nodewise("compare", whole, part, "--json"))
        self.assertEqual([(one["tensor"], one["reason"])
                          for one in compared["tensors"]], [("z", "equal")])

    def test_a_sound_model_accuses_no_node(self):
        for name, sizes in SIZES.items():
            model = self.model(name)
            # What runs the whole model runs them, too.
            for asked in ([model, "--opaque", "ort", "--repeats", "1"],
                          [f"ort:{model}", "--repeats", "1"],
                          [model, "--reference", f"ort:{model}"]):
                with self.subTest(asked=asked):
                    shown = self.nodewise("locate", *asked, "--random-inputs",
                                          "1", *sizes)
                    self.assertIn("no culprit\n", shown)
                    self.assertIn("(run by ort)", shown)

    def test_a_part_that_was_extracted_runs_in_onnxruntime(self):
        part = self.folder / "part.onnx"
        self.nodewise("extract", self.model("constant"), "--from", "CDist_1",
                      "--to", "m", "-o", part)
        asked = ["--random-inputs", "1"]
        ours, theirs = self.folder / "o.npz", self.folder / "t.npz"
        self.nodewise("run", f"ort:{part}", "-o", theirs, *asked)
        self.nodewise("run", part, "--opaque", "ort", "-o", ours, *asked)
        self.nodewise("compare", ours, theirs, "--rule", "by-type")

    def test_what_onnxruntime_does_not_have_it_says_itself(self):
        model = self.model("constant")
        other = self.folder / "other.onnx"
        other.write_bytes(model.read_bytes().replace(b"CDist", b"CFist"))
        shown = subprocess.run(
            [BUILD / "bin/nodewise", "run", other, "--opaque", "ort",
             "--python", onnx_package.PYTHON, "--random-inputs", "1"],
            capture_output=True, text=True, timeout=100, check=False)
        self.assertEqual(shown.returncode, 2, shown)
        self.assertIn("com.microsoft.CFist by ort: onnxruntime: ", shown.stderr)


if __name__ == "__main__":
    unittest.main()
