"""Small ONNX models that are drawn from a random generator: each function
returns one and inputs for it, by name."""

import numpy as np
import onnx
from onnx import helper, numpy_helper


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

    def uniform(self, name, low, high, *shape):
        return self.constant(name, self.random.uniform(
            low, high, shape).astype("float32"))

    def integers(self, name, *numbers):
        return self.constant(name, np.array(numbers, "int64"))

    def node(self, kind, inputs, name, **attributes):
        self.nodes(kind, inputs, [name], **attributes)
        return name

    def nodes(self, kind, inputs, names, **attributes):
        self._nodes.append(helper.make_node(kind, inputs, names, names[0],
                                            **attributes))

    def normalized(self, x, name, channels):
        stats = [self.uniform(f"{name}_scale", 0.5, 1.5, channels),
                 self.weight(f"{name}_shift", channels),
                 self.weight(f"{name}_mean", channels),
                 self.uniform(f"{name}_var", 0.5, 2, channels)]
        return self.node("BatchNormalization", [x, *stats], name,
                         epsilon=1e-3)

    def model(self, inputs, outputs, kind=onnx.TensorProto.FLOAT):
        graph = helper.make_graph(
            self._nodes, "net",
            [helper.make_tensor_value_info(n, kind, s) for n, s in inputs],
            [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
             for n, s in outputs], self._weights)
        model = helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 18)])
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def image(random):
    b = Builder(random)
    c = int(random.integers(6, 14))
    x = b.node("Conv", ["x", b.weight("w1", c, 3, 3, 3), b.weight("b1", c)],
               "conv1", pads=[1, 1, 1, 1])
    x = b.node("Relu", [b.normalized(x, "norm1", c)], "relu1")
    pooled = b.node("MaxPool", [x], "pool1", kernel_shape=[2, 2],
                    strides=[2, 2])
    y = b.node("Conv", [pooled, b.weight("w2", c, 1, 3, 3), b.weight("b2", c)],
               "conv2", pads=[1, 1, 1, 1], group=c)
    y = b.node("LeakyRelu", [b.normalized(y, "norm2", c)], "relu2",
               alpha=0.15)
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


def decoder(random):
    b = Builder(random)
    c = 4 * int(random.integers(2, 4))
    x = b.node("Conv", ["x", b.weight("w1", c, 4, 3, 3), b.weight("b1", c)],
               "conv1", pads=[1, 1, 1, 1], strides=[2, 2])
    x = b.node("PRelu", [x, b.weight("slope", c, 1, 1)], "bent")
    x = b.node("InstanceNormalization",
               [x, b.uniform("norm_scale", 0.5, 1.5, c), b.weight("shift", c)],
               "norm", epsilon=1e-3)
    x = b.node("ConvTranspose", [x, b.weight("w2", c, 6, 2, 2),
                                 b.weight("b2", 6)], "wider", strides=[2, 2])
    x = b.node("HardSwish", [x], "swish")
    skipped = b.node("Conv", ["x", b.weight("w3", 6, 4, 1, 1)], "skipped")
    y = b.node("Concat", [x, skipped], "join", axis=1)
    y = b.node("Conv", [y, b.weight("w4", 8, 12, 3, 3), b.weight("b4", 8)],
               "conv4", pads=[1, 1, 1, 1])
    y = b.node("LeakyRelu", [y], "relu", alpha=0.05)
    y = b.node("DepthToSpace", [y], "spread", blocksize=2)
    y = b.node("Pad", [y, b.integers("sides", 0, 0, 1, 1, 0, 0, 1, 1)],
               "mirrored", mode="reflect")
    y = b.node("AveragePool", [y], "pool", kernel_shape=[3, 3], strides=[2, 2])
    y = b.node("Sub", [y, b.weight("level", 2, 1, 1)], "centred")
    y = b.node("Div", [y, b.uniform("unit", 1, 2, 2, 1, 1)], "scaled")
    y = b.node("ReduceMean", [y, b.integers("axes", 2, 3)], "mean", keepdims=0)
    y = b.node("Gemm", [y, b.weight("w5", 2, 5), b.weight("b5", 5)], "product",
               alpha=0.7, beta=1.3)
    y = b.node("LogSoftmax", [y], "out", axis=1)
    return (b.model([("x", [1, 4, 12, 12])], [(y, [1, 5])]),
            {"x": random.standard_normal((1, 4, 12, 12)).astype("float32")})


