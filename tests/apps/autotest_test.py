"""`nodewise autotest`: random cases of operators against the reference."""

import os
import shutil
import sys
import unittest
import unittest.mock

from support import Scratch, document, needs_lab, nodewise

# A program that runs models, and adds 1 to the first element of all outputs:
# docs/formats/foreign_runner.md.
WRONG = """
import json, pathlib, struct, sys
request = json.load(open(sys.argv[1]))
size = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
outputs = []
inputs = {item["name"]: item for item in request["inputs"]}
for number, name in enumerate(request["outputs"]):
    # Each output of a Neg belongs to the input of the same number.
    item = inputs[name.replace("_y0", "_x0")]
    data = pathlib.Path(item["file"]).read_bytes()
    width = len(data) // max(1, __import__("math").prod(item["shape"]))
    parts = [bytearray(data[i:i + width]) for i in range(0, len(data), width)]
    for part in parts:
        part[-1] ^= 0x80
    if parts and item["dtype"] == "float32":
        parts[0][:] = struct.pack("<f", struct.unpack("<f", parts[0])[0] + 1)
    file = f"{number}.bin"
    pathlib.Path(request["output_folder"], file).write_bytes(b"".join(parts))
    outputs.append({"name": name, "dtype": item["dtype"],
                    "shape": item["shape"], "file": file})
json.dump({"version": 1, "runtime": "wrong", "outputs": outputs,
           "durations_ns": [1]}, open(request["answer"], "w"))
"""


# A program of that kind that takes several cases at once. It makes each output
# of the first input, refuses a bfloat16, and writes down each start.
WRONG_CASES = """
import json, pathlib, struct, sys
request = json.load(open(sys.argv[1]))
with open("STARTS", "a") as starts:
    starts.write("x")
folder = pathlib.Path(request["output_folder"])

def run(case, prefix):
    outputs = []
    for number, name in enumerate(case["outputs"]):
        item = case["inputs"][0]
        if item["dtype"] == "bfloat16":
            return {"refused": "there is no bfloat16 here"}
        data = bytearray(pathlib.Path(item["file"]).read_bytes())
        # CHANGE
        file = f"{prefix}{number}.bin"
        (folder / file).write_bytes(data)
        outputs.append({"name": name, "dtype": item["dtype"],
                        "shape": item["shape"], "file": file})
    return {"outputs": outputs}

answer = {"version": 1, "takes_cases": True}
if "cases" in request:
    answer["cases"] = [run(case, f"{i}_")
                       for i, case in enumerate(request["cases"])]
else:
    answer.update(run(request, ""))
# END
json.dump(answer, open(request["answer"], "w"))
"""


