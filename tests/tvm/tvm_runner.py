"""Runs a model in apache-tvm for nodewise, which speaks to it in files
(docs/formats/foreign_runner.md): imported, compiled and run, so that random
tests try the importer as well as the kernels.

    nodewise autotest --candidate \
        "exec:build/tvm_venv/bin/python tests/tvm/tvm_runner.py fused"

usage: tvm_runner.py fused|plain REQUEST
"""

import json
import os
import sys
import time

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import tvm_side

# What numpy has a type for.
KNOWN = {"float16", "float32", "float64", "bool", "int8", "int16", "int32",
         "int64", "uint8", "uint16", "uint32", "uint64"}


def read_input(item):
    if item["dtype"] not in KNOWN:
        raise TypeError(f"numpy has no type {item['dtype']}")
    return np.fromfile(item["file"], item["dtype"]).reshape(item["shape"])


def write_output(name, array, file, folder):
    """Writes a tensor and returns what the answer says of it."""
    np.ascontiguousarray(array).tofile(os.path.join(folder, file))
    return {"name": name, "dtype": array.dtype.name,
            "shape": list(array.shape), "file": file}


class Compiled:
    """A model, imported and compiled."""

    def __init__(self, path, way):
        self.model = onnx.load(path)
        module = from_onnx(self.model, keep_params_in_input=False)
        self.parameters = [v.name for v in module["main"].params]
        self.machine = relax.VirtualMachine(
            tvm_side.build(module, way == "fused"), tvm.cpu())

    def run(self, asked, repeats, folder, prefix=""):
        """Runs what is asked, and returns its outputs and durations as the
        answer has them."""
        arrays = {item["name"]: read_input(item) for item in asked["inputs"]}
        # TVM leaves out inputs that are not read, and cleans the others' names.
        names = [v.name for v in self.model.graph.input if v.name in arrays]
        if len(names) != len(self.parameters):
            names = [n for n in names if n in self.parameters]
        inputs = [tvm_side.tensor_of(arrays[name]) for name in names]
        durations = []
        made = []
        for _ in range(repeats):
            start = time.perf_counter_ns()
            made = tvm_side.flat(self.machine["main"](*inputs))
            durations.append(time.perf_counter_ns() - start)
        by_name = dict(zip((v.name for v in self.model.graph.output), made))
        outputs = [
            write_output(name, by_name[name].numpy(), f"{prefix}{i}.bin",
                         folder)
            for i, name in enumerate(asked["outputs"])]
        return {"outputs": outputs, "durations_ns": durations}


def run_cases(request, way):
    """Runs each case, or says why it is refused. Cases of one model follow each
    other."""
    answers = []
    path = None
    compiled = None
    for number, case in enumerate(request["cases"]):
        try:
            if case["model"] != path:
                compiled = None
                path = case["model"]
                compiled = Compiled(path, way)
            if compiled is None:
                answers.append(answers[-1])
                continue
            answers.append({"outputs": compiled.run(
                case, 1, request["output_folder"], f"{number}_")["outputs"]})
        except Exception as error:  # pylint: disable=broad-except
            answers.append({"refused": text_of(error)})
    return answers


def text_of(error):
    if not str(error):
        return type(error).__name__
    return f"{type(error).__name__}: {str(error).splitlines()[-1]}"


def main():
    way, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    answer = {"version": 1, "takes_cases": True,
              "runtime": f"tvm {tvm.__version__}, {way}"}
    if "cases" in request:
        answer["cases"] = run_cases(request, way)
    else:
        answer.update(Compiled(request["model"], way).run(
            request, request["repeats"], request["output_folder"]))
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # pylint: disable=broad-except
        # The last line is what nodewise quotes.
        sys.exit(text_of(error))
