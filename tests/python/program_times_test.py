"""How long another program takes for each operation."""

import sys
import textwrap
import unittest

from package_support import (INPUTS, ROOT, PackageTest, nodewise,
                             onnxruntime_of)

# Answers as docs/formats/foreign_runner.md has it, without times.
SILENT = """
    import json, sys
    import numpy, onnxruntime
    request = json.load(open(sys.argv[-1]))
    inputs = {each["name"]: numpy.fromfile(
        each["file"], each["dtype"]).reshape(each["shape"])
        for each in request["inputs"]}
    session = onnxruntime.InferenceSession(
        request["model"], providers=["CPUExecutionProvider"])
    outputs = []
    for name, array in zip(request["outputs"],
                           session.run(request["outputs"], inputs)):
        file = f"{len(outputs)}.bin"
        array.tofile(f"{request['output_folder']}/{file}")
        outputs.append({"name": name, "dtype": str(array.dtype),
                        "shape": list(array.shape), "file": file})
    json.dump({"version": 1, "outputs": outputs}, open(request["answer"], "w"))
"""

# Has what adapters share measure, and does not know one operation alone.
CHOOSY = f"""
    import sys
    sys.path.insert(0, {str(ROOT / "apps/adapters")!r})
    import onnxruntime
    from adapter_protocol import serve

    class Model:
        name = "choosy"

        def __init__(self, path, shapes, options):
            self.session = onnxruntime.InferenceSession(
                path, providers=["CPUExecutionProvider"])

        def run(self, inputs, names):
            if names == ["a"]:
                raise RuntimeError("no Add here")
            return dict(zip(names, self.session.run(names, inputs)))

    serve(Model)
"""


class ProgramTimesTest(PackageTest):
    def test_each_operation_is_timed_alone_beside_the_plain_run(self):
        answer = nodewise.profile("ort:" + str(self.model), inputs=INPUTS,
                                  python=sys.executable, runs=5)
        times = answer.document["operations_alone"]
        self.assertEqual([(each["name"], each["kind"])
                          for each in times["operations"]],
                         [("times", "Mul"), ("plus", "Add"), ("last", "Relu")])
        alone = [each["us"] for each in times["operations"]]
        self.assertGreater(min(alone), 0)
        self.assertAlmostEqual(sum(alone), times["sum_us"])
        self.assertGreater(times["plain_us"], 0)
        self.assertIn("each alone", answer.text)

    def test_an_operation_that_fails_alone_has_no_time(self):
        script = self.folder / "choosy.py"
        script.write_text(textwrap.dedent(CHOOSY))
        answer = nodewise.profile(f"exec:{sys.executable} {script}",
                                  model=self.model, inputs=INPUTS, runs=3)
        rows = answer.document["operations_alone"]["operations"]
        self.assertIn("no Add here", rows[1]["why_not"])
        self.assertIn("us", rows[0])
        self.assertIn("1 operation could not be timed alone", answer.notes)

    def test_a_program_that_says_no_times_is_told_so(self):
        script = self.folder / "silent.py"
        script.write_text(textwrap.dedent(SILENT))
        said = self.refusal(nodewise.profile,
                            f"exec:{sys.executable} {script}",
                            model=self.model, inputs=INPUTS, runs=4)
        self.assertIn("says no times of its runs", said)

    def test_a_function_of_python_says_none_since_it_loads_the_model(self):
        said = self.refusal(nodewise.profile, nodewise.runtime(onnxruntime_of),
                            model=self.model, inputs=INPUTS, runs=4)
        self.assertIn("says no times of its runs", said)


if __name__ == "__main__":
    unittest.main()
