"""Builds a network node by node, with random weights, for ort_networks.py."""

import zlib

import numpy as np
from onnx import helper, numpy_helper

import ort_case


class Net:
    def __init__(self, name, opset, seed, dtype="float32"):
        self.name = f"{name}_{opset}"
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(
            [seed, zlib.crc32(self.name.encode())])
        self.fed = {}
        self.length = 1  # Products in all sums together.
        self.nodes, self.inputs, self.constants = [], [], []

    def input(self, name, value, sides=None):
        """An input; `sides` may give names instead of sizes."""
        self.fed[name] = np.asarray(value)
        self.inputs.append(helper.make_tensor_value_info(
            name, ort_case.element_type(self.fed[name]),
            sides or self.fed[name].shape))
        return name

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(self.dtype)

    def image(self, name, *shape, sides=None):
        return self.input(name, self.floats(*shape), sides)

    def constant(self, value, dtype=None):
        name = f"c{len(self.constants)}"
        self.constants.append(
            numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values):
        return self.constant(values, np.int64)

    def weight(self, *shape, fan=None):
        """Such that sums of `fan` products keep the size of what goes in."""
        scale = 1 / np.sqrt(fan or 1)
        return self.constant((self.floats(*shape) * scale).astype(self.dtype))

    def positive(self, *shape):
        return self.constant(self.rng.uniform(0.5, 1.5, shape), self.dtype)

    def op(self, kind, *inputs, outputs=1, **attrs):
        """The name of its output, or a list of names if it has several."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(
            kind, list(inputs), names, f"{kind}_{len(self.nodes)}", **attrs))
        return names[0] if outputs == 1 else names

    def case(self, *outputs, factor=2.0, step=0):
        graph = helper.make_graph(
            self.nodes, self.name, self.inputs,
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self.constants)
        return ort_case.Case(
            self.name, ort_case.make_model(graph, self.opset), self.fed,
            ort_case.network(self.length, factor, step))

    # --- what operators of different opsets have in common ------------------

    def conv(self, x, cin, cout, kernel, bias=True, group=1, **attrs):
        fan = cin // group * int(np.prod(kernel))
        self.length += fan
        inputs = [x, self.weight(cout, cin // group, *kernel, fan=fan)]
        if bias:
            inputs.append(self.weight(cout))
        return self.op("Conv", *inputs, kernel_shape=kernel, group=group,
                       **attrs)

    def batch_norm(self, x, channels):
        self.length += 4
        return self.op("BatchNormalization", x, self.positive(channels),
                       self.weight(channels), self.weight(channels),
                       self.positive(channels), epsilon=1e-3)

    def linear(self, x, cin, cout):
        self.length += cin
        y = self.op("MatMul", x, self.weight(cin, cout, fan=cin))
        return self.op("Add", y, self.weight(cout))

    def clip(self, x, low, high):
        if self.opset < 11:
            return self.op("Clip", x, min=low, max=high)
        return self.op("Clip", x, self.constant(low, self.dtype),
                       self.constant(high, self.dtype))

    def with_axes(self, kind, x, axes, since=13, **attrs):
        if self.opset < since:
            return self.op(kind, x, axes=axes, **attrs)
        return self.op(kind, x, self.ints(*axes), **attrs)

    def unsqueeze(self, x, *axes):
        return self.with_axes("Unsqueeze", x, axes)

    def squeeze(self, x, *axes):
        return self.with_axes("Squeeze", x, axes)

    def mean(self, x, *axes, keepdims=1):
        return self.with_axes("ReduceMean", x, axes, 18, keepdims=keepdims)

    def pad(self, x, pads, mode="constant", value=0.0):
        if self.opset < 11:
            return self.op("Pad", x, pads=pads, mode=mode, value=value)
        given = [self.constant(value, self.dtype)] * (mode == "constant")
        return self.op("Pad", x, self.ints(*pads), *given, mode=mode)

    def slice(self, x, starts, ends, axes):
        if self.opset < 10:
            return self.op("Slice", x, starts=starts, ends=ends, axes=axes)
        return self.op("Slice", x, self.ints(*starts), self.ints(*ends),
                       self.ints(*axes))

    def split(self, x, parts, axis):
        if self.opset < 13:
            return self.op("Split", x, outputs=len(parts), split=parts,
                           axis=axis)
        return self.op("Split", x, self.ints(*parts), outputs=len(parts),
                       axis=axis)

    def resize(self, x, scales, mode, **attrs):
        scales = [1.0, 1.0, *scales]
        if self.opset < 9:
            return self.op("Upsample", x, mode=mode, scales=scales)
        target = self.constant(scales, np.float32)
        if self.opset < 11:
            kind = "Upsample" if self.opset == 9 else "Resize"
            return self.op(kind, x, target, mode=mode)
        roi = "" if self.opset >= 13 else self.constant([], np.float32)
        return self.op("Resize", x, roi, target, mode=mode, **attrs)

    def shape_part(self, x, index):
        """One side as a list of one number."""
        return self.op("Gather", self.op("Shape", x), self.ints(index))
