"""The networks that networks_test.py compiles with TVM.

Each is a function that gives `Network(module, inputs)`; it runs in the Python
that has TVM. What they are called is what the tests are called.
"""

import collections

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import relax as R

Network = collections.namedtuple("Network", "module inputs function",
                                 defaults=("main",))


class Builder:
    """A relax function, binding by binding, and values drawn for it."""

    def __init__(self, name="main"):
        self._name = name
        self._block = relax.BlockBuilder()
        self._random = np.random.default_rng(7)
        self._params = []
        self.inputs = {}

    def draw(self, *shape, dtype="float32"):
        if dtype == "bool":
            return self._random.random(shape) < 0.5
        kind = np.dtype(dtype).kind
        if kind in "iu":
            return self._random.integers(0 if kind == "u" else -100, 100,
                                         shape).astype(dtype)
        return self._random.standard_normal(shape).astype(dtype)

    def input(self, name, shape, dtype="float32", value=None):
        """`value` tells the dimensions that the shape leaves open."""
        self._params.append(relax.Var(name, R.Tensor(shape, dtype)))
        self.inputs[name] = (self.draw(*shape, dtype=dtype) if value is None
                             else value)
        return self._params[-1]

    def tuple_input(self, name, shapes):
        self._params.append(relax.Var(
            name, R.Tuple(*[R.Tensor(shape, "float32") for shape in shapes])))
        for i, shape in enumerate(shapes):
            self.inputs[f"{name}[{i}]"] = self.draw(*shape)
        return self._params[-1]

    def weight(self, *shape, dtype="float32"):
        return relax.const(self.draw(*shape, dtype=dtype) *
                           np.asarray(0.3, dtype))

    def constant(self, value, dtype):
        return relax.const(np.asarray(value, dtype))

    def finish(self, body):
        """`body` is given a function that binds a value, and gives what the
        network does."""
        with self._block.function(self._name, self._params):
            with self._block.dataflow():
                result = self._block.emit_output(body(self._block.emit))
            self._block.emit_func_output(result)
        return Network(self._block.get(), self.inputs, self._name)


def mlp():
    b = Builder()
    x = b.input("x", (4, 32))

    def body(emit):
        h = emit(op.nn.relu(emit(emit(op.matmul(x, b.weight(32, 64)))
                                 + b.weight(64))))
        y = emit(emit(op.matmul(h, b.weight(64, 10))) + b.weight(10))
        return emit(op.nn.softmax(y))
    return b.finish(body)


def convnet_with_pooling():
    b = Builder()
    x = b.input("image", (1, 3, 16, 16))

    def body(emit):
        h = emit(op.nn.conv2d(x, b.weight(8, 3, 3, 3), padding=1))
        h = emit(op.nn.relu(emit(h + b.weight(1, 8, 1, 1))))
        h = emit(op.nn.max_pool2d(h, (2, 2), (2, 2)))
        h = emit(op.nn.conv2d(h, b.weight(12, 8, 3, 3), strides=2, padding=1))
        h = emit(op.nn.avg_pool2d(h, (3, 3), (1, 1), padding=(1, 1)))
        h = emit(op.nn.adaptive_avg_pool2d(h, (1, 1)))
        h = emit(op.reshape(h, (1, 12)))
        return emit(op.nn.log_softmax(emit(op.matmul(h, b.weight(12, 5)))))
    return b.finish(body)


def depthwise_and_grouped_convolutions():
    b = Builder()
    x = b.input("x", (2, 8, 10, 10))

    def body(emit):
        h = emit(op.nn.conv2d(x, b.weight(8, 1, 3, 3), padding=1, groups=8))
        h = emit(op.clip(h, 0, 6))
        h = emit(op.nn.conv2d(h, b.weight(16, 2, 1, 1), groups=4))
        h = emit(op.nn.batch_norm(
            h, b.weight(16), b.weight(16), b.weight(16),
            b.constant(np.full(16, 0.5), "float32"), axis=1))
        h = emit(h[0])
        h = emit(op.nn.conv2d_transpose(h, b.weight(16, 4, 2, 2), strides=2))
        h = emit(op.nn.conv1d(emit(op.reshape(h, (2, 4, 400))),
                              b.weight(6, 4, 5), dilation=2))
        return emit(op.nn.leakyrelu(h, 0.1))
    return b.finish(body)


