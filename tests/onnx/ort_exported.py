#!/usr/bin/env python3
"""What nodewise makes of onnxruntime's own operators, as models of ONNX's:

    build/venv/bin/python tests/onnx/ort_exported.py NODEWISE FOLDER

FOLDER is what ort_cases.py wrote for its part `contrib`. Each model is written
again by `nodewise extract`, must please ONNX's checker, and gives onnxruntime
the outputs of the case. Prints a line for each that does not, and how many did;
exits with 1 if one did not or there was none.
"""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import ort_case

# Their bodies with scales for each channel need an attribute that opsets below
# 13 do not have.
NEED_AXES = {"DequantizeLinear", "QAttention", "QGemm", "QuantizeLinear"}


def arrays(folder, kind, count):
    return [numpy_helper.to_array(onnx.TensorProto.FromString(
        (folder / f"{kind}_{i}.pb").read_bytes())) for i in range(count)]


def fault_of(nodewise, case):
    model = onnx.load(case / "model.onnx")
    names = [x.name for x in model.graph.input]
    outputs = [x.name for x in model.graph.output]
    target = case / "written.onnx"
    ran = subprocess.run(
        [nodewise, "extract", case / "model.onnx", "-o", target,
         *(f"--from={name}" for name in names),
         *(f"--to={name}" for name in outputs)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode:
        return ran.stderr
    written = onnx.load(target)
    onnx.checker.check_model(written, full_check=True)
    kept = {x.name for x in written.graph.input}
    data = case / "test_data_set_0"
    fed = {name: x for name, x in zip(
        names, arrays(data, "input", len(names))) if name in kept}
    tolerances = json.loads((case / "tolerance.json").read_text())
    for name, y, other, bound in zip(
            outputs, ort_case.run(written, fed),
            arrays(data, "output", len(outputs)), tolerances, strict=True):
        # Other operators round in other places.
        if not np.allclose(y.astype(np.float64), other.astype(np.float64),
                           rtol=4 * bound["rtol"] + 1e-5,
                           atol=4 * bound["atol"] + 1e-5, equal_nan=True):
            return f"output {name} differs"
    return None


def main():
    nodewise, folder = sys.argv[1:]
    right = faults = 0
    for case in sorted((pathlib.Path(folder) / "node").iterdir()):
        op, _, opset = case.name.rsplit("_", 2)
        if op in NEED_AXES and int(opset) < 13:
            continue
        try:
            fault = fault_of(nodewise, case)
        except ort_case.CannotRun:
            continue
        except Exception as error:
            fault = " ".join(str(error).split())
        if fault:
            print(f"FAULT {case.name}: {fault}")
            faults += 1
        right += not fault
    print(f"{right} models are right")
    return 1 if faults or not right else 0


if __name__ == "__main__":
    sys.exit(main())
