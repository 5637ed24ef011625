"""Adapters: what they share, and each with its runtime where that is there."""

import json
import os
import re
import subprocess
import sys
import textwrap
import unittest

from package_support import (BUILD, INPUTS, ROOT, PackageTest, model,
                             nodewise)

ADAPTERS = ROOT / "apps/adapters"
RUNTIMES = BUILD / "disagreements_venv"

NUMPY_ADAPTER = f"""
    import sys
    sys.path.insert(0, {str(ADAPTERS)!r})
    from adapter_protocol import numpy, serve

    class Model:
        name = "numpy of the test"

        def __init__(self, path, shapes, options):
            assert shapes.get("x", (3,)) == (3,), shapes
            self.factor = options.factor

        def run(self, inputs, names):
            values = dict(inputs)
            if "x" in values:
                values.setdefault("m", values["x"] * numpy.float32([1, 2, 3]))
            if "m" in values:
                values.setdefault("a", numpy.float32(self.factor) * (
                    values["m"] + numpy.float32([10, 10, -10])))
            values.setdefault("y", numpy.maximum(values["a"], 0))
            values["m"] = "is kept to itself"
            return {{name: values[name] for name in names}}

    def add_options(parser):
        parser.add_argument("--factor", type=float, default=1)

    serve(Model, add_options)
"""


class ProtocolTest(PackageTest):
    def located(self, *words):
        script = self.folder / "adapter.py"
        script.write_text(textwrap.dedent(NUMPY_ADAPTER))
        return nodewise.locate(
            " ".join([f"exec:{sys.executable}", "-I", str(script), *words]),
            model=self.model, inputs=INPUTS)

    def test_a_class_that_runs_a_model_is_an_adapter(self):
        answer = self.located()
        self.assertEqual(answer.status, "ok", answer)
        self.assertEqual(answer.document["runtime"], "numpy of the test")
        self.assertEqual(answer.document["unobserved"], ["m"])

    def test_a_fault_behind_it_is_named(self):
        answer = self.located("--factor", "1.5")
        self.assertEqual(len(answer.culprits), 1, answer)
        self.assertIn("plus", answer.culprits[0].operations)

    def test_an_option_that_it_does_not_have_is_quoted(self):
        said = self.refusal(self.located, "--colour=red")
        self.assertIn("unrecognized arguments", said)


class OnnxruntimeTest(PackageTest):
    def located(self, *options):
        return nodewise.locate(
            " ".join([f"exec:{sys.executable} -I "
                      f"{ADAPTERS}/onnxruntime_adapter.py", *options]),
            model=self.model, inputs=INPUTS)

    def test_tensors_can_be_bound_first(self):
        answer = self.located("--io-binding=on")
        self.assertEqual(answer.status, "ok", answer)
        self.assertEqual(answer.document["unobserved"], [])

    def test_the_provider_takes_options(self):
        self.assertEqual(self.located("--provider-options=use_arena=0").status,
                         "ok")
        self.assertIn("expected NAME=VALUE", self.refusal(
            self.located, "--provider-options=use_arena"))


