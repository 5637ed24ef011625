#!/usr/bin/env python3
"""Writes cases of Cast between short element types and others, in the layout of
ONNX's own cases: all numbers of float16, all of the short types, and random
float32 numbers; and of QuantizeLinear and DequantizeLinear, by ONNX's own
evaluator.

    build/onnx_today_venv/bin/python tests/onnx/short_cases.py FOLDER ml_dtypes
    build/venv/bin/python tests/onnx/short_cases.py FOLDER onnxruntime

The judge makes the expected outputs: ml_dtypes (numpy) compares bits, by an
operator BitCast behind the Cast; onnxruntime, which cannot hand out all of
these types, compares the numbers, by a Cast to float32 behind it.

Where the text of ONNX's Cast leaves a result open, nothing is compared, and
where ml_dtypes does something else than the text, see ort_deviations.md.
"""

import json
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
from onnx import TensorProto, helper, numpy_helper

SEED = 20260925
FLOATS = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
          "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
          "FLOAT8E5M2": ml_dtypes.float8_e5m2,
          "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
          "FLOAT4E2M1": ml_dtypes.float4_e2m1fn}
INTEGERS = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4,
            "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2}
POWERS = {"FLOAT8E8M0": ml_dtypes.float8_e8m0fnu}
BITS = {"FLOAT4E2M1": 4, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}


def all_halves():
    return np.arange(65536, dtype=np.uint16).view(np.float16)


def random_floats(random):
    """All exponents, those of the short types above all, and numbers close to
    the middle between two of theirs."""
    anything = random.integers(0, 2**32, 100_000, dtype=np.uint32).view(
        np.float32)
    usual = (random.standard_normal(100_000) * np.exp2(
        random.integers(-18, 18, 100_000))).astype(np.float32)
    halves = all_halves()
    halves = halves[np.isfinite(halves)].astype(np.float32)
    return np.concatenate([anything, usual, halves, np.nextafter(halves, 9e9),
                           np.nextafter(halves, -9e9)]).astype(np.float32)


def as_floats(x):
    return x.astype(np.float32)


def to_float(x, name, saturate):
    kind = FLOATS[name]
    if saturate:
        largest = np.float32(ml_dtypes.finfo(kind).max)
        x = np.clip(as_floats(x), -largest, largest)
    return as_floats(x).astype(kind)


def to_power(x, saturate, mode):
    return onnx.numpy_helper.to_float8e8m0(as_floats(x), saturate, mode)


def is_said(x, name):
    """The numbers for which the text says what comes out, and ml_dtypes and
    ONNX's evaluator do that."""
    x = as_floats(x)
    if name in INTEGERS:
        info = ml_dtypes.iinfo(INTEGERS[name])
        return np.isfinite(x) & (np.trunc(x) >= info.min) & (
            np.trunc(x) <= info.max)
    if name in POWERS:
        return np.isnan(x) | ((x >= 2.0**-126) & (x <= 2.0**127))
    if name == "FLOAT4E2M1":
        return ~np.isnan(x)
    return np.full(x.shape, True)


def is_just_too_large(x, name):
    """What onnxruntime makes another special number of than the text says."""
    largest = np.float32(ml_dtypes.finfo(FLOATS[name]).max)
    size = np.abs(as_floats(x))
    return (size > largest) & np.isfinite(size)


class Folder:
    def __init__(self, path, judge):
        self.path, self.judge = pathlib.Path(path), judge

    def put(self, name, x, to, expected, **attributes):
        """A case that casts `x`, of a type that numpy or ml_dtypes has."""
        behind, kind = "Cast", TensorProto.FLOAT
        if self.judge == "ml_dtypes":
            behind = "BitCast"
            kind = {8: TensorProto.UINT8, 4: TensorProto.UINT4,
                    2: TensorProto.UINT2}[BITS.get(to, 8)]
            if to == "FLOAT":
                behind, kind = "BitCast", TensorProto.UINT32
        number = getattr(TensorProto, to)
        nodes = [helper.make_node("Cast", ["x"], ["short"], to=number,
                                  **attributes),
                 helper.make_node(behind, ["short"], ["y"], to=kind)]
        element = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph(
            nodes, "short",
            [helper.make_tensor_value_info("x", element, ["n"])],
            [helper.make_tensor_value_info("y", kind, ["n"])])
        opset = 26 if behind == "BitCast" else 25
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)],
            ir_version=13 if opset == 26 else 11)
        if self.judge == "onnxruntime":
            expected = self.computed(model, x)
        else:
            unsigned = {1: np.uint8, 4: np.uint32}[expected.dtype.itemsize]
            expected = expected.view(unsigned).astype(
                helper.tensor_dtype_to_np_dtype(kind))
        self.write(name, model, [x], [expected])

    def write(self, name, model, inputs, outputs):
        case = self.path / "node" / f"test_{name}"
        data = case / "test_data_set_0"
        data.mkdir(parents=True)
        (case / "model.onnx").write_bytes(model.SerializeToString())
        (case / "tolerance.json").write_text(
            json.dumps([{"rtol": 0, "atol": 0}] * len(outputs)))
        for kind, tensors in (("input", inputs), ("output", outputs)):
            for i, tensor in enumerate(tensors):
                (data / f"{kind}_{i}.pb").write_bytes(
                    numpy_helper.from_array(tensor).SerializeToString())

    def computed(self, model, x):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        # Two casts in a row must not become one.
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        session = onnxruntime.InferenceSession(model.SerializeToString(),
                                               options)
        return session.run(None, {"x": x})[0]


