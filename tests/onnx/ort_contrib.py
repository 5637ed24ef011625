"""onnxruntime's own operators, of domain com.microsoft, that nodewise knows:
random shapes, attributes, types and opsets. The case of a number depends on the
operator, the seed and that number alone."""

import zlib

import numpy as np

import ort_case
from ort_case import steps, sums
from ort_random import Draw

OPERATORS = {}
DOMAIN = "com.microsoft"


def operator(make):
    OPERATORS[make.__name__] = make
    return make


class ContribDraw(Draw):
    def __init__(self, op, seed, number):
        super().__init__(seed, number)
        self.rng = np.random.default_rng(
            [seed, number, zlib.crc32(op.encode())])
        self.opset = self.one([11, 13, 15, 17, 18, 20, 21])
        self.op = op

    def put(self, inputs, tolerance, outputs=1, domain=DOMAIN, version=1,
            constant=(), **attrs):
        return ort_case.single(
            f"{self.op}_{self.number:04d}_{self.opset}", self.op, self.opset,
            inputs, attrs, outputs, tolerance, constant, domain, version)

    def maybe(self, make):
        return make() if self.often() else None

    def quantised(self, shape, dtype):
        low, high = (0, 255) if dtype == "uint8" else (-128, 127)
        return self.tensor(shape, dtype, low, high)

    def scale(self):
        return np.float32(self.rng.uniform(0.01, 0.1))

    def scale_and_zero(self, dtype):
        # onnxruntime cannot tell the type where one is left out.
        return [self.scale(), self.quantised((), dtype)]


def make(op, seed, number):
    return OPERATORS[op](ContribDraw(op, seed, number))


# Functions that are this exact near 0 too, where a kernel adds and takes away
# numbers of the size of 1.
def near(count):
    return ort_case.ulps(count, floor=1.0)


@operator
def Gelu(d):
    return d.put([d.tensor(d.shape(0, 4))], near(8))


@operator
def QuickGelu(d):
    attrs = {"alpha": float(d.rng.uniform(0.5, 2))} if d.often() else {}
    return d.put([d.tensor(d.shape(0, 4))], near(16), **attrs)


@operator
def BiasGelu(d):
    shape = d.shape(1, 4)
    return d.put([d.tensor(shape), d.tensor(shape[-1:])], near(8))


@operator
def FastGelu(d):
    shape = d.shape(1, 4)
    return d.put([d.tensor(shape), d.maybe(lambda: d.tensor(shape[-1:]))],
                 near(16))


def skip_norm(d, has_beta):
    shape = (d.upto(1, 3), d.upto(1, 4), d.upto(2, 9))
    width = shape[-1:]
    inputs = [d.tensor(shape), d.tensor(shape), d.tensor(width)]
    if has_beta:
        inputs.append(d.maybe(lambda: d.tensor(width)))
    inputs.append(d.maybe(lambda: d.tensor(width)))
    outputs = d.one([["y"], ["y", "", "", "sum"]])
    # Below 1e-3 the norm of two numbers that are alike says how they were
    # rounded.
    attrs = {"epsilon": d.one([1e-5, 1e-3, 0.1])}
    return d.put(inputs, near(2000), outputs, **attrs)


@operator
def SkipLayerNormalization(d):
    return skip_norm(d, True)


@operator
def SkipSimplifiedLayerNormalization(d):
    return skip_norm(d, False)


@operator
def EmbedLayerNormalization(d):
    batch, length, width = d.upto(1, 3), d.upto(1, 5), d.upto(2, 8)
    ids = d.tensor((batch, length), "int32", 0, 9)
    has_segments = d.often()
    inputs = [ids,
              d.tensor((batch, length), "int32", 0, 1) if has_segments
              else None,
              d.tensor((10, width)), d.tensor((6, width)),
              d.tensor((2, width)) if has_segments else None,
              d.tensor((width,)), d.tensor((width,))]
    if d.often():
        inputs.append(d.tensor((batch, length), "int32", 0, 1)
                      if d.often() else None)
        inputs.append(d.tensor((batch, length), "int32", 0, 5))
    return d.put(inputs, near(2000), d.one([2, 3]),
                 epsilon=d.one([1e-5, 1e-3, 0.1]))