def attention():
    b = Builder()
    x = b.input("x", (1, 6, 32))

    def heads(emit, t):
        t = emit(op.matmul(t, b.weight(32, 32)))
        return emit(op.permute_dims(emit(op.reshape(t, (1, 6, 4, 8))),
                                    (0, 2, 1, 3)))

    def body(emit):
        q, k, v = heads(emit, x), heads(emit, x), heads(emit, x)
        scores = emit(op.matmul(q, emit(op.permute_dims(k, (0, 1, 3, 2)))))
        scores = emit(scores * b.constant(8 ** -0.5, "float32"))
        scores = emit(scores + b.constant(np.triu(np.full((6, 6), -1e9), 1),
                                          "float32"))
        h = emit(op.matmul(emit(op.nn.softmax(scores)), v))
        h = emit(op.reshape(emit(op.permute_dims(h, (0, 2, 1, 3))),
                            (1, 6, 32)))
        return emit(emit(op.matmul(h, b.weight(32, 32))) + x)
    return b.finish(body)


def transformer_block():
    b = Builder()
    x = b.input("tokens", (2, 5, 16))

    def norm(emit, t):
        return emit(op.nn.layer_norm(t, b.weight(16), b.weight(16), axes=-1))

    def body(emit):
        h = norm(emit, x)
        shape = (2, 5, 2, 8)
        q, k, v = [emit(op.reshape(emit(op.matmul(h, b.weight(16, 16))),
                                   shape)) for _ in range(3)]
        a = emit(op.reshape(emit(op.nn.attention(q, k, v)), (2, 5, 16)))
        h = emit(x + a)
        m = emit(op.nn.gelu(emit(op.matmul(norm(emit, h), b.weight(16, 64)))))
        m = emit(emit(op.matmul(m, b.weight(64, 16))) + b.weight(16))
        h = emit(h + m)
        return emit(op.nn.rms_norm(h, b.weight(16), axes=[-1]))
    return b.finish(body)


def reductions():
    b = Builder()
    x = b.input("x", (3, 4, 5))

    def body(emit):
        return emit(relax.Tuple([
            emit(op.sum(x, 1)), emit(op.mean(x, [0, 2], keepdims=True)),
            emit(op.max(x, -1)), emit(op.min(x)), emit(op.prod(x, 0)),
            emit(op.variance(x, 1)), emit(op.argmax(x, 2)),
            emit(op.nn.softmax(x, 1)), emit(op.cumsum(x, 1)),
            emit(op.std(x, 2))]))
    return b.finish(body)


def outputs_and_tuples():
    b = Builder()
    x = b.input("x", (6, 4))
    pair = b.tuple_input("pair", [(6, 4), (4,)])

    def body(emit):
        parts = emit(op.split(x, 3, 0))
        first, last = emit(parts[0]), emit(parts[2])
        both = emit(first + last)
        sum_ = emit(emit(x * emit(pair[0])) + emit(pair[1]))
        return emit(relax.Tuple(
            [both, relax.Tuple([first, x, relax.Tuple([sum_])]), both,
             b.weight(3)]))
    return b.finish(body)


def integers_and_bools():
    b = Builder()
    x, y = b.input("x", (4, 6), "int8"), b.input("y", (4, 6), "uint8")
    m = b.input("mask", (4, 6), "bool")

    def body(emit):
        wide = emit(op.astype(x, "int32"))
        product = emit(op.matmul(wide, emit(op.permute_dims(
            emit(op.astype(y, "int32"))))))
        scaled = emit(op.right_shift(product, b.constant(4, "int32")))
        small = emit(op.astype(emit(op.clip(scaled, -128, 127)), "int8"))
        large = emit(op.greater(y, b.constant(50, "uint8")))
        either = emit(op.logical_xor(large, m))
        return emit(relax.Tuple([
            small, either, emit(op.where(either, y, emit(op.astype(
                x, "uint8")))),
            emit(op.astype(wide, "int64")), emit(op.logical_not(m)),
            emit(op.bitwise_and(x, b.constant(15, "int8")))]))
    return b.finish(body)