class CheckTest(PackageTest):
    def checked(self, program, *options):
        done = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "adapter", "check", program,
             "--faults", "3", "--json", *options], check=False, capture_output=True, text=True)
        return done.returncode, json.loads(done.stdout)

    def test_a_sound_adapter_is_trusted(self):
        code, shown = self.checked("ort", "--python", sys.executable,
                                   "--network", "convolutional")
        self.assertEqual(code, 0, shown)
        self.assertEqual([each["outcome"] for each in shown["trials"]],
                         ["right"] * 4)
        self.assertTrue(all(each["accused"] == [each["operation"]]
                            for each in shown["trials"][1:]), shown)

    def test_an_adapter_that_hands_out_wrong_values_is_not_trusted(self):
        script = self.folder / "wrong.py"
        script.write_text(textwrap.dedent(f"""
            import sys
            sys.path[:0] = [{str(ADAPTERS)!r},
                            {str(ROOT / "tests/python")!r}]
            from adapter_protocol import serve
            from package_support import onnxruntime_of

            class Model:
                name = "wrong"

                def __init__(self, path, shapes, options):
                    self.path = path

                def run(self, inputs, names):
                    made = onnxruntime_of(self.path, inputs, names)
                    return {{name: -value for name, value in made.items()}}

            serve(Model)
        """))
        code, shown = self.checked(f"exec:{sys.executable} {script}",
                                   "--network", "convolutional")
        self.assertEqual(code, 1, shown)
        self.assertEqual(shown["trials"][0]["outcome"], "wrong")

    def test_results_can_be_spoiled_in_a_runtime_with_a_model_of_ones_own(self):
        path = self.folder / "own.onnx"
        path.write_bytes(model())
        code, shown = self.checked(f"ort:{path}", "--python", sys.executable,
                                   "--spoil")
        self.assertEqual(code, 0, shown)
        self.assertEqual([each["network"] for each in shown["trials"]],
                         [f"ort:{path}"] * 4)
        self.assertTrue(all(each["accused"] == [each["operation"]]
                            for each in shown["trials"][1:]), shown)
        self.assertIn("3 of 3 spoiled operations are named", shown["said"])


class NewTest(PackageTest):
    def written(self, name):
        return subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "adapter", "new", name],
            cwd=self.folder, check=False, capture_output=True, text=True)

    def test_what_is_written_runs_models(self):
        done = self.written("mine.py")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("wrote mine.py and adapter_protocol.py", done.stdout)
        answer = nodewise.locate(
            f"exec:{sys.executable} -I {self.folder}/mine.py",
            model=self.model, inputs=INPUTS)
        self.assertEqual(answer.status, "ok", answer)
        self.assertRegex(answer.document["runtime"], "^onnx evaluator 1")

    def test_a_file_that_is_there_is_left_alone(self):
        path = self.folder / "there.py"
        path.write_text("mine")
        done = self.written("there")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there.py", done.stderr)
        self.assertEqual(path.read_text(), "mine")

    def test_what_is_about_a_runtime_means_nothing(self):
        done = subprocess.run(
            [os.environ["NODEWISE_COMMAND"], "adapter", "new", "other",
             "--seed", "1"], cwd=self.folder, check=False,
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--seed: means nothing for new", done.stderr)
        self.assertFalse((self.folder / "other.py").exists())


class PrefixTest(PackageTest):
    def test_each_runtime_of_the_page_is_known(self):
        page = (ROOT / "docs/adapters.md").read_text()
        prefixes = re.findall(r"^\| `(\w+):model\.onnx`", page, re.MULTILINE)
        self.assertIn("openvino", prefixes)
        for prefix in prefixes:
            said = self.refusal(nodewise.run, f"{prefix}:{self.model}",
                                inputs=INPUTS, python="/no/python")
            self.assertIn("/no/python", said, prefix)


class OpenVinoTest(PackageTest):
    def setUp(self):
        if not (RUNTIMES / "is_complete").exists():
            self.skipTest("OpenVINO is not in build/disagreements_venv "
                          "(./dev measure installs it)")
        os.environ["NODEWISE_PYTHON"] = str(RUNTIMES / "bin/python")
        self.addCleanup(os.environ.pop, "NODEWISE_PYTHON")

    def test_a_sound_model_accuses_none(self):
        answer = nodewise.locate(f"openvino:{self.model}", inputs=INPUTS,
                                 runtime_option="precision=f32")
        self.assertEqual(answer.status, "ok", answer)
        self.assertRegex(answer.document["runtime"], "^OpenVINO .*, CPU, f32")

    def test_an_option_that_it_does_not_have_is_quoted(self):
        self.assertIn("unrecognized arguments", self.refusal(
            nodewise.locate, f"openvino:{self.model}", inputs=INPUTS,
            runtime_option={"colour": "red"}))


if __name__ == "__main__":
    unittest.main()
