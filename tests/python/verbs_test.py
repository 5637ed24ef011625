"""The verbs of the command as functions, and what they answer."""

import json
import os
import signal
import subprocess
import sys
import time
import types
import unittest

from package_support import (INPUTS, PACKAGE, PackageTest, model,
                             nodewise, onnxruntime_of)


class VerbsTest(PackageTest):
    def test_a_wrong_build_is_located(self):
        net, reference = self.demo()
        answer = nodewise.locate(net, reference=reference, random_inputs=1)
        self.assertTrue(answer.is_wrong)
        self.assertIn(" is wrong", answer.said)
        self.assertEqual(len(answer.culprits), 1)
        self.assertEqual(answer.culprits[0].kind, "broken")
        self.assertIn("culprit: " + answer.culprits[0].node, answer.text)
        self.assertIs(nodewise.diagnose, nodewise.locate)

    def test_what_is_wrong_can_be_raised(self):
        net, reference = self.demo()
        answer = nodewise.locate(net, reference=reference, random_inputs=1)
        with self.assertRaisesRegex(AssertionError, " is wrong"):
            answer.raise_if_wrong()
        sound = nodewise.locate(self.model, inputs=INPUTS)
        self.assertIs(sound.raise_if_wrong(), sound)

    def test_models_and_arrays_are_taken_from_memory(self):
        for target in (model(), bytearray(model()), self.model,
                       str(self.model), FakeProto()):
            answer = nodewise.locate(target, inputs=INPUTS)
            self.assertEqual(answer.status, "ok", answer)
            self.assertEqual(answer.document["inputs"][0]["from"], "inputs")

    def test_one_input_after_the_other_is_taken(self):
        answer = nodewise.run(self.model, input=INPUTS)
        self.assertEqual(answer.status, "ok")
        self.assertIn("x: is float64 (3,), expected float32 (3,)",
                      self.refusal(nodewise.run, self.model,
                                   input={"x": [1., 2., 3.]}))

    def test_no_temporary_file_is_named(self):
        answer = nodewise.locate(model(), inputs=INPUTS)
        self.assertNotIn("/tmp/nodewise_", json.dumps(
            {**answer.document, "command": []}))
        self.assertNotIn("/tmp/nodewise_", self.refusal(
            nodewise.verify, b"no model at all"))

    def test_errors_name_parameters(self):
        said = self.refusal(nodewise.locate, self.model)
        self.assertIn("input x: was not given", said)
        self.assertIn('input={"x": ARRAY}', said)
        self.assertNotIn("--", said)
        said = self.refusal(nodewise.locate, self.model, inputs=INPUTS,
                            method="magic")
        self.assertIn('method=: found "magic"', said)

    def test_errors_have_findings(self):
        with self.assertRaises(nodewise.Error) as caught:
            nodewise.verify("/no/such/file.onnx")
        self.assertEqual(len(caught.exception.findings), 1)
        self.assertIn("/no/such/file.onnx", caught.exception.findings[0])

    def test_a_target_that_is_none_is_refused_by_its_type(self):
        self.assertIn("target: is a list, expected a path",
                      self.refusal(nodewise.locate, []))

    def test_answers_are_saved_in_the_format_of_the_ending(self):
        net, reference = self.demo()
        answer = nodewise.locate(net, reference=reference, random_inputs=1)
        for name, begin in (("a.json", "{"), ("a.txt", answer.said[:20]),
                            ("a.svg", "<")):
            path = self.folder / name
            answer.save(path)
            self.assertTrue(path.read_text().startswith(begin), name)
        self.assertIn('has the ending ".doc"', self.refusal(
            answer.save, self.folder / "a.doc"))
        self.assertIn("<svg", answer._repr_html_())

    def test_a_culprit_has_the_line_that_it_is_from(self):
        source = {"operation": "pool1", "module": "stem", "line": 12,
                  "file": "C:\\src\\net.py", "function": "forward",
                  "code": "x = self.pool(x)"}
        net, reference = self.demo()
        document = nodewise.locate(net, reference=reference,
                                   random_inputs=1).document
        document["culprits"][0]["source"] = [source, {"operation": "relu"}]
        pool, relu = nodewise._answer.answer_of(document).culprits[0].source
        self.assertEqual((pool.module, pool.line), ("stem", 12))
        self.assertEqual(str(pool),
                         "stem, net.py:12 in forward: x = self.pool(x)")
        self.assertEqual((str(relu), relu.line), ("", None))

    def test_the_table_becomes_a_data_frame(self):
        fake = types.SimpleNamespace(DataFrame=list)
        answer = nodewise.locate(self.model, inputs=INPUTS)
        sys.modules["pandas"] = fake
        try:
            rows = answer.to_dataframe()
        finally:
            del sys.modules["pandas"]
        self.assertEqual([row["node"] for row in rows],
                         [verdict.node for verdict in answer.verdicts])
        self.assertGreater(len(rows), 0)

    def test_the_functions_are_those_of_the_command(self):
        made = subprocess.run(
            [sys.executable, PACKAGE / "write_verbs.py",
             os.environ["NODEWISE_COMMAND"]], check=True, text=True,
            stdout=subprocess.PIPE).stdout
        self.assertEqual((PACKAGE / "nodewise/verbs.py").read_text(), made,
                         "write apps/python/nodewise/verbs.py anew with "
                         "apps/python/write_verbs.py")

    def test_importing_imports_no_framework(self):
        loaded = subprocess.run(
            [sys.executable, "-c", "import sys, nodewise; print(*sys.modules)"],
            env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True,
            text=True, stdout=subprocess.PIPE).stdout.split()
        for name in ("numpy", "onnx", "onnxruntime", "torch", "tvm", "pandas"):
            self.assertNotIn(name, loaded)

    def test_an_interrupt_ends_the_command_at_once(self):
        code = ("import nodewise, time\n"
                "def run(model, inputs, outputs):\n"
                "    print('running', flush=True); time.sleep(60)\n"
                f"nodewise.locate(nodewise.runtime(run), model={str(self.model)!r},"
                " random_inputs=1)\n")
        # What runs the tests in the background may have them ignore it.
        with subprocess.Popen(
                [sys.executable, "-c", code], text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                env={**os.environ, "PYTHONPATH": str(PACKAGE)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            self.assertEqual(child.stdout.readline(), "running\n")
            begin = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=30)
        self.assertIn("KeyboardInterrupt", err)
        self.assertLess(time.monotonic() - begin, 20)
        left = subprocess.run(["pgrep", "-f", str(self.model)], check=False,
                              stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(left, "")


class FakeProto:
    """As an onnx.ModelProto for us: of onnx itself nothing is needed."""

    graph = None

    def SerializeToString(self):
        return model()


class RuntimeTest(PackageTest):
    def test_a_sound_function_accuses_none(self):
        answer = nodewise.locate(nodewise.runtime(onnxruntime_of),
                                 model=self.model, inputs=INPUTS)
        self.assertEqual(answer.status, "ok", answer)
        self.assertTrue(all(each.kind == "healthy"
                            for each in answer.verdicts), answer)

    def test_a_wrong_value_is_named(self):
        def wrong(path, inputs, outputs):
            made = onnxruntime_of(path, inputs, outputs)
            # As a runtime does whose Add is wrong.
            if "y" in made and "a" not in inputs:
                made["y"] = made["y"] + (made["y"] > 0)
            if "a" in made:
                made["a"] = made["a"] + 1
            return made
        answer = nodewise.locate(nodewise.runtime(wrong, name="mine"),
                                 model=self.model, inputs=INPUTS)
        self.assertEqual([each.operations for each in answer.culprits],
                         [("plus",)], answer)
        self.assertIn("mine: ", answer.text)
        self.assertEqual(answer.document["runtime"], "mine")

    def test_what_the_function_raises_is_quoted(self):
        def wrong(path, inputs, outputs):
            raise ValueError("no kernel for Frobnicate")
        self.assertIn("ValueError: no kernel for Frobnicate", self.refusal(
            nodewise.locate, nodewise.runtime(wrong), model=self.model,
            inputs=INPUTS))

    def test_a_value_that_is_not_handed_out_is_absent(self):
        def without(path, inputs, outputs):
            made = onnxruntime_of(path, inputs, outputs)
            return {name: value for name, value in made.items() if name != "m"}
        answer = nodewise.locate(nodewise.runtime(without), model=self.model,
                                 inputs=INPUTS)
        self.assertEqual(answer.status, "ok", answer)
        self.assertEqual(answer.document["unobserved"], ["m"])

    def test_a_function_judges_another(self):
        answer = nodewise.locate(self.model,
                                 reference=nodewise.runtime(onnxruntime_of),
                                 model=self.model, inputs=INPUTS)
        self.assertEqual(answer.status, "ok", answer)

    def test_only_functions_are_runtimes(self):
        with self.assertRaisesRegex(TypeError, "is a int, expected a function"):
            nodewise.runtime(5)


if __name__ == "__main__":
    unittest.main()