def halves():
    b = Builder()
    x, w = b.input("x", (4, 8), "float16"), b.input("w", (8, 5), "int8")

    def body(emit):
        y = emit(op.matmul(x, emit(op.astype(w, "float16"))))
        y = emit(emit(op.tanh(y)) + b.weight(5, dtype="float16"))
        wide = emit(op.astype(y, "float64"))
        return emit(relax.Tuple([y, emit(op.exp(wide)),
                                 emit(op.astype(y, "bfloat16"))]))
    return b.finish(body)


def quantised():
    b = Builder()
    x = b.input("x", (3, 8))
    scale, zero = b.constant(0.02, "float32"), b.constant(3, "int8")

    def body(emit):
        q = emit(op.quantize(x, scale, zero, out_dtype="int8"))
        y = emit(op.matmul(emit(op.astype(q, "int32")),
                           b.constant(b.draw(8, 4, dtype="int8"), "int32")))
        y = emit(op.astype(emit(op.clip(y, -128, 127)), "int8"))
        return emit(op.dequantize(y, scale, zero, out_dtype="float32"))
    return b.finish(body)


def indexing_and_shapes():
    b = Builder()
    x, i = b.input("table", (10, 6)), b.input("ids", (2, 3), "int32",
                                              np.array([[1, 9, 0], [4, 4, 7]],
                                                       "int32"))

    def body(emit):
        rows = emit(op.take(x, i, axis=0))
        flat = emit(op.reshape(rows, (2, 18)))
        both = emit(op.concat([flat, flat], axis=0))
        parts = emit(op.split(both, [5, 9], 1))
        turned = emit(op.permute_dims(emit(parts[1])))
        padded = emit(op.nn.pad(turned, (1, 1, 0, 2)))
        gathered = emit(op.gather_elements(
            x, b.constant(np.arange(12).reshape(2, 6) % 10, "int64"), axis=0))
        sliced = emit(op.strided_slice(x, axes=[0, 1], begin=[8, 0],
                                       end=[1, 6], strides=[-3, 2]))
        return emit(relax.Tuple([
            padded, gathered, sliced, emit(op.tile(sliced, (2, 1))),
            emit(op.expand_dims(emit(parts[0]), 1)), emit(op.flip(x, 1)),
            emit(op.squeeze(emit(op.reshape(x, (1, 60, 1))))),
            emit(op.one_hot(i, relax.prim_value(1.0), relax.prim_value(0.0),
                            10))]))
    return b.finish(body)


def sorted_values():
    b = Builder()
    x = b.input("x", (3, 9))

    def body(emit):
        return emit(relax.Tuple([
            emit(op.topk(x, k=4, axis=1)), emit(op.argsort(x)),
            emit(op.sort(x, 0))]))
    return b.finish(body)


def open_batch():
    b = Builder()
    n = tvm.tirx.Var("n", "int64")
    x = b.input("x", (n, 4, 8), value=b.draw(5, 4, 8))

    def body(emit):
        h = emit(op.reshape(x, (n, 32)))
        h = emit(op.nn.relu(emit(op.matmul(h, b.weight(32, 12)))))
        return emit(op.nn.softmax(emit(h + b.weight(12))))
    return b.finish(body)


def open_lengths():
    b = Builder()
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    x = b.input("x", (n, 8), value=b.draw(3, 8))
    y = b.input("y", (m, 8), value=b.draw(2, 8))

    def body(emit):
        joined = emit(op.concat([x, y], axis=0))
        return emit(relax.Tuple([
            emit(op.nn.softmax(joined)), emit(op.reshape(joined,
                                                         ((n + m) * 8,))),
            emit(op.matmul(x, emit(op.permute_dims(y))))]))
    return b.finish(body)


def numbers():
    b = Builder("scale")
    x = b.input("x", (), value=np.array(1.5, "float32"))

    def body(emit):
        return emit(op.sqrt(emit(x + b.constant(2, "float32"))))
    return b.finish(body)


NETWORKS = [mlp, convnet_with_pooling, depthwise_and_grouped_convolutions,
            attention, transformer_block, reductions, outputs_and_tuples,
            integers_and_bools, halves, quantised, indexing_and_shapes,
            sorted_values, open_batch, open_lengths, numbers]
