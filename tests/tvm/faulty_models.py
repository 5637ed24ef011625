"""usage: faulty_models.py OUT SEED FAULTS NETWORKS [fused|plain]...

Makes the first NETWORKS of drawn_networks.py, or takes the model that NETWORKS
is the file of, with the inputs.npz beside it. Makes FAULTS of each with one
fault, all drawn from the seed, and compiles them with TVM: OUT/NETWORK has
model.onnx, inputs.npz, and for each way of compiling good-WAY.so and N-WAY.so;
faults.json says what the fault N is and which tensor it makes wrong first. For
the Python that has TVM.

A fault is one that people and compilers make: another attribute, another
operator, constants that are scaled, moved, reversed or left out, operands in
another order. Another one is drawn in place of a fault that changes its tensor
by less than a thousandth of its largest number, or that does not show in the
output (a number that is added to all scores before a softmax).
"""

import copy
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm.relax.frontend.onnx import from_onnx

import tvm_side
from drawn_networks import NETWORKS

LEAST_EFFECT = 1e-3
LEAST_EFFECT_AT_THE_END = 1e-5


# Operators of one form.
OTHERS = {"Add": ["Sub", "Mul"], "Sub": ["Add"], "Mul": ["Add", "Sub"],
          "Div": ["Mul"], "Relu": ["LeakyRelu", "Sigmoid"],
          "LeakyRelu": ["Relu"], "Sigmoid": ["HardSigmoid", "Tanh"],
          "HardSigmoid": ["Sigmoid"], "Tanh": ["Sigmoid", "Softsign"],
          "Elu": ["Relu", "Selu"], "MaxPool": ["AveragePool"],
          "AveragePool": ["MaxPool"], "GlobalAveragePool": ["GlobalMaxPool"],
          "ReduceMean": ["ReduceMax", "ReduceSum"], "ReduceMax": ["ReduceMean"],
          "Softmax": ["LogSoftmax"], "Erf": ["Tanh"]}
KEPT = {"alpha": {"LeakyRelu", "Elu", "HardSigmoid"}, "axis": {
    "Softmax", "LogSoftmax"}, "keepdims": {
        "ReduceMean", "ReduceMax", "ReduceSum"}, "kernel_shape": {
            "MaxPool", "AveragePool"}, "pads": {"MaxPool", "AveragePool"},
        "strides": {"MaxPool", "AveragePool"}}


def other_operator(node, random):
    kinds = OTHERS.get(node.op_type)
    if not kinds:
        return None
    was, node.op_type = node.op_type, str(random.choice(kinds))
    kept = [a for a in node.attribute if node.op_type in KEPT.get(a.name, ())]
    del node.attribute[:]
    node.attribute.extend(kept)
    return f"{was} is {node.op_type}"


def other_number(node, random):
    floats = [a for a in node.attribute if a.type == a.FLOAT]
    if not floats:
        return None
    attribute = floats[random.integers(len(floats))]
    was = attribute.f
    attribute.f = float(was * random.choice([0.1, 0.5, 2, 10]))
    return f"{attribute.name} {was:.4g} is {attribute.f:.4g}"


def moved_padding(node, random):
    del random
    for attribute in node.attribute:
        if attribute.name == "pads" and any(attribute.ints):
            half = len(attribute.ints) // 2
            pads = list(attribute.ints)
            shifted = [p + 1 for p in pads[:half]] + [
                p - 1 for p in pads[half:]]
            if min(shifted) < 0:
                shifted = [p - 1 for p in pads[:half]] + [
                    p + 1 for p in pads[half:]]
            if min(shifted) < 0:
                return None
            attribute.ints[:] = shifted
            return f"pads {pads} is {shifted}"
    return None


def swapped_operands(node, random):
    del random
    if node.op_type not in ("Sub", "Div", "Concat", "MatMul") or (
            len(node.input) < 2):
        return None
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return "operands 0 and 1 are swapped"


def left_out(node, random):
    del random
    if node.op_type not in ("Conv", "Gemm") or len(node.input) < 3:
        return None
    del node.input[2]
    return "has no bias"


def other_axes(node, random):
    for attribute in node.attribute:
        if attribute.name == "perm":
            was = list(attribute.ints)
            attribute.ints[:] = [int(i) for i in random.permutation(was)]
            return f"perm {was} is {list(attribute.ints)}"
        if attribute.name == "axis" and node.op_type == "Softmax":
            attribute.i = 1 if attribute.i != 1 else 0
            return f"axis is {attribute.i}"
    return None


IN_NODES = [other_operator, other_number, moved_padding, swapped_operands,
            left_out, other_axes]


def scaled(data, random):
    factor = float(random.choice([1.003, 0.97, 1.2, -1]))
    return data * np.float32(factor), f"times {factor}"


