"""usage: faulty_models.py OUT SEED FAULTS [fused|plain]...

Makes small ONNX models and, for each, as many with one fault as asked for, all
drawn from the seed, and compiles them with TVM: OUT/NETWORK has model.onnx,
inputs.npz, and for each way of compiling good-WAY.so and N-WAY.so; faults.json
says what the fault N is and which tensor it makes wrong first. For the Python
that has TVM.

A fault is one that people and compilers make: another attribute, another
operator, constants that are scaled, moved, reversed or left out, operands in
another order. One that changes less than a thousandth of its tensor's largest
number is none, nor is one that nobody sees at the end (a number that is added
to all scores before a softmax), and another one is drawn.
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

LEAST_EFFECT = 1e-3
LEAST_EFFECT_AT_THE_END = 1e-5


class Builder:
    """A model, node by node; every node makes a tensor of its own name."""

    def __init__(self, random):
        self.random = random
        self._nodes, self._weights = [], []

    def weight(self, name, *shape, scale=0.3):
        data = (scale * self.random.standard_normal(shape)).astype("float32")
        return self.constant(name, data)

    def constant(self, name, data):
        self._weights.append(numpy_helper.from_array(np.asarray(data), name))
        return name

    def node(self, kind, inputs, name, **attributes):
        self._nodes.append(helper.make_node(kind, inputs, [name], name,
                                            **attributes))
        return name

    def model(self, inputs, outputs):
        def info(name, shape):
            return helper.make_tensor_value_info(
                name, onnx.TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            self._nodes, "net", [info(n, s) for n, s in inputs],
            [info(n, s) for n, s in outputs], self._weights)
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 18)])
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def image(random):
    b = Builder(random)
    c = int(random.integers(6, 14))

    def norm(x, name):
        stats = [b.constant(f"{name}_{what}", data.astype("float32"))
                 for what, data in (
                     ("scale", random.uniform(0.5, 1.5, c)),
                     ("shift", random.normal(0, 0.3, c)),
                     ("mean", random.normal(0, 0.3, c)),
                     ("var", random.uniform(0.5, 2, c)))]
        return b.node("BatchNormalization", [x, *stats], name, epsilon=1e-3)
    x = b.node("Conv", ["x", b.weight("w1", c, 3, 3, 3), b.weight("b1", c)],
               "conv1", pads=[1, 1, 1, 1])
    x = b.node("Relu", [norm(x, "norm1")], "relu1")
    pooled = b.node("MaxPool", [x], "pool1", kernel_shape=[2, 2],
                    strides=[2, 2])
    y = b.node("Conv", [pooled, b.weight("w2", c, 1, 3, 3), b.weight("b2", c)],
               "conv2", pads=[1, 1, 1, 1], group=c)
    y = b.node("LeakyRelu", [norm(y, "norm2")], "relu2", alpha=0.15)
    y = b.node("Conv", [y, b.weight("w3", c, c, 1, 1), b.weight("b3", c)],
               "conv3")
    y = b.node("Add", [y, pooled], "sum1")
    side = b.node("AveragePool", [y], "pool2", kernel_shape=[3, 3],
                  pads=[1, 1, 1, 1])
    side = b.node("Sigmoid", [side], "gate")
    y = b.node("Mul", [y, side], "gated")
    y = b.node("Concat", [y, pooled], "join", axis=1)
    y = b.node("Conv", [y, b.weight("w4", 8, 2 * c, 3, 3)], "conv4")
    y = b.node("Clip", [y, b.constant("low", np.float32(-1.5)),
                        b.constant("high", np.float32(2))], "clip1")
    y = b.node("GlobalAveragePool", [y], "mean1")
    y = b.node("Flatten", [y], "flat")
    y = b.node("Gemm", [y, b.weight("w5", 5, 8), b.weight("b5", 5)], "product",
               transB=1)
    y = b.node("Softmax", [y], "out")
    return (b.model([("x", [1, 3, 16, 16])], [(y, [1, 5])]),
            {"x": random.standard_normal((1, 3, 16, 16)).astype("float32")})


def attention(random):
    b = Builder(random)
    t, h, d = 12, 2, int(random.integers(3, 7)) * 2
    w = h * d

    def project(x, name):
        y = b.node("MatMul", [x, b.weight(f"w_{name}", w, w)], f"{name}_product")
        return b.node("Add", [y, b.weight(f"b_{name}", w)], name)

    def heads(x, name):
        y = b.node("Reshape", [x, "split"], f"{name}_split")
        return b.node("Transpose", [y], f"{name}_heads", perm=[0, 2, 1, 3])
    b.constant("split", np.array([1, t, h, d], "int64"))
    b.constant("merged", np.array([1, t, w], "int64"))
    q, k, v = (heads(project("x", name), name) for name in "qkv")
    k = b.node("Transpose", [k], "k_turned", perm=[0, 1, 3, 2])
    s = b.node("MatMul", [q, k], "scores")
    s = b.node("Mul", [s, b.constant("scale", np.float32(d ** -0.5))], "scaled")
    s = b.node("Softmax", [s], "weights", axis=-1)
    y = b.node("MatMul", [s, v], "mixed")
    y = b.node("Transpose", [y], "mixed_turned", perm=[0, 2, 1, 3])
    y = b.node("Reshape", [y, "merged"], "merged_heads")
    y = project(y, "o")
    y = b.node("Add", [y, "x"], "residual1")
    y = b.node("LayerNormalization",
               [y, b.constant("ln_scale", random.uniform(
                   0.5, 1.5, w).astype("float32")), b.weight("ln_shift", w)],
               "norm", axis=-1, epsilon=1e-4)
    z = b.node("MatMul", [y, b.weight("w_up", w, 3 * w)], "up")
    z = b.node("Add", [z, b.weight("b_up", 3 * w)], "up_bias")
    z = b.node("Erf", [b.node("Mul", [z, b.constant(
        "root", np.float32(0.5 ** 0.5))], "erf_in")], "erf_out")
    z = b.node("Mul", [b.node("Add", [z, b.constant("one", np.float32(1))],
                              "erf_one"), "up_bias"], "gelu_twice")
    z = b.node("Mul", [z, b.constant("half", np.float32(0.5))], "gelu")
    z = b.node("MatMul", [z, b.weight("w_down", 3 * w, w)], "down")
    y = b.node("Add", [z, y], "residual2")
    y = b.node("ReduceMean", [y, b.constant("axes", np.array([1], "int64"))],
               "mean", keepdims=0)
    return (b.model([("x", [1, t, w])], [(y, [1, w])]),
            {"x": random.standard_normal((1, t, w)).astype("float32")})


def gates(random):
    b = Builder(random)
    n, c = 20, int(random.integers(5, 12))
    x = b.node("Conv", ["x", b.weight("w1", 2 * c, c, 3), b.weight("b1", 2 * c)],
               "conv", pads=[2, 0])
    b.constant("axis", np.array([1], "int64"))
    first = b.node("Slice", [x, b.constant("s0", np.array([0], "int64")),
                             b.constant("e0", np.array([c], "int64")), "axis"],
                   "first")
    second = b.node("Slice", [x, "e0", b.constant("e1", np.array(
        [2 * c], "int64")), "axis"], "second")
    y = b.node("Mul", [b.node("Tanh", [first], "bent"),
                       b.node("Sigmoid", [second], "open")], "gated")
    y = b.node("Sub", [y, b.weight("level", 1, c, 1)], "centred")
    squares = b.node("Mul", [y, y], "squares")
    energy = b.node("ReduceMean", [squares, b.constant(
        "last", np.array([2], "int64"))], "energy", keepdims=1)
    root = b.node("Sqrt", [b.node("Add", [energy, b.constant(
        "epsilon", np.float32(1e-2))], "safe")], "root")
    y = b.node("Div", [y, root], "scaled")
    y = b.node("Elu", [y], "elu", alpha=0.7)
    y = b.node("Transpose", [y], "turned", perm=[0, 2, 1])
    y = b.node("MatMul", [y, b.weight("w2", c, 7)], "product")
    y = b.node("HardSigmoid", [y], "hard", alpha=0.25, beta=0.4)
    y = b.node("ReduceMax", [y, "axis"], "highest", keepdims=0)
    y = b.node("Softmax", [y], "out", axis=1)
    return (b.model([("x", [1, c, n])], [(y, [1, 7])]),
            {"x": random.standard_normal((1, c, n)).astype("float32")})


NETWORKS = [image, attention, gates]

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
    except Exception:  # Whatever it says of a model that fits nowhere.
        return False


def compile_to(path, model, way):
    model = copy.deepcopy(model)
    del model.graph.value_info[:]
    module = from_onnx(model, keep_params_in_input=False)
    tvm_side.build(module, way == "fused").export_library(str(path))


def make(folder, network, seed, count, ways):
    random = np.random.default_rng([seed, NETWORKS.index(network)])
    model, inputs = network(random)
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


def main(out, seed, count, *ways):
    for network in NETWORKS:
        make(pathlib.Path(out) / network.__name__, network, int(seed),
             int(count), ways or ("fused", "plain"))


if __name__ == "__main__":
    main(*sys.argv[1:])
