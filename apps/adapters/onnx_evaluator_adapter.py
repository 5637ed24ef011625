"""Runs a model in the evaluator of ONNX's own Python package for nodewise,
which speaks to it in files (docs/formats/foreign_runner.md).

usage: python3 -I onnx_evaluator_adapter.py REQUEST
"""

import json
import os
import sys
import time

try:
    import numpy
except ImportError:
    sys.exit("this Python has no package numpy, which the adapter needs "
             f"({sys.executable}; choose another one, or install it there)")
try:
    import onnx
    from onnx import reference
except ImportError as why:
    sys.exit("this Python has no package onnx "
             f"({sys.executable}: {why}; choose another one, or install it "
             "there)")

# How numpy writes the types that it does not have itself.
HELD_AS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8",
           "float8_e5m2": "uint8", "int4": "int8", "uint4": "uint8"}


def read_input(item):
    dtype = item["dtype"]
    values = numpy.fromfile(item["file"], HELD_AS.get(dtype, dtype))
    values = values.reshape(item["shape"])
    if dtype not in HELD_AS:
        return values
    import ml_dtypes  # pylint: disable=import-outside-toplevel
    held = numpy.dtype(getattr(ml_dtypes, dtype))
    if dtype in ("int4", "uint4"):
        return values.astype(held)
    return values.view(held)


def write_output(name, value, file, folder):
    """Writes a tensor and returns what the answer says of it."""
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        return {"name": name, "absent": "the evaluator did not make a tensor"}
    values = numpy.asarray(value)
    dtype = values.dtype.name
    if values.dtype.kind not in "biuf" and dtype not in HELD_AS:
        return {"name": name, "absent": f"nodewise has no type {dtype}"}
    if dtype in ("int4", "uint4"):
        values = values.astype(HELD_AS[dtype])
    numpy.ascontiguousarray(values).tofile(os.path.join(folder, file))
    return {"name": name, "dtype": dtype, "shape": list(values.shape),
            "file": file}


def run(evaluator, asked, repeats, folder, prefix=""):
    """Runs what is asked, and returns its outputs and durations as the answer
    has them."""
    known = set(evaluator.input_names)
    inputs = {item["name"]: read_input(item) for item in asked["inputs"]
              if item["name"] in known}
    names = asked["outputs"]
    durations = []
    values = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        values = evaluator.run(names, inputs)
        durations.append(time.perf_counter_ns() - start)
    outputs = [write_output(name, value, f"{prefix}{i}.bin", folder)
               for i, (name, value) in enumerate(zip(names, values))]
    return {"outputs": outputs, "durations_ns": durations}


def run_cases(request):
    """Runs each case, or says why it is refused."""
    answers = []
    for number, case in enumerate(request["cases"]):
        try:
            evaluator = reference.ReferenceEvaluator(case["model"])
            answers.append({"outputs": run(
                evaluator, case, 1, request["output_folder"],
                f"{number}_")["outputs"]})
        except Exception as error:  # pylint: disable=broad-except
            answers.append({"refused": f"{type(error).__name__}: {error}"})
    return answers


def main():
    if len(sys.argv) != 2:
        sys.exit("expected one argument, the path of a request")
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    answer = {"version": 1, "takes_cases": True,
              "runtime": f"onnx {onnx.__version__}, its evaluator"}
    if "cases" in request:
        answer["cases"] = run_cases(request)
    else:
        evaluator = reference.ReferenceEvaluator(request["model"])
        answer.update(run(evaluator, request, request["repeats"],
                          request["output_folder"]))
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # pylint: disable=broad-except
        # The last line is what nodewise quotes.
        sys.exit(f"{type(error).__name__}: {error}")