@operator
def FusedMatMul(d):
    rank = d.upto(2, 4)
    batch = tuple(d.upto(1, 3) for _ in range(rank - 2))
    m, k, n = d.upto(1, 5), d.upto(1, 7), d.upto(1, 5)
    attrs = {}
    sides = {"A": [m, k], "B": [k, n]}
    tensors = []
    # The batch is taken apart on both sides, as onnxruntime wants it.
    in_middle = rank > 2 and d.often(0.3)
    for name, last in sides.items():
        if d.often():
            attrs[f"trans{name}"] = 1
            last.reverse()
        shape = [*batch, *last]
        if in_middle:
            attrs[f"transBatch{name}"] = 1
            shape = [last[0], *batch, last[1]]
        tensors.append(d.tensor(shape))
    if d.often():
        attrs["alpha"] = float(d.rng.uniform(-2, 2))
    return d.put(tensors, sums(k), **attrs)


@operator
def FusedGemm(d):
    m, k, n = d.upto(1, 5), d.upto(1, 7), d.upto(1, 5)
    attrs = {"transA": d.upto(0, 1), "transB": d.upto(0, 1)}
    for name in ("alpha", "beta"):
        if d.often():
            attrs[name] = float(d.rng.uniform(0.25, 2))
    activation = d.one(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid"])
    attrs["activation"] = activation
    if activation in ("LeakyRelu", "HardSigmoid"):
        attrs["activation_alpha"] = float(d.rng.uniform(0.1, 0.5))
    if activation == "HardSigmoid":
        attrs["activation_beta"] = float(d.rng.uniform(0.1, 0.5))
    a = (k, m) if attrs["transA"] else (m, k)
    b = (n, k) if attrs["transB"] else (k, n)
    c = d.maybe(lambda: d.tensor(d.one([(n,), (m, n), (1,), (m, 1)])))
    return d.put([d.tensor(a), d.tensor(b), c], sums(k, 8.0, powers=64.0),
                 **attrs)


@operator
def FusedConv(d):
    channels, filters = d.upto(1, 3), d.upto(1, 4)
    sides = (d.upto(3, 7), d.upto(3, 7))
    kernel = (d.upto(1, 3), d.upto(1, 3))
    attrs = {"kernel_shape": list(kernel)}
    if d.often():
        attrs["strides"] = [d.upto(1, 2), d.upto(1, 2)]
    if d.often():
        attrs["pads"] = [d.upto(0, k - 1) for k in kernel * 2]
    activation = d.one(["Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid",
                        "Clip"])
    attrs["activation"] = activation
    params = {"LeakyRelu": [0.25], "HardSigmoid": [0.125, 0.5],
              "Clip": [-0.5, 1.5]}
    if activation in params:
        attrs["activation_params"] = params[activation]
    bias = d.maybe(lambda: d.tensor((filters,)))
    length = channels * kernel[0] * kernel[1]
    return d.put([d.tensor((d.upto(1, 2), channels, *sides)),
                  d.tensor((filters, channels, *kernel)), bias],
                 sums(length, 8.0, powers=64.0), **attrs)


@operator
def Pad(d):
    shape = d.shape(1, 4)
    mode = d.one(["constant", "edge", "reflect"])
    most = min(shape) - 1 if mode == "reflect" else 3
    pads = np.array([d.upto(0, most) for _ in range(2 * len(shape))])
    value = d.tensor(()) if mode == "constant" and d.often() else None
    return d.put([d.tensor(shape), pads, value], ort_case.exact, mode=mode)


@operator
def Unique(d):
    return d.put([d.tensor((d.upto(1, 12),), "int64").astype(np.float32)],
                 ort_case.exact, 3)


@operator
def QGemm(d):
    dtype = d.one(["uint8", "int8"])
    m, k, n = d.upto(1, 5), d.upto(1, 9), d.upto(1, 6)
    attrs = {"transA": d.upto(0, 1), "transB": d.upto(0, 1)}
    if d.often():
        attrs["alpha"] = float(d.rng.uniform(0.5, 2))
    b, b_scale, b_zero = quantised_weights(d, k, n)
    if b_zero is None:
        b_zero = np.zeros(b_scale.shape, b.dtype)
    a = d.tensor((k, m) if attrs["transA"] else (m, k), dtype, 0, 60)
    c = d.maybe(lambda: d.tensor(d.one([(n,), (m, n)]), "int32", -999, 999))
    inputs = [a, d.scale(), d.tensor((), dtype, 0, 60),
              b.T if attrs["transB"] else b, b_scale, b_zero, c]
    if d.often():
        return d.put([*inputs, d.scale(), d.quantised((), dtype)], steps(1),
                     **attrs)
    return d.put(inputs, near(64), **attrs)


def qlinear_image(d, attrs):
    dtype = d.one(["uint8", "int8"])
    shape = [d.upto(1, 2), d.upto(1, 3), d.upto(3, 6), d.upto(3, 6)]
    if d.often(0.3):
        attrs["channels_last"] = 1
        shape.append(shape.pop(1))
    return [d.quantised(shape, dtype),
            *d.scale_and_zero(dtype), *d.scale_and_zero(dtype)]


@operator
def QLinearAveragePool(d):
    attrs = {"kernel_shape": [d.upto(1, 3), d.upto(1, 3)],
             "count_include_pad": d.upto(0, 1)}
    if d.often():
        attrs["strides"] = [d.upto(1, 2), d.upto(1, 2)]
    if d.often():
        attrs["pads"] = [d.upto(0, k - 1) for k in attrs["kernel_shape"] * 2]
    return d.put(qlinear_image(d, attrs), steps(1), **attrs)


@operator
def QLinearGlobalAveragePool(d):
    attrs = {}
    return d.put(qlinear_image(d, attrs), steps(1), **attrs)


def qlinear_pair(d):
    dtype = d.one(["uint8", "int8"])
    shape = d.shape(1, 3)
    other = d.one([shape, shape[-1:], (1,)])
    return d.put([d.quantised(shape, dtype), *d.scale_and_zero(dtype),
                  d.quantised(other, dtype), *d.scale_and_zero(dtype),
                  *d.scale_and_zero(dtype)], steps(1))


@operator
def QLinearAdd(d):
    return qlinear_pair(d)


@operator
def QLinearMul(d):
    return qlinear_pair(d)


def qlinear_one(d, **attrs):
    dtype = d.one(["uint8", "int8"])
    return d.put([d.quantised(d.shape(1, 3), dtype),
                  *d.scale_and_zero(dtype), *d.scale_and_zero(dtype)],
                 steps(1), **attrs)


@operator
def QLinearSigmoid(d):
    return qlinear_one(d)


@operator
def QLinearLeakyRelu(d):
    return qlinear_one(d, **({"alpha": float(d.rng.uniform(0, 0.5))}
                             if d.often() else {}))


def quantised_weights(d, k, n):
    """Small enough for sums of pairs that onnxruntime saturates."""
    dtype = d.one(["uint8", "int8"])
    low = 0 if dtype == "uint8" else -60
    by_column = d.often()
    scale = np.float32(d.rng.uniform(0.01, 0.1, (n,) if by_column else ()))
    zero = d.maybe(lambda: d.tensor((n,) if by_column else (), dtype, low, 60))
    return d.tensor((k, n), dtype, low, 60), scale, zero


@operator
def MatMulIntegerToFloat(d):
    m, k, n = d.upto(1, 5), d.upto(1, 9), d.upto(1, 6)
    b, b_scale, b_zero = quantised_weights(d, k, n)
    a = d.tensor((m, k), "uint8", 0, 120)
    return d.put([a, b, d.scale(), b_scale,
                  d.maybe(lambda: d.tensor((), "uint8", 0, 120)), b_zero,
                  d.maybe(lambda: d.tensor((n,)))], near(64))


@operator
def DynamicQuantizeMatMul(d):
    m, k, n = d.upto(1, 5), d.upto(1, 9), d.upto(1, 6)
    b, b_scale, b_zero = quantised_weights(d, k, n)
    return d.put([d.tensor((m, k)), b, b_scale, b_zero,
                  d.maybe(lambda: d.tensor((n,)))], ort_case.steady)


@operator
def QLinearSoftmax(d):
    dtype = d.one(["uint8", "int8"])
    shape = d.shape(1, 4)
    # The output's numbers are from 0 to 1.
    scale = np.float32(1 / 256)
    zero = np.asarray(0 if dtype == "uint8" else -128, dtype)
    return d.put([d.quantised(shape, dtype), *d.scale_and_zero(dtype), scale,
                  zero], steps(1), axis=d.upto(-len(shape), len(shape) - 1),
                 opset=d.opset)


@operator
def QLinearConcat(d):
    dtype = d.one(["uint8", "int8"])
    shape = list(d.shape(1, 3))
    axis = d.upto(0, len(shape) - 1)
    inputs = d.scale_and_zero(dtype)
    for _ in range(d.upto(1, 4)):
        shape[axis] = d.upto(1, 4)
        inputs += [d.quantised(shape, dtype), *d.scale_and_zero(dtype)]
    return d.put(inputs, ort_case.exact, axis=axis)


@operator
def NhwcConv(d):
    """Against Conv: onnxruntime has kernels for GPUs only."""
    sides = [d.upto(3, 7) for _ in range(d.upto(1, 2))]
    groups = d.upto(1, 2)
    channels, filters = groups * d.upto(1, 3), groups * d.upto(1, 2)
    kernel = [d.upto(1, 3) for _ in sides]
    attrs = {"kernel_shape": kernel, "group": groups}
    if d.often():
        attrs["strides"] = [d.upto(1, 2) for _ in sides]
    if d.often():
        attrs["pads"] = [d.upto(0, k - 1) for k in kernel * 2]
    x = d.tensor((d.upto(1, 2), *sides, channels))
    inputs = [x, d.tensor((filters, channels // groups, *kernel)),
              d.maybe(lambda: d.tensor((filters,)))]
    length = channels * int(np.prod(kernel))
    case = d.put(inputs, sums(length), **attrs)
    conv = ort_case.single(case.name, "Conv", d.opset,
                           [np.moveaxis(x, -1, 1), *inputs[1:]], attrs, 1,
                           sums(length))
    case.instead = lambda fed: [np.moveaxis(ort_case.run(conv.model, {
        **fed, "in0": np.moveaxis(fed["in0"], -1, 1)})[0], 1, -1)]
    case.tolerance = lambda _case, outputs: conv.tolerance(conv, outputs)
    return case


@operator
def Inverse(d):
    n = d.upto(1, 5)
    shape = (*d.shape(0, 2), n, n)
    dtype = d.one(["float32", "float64"])
    # Far from singular.
    x = d.tensor(shape, dtype, -1, 1) + 3 * n * np.eye(n, dtype=dtype)
    return d.put([x], ort_case.network(n, 4.0))


def margin(states):
    """How far the closest of these numbers is from where it would be rounded
    to another multiple, in steps."""
    low, high = min(0, states.min()), max(0, states.max())
    scale = (high - low) / 255
    if scale == 0:
        return 0.5
    places = np.append(states, low).astype(np.float64) / scale
    return np.abs(places - np.floor(places) - 0.5).min()


def like_states(case, outputs):
    """A state that lies between two steps may be rounded to either, which the
    next steps show; otherwise the outputs are as near as float32 allows."""
    (node,) = case.model.graph.node
    direction = next(a.s for a in node.attribute if a.name == "direction")
    y = outputs[0]
    lengths = case.inputs.get("in4", np.full(y.shape[2], len(y)))
    closest = 0.5
    for way in range(y.shape[1]):
        is_reverse = direction == b"reverse" or way == 1
        for i in range(len(y) - 1):
            rows = [y[n - 1 - i if is_reverse else i, way, item]
                    for item, n in enumerate(lengths) if i < n]
            closest = min(closest, margin(np.stack(rows)))
    if closest < 2e-3:
        return [(1e-5, 0.01)] * len(outputs)
    return near(16)(case, outputs)


@operator
def DynamicQuantizeLSTM(d):
    steps_, batch, width = d.upto(1, 5), d.upto(1, 3), d.upto(1, 6)
    hidden = d.upto(1, 5)
    direction = d.one(["forward", "reverse", "bidirectional"])
    ways = 2 if direction == "bidirectional" else 1
    attrs = {"hidden_size": hidden, "direction": direction}
    if d.often(0.2):
        attrs["input_forget"] = 1
    if d.often(0.3):
        attrs["activations"] = [d.one(["Sigmoid", "HardSigmoid"]),
                                d.one(["Tanh", "Softsign"]), "Tanh"] * ways
    if d.often(0.2):
        attrs["activation_alpha"] = [0.25]
        attrs["activation_beta"] = [0.5]

    dtype = d.one(["uint8", "int8"])

    def quantised(rows):
        low = 0 if dtype == "uint8" else -60
        # One zero point for all columns, 0 for signed ones.
        zero = d.upto(0, 60) if dtype == "uint8" else 0
        sides = (ways, 4 * hidden) if d.often() else (ways,)
        return (d.tensor((ways, rows, 4 * hidden), dtype, low, 60),
                np.float32(d.rng.uniform(0.002, 0.02, sides)),
                np.full(sides, zero, dtype))
    w, w_scale, w_zero = quantised(width)
    r, r_scale, r_zero = quantised(hidden)
    state = (ways, batch, hidden)
    lengths = None
    if d.often(0.3):
        lengths = d.tensor((batch,), "int32", 1, steps_)
        lengths[0] = steps_
    return d.put([d.tensor((steps_, batch, width)), w, r,
                  d.maybe(lambda: d.tensor((ways, 8 * hidden))), lengths,
                  d.maybe(lambda: d.tensor(state)),
                  d.maybe(lambda: d.tensor(state)),
                  d.maybe(lambda: d.tensor((ways, 3 * hidden))),
                  w_scale, w_zero, r_scale, r_zero], like_states, 3, **attrs)


def axis_and_sides(d, shape):
    if d.often() or not shape:
        return (), {}
    axis = d.upto(0, len(shape) - 1)
    return (shape[axis],), {"axis": axis}


@operator
def QuantizeLinear(d):
    dtype = d.one(["uint8", "int8"])
    shape = d.shape(1, 3)
    sides, attrs = axis_and_sides(d, shape)
    scale = np.float32(d.rng.uniform(0.01, 0.1, sides))
    return d.put([d.tensor(shape), scale, d.quantised(sides, dtype)],
                 steps(1), **attrs)


@operator
def DequantizeLinear(d):
    dtype = d.one(["uint8", "int8"])
    shape = d.shape(1, 3)
    sides, attrs = axis_and_sides(d, shape)
    scale = np.float32(d.rng.uniform(0.01, 0.1, sides))
    zero = d.maybe(lambda: d.quantised(sides, dtype))
    return d.put([d.quantised(shape, dtype), scale, zero], near(1), **attrs)
