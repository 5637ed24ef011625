"""Models that onnxruntime runs, through the adapter that comes with nodewise."""

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

# Networks as text, with weights that are drawn.
MAKER = """
    import sys
    import numpy, onnx, onnx.parser, onnx.numpy_helper
    folder = sys.argv[1]
    draw = numpy.random.default_rng(7)

    def make(name, text, **weights):
        model = onnx.parser.parse_model(text)
        for key, (shape, dtype) in weights.items():
            values = draw.standard_normal(shape).astype(dtype)
            if key == "var":
                values = abs(values) + 0.5
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(values, key))
        onnx.checker.check_model(model)
        onnx.save(model, f"{folder}/{name}.onnx")

    HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
    make("conv", HEAD + '''
    net (float[1, 3, 8, 8] x) => (float[1, 10] y) {
      c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
      n = BatchNormalization (c, scale, shift, mean, var)
      r = LeakyRelu <alpha = 0.125> (n)
      p = GlobalAveragePool (r)
      f = Flatten (p)
      g = Gemm <transB = 1> (f, w2, b2)
      y = Softmax (g)
    }''', w=((4, 3, 3, 3), "f4"), b=((4,), "f4"), scale=((4,), "f4"),
         shift=((4,), "f4"), mean=((4,), "f4"), var=((4,), "f4"),
         w2=((10, 4), "f4"), b2=((10,), "f4"))
    make("half", HEAD + '''
    net (float16[2, 6] x) => (float16[2, 4] y) {
      m = MatMul (x, w)
      y = Tanh (m)
    }''', w=((6, 4), "f2"))
    make("words", HEAD + '''
    net (int64[5] x, bool[5] keep) => (int64[5] y, bool[5] no) {
      s = Mul (x, x)
      y = Where (keep, s, x)
      no = Not (keep)
    }''')
    make("short", '<ir_version: 8, opset_import: ["" : 17]>' + '''
    net (float[4] x) => (float[4] y) {
      a = Cast <to = 16> (x)
      b = Cast <to = 1> (a)
      y = Mul (b, b)
    }''')
"""
# A runtime with a fault: LeakyRelu has another slope than it should.
FAULTY = """
    import json, runpy, sys
    import onnx
    path = sys.argv[-1]
    request = json.load(open(path))
    model = onnx.load(request["model"])
    for node in model.graph.node:
        if node.op_type == "LeakyRelu":
            node.attribute[0].f = 0.25
    request["model"] = path + ".onnx"
    onnx.save(model, request["model"])
    json.dump(request, open(path, "w"))
    sys.argv = [ADAPTER, path]
    runpy.run_path(ADAPTER, run_name="__main__")
"""


