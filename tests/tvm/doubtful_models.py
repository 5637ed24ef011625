"""usage: doubtful_models.py OUT

Small models of which the values alone say little (branches that are alike, a
Relu that a fault makes dead, tensors of one element, exchanged outputs, orders
and shapes), sound and with faults that are planted before TVM compiles them:
OUT/MODEL has model.onnx, inputs.npz, good-WAY.so and FAULT-WAY.so, and
truth.json the tensors that each fault makes wrong first. For the Python that
has TVM.
"""

import copy
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from faulty_models import compile_to

NODE = helper.make_node
WAYS = ("fused", "plain")


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(
        np.float32)


def another(kind, **attributes):
    def change(node, constants):
        del constants
        node.op_type = kind
        del node.attribute[:]
        node.attribute.extend(helper.make_attribute(name, value)
                              for name, value in attributes.items())
    return change


def attribute(name, value):
    def change(node, constants):
        del constants
        others = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend(others + [helper.make_attribute(name, value)])
    return change


def constant(name, changed):
    def change(node, constants):
        del node
        was = constants[name]
        constants[name] = np.ascontiguousarray(changed(was)).astype(was.dtype)
    return change


def exchanged_outputs(node, constants):
    del constants
    first, second = node.output
    node.output[0], node.output[1] = second, first


def branches():
    nodes = [NODE("MatMul", ["x", "w"], ["m"]), NODE("Tanh", ["m"], ["ta"]),
             NODE("Tanh", ["m"], ["tb"]), NODE("MatMul", ["tb", "v"], ["q"]),
             NODE("Mul", ["ta", "q"], ["p"]), NODE("Softsign", ["p"], ["y"])]
    return nodes, {"x": numbers(1, 4, 8)}, {
        "w": numbers(2, 8, 8), "v": numbers(3, 8, 8)}, ["y"], {
            "ta": ("ta", another("Sigmoid")), "tb": ("tb", another("Sigmoid"))}


def dead_relu():
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [NODE("Conv", ["x", "w", "b"], ["c1"], **pads),
             NODE("Relu", ["c1"], ["r1"]),
             NODE("Conv", ["r1", "v", "d"], ["c2"], **pads),
             NODE("Relu", ["c2"], ["r2"]),
             NODE("Conv", ["r2", "z"], ["c3"], **pads),
             NODE("Add", ["c3", "x"], ["e"]), NODE("Relu", ["e"], ["r3"]),
             NODE("GlobalAveragePool", ["r3"], ["y"])]
    return nodes, {"x": numbers(1, 1, 4, 6, 6)}, {
        "w": numbers(2, 4, 4, 3, 3), "b": numbers(3, 4),
        "v": numbers(4, 4, 4, 3, 3), "d": numbers(5, 4),
        "z": numbers(6, 4, 4, 3, 3)}, ["y"], {
            "c1": ("c1", constant("b", lambda b: b * 0 - 900)),
            "c2": ("c2", constant("d", lambda d: d * 0 - 900))}


def one_element():
    nodes = [NODE("Mul", ["a", "b"], ["p"]), NODE("Exp", ["p"], ["e"]),
             NODE("Mul", ["x", "e"], ["g"]), NODE("Tanh", ["g"], ["y"])]
    return nodes, {"a": np.float32([1.5]), "b": np.float32([1]),
                   "x": numbers(1, 5, 7)}, {}, ["y"], {
                       "p": ("p", another("Div"))}


def exchanged():
    nodes = [NODE("Split", ["x"], ["p", "q"], axis=1),
             NODE("Tanh", ["p"], ["tp"]), NODE("Sigmoid", ["q"], ["sq"]),
             NODE("Mul", ["tp", "sq"], ["y"])]
    return nodes, {"x": numbers(1, 4, 8)}, {}, ["y"], {
        "split": ("p", exchanged_outputs)}


def turned():
    nodes = [NODE("MatMul", ["x", "w"], ["m"]),
             NODE("Transpose", ["m"], ["t"], perm=[1, 0]),
             NODE("Relu", ["t"], ["r"]), NODE("MatMul", ["r", "u"], ["y"])]
    return nodes, {"x": numbers(1, 6, 8)}, {
        "w": numbers(2, 8, 6), "u": numbers(3, 6, 3)}, ["y"], {
            "perm": ("t", attribute("perm", [0, 1])),
            "rows": ("m", constant("w", lambda w: np.roll(w, 1, 0)))}


def output_shape():
    nodes = [NODE("MatMul", ["x", "w"], ["m"]),
             NODE("Transpose", ["m"], ["t"], perm=[1, 0]),
             NODE("Tanh", ["t"], ["y"])]
    return nodes, {"x": numbers(1, 4, 8)}, {"w": numbers(2, 8, 3)}, ["y"], {
        "perm": ("t", attribute("perm", [0, 1]))}


def same_layers():
    nodes = [NODE("MatMul", ["x", "w"], ["m1"]),
             NODE("Tanh", ["m1"], ["t1"]),
             NODE("MatMul", ["x", "w2"], ["m2"]),
             NODE("Tanh", ["m2"], ["t2"]), NODE("Sub", ["t1", "t2"], ["d"]),
             NODE("Add", ["d", "x"], ["e"]), NODE("MatMul", ["e", "v"], ["y"])]
    weights = numbers(2, 8, 8)
    return nodes, {"x": numbers(1, 4, 8)}, {
        "w": weights, "w2": weights, "v": numbers(3, 8, 3)}, ["y"], {
            "weights": ("m1", constant("w", lambda w: 1.1 * w)),
            "bend": ("t2", another("Sigmoid"))}


def turned_output():
    nodes = [NODE("Conv", ["x", "w"], ["c"]), NODE("Relu", ["c"], ["r"]),
             NODE("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
             NODE("Tanh", ["t"], ["b"]),
             NODE("Concat", ["t", "b"], ["y"], axis=3)]
    return nodes, {"x": numbers(1, 1, 3, 7, 9)}, {
        "w": numbers(2, 4, 3, 3, 3)}, ["y"], {
            "perm": ("t", attribute("perm", [0, 3, 2, 1]))}


MODELS = (branches, dead_relu, one_element, exchanged, turned, output_shape,
          same_layers, turned_output)


def model_of(nodes, inputs, constants, outputs):
    given = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()]
    graph = helper.make_graph(
        nodes, "net", given, [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(a, name) for name, a in constants.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 13)])
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    types = {value.name: value for value in inferred.graph.output}
    del model.graph.output[:]
    model.graph.output.extend(types[name] for name in outputs)
    return model


def make(folder, nodes, inputs, constants, outputs, faults):
    folder.mkdir(parents=True)
    for node in nodes:
        node.name = node.output[0] + "_op"
    model = model_of(copy.deepcopy(nodes), inputs, constants, outputs)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    for way in WAYS:
        compile_to(folder / f"good-{way}.so", model, way)
    for name, (tensor, change) in faults.items():
        changed, others = copy.deepcopy(nodes), dict(constants)
        change(next(n for n in changed if tensor in n.output), others)
        for way in WAYS:
            compile_to(folder / f"{name}-{way}.so",
                       model_of(changed, inputs, others, outputs), way)
    (folder / "truth.json").write_text(json.dumps(
        {name: tensor for name, (tensor, _) in faults.items()}))


def main(out):
    for network in MODELS:
        make(pathlib.Path(out) / network.__name__, *network())


if __name__ == "__main__":
    main(*sys.argv[1:])