def squeezed(random):
    b = Builder(random)
    c = 2 * int(random.integers(4, 8))
    x = b.node("Conv", ["x", b.weight("w1", c, 3, 3, 3)], "conv1",
               strides=[2, 2], pads=[1, 1, 1, 1])
    x = b.node("HardSwish", [b.normalized(x, "norm1", c)], "swish1")
    y = b.node("Conv", [x, b.weight("w2", 2 * c, c, 1, 1)], "conv2")
    y = b.node("Relu", [b.normalized(y, "norm2", 2 * c)], "relu2")
    y = b.node("Conv", [y, b.weight("w3", 2 * c, 1, 3, 3)], "conv3",
               group=2 * c, pads=[1, 1, 1, 1])
    y = b.node("HardSwish", [b.normalized(y, "norm3", 2 * c)], "swish3")
    gate = b.node("GlobalAveragePool", [y], "mean1")
    gate = b.node("Conv", [gate, b.weight("w4", c, 2 * c, 1, 1),
                           b.weight("b4", c)], "conv4")
    gate = b.node("Relu", [gate], "relu4")
    gate = b.node("Conv", [gate, b.weight("w5", 2 * c, c, 1, 1),
                           b.weight("b5", 2 * c)], "conv5")
    gate = b.node("HardSigmoid", [gate], "gate", alpha=1 / 6)
    y = b.node("Mul", [y, gate], "gated")
    y = b.node("Conv", [y, b.weight("w6", c, 2 * c, 1, 1)], "conv6")
    y = b.node("Add", [b.normalized(y, "norm6", c), x], "sum1")
    pooled = b.node("MaxPool", [y], "pool", kernel_shape=[3, 3],
                    strides=[2, 2], pads=[1, 1, 1, 1])
    y = b.node("Conv", [pooled, b.weight("w7", c, c // 2, 3, 3),
                        b.weight("b7", c)], "conv7", group=2,
               pads=[1, 1, 1, 1])
    y = b.node("Max", [y, pooled], "larger")
    y = b.node("Clip", [y, b.constant("low", np.float32(-1)),
                        b.constant("high", np.float32(3))], "clip")
    y = b.node("Flatten", [b.node("GlobalAveragePool", [y], "mean2")], "flat")
    y = b.node("Gemm", [y, b.weight("w8", 7, c), b.weight("b8", 7)], "product",
               transB=1)
    y = b.node("Softmax", [y], "out", axis=-1)
    return (b.model([("x", [2, 3, 14, 14])], [(y, [2, 7])]),
            {"x": random.standard_normal((2, 3, 14, 14)).astype("float32")})


def language(random):
    b = Builder(random)
    words, t, h, d = 30, 8, 2, 2 * int(random.integers(3, 6))
    w = h * d
    b.constant("two", np.float32(2))
    b.constant("epsilon", np.float32(1e-3))
    b.integers("last", -1)

    def norm(x, name):
        squares = b.node("Pow", [x, "two"], f"{name}_squares")
        mean = b.node("ReduceMean", [squares, "last"], f"{name}_mean",
                      keepdims=1)
        root = b.node("Sqrt", [b.node("Add", [mean, "epsilon"],
                                      f"{name}_safe")], f"{name}_root")
        unit = b.node("Mul", [x, b.node("Reciprocal", [root],
                                        f"{name}_inverse")], f"{name}_unit")
        return b.node("Mul", [unit, b.uniform(f"{name}_scale", 0.5, 1.5, w)],
                      name)

    def heads(name, perm):
        y = b.node("Reshape", [name, "split"], f"{name}_split")
        return b.node("Transpose", [y], f"{name}_heads", perm=perm)
    x = b.node("Gather", [b.weight("table", words, w, scale=1), "ids"],
               "embedded")
    x = b.node("Add", [x, b.weight("places", 1, t, w)], "placed")
    b.integers("split", 1, t, h, d)
    b.integers("merged", 1, t, w)
    qkv = b.node("MatMul", [norm(x, "norm1"), b.weight("w_qkv", w, 3 * w)],
                 "qkv")
    b.nodes("Split", [qkv, b.integers("parts", w, w, w)], ["q", "k", "v"],
            axis=2)
    q, v = heads("q", [0, 2, 1, 3]), heads("v", [0, 2, 1, 3])
    s = b.node("MatMul", [q, heads("k", [0, 2, 3, 1])], "scores")
    s = b.node("Div", [s, b.constant("root", np.float32(d ** 0.5))], "scaled")
    s = b.node("Where", [
        b.constant("before", np.tril(np.ones((1, 1, t, t), bool))), s,
        b.constant("never", np.float32(-1e4))], "masked")
    s = b.node("Softmax", [s], "weights", axis=-1)
    y = b.node("Transpose", [b.node("MatMul", [s, v], "mixed")],
               "mixed_turned", perm=[0, 2, 1, 3])
    y = b.node("Reshape", [y, "merged"], "merged_heads")
    y = b.node("MatMul", [y, b.weight("w_o", w, w)], "o")
    y = b.node("Add", [y, x], "residual1")
    z = norm(y, "norm2")
    gate = b.node("MatMul", [z, b.weight("w_gate", w, 2 * w)], "gate")
    gate = b.node("Mul", [gate, b.node("Sigmoid", [gate], "open")], "silu")
    z = b.node("MatMul", [z, b.weight("w_up", w, 2 * w)], "up")
    z = b.node("MatMul", [b.node("Mul", [gate, z], "gated"),
                          b.weight("w_down", 2 * w, w)], "down")
    y = b.node("Add", [z, y], "residual2")
    y = b.node("ReduceMax", [y, b.integers("axes", 1)], "highest", keepdims=0)
    y = b.node("Gemm", [y, b.weight("w_out", w, 4), b.weight("b_out", 4)],
               "out")
    return (b.model([("ids", [1, t])], [(y, [1, 4])], onnx.TensorProto.INT64),
            {"ids": random.integers(0, words, (1, t))})


# The first ones are what the tests take.
NETWORKS = [image, attention, gates, decoder, squeezed, language]