class OnnxRuntimeTest(unittest.TestCase):
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

    def nodewise(self, *arguments, python=onnx_package.PYTHON):
        return subprocess.run(
            [BUILD / "bin/nodewise", *map(str, arguments), "--random-inputs",
             "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=100, check=False,
            env={**os.environ, "NODEWISE_PYTHON": str(python)})

    def ran(self, name, *options, verb="run"):
        shown = self.nodewise(verb, f"ort:{self.folder / name}.onnx", *options)
        self.assertEqual(shown.returncode, 0, shown)
        return shown

    def test_outputs_are_those_of_the_reference(self):
        for name in ("conv", "half", "words", "short"):
            with self.subTest(name=name):
                theirs, ours = (self.folder / f"{name}_{side}.npz"
                                for side in ("ort", "reference"))
                self.ran(name, "-o", theirs)
                shown = self.nodewise("run", self.folder / f"{name}.onnx",
                                      "--reference", "-o", ours)
                self.assertEqual(shown.returncode, 0, shown)
                compared = subprocess.run(
                    [BUILD / "bin/nodewise", "compare", ours, theirs,
                     "--rule", "by-type"], capture_output=True, text=True,
                    timeout=100, check=False)
                self.assertEqual(compared.returncode, 0, compared)

    def test_a_sound_runtime_accuses_no_node_at_any_level(self):
        for name in ("conv", "half", "words", "short"):
            for level in ("disabled", "all"):
                with self.subTest(name=name, level=level):
                    shown = self.ran(name, "--ort-level", level, "--repeats",
                                     "0", verb="locate")
                    self.assertIn("no culprit\n", shown.stdout)

    def test_a_kernel_that_is_wrong_is_named(self):
        script = self.folder / "faulty.py"
        adapter = BUILD / "share/nodewise/adapters/onnxruntime_adapter.py"
        script.write_text(textwrap.dedent(FAULTY).replace(
            "ADAPTER", repr(str(adapter))))
        shown = self.nodewise(
            "locate", f"exec:{onnx_package.PYTHON} -I {script}", "--model",
            self.folder / "conv.onnx", "--referee", "ort", "--json")
        self.assertEqual(shown.returncode, 1, shown)
        found = json.loads(shown.stdout)
        self.assertEqual([c["source_nodes"] for c in found["culprits"]],
                         [[found["verdicts"][2]["node"]]])
        self.assertEqual(found["culprits"][0]["kind"], "broken")
        self.assertGreater(found["culprits"][0]["evidence"]["share"], 0.99)
        self.assertEqual([r["side"] for r in found["referee"]],
                         ["agrees with the reference"])

    def measured(self, python):
        """What the measurement says of onnxruntime on one of the models."""
        models = self.folder / "models"
        models.mkdir(exist_ok=True)
        (models / "conv_1.onnx").write_bytes(
            (self.folder / "conv.onnx").read_bytes())
        return subprocess.run(
            [BUILD / "bin/nodewise_measure_locate", "--what", "foreign",
             "--models", models, "--python", python, "--draws", "1"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=100, check=False)

    def test_the_measurement_accuses_it_at_no_level(self):
        shown = self.measured(onnx_package.PYTHON)
        self.assertEqual(shown.returncode, 0, shown)
        for level in ("disabled", "all"):
            self.assertRegex(shown.stdout, f"onnxruntime, {level} +1 +0 ")

    def test_the_measurement_counts_a_kernel_that_is_wrong(self):
        script = self.folder / "measured.py"
        script.write_text(textwrap.dedent(FAULTY).replace(
            "ADAPTER", repr(str(
                BUILD / "share/nodewise/adapters/onnxruntime_adapter.py"))))
        python = self.folder / "faulty_python"
        python.write_text("#!/bin/sh\nfor request; do :; done\nexec "
                          f"{onnx_package.PYTHON} -I {script} \"$request\"\n")
        python.chmod(0o755)
        shown = self.measured(python)
        self.assertEqual(shown.returncode, 1, shown)
        self.assertIn("2 results, 2 not as they must be", shown.stdout)

    def test_a_dump_holds_what_lies_between_operations(self):
        root = self.folder / "dump"
        shown = self.ran("conv", "--dump-root", root, verb="dump")
        self.assertIn("outputs: ", shown.stdout)
        reference = self.nodewise(
            "dump", self.folder / "conv.onnx", "--reference", "--dump-root",
            self.folder / "other")
        self.assertEqual(reference.returncode, 0, reference)
        compared = subprocess.run(
            [BUILD / "bin/nodewise", "compare", self.folder / "other", root,
             "--json"], capture_output=True, text=True, timeout=100,
            check=False)
        found = json.loads(compared.stdout)
        self.assertEqual(found["status"], "ok", compared.stdout[-3000:])
        self.assertGreaterEqual(len(found["tensors"]), 7)

    def test_what_is_missing_or_unknown_is_said(self):
        empty = self.folder / "python"
        empty.write_text("#!/bin/sh\nexec "
                         f"{onnx_package.PYTHON} -S \"$@\"\n")
        empty.chmod(0o755)
        model = f"ort:{self.folder / 'conv.onnx'}"
        for options, python, expected in (
                ([], empty, "this Python has no package"),
                ([], "no_such_python", "no program no_such_python in PATH"),
                (["--ort-provider", "Abacus"], onnx_package.PYTHON,
                 "provider Abacus: this onnxruntime does not have it, "
                 "expected one of")):
            with self.subTest(expected=expected):
                shown = self.nodewise("run", model, *options, python=python)
                self.assertEqual(shown.returncode, 2, shown)
                self.assertIn(expected, shown.stderr)


if __name__ == "__main__":
    unittest.main()
