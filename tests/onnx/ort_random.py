"""Single operators with random shapes, attributes, types and opsets. The case
of a number depends on the seed and that number alone."""

import numpy as np

import ort_case
import ort_pointwise
from ort_case import exact, sums, ulps

FAMILIES = []


def family(make):
    FAMILIES.append(make)
    return make


class Draw:
    def __init__(self, seed, number):
        self.rng = np.random.default_rng([seed, number])
        self.number = number
        self.opset = int(self.rng.integers(7, 23))

    def one(self, options):
        return options[int(self.rng.integers(len(options)))]

    def upto(self, low, high):
        """From `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def often(self, share=0.5):
        return bool(self.rng.random() < share)

    def shape(self, low=0, high=4, side=5):
        return tuple(self.upto(1, side)
                     for _ in range(self.upto(low, high)))

    def values(self, shape, dtype="float32", low=-4, high=4):
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.rng.uniform(low, high, shape)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        low = max(0, low) if dtype.kind == "u" else low
        return self.rng.integers(int(low), int(high) + 1, shape)

    def tensor(self, shape, dtype="float32", low=-4, high=4):
        return np.asarray(self.values(shape, dtype, low, high), dtype)

    def case(self, op, inputs, tolerance=exact, outputs=1, fixed=(), **attrs):
        """Inputs whose numbers are in `fixed` are constants half of the
        time."""
        constant = tuple(i for i in fixed if len(inputs) > i
                         and inputs[i] is not None)
        if self.often():
            constant = ()
        return ort_case.single(
            f"{self.number:05d}_{op}_{self.opset}", op, self.opset, inputs,
            attrs, outputs, tolerance, constant)

    def axis(self, rank, since=11):
        low = -rank if self.opset >= since else 0
        return self.upto(low, rank - 1)

    def axes(self, rank, since=11):
        """Distinct ones, in any order."""
        chosen = self.rng.permutation(rank)[:self.upto(1, rank)]
        return [int(a) - (rank if self.opset >= since and self.often(0.3)
                          else 0) for a in chosen]


def make(seed, number):
    draw = Draw(seed, number)
    return draw.one(FAMILIES)(draw)


# --- element by element -----------------------------------------------------


def broadcast_pair(d):
    """Shapes that go together."""
    whole = d.shape()
    def part():
        cut = whole[d.upto(0, len(whole)):] if d.often(0.3) else whole
        return tuple(1 if d.often(0.25) else side for side in cut)
    return part(), part()


@family
def binary(d):
    op = d.one(["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Less",
                "Greater", "Equal"])
    kinds = ["float32", "float64"]
    if op != "Pow":
        kinds += ["int32", "int64"]
    if op in ("Max", "Min") and d.opset < 8:
        left = right = d.shape()
    else:
        left, right = broadcast_pair(d)
    dtype = d.one(kinds)
    if op in ("Less", "Greater") and d.opset < 9 or op in (
            "Max", "Min") and d.opset < 12:
        dtype = d.one(["float32", "float64"])
    if op == "Equal" and d.opset < 11:
        dtype = d.one(["int32", "int64"])
    if op in ("Max", "Min") and d.opset < 8:
        dtype = "float32"
    x, y = d.tensor(left, dtype), d.tensor(right, dtype)
    if op == "Div":
        y = np.where(y == 0, np.ones_like(y), y)
    if op == "Pow":
        x = np.abs(x) + np.asarray(0.1, dtype)
    return d.case(op, [x, y], ulps(8) if op == "Pow" else exact)


@family
def unary(d):
    op = d.one(["Abs", "Ceil", "Floor", "Neg", "Relu", "Exp", "Log", "Sqrt",
                "Tanh", "Sigmoid", "Reciprocal", "Softplus", "Sin", "Cos",
                "Softsign", "Tan", "Atan"])
    low, high = ort_pointwise.DOMAINS.get(op, (-4, 4))
    is_exact = op in ort_pointwise.EXACT
    x = d.tensor(d.shape(), "float32", low, high)
    return d.case(op, [x], exact if is_exact else ulps(8, floor=1))


@family
def variadic(d):
    op = d.one(["Max", "Min", "Sum", "Mean"])
    count = d.upto(1, 4)
    shapes = [d.shape()] * count
    if d.opset >= 8:
        whole = shapes[0]
        shapes = [tuple(1 if d.often(0.3) else s for s in whole)
                  for _ in range(count)]
    return d.case(op, [d.tensor(s) for s in shapes],
                  exact if op in ("Max", "Min") else ulps(4, floor=8))


@family
def where(d):
    shape, other = broadcast_pair(d)
    dtype = d.one(["float32", "int64"])
    if d.opset < 9:
        d.opset = 9
    return d.case("Where", [d.tensor(other, "bool"), d.tensor(shape, dtype),
                            d.tensor(other, dtype)])


@family
def cast(d):
    kinds = ["float32", "float64", "float16", "int8", "uint8", "int16",
             "int32", "int64", "bool"]
    target = np.dtype(d.one(kinds))
    low = 0 if target.kind == "u" else -100
    x = d.tensor(d.shape(), d.one(kinds), low, 100)
    return d.case("Cast", [x], to=ort_case.element_type(
        np.zeros(0, target)))


# --- reductions -------------------------------------------------------------


@family
def reduce(d):
    op = d.one(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                "ReduceLogSum", "ReduceLogSumExp"])
    low = 0.2 if op in ("ReduceLogSum", "ReduceProd") else -3
    x = d.tensor(d.shape(1, 5, 6), d.one(["float32", "float64"]), low, 2)
    keep = d.upto(0, 1)
    axes = None if d.often(0.2) else d.axes(x.ndim)
    length = x.size if axes is None else int(np.prod(
        [x.shape[a] for a in axes]))
    tolerance = exact if op in ("ReduceMax", "ReduceMin") else (
        sums(length, 8, powers=2) if "Log" in op else sums(length, 8))
    if d.opset < (13 if op == "ReduceSum" else 18):
        attrs = {} if axes is None else {"axes": axes}
        return d.case(op, [x], tolerance, keepdims=keep, **attrs)
    given = None if axes is None else np.array(axes, np.int64)
    return d.case(op, [x, given], tolerance, fixed=(1,), keepdims=keep)


@family
def arg(d):
    x = d.tensor(d.shape(1, 4), d.one(["float32", "int32"]))
    x = np.round(x).astype(x.dtype)
    attrs = {"select_last_index": d.upto(0, 1)} if d.opset >= 12 else {}
    return d.case(d.one(["ArgMax", "ArgMin"]), [x], keepdims=d.upto(0, 1),
                  axis=d.axis(x.ndim), **attrs)


@family
def softmax(d):
    op = d.one(["Softmax", "LogSoftmax"])
    x = d.tensor(d.shape(1, 4))
    return d.case(op, [x], ulps(64, floor=1), axis=d.axis(x.ndim))


@family
def top_k(d):
    x = d.tensor(d.shape(1, 4))
    x = d.rng.permutation(x.size).reshape(x.shape).astype("float32")
    axis = d.axis(x.ndim)
    k = d.upto(1, x.shape[axis])
    if d.opset < 10:
        return d.case("TopK", [x], outputs=2, axis=axis, k=k)
    attrs = {"largest": d.upto(0, 1)} if d.opset >= 11 else {}
    return d.case("TopK", [x, np.array([k], np.int64)], outputs=2, fixed=(1,),
                  axis=axis, **attrs)


# --- windows ----------------------------------------------------------------


def windows(d, rank, dilated=True, ceiled=False):
    """Sides and attributes of windows that fit."""
    kernel = [d.upto(1, 4) for _ in range(rank)]
    dilations = [d.upto(1, 2) if dilated else 1 for _ in range(rank)]
    spans = [(k - 1) * n + 1 for k, n in zip(kernel, dilations)]
    sides = [span + d.upto(0, 6) for span in spans]
    attrs = {"kernel_shape": kernel}
    if d.often(0.7):
        attrs["strides"] = [d.upto(1, 3) for _ in range(rank)]
    if dilated:
        attrs["dilations"] = dilations
    way = d.one(["none", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if way == "pads":
        attrs["pads"] = [d.upto(0, k - 1) for k in kernel * 2]
    elif way != "none" and max(dilations) == 1:
        attrs["auto_pad"] = way
        # With steps beyond the window there would be less than no padding.
        if "strides" in attrs:
            attrs["strides"] = [min(s, k) for s, k in
                                zip(attrs["strides"], kernel)]
    if ceiled and "auto_pad" not in attrs and d.often():
        attrs["ceil_mode"] = 1
    return sides, attrs


@family
def conv(d):
    sides, attrs = windows(d, d.upto(1, 3))
    group = d.upto(1, 3)
    cin, cout = group * d.upto(1, 3), group * d.upto(1, 3)
    w = d.tensor((cout, cin // group, *attrs["kernel_shape"]))
    b = d.tensor((cout,)) if d.often() else None
    if d.often(0.3):
        del attrs["kernel_shape"]
    return d.case("Conv", [d.tensor((d.upto(1, 2), cin, *sides)), w, b],
                  sums(w[0].size), fixed=(1, 2), group=group, **attrs)


@family
def conv_transpose(d):
    sides, attrs = windows(d, d.upto(1, 2))
    sides = [d.upto(2, 6) for _ in sides]
    group = d.upto(1, 2)
    cin, cout = group * d.upto(1, 2), d.upto(1, 3)
    if "strides" in attrs and d.often():
        attrs["output_padding"] = [d.upto(0, s - 1) for s in attrs["strides"]]
    # Pads that leave nothing are not a case.
    attrs.pop("pads", None)
    w = d.tensor((cin, cout, *attrs["kernel_shape"]))
    return d.case("ConvTranspose", [d.tensor((1, cin, *sides)), w],
                  sums(w.size), fixed=(1,), group=group, **attrs)


@family
def pool(d):
    op = d.one(["MaxPool", "AveragePool", "LpPool"])
    dilated = d.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    ceiled = d.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[op]
    sides, attrs = windows(d, d.upto(1, 3), dilated and d.often(), ceiled)
    if op == "AveragePool" and d.often():
        attrs["count_include_pad"] = 1
    if op == "LpPool":
        attrs["p"] = d.upto(1, 3)
    x = d.tensor((d.upto(1, 2), d.upto(1, 3), *sides))
    return d.case(op, [x], exact if op == "MaxPool" else sums(64), **attrs)


# --- moving -----------------------------------------------------------------


@family
def slices(d):
    x = d.tensor(d.shape(1, 4, 7), d.one(["float32", "int64"]))
    axes = d.axes(x.ndim, 10)
    starts, ends, steps = [], [], []
    for axis in axes:
        side = x.shape[axis]
        starts.append(d.upto(-side - 2, side + 2))
        steps.append(d.one([1, 1, 2, 3, -1, -2]))
        # onnxruntime takes the largest end for the first element when it goes
        # backward; by the specification it is the last one, as clamped.
        far = [-(2**31)] + [2**31 - 1] * (steps[-1] > 0)
        ends.append(d.one([d.upto(-side - 2, side + 2), *far]))
    if d.opset < 10:
        return d.case("Slice", [x], starts=starts, ends=ends, axes=axes)
    given = [np.array(v, np.int64) for v in (starts, ends, axes, steps)]
    if d.often(0.3):
        given.pop()
    return d.case("Slice", [x, *given], fixed=(1, 2, 3, 4))


@family
def gather(d):
    x = d.tensor(d.shape(1, 4), d.one(["float32", "int32"]))
    axis = d.axis(x.ndim)
    side = x.shape[axis]
    low = -side if d.opset >= 11 else 0
    op = "Gather"
    shape = d.shape(0, 2)
    if d.opset >= 11 and d.often():
        op = "GatherElements"
        shape = tuple(d.upto(1, s) for s in x.shape)
    index = d.tensor(shape, d.one(["int32", "int64"]), low, side - 1)
    return d.case(op, [x, index], fixed=(1,), axis=axis)


@family
def gather_nd(d):
    d.opset = max(d.opset, 12)
    x = d.tensor(d.shape(2, 4))
    batch = d.upto(0, 1)
    depth = d.upto(1, x.ndim - batch)
    sides = x.shape[batch:batch + depth]
    shape = (*x.shape[:batch], *d.shape(1, 2))
    index = np.stack([d.tensor(shape, "int64", -s, s - 1) for s in sides],
                     axis=-1)
    return d.case("GatherND", [x, index], batch_dims=batch)


@family
def transpose(d):
    x = d.tensor(d.shape(1, 5))
    return d.case("Transpose", [x], perm=[int(i) for i in
                                          d.rng.permutation(x.ndim)])


@family
def concat(d):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    parts = []
    for _ in range(d.upto(1, 4)):
        sides = list(shape)
        sides[axis] = d.upto(1, 4)
        parts.append(d.tensor(tuple(sides)))
    return d.case("Concat", parts, axis=axis)


@family
def pad(d):
    shape = tuple(d.upto(3, 6) for _ in range(d.upto(1, 4)))
    x = d.tensor(shape)
    mode = d.one(["constant", "reflect", "edge"])
    low = -1 if mode == "constant" else 0
    pads = [d.upto(low, 2) for _ in range(2 * x.ndim)]
    if d.opset < 11:
        return d.case("Pad", [x], mode=mode, pads=pads, value=0.5)
    given = [np.array(pads, np.int64)]
    if mode == "constant" and d.often():
        given.append(np.array(0.5, np.float32))
    return d.case("Pad", [x, *given], fixed=(1, 2), mode=mode)


@family
def mat_mul(d):
    inner = d.upto(1, 9)
    batch = d.shape(0, 2, 3)
    cut = batch[d.upto(0, len(batch)):]
    a = d.tensor((*batch, d.upto(1, 5), inner))
    b = d.tensor((*cut, inner, d.upto(1, 5)))
    if d.often(0.2):
        b = d.tensor((inner,))
    return d.case("MatMul", [a, b], sums(inner), fixed=(1,))


@family
def resize(d):
    d.opset = max(d.opset, 11)
    shape = (1, d.upto(1, 2), d.upto(2, 7), d.upto(2, 7))
    x = d.tensor(shape)
    place = d.one(["half_pixel", "pytorch_half_pixel", "asymmetric",
                   "align_corners"])
    mode = d.one(["nearest", "linear", "cubic"])
    attrs = {"coordinate_transformation_mode": place, "mode": mode}
    if mode == "nearest":
        attrs["nearest_mode"] = d.one(["round_prefer_floor",
                                       "round_prefer_ceil", "floor", "ceil"])
    if d.opset >= 18 and mode != "nearest" and d.often(0.3):
        attrs["antialias"] = 1
    nothing = np.float32([]) if d.opset < 13 else None
    # Powers of two, and sizes that they lead to: see resize in ort_shapes.py.
    scales = [1, 1, d.one([0.5, 1, 2, 4]), d.one([0.5, 1, 2, 4])]
    sizes = [max(1, int(side * scale)) for side, scale in zip(shape, scales)]
    is_whole = all(side * scale == size for side, scale, size in
                   zip(shape, scales, sizes))
    if is_whole and d.often():
        return d.case("Resize", [x, nothing, np.float32(scales)],
                      sums(16, 8), fixed=(1, 2), **attrs)
    if place == "align_corners" and mode == "nearest":
        sizes[2:] = [2 * side - 1 for side in shape[2:]]
    elif mode == "nearest" and not is_whole:
        sizes = list(shape)
    given = [x, nothing, nothing, np.array(sizes, np.int64)]
    return d.case("Resize", given, sums(16, 8), fixed=(3,), **attrs)
