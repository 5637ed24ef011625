#!/usr/bin/env python3
"""Writes the cases that ONNX's package makes in memory as files, in the layout
that older packages brought, beside links to those that it brings as files.

    build/onnx_today_venv/bin/python tests/onnx/generate_cases.py FOLDER

FOLDER must not exist. Inputs are drawn at random from one seed, so that each
time the same files are written.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

# Cases whose recorded outputs are off by more than their tolerance allows, with
# what is allowed instead.
OWN_ABSOLUTE = {
    # As in backend_suite.cc: zeros are recorded as 1.907e-7.
    "test_dft_inverse": 2e-7,
    "test_dft_inverse_opset19": 2e-7,
    # 0.469190 is recorded as 0.469482, of steps in float16; the same steps with
    # sums that are not rounded in between give 0.468994.
    "test_attention_4d_causal_fp16_expanded": 1e-4,
}

PACKAGED = pathlib.Path(onnx.__file__).parent / "backend/test/data"


def made_cases():
    # The modules of cases draw their inputs when they are imported.
    np.random.seed(0)
    from onnx.backend.test.case import model, node
    cases = [*node.collect_testcases(), *model.collect_testcases()]
    return [case for case in cases if case.model]


def bytes_of(value, info):
    """A value as the type of its input or output says."""
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    kind = info.type.WhichOneof("value")
    make = {"map_type": numpy_helper.from_dict,
            "sequence_type": numpy_helper.from_list,
            "optional_type": numpy_helper.from_optional,
            "tensor_type": numpy_helper.from_array}[kind]
    return make(value, info.name).SerializeToString()


def tolerances(case):
    """One for each output, as onnx.backend.test.runner has them."""
    for info in case.model.graph.output:
        is_short = info.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
        yield {"rtol": max(case.rtol, 2**-6) if is_short else case.rtol,
               "atol": OWN_ABSOLUTE.get(case.name, case.atol)}


def write(case, folder):
    folder.mkdir(parents=True)
    (folder / "tolerance.json").write_text(json.dumps([*tolerances(case)]))
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for number, values in enumerate(case.data_sets):
        data_set = folder / f"test_data_set_{number}"
        data_set.mkdir()
        for name, infos, tensors in zip(
                ("input", "output"),
                (case.model.graph.input, case.model.graph.output), values):
            for i, tensor in enumerate(tensors):
                (data_set / f"{name}_{i}.pb").write_bytes(
                    bytes_of(tensor, infos[i]))


def main():
    out = pathlib.Path(sys.argv[1])
    for case in made_cases():
        write(case, out / case.kind / case.name)
    for folder in sorted(PACKAGED.iterdir()):
        if folder.name not in ("node", "simple") and folder.is_dir():
            (out / folder.name).symlink_to(folder)


if __name__ == "__main__":
    main()