def row_of_zeros(data, random):
    if data.ndim == 0 or data.shape[0] < 2:
        return None
    data = data.copy()
    row = int(random.integers(data.shape[0]))
    data[row] = 0
    return data, f"row {row} is 0"


def rolled(data, random):
    del random
    if data.ndim == 0 or max(data.shape) < 2:
        return None
    axis = int(np.argmax(data.shape))
    return np.roll(data, 1, axis), f"moved by one along {axis}"


def reversed_(data, random):
    del random
    if data.ndim == 0 or data.shape[-1] < 2:
        return None
    return np.ascontiguousarray(data[..., ::-1]), "reversed"


def turned(data, random):
    del random
    if data.ndim < 2 or data.shape[-1] != data.shape[-2] or data.shape[-1] < 2:
        return None
    return np.ascontiguousarray(np.swapaxes(data, -1, -2)), "turned"


def missing(data, random):
    del random
    return np.zeros_like(data), "is 0"


IN_WEIGHTS = [scaled, row_of_zeros, rolled, reversed_, turned, missing]


def with_fault(model, random):
    """Another model, and what is wrong with which of its tensors; or None."""
    model = copy.deepcopy(model)
    node = model.graph.node[random.integers(len(model.graph.node))]
    tensor = node.output[0]
    if random.random() < 0.6:
        what = IN_NODES[random.integers(len(IN_NODES))](node, random)
        return what and (model, tensor, what)
    weights = {w.name: w for w in model.graph.initializer}
    names = [n for n in node.input if n in weights and
             weights[n].data_type == onnx.TensorProto.FLOAT]
    if not names:
        return None
    name = names[random.integers(len(names))]
    # Others may read it, too.
    made = IN_WEIGHTS[random.integers(len(IN_WEIGHTS))](
        numpy_helper.to_array(weights[name]), random)
    if made is None:
        return None
    spoiled = f"{name}_spoiled"
    model.graph.initializer.append(numpy_helper.from_array(
        made[0].astype("float32"), spoiled))
    node.input[:] = [spoiled if n == name else n for n in node.input]
    return model, tensor, f"{name}: {made[1]}"


def made_by(model, tensor, inputs):
    model = copy.deepcopy(model)
    model.graph.output.append(helper.make_empty_tensor_value_info(tensor))
    return ReferenceEvaluator(model).run(None, inputs)[-1]


def differ(expected, found, least):
    if expected.shape != found.shape or not np.isfinite(found).all():
        return False
    size = np.abs(expected).max() or 1
    return np.abs(expected - found).max() >= least * size


def has_effect(model, faulty, tensor, inputs):
    last = model.graph.output[0].name
    try:
        faulty = copy.deepcopy(faulty)
        del faulty.graph.value_info[:]
        onnx.shape_inference.infer_shapes(faulty, strict_mode=True)
        return (differ(made_by(model, tensor, inputs),
                       made_by(faulty, tensor, inputs), LEAST_EFFECT) and
                differ(made_by(model, last, inputs),
                       made_by(faulty, last, inputs),
                       LEAST_EFFECT_AT_THE_END))
    except Exception:  # Any error, of a model that does not fit.
        return False


def compile_to(path, model, way):
    model = copy.deepcopy(model)
    del model.graph.value_info[:]
    module = from_onnx(model, keep_params_in_input=False)
    tvm_side.build(module, way == "fused").export_library(str(path))


def from_file(path):
    path = pathlib.Path(path)
    with np.load(path.parent / "inputs.npz") as inputs:
        return onnx.load(path), dict(inputs)


def networks_of(text, seed):
    """The name of each network, its model with inputs, and a generator."""
    if not text.isdigit():
        yield "given", from_file(text), np.random.default_rng(seed)
        return
    for i, network in enumerate(NETWORKS[:int(text)]):
        random = np.random.default_rng([seed, i])
        yield network.__name__, network(random), random


def make(folder, model, inputs, random, count, ways):
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    for way in ways:
        compile_to(folder / f"good-{way}.so", model, way)
    faults, seen = [], set()
    for _ in range(100 * count):
        if len(faults) == count:
            break
        drawn = with_fault(model, random)
        if drawn is None:
            continue
        faulty, tensor, what = drawn
        if (tensor, what) in seen or not has_effect(model, faulty, tensor,
                                                    inputs):
            continue
        seen.add((tensor, what))
        for way in ways:
            compile_to(folder / f"{len(faults)}-{way}.so", faulty, way)
        faults.append({"tensor": tensor, "what": what})
    (folder / "faults.json").write_text(json.dumps(faults))


def main(out, seed, count, networks, *ways):
    for name, (model, inputs), random in networks_of(networks, int(seed)):
        make(pathlib.Path(out) / name, model, inputs, random, int(count),
             ways or ("fused", "plain"))


if __name__ == "__main__":
    main(*sys.argv[1:])
