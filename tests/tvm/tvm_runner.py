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


def write_output(name, array, number, folder):
    """Writes a tensor and returns what the answer says of it."""
    file = f"{number}.bin"
    np.ascontiguousarray(array).tofile(os.path.join(folder, file))
    return {"name": name, "dtype": array.dtype.name,
            "shape": list(array.shape), "file": file}


def main():
    way, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    model = onnx.load(request["model"])
    arrays = {item["name"]: read_input(item) for item in request["inputs"]}
    module = from_onnx(model, keep_params_in_input=False)
    parameters = [v.name for v in module["main"].params]
    machine = relax.VirtualMachine(tvm_side.build(module, way == "fused"),
                                   tvm.cpu())
    # TVM leaves out inputs that nobody reads, and cleans the others' names.
    names = [v.name for v in model.graph.input if v.name in arrays]
    if len(names) != len(parameters):
        names = [n for n in names if n in parameters]
    inputs = [tvm_side.tensor_of(arrays[name]) for name in names]
    durations = []
    made = []
    for _ in range(request["repeats"]):
        start = time.perf_counter_ns()
        made = tvm_side.flat(machine["main"](*inputs))
        durations.append(time.perf_counter_ns() - start)
    by_name = dict(zip((v.name for v in model.graph.output), made))
    outputs = [
        write_output(name, by_name[name].numpy(), i, request["output_folder"])
        for i, name in enumerate(request["outputs"])]
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump({"version": 1, "runtime": f"tvm {tvm.__version__}, {way}",
                   "outputs": outputs, "durations_ns": durations}, file)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # pylint: disable=broad-except
        # The last line is what nodewise quotes.
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[-1]}"
                 if str(error) else type(error).__name__)
