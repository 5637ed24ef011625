"""Networks with drawn weights, one operation after the other."""

from __future__ import annotations

import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Network:
    """An ONNX model in the making. The weights follow from the seed, and are
    of a size that keeps activations near 1."""

    def __init__(self, seed: int = 0, opset: int = OPSET):
        self.rng = numpy.random.default_rng(seed)
        self._opset = opset
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._constants: list[onnx.TensorProto] = []

    def input(self, name: str, *shape: int,
              kind: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, name: str, values: object,
                 dtype: str = "float32") -> str:
        self._constants.append(numpy_helper.from_array(
            numpy.asarray(values, dtype), name))
        return name

    def drawn(self, name: str, *shape: int, scale: float = 1.0) -> str:
        return self.constant(name, self.rng.standard_normal(shape) * scale)

    def op(self, kind: str, name: str, *inputs: str, outputs: int = 1,
           **attributes: object) -> str:
        """Adds an operation. Returns its first output, which has its name;
        those behind it have a number at the end."""
        made = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self._nodes.append(helper.make_node(kind, list(inputs), made,
                                            name=name, **attributes))
        return name

    def conv(self, name: str, x: str, in_channels: int, channels: int,
             *kernel: int, group: int = 1, gain: float = 1.4,
             **attributes: object) -> str:
        fan_in = in_channels // group * int(numpy.prod(kernel))
        weight = self.drawn(name + ".weight", channels, in_channels // group,
                            *kernel, scale=gain / fan_in ** .5)
        bias = self.drawn(name + ".bias", channels, scale=.1)
        attributes.setdefault("pads", [side // 2 for side in kernel] * 2)
        return self.op("Conv", name, x, weight, bias, group=group,
                       kernel_shape=list(kernel), **attributes)

    def dense(self, name: str, x: str, width: int, outputs: int,
              gain: float = 1.0) -> str:
        """A MatMul and an Add, which has `name`."""
        weight = self.drawn(name + ".weight", width, outputs,
                            scale=gain / width ** .5)
        bias = self.drawn(name + ".bias", outputs, scale=.1)
        return self.op("Add", name,
                       self.op("MatMul", name + ".matmul", x, weight), bias)

    def finish(self, *outputs: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes, "network", self._inputs,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            self._constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=8)
        typed = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        known = {each.name: each for each in (*typed.graph.value_info,
                                              *typed.graph.output)}
        for each in model.graph.output:
            each.CopyFrom(known[each.name])
        onnx.checker.check_model(model)
        return model


def save(model: onnx.ModelProto, path: pathlib.Path) -> None:
    path.write_bytes(model.SerializeToString())


def node_of(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.name == name)


def values_of(model: onnx.ModelProto, name: str) -> numpy.ndarray:
    """Those of a constant."""
    return numpy_helper.to_array(next(
        each for each in model.graph.initializer if each.name == name))


def set_values(model: onnx.ModelProto, name: str,
               values: numpy.ndarray) -> None:
    """Gives a constant other values, and their shape."""
    old = next(each for each in model.graph.initializer if each.name == name)
    old.CopyFrom(numpy_helper.from_array(
        values.astype(numpy_helper.to_array(old).dtype), name))


def set_attribute(node: onnx.NodeProto, name: str, value: object) -> None:
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
