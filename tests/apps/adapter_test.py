"""`nodewise adapter learn`: what is usual for a runtime, and `locate --known`;
and `adapter check`, which needs a runtime that runs something.

The runtime is a small Python script that knows Sigmoid alone.
"""

import pathlib
import sys
import textwrap
import unittest

from support import Scratch, document, needs_lab, nodewise

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] /
                       "support"))

# pylint: disable=wrong-import-position
from onnx_bytes import (onnx_graph, onnx_model, onnx_node,  # noqa: E402
                        value_info)

# It runs the one operation of each model, found by its name in the bytes.
RUNTIME = """
    import json, math, pathlib, struct, sys

    request = json.load(open(sys.argv[-1]))

    def sigmoid(x):
        return (0 if x < -90 else 1 / (1 + math.exp(-x))) * FACTOR

    def run(case, number):
        if b"Sigmoid" not in pathlib.Path(case["model"]).read_bytes():
            if b"Relu" in pathlib.Path(case["model"]).read_bytes():
                function = lambda x: max(x, 0)
            else:
                return {"refused": "knows Sigmoid alone"}
        else:
            function = sigmoid
        given = case["inputs"][0]
        if given["dtype"] != "float32":
            return {"refused": "knows float32 alone"}
        data = open(given["file"], "rb").read()
        numbers = struct.unpack(f"<{len(data) // 4}f", data)
        name = f"{number}.bin"
        with open(f"{request['output_folder']}/{name}", "wb") as out:
            out.write(struct.pack(f"<{len(numbers)}f",
                                  *map(function, numbers)))
        return {"outputs": [{"name": case["outputs"][0],
                             "dtype": given["dtype"], "file": name,
                             "shape": given["shape"]}]}

    answer = {"version": 1, "takes_cases": True, "runtime": "fake 1.0, cpu"}
    if "cases" in request:
        answer["cases"] = [run(case, i)
                           for i, case in enumerate(request["cases"])]
    else:
        answer.update(run(request, 0))
    json.dump(answer, open(request["answer"], "w"))
"""


@needs_lab
class Adapter(Scratch):
    def program(self, factor):
        code = textwrap.dedent(RUNTIME).replace("FACTOR", repr(factor))
        script = self.write("runtime.py", code.encode())
        return f"exec:'{sys.executable}' -I {script}"

    def learned(self, factor):
        return nodewise("adapter", "learn", self.program(factor), "--op",
                        "Sigmoid", "--op", "Tanh", "--configurations", "12",
                        "-o", self.folder / "known.txt", "--json")

    def test_an_approximation_becomes_a_row_of_the_file(self):
        result = self.learned(1 + 1e-6)
        self.assertEqual(0, result.code, result.err)
        told = document(result)
        self.assertEqual("fake 1.0, cpu", told["runtime"])
        rows = {(row["operator"], row["dtype"]): row for row in told["known"]}
        self.assertEqual("approximation", rows["Sigmoid", "float32"]["kind"])
        self.assertEqual(["Tanh"], told["refused"])
        text = (self.folder / "known.txt").read_text(encoding="utf-8")
        self.assertIn("[fake 1.0, cpu | ", text)
        self.assertIn("\nSigmoid float32 approximation ", text)

    def test_a_fault_ends_with_1_and_gets_no_row(self):
        result = self.learned(1.5)
        self.assertEqual(1, result.code, result.err)
        told = document(result)
        self.assertEqual([], told["known"])
        self.assertIn("Sigmoid", [row["operator"] for row in told["faults"]])

    def located(self, known):
        model = self.write("net.onnx", onnx_model(onnx_graph(
            [onnx_node("Sigmoid", ["x"], ["y"], name="s")],
            [value_info("x", dims=(64,))], [value_info("y", dims=(64,))])))
        return nodewise("locate", self.program(1 + 1e-6), "--model", model,
                        "--random-inputs", "1", "--known", known)

    def test_locate_knows_what_was_learned(self):
        self.learned(1 + 1e-6)
        result = self.located(self.folder / "known.txt")
        self.assertEqual(0, result.code, result.err)
        self.assertIn("Sigmoid deviates as is known of fake 1.0",
                      " ".join(result.out.split()))

    def test_a_file_that_is_not_a_table_is_named_with_its_line(self):
        result = self.located(
            self.write("bad.txt", b"Sigmoid float32 approximation 2\n"))
        self.assertEqual(2, result.code)
        self.assertIn("bad.txt:1: found", result.err)

    def test_another_action_is_refused(self):
        result = nodewise("adapter", "forget", "ort")
        self.assertEqual(2, result.code)
        self.assertIn("found \"forget\", expected check, learn or new",
                      result.err)

    def test_options_of_the_other_action_are_refused(self):
        for action, option in (("learn", "--faults=2"), ("check", "--op=Add"),
                               ("learn", "--network=demo"),
                               ("learn", "--spoil")):
            result = nodewise("adapter", action, "ort", option)
            self.assertEqual(2, result.code)
            self.assertIn(f"means nothing for {action}", result.err)

    def test_inputs_without_a_model_are_refused(self):
        for option in ("--inputs=x.npz", "--dim=n=1"):
            result = nodewise("adapter", "check", "ort", option)
            self.assertEqual(2, result.code)
            self.assertIn(f"{option[:option.index('=')]}: found no model of "
                          "yours, expected PROGRAM:MODEL.onnx", result.err)

    def test_what_is_wrong_with_a_model_of_ones_own_is_told(self):
        path = self.write("own.onnx", onnx_model(onnx_graph(
            [onnx_node("Sigmoid", ["x"], ["y"], name="s")],
            [value_info("x", dims=("n", 2))],
            [value_info("y", dims=("n", 2))])))
        result = nodewise("adapter", "check", self.program(1), "--model", path,
                          "--dim", "other=1")
        self.assertEqual(2, result.code, result)
        self.assertIn("other", result.err)

    def test_a_runtime_that_runs_no_network_is_not_checked(self):
        result = nodewise("adapter", "check", self.program(1))
        self.assertEqual(2, result.code)
        self.assertIn("ran none of the networks", result.err)


if __name__ == "__main__":
    unittest.main()
