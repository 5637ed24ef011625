"""usage: short_types.py OUT SEED NETWORK WAY...

Makes the small ONNX models of drawn_networks.py and compiles each with TVM in
types that have fewer bits than the model's, as users and compilers do:
OUT/NETWORK has model.onnx, inputs.npz and

- half.onnx, half.so: all of it in float16
- mixed.so: model.onnx with TVM's own mixed precision
- steps.onnx, steps.so: the tensors before and behind convolutions and products
  quantised to 8 bits (QuantizeLinear, DequantizeLinear), and the weights, too
- whole.so: products with constants in 8-bit integers and sums in 32-bit ones,
  as a compiler makes of model.onnx that quantises itself
- joined.so: products of one tensor made one, which is divided afterwards

each fused and, as NAME-plain.so, plain. `ways` names those that are wanted. For
the Python that has TVM.
"""

import copy
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import drawn_networks
import tvm_side

FLOAT, HALF = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
MARGIN = 1.5
PRODUCTS = ("Conv", "MatMul", "Gemm")


def in_half(model):
    """All floats of the model are float16."""
    model = copy.deepcopy(model)
    del model.graph.value_info[:]
    # TVM makes floats of 32 bits of a normalisation all in float16.
    kept = {name for node in model.graph.node for name in node.input[1:]
            if node.op_type == "BatchNormalization"}
    for weight in model.graph.initializer:
        if weight.data_type == FLOAT and weight.name not in kept:
            weight.CopyFrom(numpy_helper.from_array(
                numpy_helper.to_array(weight).astype("float16"), weight.name))
    for info in [*model.graph.input, *model.graph.output]:
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = HALF
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def all_tensors(model, inputs):
    """Every tensor that the model makes, by name."""
    shown = copy.deepcopy(model)
    del shown.graph.output[:]
    for node in model.graph.node:
        shown.graph.output.extend(
            helper.make_empty_tensor_value_info(name) for name in node.output)
    names = [output.name for output in shown.graph.output]
    made = ReferenceEvaluator(shown).run(None, inputs)
    return {**inputs, **dict(zip(names, made))}


class Quantiser:
    """Writes a model with what products read and make quantised."""

    def __init__(self, model, inputs):
        self.model = copy.deepcopy(model)
        self.tensors = all_tensors(model, inputs)
        self.weights = {w.name: numpy_helper.to_array(w)
                        for w in model.graph.initializer}
        self.nodes, self.rounded = [], {}

    def constant(self, name, data):
        self.model.graph.initializer.append(
            numpy_helper.from_array(np.asarray(data), name))
        return name

    def step_of(self, name):
        """The scale and the zero point of a tensor."""
        if name in self.weights:
            step = np.float32(np.abs(self.weights[name]).max() / 127)
            return step, np.int8(0)
        # Inputs that are drawn later reach a little further.
        low, high = (MARGIN * float(f(self.tensors[name]))
                     for f in (np.min, np.max))
        low, high = min(low, 0.0), max(high, 0.0)
        step = np.float32((high - low) / 255)
        return step, np.uint8(round(-low / float(step)))

    def quantised(self, name):
        """The name of the tensor's floats after rounding to a step."""
        if name in self.rounded:
            return self.rounded[name]
        step, zero = self.step_of(name)
        parts = [f"{name}_q", self.constant(f"{name}_step", step),
                 self.constant(f"{name}_zero", zero)]
        if name in self.weights:
            self.constant(parts[0], np.round(
                self.weights[name] / step).astype("int8"))
        else:
            self.nodes.append(helper.make_node(
                "QuantizeLinear", [name, *parts[1:]], parts[:1], f"{name}_q"))
        self.nodes.append(helper.make_node(
            "DequantizeLinear", parts, [f"{name}_dq"], f"{name}_dq"))
        self.rounded[name] = f"{name}_dq"
        return self.rounded[name]

    def run(self):
        outputs = {output.name for output in self.model.graph.output}
        for node in self.model.graph.node:
            node = copy.deepcopy(node)
            if node.op_type in PRODUCTS:
                node.input[:2] = [self.quantised(n) for n in node.input[:2]]
            else:
                node.input[:] = [self.rounded.get(n, n) if n not in self.weights
                                 else n for n in node.input]
            self.nodes.append(node)
            if node.op_type in PRODUCTS and node.output[0] not in outputs:
                self.quantised(node.output[0])
        del self.model.graph.node[:]
        self.model.graph.node.extend(self.nodes)
        del self.model.graph.value_info[:]
        return onnx.shape_inference.infer_shapes(self.model, strict_mode=True)


