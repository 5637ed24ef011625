"""More whole networks: transformers, quantised ones, and loops."""

import numpy as np

import ort_case
from ort_network import Net
from ort_networks import opsets

# --- transformers -----------------------------------------------------------


def layer_norm(net, x, width):
    net.length += 2 * width
    if net.opset >= 17:
        return net.op("LayerNormalization", x, net.positive(width),
                      net.weight(width), axis=-1)
    centred = net.op("Sub", x, net.mean(x, -1))
    squares = net.op("Pow", centred, net.constant(2.0, net.dtype))
    variance = net.op("Add", net.mean(squares, -1),
                      net.constant(1e-5, net.dtype))
    y = net.op("Div", centred, net.op("Sqrt", variance))
    return net.op("Add", net.op("Mul", y, net.positive(width)),
                  net.weight(width))


def gelu(net, x):
    if net.opset >= 20:
        return net.op("Gelu", x)
    y = net.op("Erf", net.op("Div", x, net.constant(np.sqrt(2), net.dtype)))
    y = net.op("Add", y, net.constant(1.0, net.dtype))
    return net.op("Mul", net.op("Mul", x, y), net.constant(0.5, net.dtype))


def attention(net, x, keep, heads, width):
    """Shapes are computed from those of the input, as exporters do."""
    sides = [net.shape_part(x, 0), net.shape_part(x, 1)]
    apart = net.op("Concat", *sides, net.ints(heads, width // heads), axis=0)
    together = net.op("Concat", *sides, net.ints(width), axis=0)
    parts = net.split(net.linear(x, width, 3 * width), [width] * 3, 2)
    q, k, v = (net.op("Reshape", part, apart) for part in parts)
    q, v = (net.op("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
    k = net.op("Transpose", k, perm=[0, 2, 3, 1])
    scores = net.op("Mul", net.op("MatMul", q, k),
                    net.constant((width // heads) ** -0.5, net.dtype))
    scores = net.op("Where", keep, scores, net.constant(-1e4, net.dtype))
    y = net.op("MatMul", net.op("Softmax", scores, axis=3), v)
    net.length += width // heads + 8
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), together)
    return net.linear(y, width, width)


def encoder_of(net):
    tokens = net.input("tokens", net.rng.integers(0, 20, (2, 7)),
                       ["batch", "length"])
    mask = net.input("mask", np.arange(7)[None] < np.array([[7], [4]]),
                     ["batch", "length"])
    places = net.op("Slice", net.weight(16, 12), net.ints(0),
                    net.shape_part(tokens, 1), net.ints(0))
    x = net.op("Add", net.op("Gather", net.weight(20, 12), tokens), places)
    keep = net.unsqueeze(mask, 1, 2)
    for _ in range(2):
        x = net.op("Add", x, attention(net, layer_norm(net, x, 12), keep, 3,
                                       12))
        y = gelu(net, net.linear(layer_norm(net, x, 12), 12, 24))
        x = net.op("Add", x, net.linear(y, 24, 12))
    x = layer_norm(net, x, 12)
    # The mean over the tokens that count.
    weights = net.unsqueeze(net.op("Cast", mask, to=ort_case.element_type(
        np.zeros(0, net.dtype))), 2)
    total = net.with_axes("ReduceSum", net.op("Mul", x, weights), [1],
                          keepdims=0)
    count = net.with_axes("ReduceSum", weights, [1], keepdims=0)
    return net.case(x, net.op("Tanh", net.op("Div", total, count)),
                    factor=4.0)


@opsets(11, 12, 13, 17, 18, 20, 21)
def encoder(opset, seed):
    return encoder_of(Net("encoder", opset, seed))


@opsets(13, 17)
def encoder_half(opset, seed):
    return encoder_of(Net("encoder_half", opset, seed, "float16"))


@opsets(11, 13, 17)
def decoder_step(opset, seed):
    """One step with what was kept of those before, and a causal mask made of
    Range, Less and Where."""
    net = Net("decoder_step", opset, seed)
    x = net.image("x", 2, 3, 8, sides=["batch", "new", 8])
    past = net.image("past", 2, 5, 8, sides=["batch", "old", 8])
    keys = net.op("Concat", past, net.linear(x, 8, 8), axis=1)
    sides = [net.op("Squeeze", net.shape_part(v, 1)) for v in (past, keys)]
    zero, one = (net.constant(i, np.int64) for i in (0, 1))
    columns = net.op("Range", zero, sides[1], one)
    rows = net.unsqueeze(net.op("Range", sides[0], sides[1], one), 1)
    late = net.op("Not", net.op("Less", columns, net.op("Add", rows, one)))
    scores = net.op("MatMul", x, net.op("Transpose", keys, perm=[0, 2, 1]))
    scores = net.op("Where", late, net.constant(-np.inf, np.float32), scores)
    # Expand and Equal, and a NaN taken out, as in exported models.
    y = net.op("Softmax", scores, axis=2)
    y = net.op("Where", net.op("IsNaN", y), net.constant(0, np.float32), y)
    net.length += 24
    wide = net.op("Expand", net.weight(1, 1, 8),
                  net.op("Shape", net.op("MatMul", y, keys)))
    y = net.op("Max", net.op("MatMul", y, keys), wide)
    best = net.op("TopK", y, net.ints(3), outputs=2, axis=-1)
    return net.case(y, *best, keys)


# --- quantised --------------------------------------------------------------


def quantised(net, x, scale, zero=0, dtype="int8"):
    """To integers and back."""
    given = [net.constant(scale, np.float32), net.constant(zero, dtype)]
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, *given),
                  *given)


def stored(net, *shape, fan, axis=None):
    """Weights kept as integers, with a scale for all or for each of `axis`."""
    values = net.constant(net.rng.integers(-127, 128, shape), np.int8)
    size = 1.7 / 127 / np.sqrt(fan)
    if axis is None:
        return net.op("DequantizeLinear", values,
                      net.constant(size, np.float32),
                      net.constant(0, np.int8))
    scales = net.rng.uniform(0.5, 1.5, shape[axis]) * size
    return net.op("DequantizeLinear", values,
                  net.constant(scales, np.float32),
                  net.constant(np.zeros(shape[axis]), np.int8), axis=axis)


@opsets(10, 13, 17, 21)
def fake_quantised(opset, seed):
    """Pairs of QuantizeLinear and DequantizeLinear between layers."""
    net = Net("fake_quantised", opset, seed)
    axis = 0 if opset >= 13 else None
    x = quantised(net, net.image("x", 2, 3, 9, 9), 0.03)
    y = net.op("Conv", x, stored(net, 6, 3, 3, 3, fan=27, axis=axis),
               net.weight(6), kernel_shape=[3, 3], strides=[2, 2])
    y = quantised(net, net.op("Relu", y), 0.02, 3, "uint8")
    y = net.op("Conv", y, stored(net, 6, 1, 3, 3, fan=9, axis=axis),
               kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=6)
    y = quantised(net, y, 0.02)
    y = net.op("GlobalAveragePool", y)
    y = quantised(net, net.op("Flatten", y), 0.01)
    y = net.op("MatMul", y, stored(net, 6, 5, fan=6,
                                   axis=1 if axis == 0 else None))
    last = net.op("QuantizeLinear", y, net.constant(0.02, np.float32),
                  net.constant(-4, np.int8))
    # A sum on the edge of two steps may fall on either side, whose share of
    # what follows is a step of the middle over a mean of 16.
    return net.case(last, step=1)


# onnxruntime adds pairs of products of uint8 and int8 in 16 bits, which
# saturate, on processors with AVX2 alone: such weights fit 7 bits here.


@opsets(10, 13, 17)
def integer_layers(opset, seed):
    """QLinearConv and QLinearMatMul, without a float in between."""
    net = Net("integer_layers", opset, seed)
    x = net.input("x", net.rng.integers(0, 256, (2, 3, 8, 8), np.uint8))
    one = net.constant(0.02, np.float32)
    middle = net.constant(128, np.uint8)
    y = net.op("QLinearConv", x, one, middle,
               net.constant(net.rng.integers(-64, 64, (4, 3, 3, 3)),
                            np.int8),
               net.constant([0.002, 0.003, 0.004, 0.005], np.float32),
               net.constant(np.zeros(4), np.int8),
               net.constant(0.03, np.float32), middle,
               net.constant(net.rng.integers(-900, 900, 4), np.int32),
               kernel_shape=[3, 3], pads=[1, 0, 1, 0], strides=[2, 1])
    y = net.op("MaxPool", y, kernel_shape=[2, 2]) if opset >= 12 else y
    y = net.op("Reshape", y, net.ints(2, 4, -1))
    width = 15 if opset >= 12 else 24
    y = net.op("QLinearMatMul", y, net.constant(0.03, np.float32), middle,
               net.constant(net.rng.integers(0, 256, (width, 5)), np.uint8),
               net.constant(0.004, np.float32), middle,
               net.constant(0.05, np.float32), middle)
    return net.case(y, step=1)


@opsets(11, 13, 17)
def dynamic_quantised(opset, seed):
    """Scales are measured in the run; integers are summed without error."""
    net = Net("dynamic_quantised", opset, seed)
    x = net.image("x", 3, 10, sides=["n", 10])
    y, scale, zero = net.op("DynamicQuantizeLinear", x, outputs=3)
    weights = net.constant(net.rng.integers(-64, 64, (10, 6)), np.int8)
    y = net.op("MatMulInteger", y, weights, zero, net.constant(0, np.int8))
    factor = net.op("Mul", scale, net.constant(0.004, np.float32))
    y = net.op("Mul", net.op("Cast", y, to=1), factor)
    y = net.op("Relu", net.op("Add", y, net.weight(6)))
    image = net.op("Reshape", y, net.ints(0, 1, 2, 3))
    q, scale, zero = net.op("DynamicQuantizeLinear", image, outputs=3)
    kernel = net.constant(net.rng.integers(0, 255, (2, 1, 2, 2)), np.uint8)
    z = net.op("ConvInteger", q, kernel, zero, net.constant(127, np.uint8),
               pads=[1, 0, 0, 1])
    z = net.op("Mul", net.op("Cast", z, to=1), scale)
    return net.case(y, z)


# --- loops ------------------------------------------------------------------

BEAM = """
search (float["batch", 6] start, float[6, 6] moves, int64 limit)
    => (last, path, steps)
{
  yes = Constant <value = bool {1}> ()
  zero = Constant <value = int64 {0}> ()
  last, steps, path = Loop(limit, yes, start, zero) <
    body = step (int64 i, bool go, float[b, 6] state, int64 count)
        => (bool on, float[b, 6] next, int64 more, int64[b] best) {
      scored = MatMul(state, moves)
      next = Softmax <axis = 1> (scored)
      best = ArgMax <axis = 1, keepdims = 0> (next)
      one = Constant <value = int64 {1}> ()
      more = Add(count, one)
      top = ReduceMax <keepdims = 0> (next)
      sure = Constant <value = float {0.99}> ()
      tired = Constant <value = int64 {2}> ()
      early = Less(more, tired)
      unsure = Less(top, sure)
      on = If(early) <
        then_branch = yet () => (bool a) { a = Identity(go) },
        else_branch = late () => (bool o) { o = Identity(unsure) }>
    }>
}
"""
CELL = """
cells (float[6, "b", 4] xs, float["b", 3] h0, float[4, 3] w, float[3, 3] u)
    => (last, all)
{
  last, all = Scan(h0, xs) <
    num_scan_inputs = 1,
    body = cell (float[b, 3] h, float[b, 4] x)
        => (float[b, 3] new, float[b, 3] seen) {
      a = MatMul(x, w)
      b1 = MatMul(h, u)
      s = Add(a, b1)
      new = Tanh(s)
      gate = Sigmoid(a)
      seen = Mul(new, gate)
    }>
}
"""


def written(name, opset, seed, text, length, **inputs):
    rng = np.random.default_rng([seed, opset])
    arrays = [rng.standard_normal(x).astype(np.float32)
              if isinstance(x, tuple) else x for x in inputs.values()]
    return ort_case.parsed(f"{name}_{opset}", text, opset, arrays,
                           ort_case.network(length))


@opsets(11, 13, 16, 19, 21)
def beam_search(opset, seed):
    return written("beam_search", opset, seed, BEAM, 80, start=(2, 6),
                   moves=(6, 6), limit=np.int64(7))


@opsets(9, 11, 16, 21)
def scanned_cell(opset, seed):
    return written("scanned_cell", opset, seed, CELL, 60, xs=(6, 2, 4),
                   h0=(2, 3), w=(4, 3), u=(3, 3))