def put_all(folder):
    random = np.random.default_rng(SEED)
    sources = {"float16": all_halves(), "float32": random_floats(random)}
    with np.errstate(all="ignore"):
        for source, numbers in sources.items():
            for name in FLOATS:
                if folder.judge == "onnxruntime" and name == "FLOAT4E2M1":
                    continue  # It has no kernel.
                x = numbers[is_said(numbers, name)]
                folder.put(f"{source}_to_{name}", x, name,
                           to_float(x, name, True))
                if name == "FLOAT4E2M1":
                    continue
                if folder.judge == "onnxruntime":
                    x = x[~is_just_too_large(x, name)]
                folder.put(f"{source}_to_{name}_open", x, name,
                           to_float(x, name, False), saturate=0)
            if folder.judge == "onnxruntime":
                continue  # It rounds floats to integers of less than a byte.
            for name, kind in INTEGERS.items():
                x = numbers[is_said(numbers, name)]
                folder.put(f"{source}_to_{name}", x, name, x.astype(kind))
            for mode in ("up", "down", "nearest"):
                x = numbers[is_said(numbers, "FLOAT8E8M0")]
                folder.put(f"{source}_to_FLOAT8E8M0_{mode}", x, "FLOAT8E8M0",
                           to_power(x, True, mode), round_mode=mode)
        wide = random.integers(-2**31, 2**31, 5000).astype(np.int32)
        for name, kind in INTEGERS.items():
            folder.put(f"int32_to_{name}", wide, name, wide.astype(kind))
        if folder.judge == "onnxruntime":
            return
        for name, kind in (FLOATS | INTEGERS | POWERS).items():
            patterns = np.arange(2**BITS.get(name, 8), dtype=np.uint8)
            x = patterns.astype(np.uint8).view(kind)
            if name in ("INT4", "INT2"):
                info = ml_dtypes.iinfo(kind)
                x = np.arange(info.min, info.max + 1).astype(kind)
            y = as_floats(x)
            folder.put(f"{name}_to_float32", x[~np.isnan(y)], "FLOAT",
                       y[~np.isnan(y)])


def scaled_case(folder, name, number, random):
    """x -> QuantizeLinear -> q -> DequantizeLinear -> y, by tensor, axis or
    block, with zero points for integers."""
    kind = (FLOATS | INTEGERS)[name]
    dtype = [np.float32, np.float16][number % 2]
    sides = [int(side) for side in random.integers(1, 7, 3)]
    attributes = {"axis": int(random.integers(-3, 3))}
    where = ["tensor", "axis", "block"][number % 3]
    if where == "tensor":
        scales = []
    elif where == "axis":
        scales = [sides[attributes["axis"]]]
    else:
        size = int(random.integers(1, sides[attributes["axis"]] + 1))
        attributes["block_size"] = size
        scales = list(sides)
        scales[attributes["axis"]] = -(-sides[attributes["axis"]] // size)
    largest = float(ml_dtypes.iinfo(kind).max if name in INTEGERS
                    else ml_dtypes.finfo(kind).max)
    x = (random.standard_normal(sides) * largest).astype(dtype)
    scale = np.asarray(random.uniform(0.3, 1.5, scales)).astype(dtype)
    inputs = {"x": x, "scale": scale}
    given = ["scale"]
    if name in INTEGERS:
        info = ml_dtypes.iinfo(kind)
        inputs["zero"] = np.asarray(random.integers(
            info.min, info.max + 1, scales)).astype(kind)
        given.append("zero")
    to = {} if name in INTEGERS else {
        "output_dtype": getattr(TensorProto, name)}
    if name.startswith("FLOAT8") and number % 4 == 0:
        to["saturate"] = 0
    nodes = [helper.make_node("QuantizeLinear", ["x", *given], ["q"],
                              **attributes, **to),
             helper.make_node("DequantizeLinear", ["q", *given], ["y"],
                              **attributes)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "scaled",
        [info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for key, value in inputs.items()],
        [info("q", getattr(TensorProto, name), sides),
         info("y", helper.np_dtype_to_tensor_dtype(x.dtype), sides)])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    outputs = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    folder.write(f"scaled_{name}_{number}", model, list(inputs.values()),
                 outputs)


def put_scaled(folder):
    random = np.random.default_rng(SEED + 1)
    with np.errstate(all="ignore"):
        for name in FLOATS | INTEGERS:
            for number in range(60):
                scaled_case(folder, name, number, random)


if __name__ == "__main__":
    if sys.argv[2] == "ml_dtypes":
        put_scaled(Folder(*sys.argv[1:3]))
    put_all(Folder(*sys.argv[1:3]))