@needs_lab
class Autotest(Scratch):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "wrong.py"
        self.program.write_text(WRONG)
        self.wrong = f"exec:{sys.executable} {self.program}"

    def tanh_is_sin(self):
        """A C compiler that takes one function for another."""
        compiler = self.folder / "cc"
        compiler.write_text(f"#!/bin/sh\nexec {shutil.which('cc')} "
                            "-Dtanh=sin \"$@\"\n")
        compiler.chmod(0o755)
        path = f"{self.folder}:{os.environ['PATH']}"
        return unittest.mock.patch.dict(os.environ, PATH=path)

    def test_a_sound_candidate_is_not_accused(self):
        # OF-01
        result = nodewise("autotest", "--op", "Relu", "--op", "Concat",
                          "--candidate", "graph", "--runs", "200", "--seed",
                          "1")
        self.assertEqual(result.code, 0, result.out + result.err)
        self.assertIn("nothing found", result.out)
        self.assertIn("--seed 1 draws the same cases again", result.out)

    def test_gradients_are_tested_where_they_are_asked_for(self):
        result = nodewise("autotest", "--op", "MatMul", "--candidate", "c",
                          "--with", "backward", "--runs", "64", "--seed", "1",
                          "--json")
        self.assertEqual(result.code, 0, result.out + result.err)
        operators = document(result)["operators"]
        self.assertEqual([row["operator"] for row in operators],
                         ["MatMul 1 backward"])
        self.assertGreater(operators[0]["agrees"], 0)
        both = nodewise("autotest", "--op", "Mul", "--op", "Floor",
                        "--candidate", "graph", "--with", "both", "--runs",
                        "160", "--seed", "1", "--json")
        names = [row["operator"] for row in document(both)["operators"]]
        self.assertIn("Mul 7", names)
        self.assertIn("Mul 7 backward", names)
        self.assertNotIn("Floor 1 backward", names)

    def test_a_wrong_gradient_is_written_with_what_it_is_of(self):
        folder = self.folder / "findings"
        # The gradient of a Neg is a Neg of the cotangent alone.
        self.program.write_text(WRONG.replace(
            'name.replace("_y0", "_x0")',
            'name.replace("_gradient_x0", "_cotangent_y0")'))
        result = nodewise("autotest", "--op", "Neg", "--candidate", self.wrong,
                          "--with", "backward", "--runs", "32", "--seed", "2",
                          "-o", folder)
        self.assertEqual(result.code, 1, result.out + result.err)
        self.assertIn("gradient of Neg", result.out)
        self.assertTrue((folder / "001_Neg" / "forward.onnx").is_file())
        again = nodewise("autotest", "--case", folder / "001_Neg",
                         "--candidate", "onednn")
        self.assertEqual(again.code, 0, again.out + again.err)

    def test_an_operator_without_a_gradient_is_an_error(self):
        result = nodewise("autotest", "--op", "Floor", "--with", "backward")
        self.assertEqual(result.code, 2)
        self.assertIn("Floor has no gradient", result.err)
        result = nodewise("autotest", "--op", "Relu", "--with", "backwards")
        self.assertEqual(result.code, 2)
        self.assertIn("expected forward, backward or both", result.err)

    def test_the_seed_is_shown_when_it_is_drawn(self):
        result = nodewise("autotest", "--op", "Relu", "--runs", "16")
        self.assertRegex(result.out, r"seed: \d+ \(--seed \d+ draws")

    def test_the_same_seed_says_the_same(self):
        runs = [nodewise("autotest", "--op", "Add", "--runs", "64", "--seed",
                         "9", "--json", "--candidate", "graph")
                for _ in range(2)]
        self.assertEqual(runs[0], runs[1])

    def test_a_wrong_program_is_found_and_shrunk(self):
        # OF-01
        result = nodewise("autotest", "--op", "Neg", "--candidate", self.wrong,
                          "--runs", "32", "--seed", "2", "--json")
        self.assertEqual(result.code, 1, result.out + result.err)
        findings = document(result)["findings"]
        self.assertEqual(findings[0]["outcome"], "mismatch")
        self.assertRegex(findings[0]["case"], r"^Neg \d+ \(\) float32\[")

    def test_a_finding_is_written_and_fails_again_elsewhere(self):
        # OF-45
        folder = self.folder / "findings"
        result = nodewise("autotest", "--op", "Neg", "--candidate", self.wrong,
                          "--runs", "32", "--seed", "2", "-o", folder)
        self.assertEqual(result.code, 1, result.out + result.err)
        moved = self.folder / "moved"
        (folder / "001_Neg").rename(moved)
        for file in ("README.md", "model.onnx", "test_data_set_0/input_0.pb",
                     "test_data_set_0/output_0.pb"):
            self.assertTrue((moved / file).is_file(), file)
        self.assertRegex((moved / "README.md").read_text(),
                         r"^# Neg: mismatch\n")
        again = nodewise("autotest", "--case", moved, "--candidate", "graph")
        self.assertEqual(again.code, 0, again.out + again.err)
        self.assertIn("agrees", again.out)

    def test_networks_are_drawn_and_agree(self):
        result = nodewise("autotest", "--networks", "--candidate", "graph",
                          "--runs", "200", "--seed", "1", "--json")
        self.assertEqual(result.code, 0, result.out + result.err)
        row, = document(result)["operators"]
        self.assertEqual(row["operator"], "networks")
        self.assertEqual(row["configurations"], 50)
        self.assertGreater(row["agrees"], 180)

    def test_networks_that_passes_rewrite_agree(self):
        result = nodewise("autotest", "--networks", "--pass", "merge",
                          "--pass", "split", "--candidate", "graph", "--runs",
                          "200", "--seed", "2")
        self.assertEqual(result.code, 0, result.out + result.err)

    def test_a_model_is_mutated(self):
        folder = self.folder / "findings"
        nodewise("autotest", "--op", "Neg", "--candidate", self.wrong,
                 "--runs", "32", "--seed", "2", "-o", folder)
        for path in (folder, folder / "001_Neg" / "model.onnx"):
            result = nodewise("autotest", "--mutate", path, "--candidate",
                              "graph", "--runs", "100", "--seed", "1")
            self.assertEqual(result.code, 0, result.out + result.err)
            self.assertIn("model.onnx", result.out)

    def test_a_network_is_cut_to_what_fails_and_attributed(self):
        folder = self.folder / "findings"
        with self.tanh_is_sin():
            result = nodewise("autotest", "--networks", "--op", "Neg", "--op",
                              "Tanh", "--op", "Add", "--candidate", "c",
                              "--runs", "32", "--seed", "5", "--attribute",
                              "-o", folder)
        self.assertEqual(result.code, 1, result.out + result.err)
        self.assertIn("written: " + str(folder / "001_Tanh"), result.out)
        self.assertIn("stays, no matter what is switched off (fusing",
                      result.out)
        page = (folder / "001_Tanh" / "README.md").read_text()
        self.assertRegex(page, r"^# Tanh: mismatch\n")
        self.assertIn("The finding: stays, no matter what", page)

    def test_gradients_of_networks_agree(self):
        result = nodewise("autotest", "--networks", "--with", "both",
                          "--candidate", "graph", "--runs", "400", "--seed",
                          "1", "--json")
        self.assertEqual(result.code, 0, result.out + result.err)
        forward, backward = document(result)["operators"]
        self.assertEqual(forward["operator"], "networks")
        self.assertEqual(backward["operator"], "networks backward")
        self.assertEqual(backward["configurations"], 50)
        self.assertGreater(backward["agrees"], 180)

    def test_a_wrong_gradient_of_a_network_is_cut_and_written(self):
        folder = self.folder / "findings"
        with self.tanh_is_sin():
            # Every simpler case is compiled, so a short search is drawn.
            arguments = ["autotest", "--networks", "--op", "Tanh", "--with",
                         "backward", "--candidate", "c", "--runs", "8",
                         "--seed", "3"]
            result = nodewise(*arguments, "--attribute", "-o", folder)
            again = nodewise("autotest", "--case", folder / "001_Tanh",
                             "--candidate", "c")
            mutated = nodewise("autotest", "--mutate",
                               folder / "001_Tanh" / "forward.onnx", "--with",
                               "backward", "--candidate", "c", "--runs", "16",
                               "--seed", "2")
        self.assertEqual(result.code, 1, result.out + result.err)
        self.assertIn("gradient of network", result.out)
        self.assertIn("stays, no matter what is switched off (fusing",
                      result.out)
        page = (folder / "001_Tanh" / "README.md").read_text()
        self.assertRegex(page, r"^# gradient of Tanh: mismatch\n")
        self.assertIn("the gradient of the network in `forward.onnx`", page)
        self.assertEqual(again.code, 1, again.out + again.err)
        self.assertEqual(mutated.code, 1, mutated.out + mutated.err)
        self.assertIn("forward.onnx backward", mutated.out)
        sound = nodewise("autotest", "--case", folder / "001_Tanh",
                         "--candidate", "graph")
        self.assertEqual(sound.code, 0, sound.out + sound.err)

    def test_bad_use_is_named(self):
        for arguments, words in (
                (["--op", "Convv"], "did you mean Conv?"),
                (["--candidate", "tvm"], "expected onednn, c, graph, ort"),
                (["--shard", "5/4"], "expected I/N, such as 1/4"),
                (["--shard", "x"], "expected I/N, such as 1/4"),
                (["--runs", "0"], "from 1 to"),
                (["--case", "nowhere"], "nowhere/model.onnx"),
                (["--pass", "fold"], "expected merge or split"),
                (["--mutate", "nowhere.onnx"], "nowhere.onnx"),
                (["--networks", "--mutate", "a.onnx"], "not both")):
            with self.subTest(arguments=arguments):
                result = nodewise("autotest", *arguments)
                self.assertEqual(result.code, 2, result.out)
                self.assertIn(words, result.err)

    def cases(self, change="pass", end=""):
        """Runs autotest on Identity with a program that takes several cases.
        Returns the result, and how often the program was started."""
        starts = self.folder / "starts"
        starts.unlink(missing_ok=True)
        self.program.write_text(
            WRONG_CASES.replace("STARTS", str(starts)).replace(
                "# CHANGE", change).replace("# END", end))
        result = nodewise("autotest", "--op", "Identity", "--candidate",
                          self.wrong, "--runs", "640", "--seed", "3", "--json")
        return result, len(starts.read_text())

    def test_many_cases_take_one_start(self):
        result, starts = self.cases()
        self.assertEqual(result.code, 0, result.out + result.err)
        rows = document(result)["operators"]
        self.assertEqual(sum(row["agrees"] + row["candidate_refuses"]
                             for row in rows), 640)
        self.assertGreater(sum(row["candidate_refuses"] for row in rows), 0)
        # It is asked once whether it takes cases.
        self.assertEqual(starts, 2)

    def test_what_is_wrong_in_one_of_many_cases_is_found(self):
        result, _ = self.cases('if item["dtype"] == "float32" and data: '
                               'data[-1] ^= 0x40')
        self.assertEqual(result.code, 1, result.out + result.err)
        self.assertEqual(document(result)["findings"][0]["outcome"],
                         "mismatch")

    def test_a_case_that_ends_the_program_takes_no_other_with_it(self):
        result, starts = self.cases(
            'if item["dtype"] == "uint16": sys.exit("no uint16")')
        self.assertEqual(result.code, 0, result.out + result.err)
        rows = document(result)["operators"]
        self.assertGreater(sum(row["agrees"] for row in rows), 400)
        self.assertGreater(starts, 4)

    def test_what_is_said_of_cases_is_checked(self):
        for end, words in (
                ('answer["cases"] = answer.get("cases", [])[1:]',
                 "expected one"),
                ('[case.update(outputs=[]) for case in '
                 'answer.get("cases", [])]', "has 0 tensors, expected 1"),
                ('answer["cases"] = [7] * len(answer.get("cases", []))',
                 "is not an object, expected one")):
            with self.subTest(end=end):
                result, _ = self.cases(end=end)
                self.assertEqual(result.code, 2, result.out + result.err)
                rows = document(result)["operators"]
                self.assertEqual(sum(row["agrees"] for row in rows), 0)
                text = nodewise("autotest", "--op", "Identity", "--candidate",
                                self.wrong, "--runs", "16", "--seed", "3").out
                self.assertIn(words, text)

    def test_a_program_that_refuses_everything_has_not_been_tested(self):
        # OFc-02
        for program, why in (("/bin/false", "ended with status 1"),
                             ("/nonexistent", "is not a file that can be run")):
            with self.subTest(program=program):
                result = nodewise("autotest", "--op", "Neg", "--candidate",
                                  f"exec:{program}", "--runs", "16", "--seed",
                                  "2")
                self.assertEqual(result.code, 2, result.out + result.err)
                self.assertIn(why, result.out)
                self.assertIn(f"nothing was compared: exec:{program} refused "
                              "16 of 16 sets of numbers", result.err)
                self.assertNotIn("nothing found", result.out)


if __name__ == "__main__":
    unittest.main()