def in_integers(model, inputs):
    """Products with constants are sums of integers, scaled afterwards."""
    quantiser = Quantiser(model, inputs)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "MatMul" or node.input[1] not in quantiser.weights:
            nodes.append(node)
            continue
        x, w = node.input
        steps = [quantiser.step_of(x), quantiser.step_of(w)]
        name = node.output[0]
        scale, zero = (quantiser.constant(f"{name}_{what}", value)
                       for what, value in zip(("scale", "zero"), steps[0]))
        weights = quantiser.constant(f"{name}_weights", np.round(
            quantiser.weights[w] / steps[1][0]).astype("int8"))
        both = quantiser.constant(f"{name}_both", steps[0][0] * steps[1][0])
        nodes += [
            helper.make_node("QuantizeLinear", [x, scale, zero], [f"{name}_x"]),
            helper.make_node("MatMulInteger", [f"{name}_x", weights, zero],
                             [f"{name}_sum"]),
            helper.make_node("Cast", [f"{name}_sum"], [f"{name}_float"],
                             to=FLOAT),
            helper.make_node("Mul", [f"{name}_float", both], [name])]
    made = quantiser.model
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    del made.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def with_joined(model):
    """Products of one tensor with constants are one, which is divided."""
    model = copy.deepcopy(model)
    weights = {w.name: numpy_helper.to_array(w)
               for w in model.graph.initializer}
    groups = {}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            groups.setdefault(node.input[0], []).append(node)
    nodes = []
    for node in model.graph.node:
        group = groups.get(node.input[0], [])
        if node not in group or len(group) == 1:
            nodes.append(node)
            continue
        if node is not group[0] and node != group[0]:
            continue
        parts = [weights[one.input[1]] for one in group]
        made = [f"{node.input[0]}_{what}" for what in
                ("weights", "sizes", "products")]
        for name, data in zip(made, (
                np.concatenate(parts, 1),
                np.array([p.shape[1] for p in parts], "int64"))):
            model.graph.initializer.append(numpy_helper.from_array(data, name))
        nodes += [helper.make_node("MatMul", [node.input[0], made[0]],
                                   made[2:]),
                  helper.make_node("Split", [made[2], made[1]],
                                   [one.output[0] for one in group], axis=-1)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def without_clips(model):
    """TVM's mixed precision fails at what it makes of Clip."""
    model = copy.deepcopy(model)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Clip":
            nodes.append(node)
            continue
        x, low, high = node.input
        nodes.append(helper.make_node("Min", [x, high], [f"{x}_low"]))
        nodes.append(helper.make_node("Max", [f"{x}_low", low], node.output))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def module_of(model):
    model = copy.deepcopy(model)
    del model.graph.value_info[:]
    return from_onnx(model, keep_params_in_input=False)


def modules(model, inputs):
    """What makes the module of each way, by its name."""
    half, steps = in_half(model), Quantiser(model, inputs).run()
    mix = relax.transform.ToMixedPrecision(out_dtype="float32")
    return {"half": lambda: module_of(half),
            "mixed": lambda: mix(module_of(without_clips(model))),
            "steps": lambda: module_of(steps),
            "whole": lambda: module_of(in_integers(model, inputs)),
            "joined": lambda: module_of(with_joined(model))}, half, steps


def make(folder, network, seed, ways):
    random = np.random.default_rng(
        [seed, drawn_networks.NETWORKS.index(network)])
    model, inputs = network(random)
    folder.mkdir(parents=True)
    made, half, steps = modules(model, inputs)
    for name, one in (("model", model), ("half", half), ("steps", steps)):
        onnx.save(one, folder / f"{name}.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "half.npz",
             **{k: v.astype("float16") for k, v in inputs.items()})
    for way in ways:
        name, _, is_plain = way.partition("-")
        tvm_side.build(made[name](), not is_plain).export_library(
            str(folder / f"{way}.so"))


def main(out, seed, network, *ways):
    make(pathlib.Path(out) / network, getattr(drawn_networks, network),
         int(seed), ways)


if __name__ == "__main__":
    main(*sys.argv[1:])
