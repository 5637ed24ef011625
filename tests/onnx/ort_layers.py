"""Layers: convolution, pooling, normalization, products, recurrent and
quantised operators, losses: rows for ort_table.py."""

import numpy as np

from ort_case import exact, steps, sums, ulps
from ort_table import ints, row

# --- convolution ------------------------------------------------------------

CONVOLUTIONS = (
    # Sides, channels in and out, groups, kernel, attributes.
    ((7, 9), 3, 4, 1, (3, 3), {}),
    ((7, 9), 3, 4, 1, (3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((7, 9), 4, 6, 2, (3, 2), {"dilations": [2, 3]}),
    ((7, 9), 4, 4, 4, (3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((7, 9), 4, 8, 4, (2, 4), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    ((7, 9), 2, 3, 1, (2, 4), {"auto_pad": "VALID", "strides": [3, 2]}),
    ((11,), 2, 3, 1, (3,), {"pads": [2, 1]}),
    ((4, 5, 6), 2, 2, 1, (2, 3, 2), {"strides": [1, 2, 1]}),
)


@row("Conv")
def conv(m):
    for dtype in m.floats():
        for i, (sides, cin, cout, groups, kernel, attrs) in enumerate(
                CONVOLUTIONS):
            x = m.any(dtype, 2, cin, *sides)
            w = m.any(dtype, cout, cin // groups, *kernel)
            b = m.any(dtype, cout) if i % 2 else None
            m.add([x, w, b], sums(w[0].size), group=groups,
                  kernel_shape=kernel, **attrs)


@row("ConvTranspose")
def conv_transpose(m):
    extra = (((7, 5), 2, 3, 1, (3, 3), {
        "strides": [2, 3], "output_padding": [1, 2]}),
             ((4, 5), 2, 3, 1, (3, 3), {
                 "strides": [2, 2], "output_shape": [9, 10]}))
    for dtype in m.floats()[:2]:
        for sides, cout, cin, groups, kernel, attrs in CONVOLUTIONS + extra:
            x = m.any(dtype, 2, cin, *sides)
            w = m.any(dtype, cin, cout // groups, *kernel)
            m.add([x, w, m.any(dtype, cout)],
                  sums(w.size), group=groups, kernel_shape=kernel, **attrs)


@row("DeformConv")
def deform_conv(m):
    x = m.any("float32", 1, 4, 6, 6)
    w = m.any("float32", 4, 2, 3, 3)
    offset = m.any("float32", 1, 2 * 2 * 9, 6, 6, low=-1.5, high=1.5)
    mask = m.any("float32", 1, 2 * 9, 6, 6, low=0, high=1)
    m.add([x, w, offset, m.any("float32", 4), mask], sums(18, 64, powers=1),
          group=2, offset_group=2, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


@row("ConvInteger", "QLinearConv")
def conv_quantised(m):
    for sides, cin, cout, groups, kernel, attrs in CONVOLUTIONS[:7]:
        for kind, zero in (("uint8", 113), ("int8", -3)):
            if m.op == "ConvInteger" and kind == "int8":
                continue
            x = m.any(kind, 1, cin, *sides, low=-128, high=127)
            w = m.any(kind, cout, cin // groups, *kernel, low=-128, high=127)
            zeros = [np.array(zero, kind), np.array(zero - 3, kind)]
            if kind == "int8":
                zeros[1] = np.zeros(cout, kind)
            attrs = dict(attrs, group=groups, kernel_shape=kernel)
            if m.op == "ConvInteger":
                m.add([x, w, *zeros], **attrs)
                continue
            w_scale = (np.float32(0.02) if kind == "uint8" else
                       m.any("float32", cout, low=0.01, high=0.03))
            m.add([x, np.float32(0.05), zeros[0], w, np.asarray(w_scale),
                   zeros[1], np.float32(0.31), np.array(zero + 5, kind),
                   m.any("int32", cout, low=-300, high=300)], steps(1),
                  **attrs)


# --- pooling ----------------------------------------------------------------

POOLS = (
    ((7, 9), {"kernel_shape": [3, 3]}),
    ((7, 9), {"kernel_shape": [2, 3], "strides": [2, 2],
              "pads": [1, 0, 0, 2]}),
    ((7, 9), {"kernel_shape": [3, 3], "strides": [2, 3],
              "auto_pad": "SAME_UPPER"}),
    ((7, 8), {"kernel_shape": [3, 2], "strides": [2, 2],
              "auto_pad": "SAME_LOWER"}),
    ((7, 8), {"kernel_shape": [3, 2], "strides": [2, 3],
              "auto_pad": "VALID"}),
    ((11,), {"kernel_shape": [4], "pads": [1, 2]}),
    ((4, 5, 6), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 0, 2, 1]}),
)
CEILED = (
    ((7, 9), {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ((8, 10), {"kernel_shape": [3, 3], "strides": [2, 2],
               "pads": [1, 1, 1, 1]}),
    # The last window would begin in the padding.
    ((6, 6), {"kernel_shape": [3, 3], "strides": [4, 4],
              "pads": [2, 2, 2, 2]}),
)
DILATED = (((9, 9), {"kernel_shape": [3, 2], "dilations": [2, 3],
                     "pads": [1, 0, 2, 1]}),)


def choices_of(m):
    ceiled = {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[m.op]
    dilated = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[m.op]
    yield from POOLS
    if m.version >= ceiled:
        for sides, attrs in CEILED:
            yield sides, dict(attrs, ceil_mode=1)
    if m.version >= dilated:
        yield from DILATED


@row("MaxPool")
def max_pool(m):
    for dtype in m.types():
        for sides, attrs in choices_of(m):
            x = m.rng.permutation(2 * 3 * int(np.prod(sides))).reshape(
                2, 3, *sides)
            x = (x % 120).astype(dtype) if dtype.itemsize < 4 else x.astype(
                dtype)
            m.add([x], **attrs)
            if m.version < 8:
                continue
            # Any of several equal elements may be named, so types with few
            # numbers are left out.
            if dtype.itemsize >= 4:
                m.add([x], outputs=2, **attrs)
                m.add([x], outputs=2, storage_order=1, **attrs)


@row("AveragePool", "LpPool")
def average_pool(m):
    for dtype in m.floats()[:2]:
        for sides, attrs in choices_of(m):
            x = m.any(dtype, 2, 3, *sides)
            tolerance = sums(12)
            m.add([x], tolerance, **attrs)
            if m.op == "LpPool":
                m.add([x], tolerance, p=3, **attrs)
                m.add([x], tolerance, p=1, **attrs)
            else:
                m.add([x], tolerance, count_include_pad=1, **attrs)


@row("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m):
    for dtype in m.floats():
        for sides in ((5, 7), (9,), (3, 4, 2)):
            m.add([m.any(dtype, 2, 3, *sides)],
                  exact if m.op == "GlobalMaxPool" else sums(35))


@row("MaxUnpool")
def max_unpool(m):
    x = m.any("float32", 1, 2, 2, 3)
    places = np.stack([np.sort(m.rng.permutation(24)[:6]) + 24 * c
                       for c in range(2)]).reshape(1, 2, 2, 3)
    m.add([x, places.astype(np.int64)], kernel_shape=[2, 2], strides=[2, 2])


@row("MaxRoiPool")
def max_roi_pool(m):
    rois = np.float32([[0, 0, 0, 6, 5], [1, 2, 1, 5, 7], [0, 3, 3, 3, 3]])
    m.add([m.any("float32", 2, 3, 8, 8), rois], pooled_shape=[2, 3])
    rois[:, 1:] *= 2
    m.add([m.any("float32", 2, 3, 8, 8), rois], pooled_shape=[3, 2],
          spatial_scale=0.5)


@row("RoiAlign")
def roi_align(m):
    rois = np.float32([[0.3, 0.6, 6.1, 5.5], [2, 1.2, 5.4, 7], [3, 3, 3, 3]])
    places = [{}]
    if m.version >= 16:
        places = [{"coordinate_transformation_mode": mode}
                  for mode in ("half_pixel", "output_half_pixel")]
    for attrs in places:
        for mode in ("avg", "max"):
            m.add([m.any("float32", 2, 3, 8, 8), rois, ints(0, 1, 0)],
                  sums(16, powers=8), mode=mode, output_height=3,
                  output_width=2, sampling_ratio=2, **attrs)
        m.add([m.any("float32", 2, 3, 8, 8), rois * 2, ints(0, 1, 1)],
              sums(16, powers=8), output_height=2, output_width=2,
              spatial_scale=0.5, **attrs)


# --- normalization ----------------------------------------------------------


@row("BatchNormalization")
def batch_normalization(m):
    for dtype in m.floats()[:2]:
        for shape in ((2, 3, 4, 5), (4, 3), (2, 3, 7), (1, 3, 2, 2, 3)):
            inputs = [m.any(dtype, *shape)] + [
                m.any(dtype, 3, low=0.5, high=2) for _ in range(4)]
            m.add(inputs, sums(4), epsilon=1e-3)
            m.add(inputs, sums(4), momentum=0.3)
    if m.version < 9:
        inputs = [m.any("float32", 2, 3, 4)] + [
            m.any("float32", 3, 4, low=0.5, high=2) for _ in range(4)]
        m.add(inputs, sums(4), spatial=0)


@row("InstanceNormalization", "GroupNormalization", "LayerNormalization")
def normalization(m):
    for dtype in m.floats()[:1 if m.op != "LayerNormalization" else 2]:
        for shape in ((2, 4, 5, 6), (3, 4, 7)):
            x = m.any(dtype, *shape)
            tolerance = sums(120, powers=4)
            if m.op == "LayerNormalization":
                for axis in (-1, 1, 2):
                    scale, bias = (m.any(dtype, *shape[axis:])
                                   for _ in range(2))
                    m.add([x, scale], tolerance, axis=axis)
                    m.add([x, scale, bias], tolerance, outputs=3, axis=axis)
                continue
            groups = {}
            count = 4
            if m.op == "GroupNormalization":
                groups = {"num_groups": 2}
                count = 2 if m.version < 21 else 4
            m.add([x, m.any(dtype, count), m.any(dtype, count)], tolerance,
                  **groups)


@row("LRN")
def lrn(m):
    # onnxruntime refuses even sizes.
    for size in (1, 3, 5, 9):
        for shape in ((2, 7, 3, 4), (3, 5, 2, 2)):
            m.add([m.any("float32", *shape)], ulps(32), size=size,
                  alpha=0.02, beta=0.6, bias=1.5)
    m.add([m.any("float32", 2, 7, 3, 4)], ulps(32), size=5)


@row("LpNormalization")
def lp_normalization(m):
    for p in (1, 2):
        for axis in (0, 1, -1):
            m.add([m.any("float32", 3, 4, 5)], ulps(16), p=p, axis=axis)


@row("MeanVarianceNormalization")
def mean_variance(m):
    x = m.any("float32", 3, 4, 2, 5)
    m.add([x], sums(30, powers=2))
    m.add([x], sums(12, powers=2), axes=[1, 2])


# --- products ---------------------------------------------------------------


@row("MatMul")
def mat_mul(m):
    for dtype in m.types():
        for left, right in (((3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
                            ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,))):
            m.add([m.any(dtype, *left), m.any(dtype, *right)], sums(4))


@row("Gemm")
def gemm(m):
    for dtype in m.types():
        for trans in (0, 1, 2, 3):
            a = m.any(dtype, 3, 4)
            b = m.any(dtype, 4, 5)
            shape = ((5,), (3, 1), (1, 5), ())[trans]
            attrs = {"transA": trans & 1, "transB": trans >> 1,
                     "alpha": 0.5 if dtype.kind == "f" else 1.0,
                     "beta": 2.0}
            m.add([a.T.copy() if trans & 1 else a,
                   b.T.copy() if trans >> 1 else b, m.any(dtype, *shape)],
                  sums(8), **attrs)
        if m.version >= 11:
            m.add([m.any(dtype, 3, 4), m.any(dtype, 4, 5)], sums(4))


@row("MatMulInteger", "QLinearMatMul")
def mat_mul_quantised(m):
    for left, right in (((3, 40), (40, 5)), ((2, 3, 4), (2, 4, 5))):
        for kind, zero in (("uint8", 113), ("int8", 7)):
            a = m.any(kind, *left, low=-128, high=127)
            b = m.any(kind, *right, low=-128, high=127)
            zeros = [np.array(zero, kind), np.array(zero - 5, kind)]
            if m.op == "MatMulInteger":
                m.add([a, b])
                m.add([a, b, *zeros])
                continue
            m.add([a, np.float32(0.05), zeros[0], b, np.float32(0.02),
                   zeros[1], np.float32(0.31), zeros[0]], steps(1))


# --- quantising -------------------------------------------------------------


@row("QuantizeLinear", "DequantizeLinear")
def quantize(m):
    sign = {"uint8": 0, "int8": -128, "uint16": 0, "int16": -32768,
            "int32": -(2**23)}  # Such as are exact in float32.
    for kind, low in sign.items():
        is_to = m.op == "QuantizeLinear"
        if "16" in kind and m.version < 21 or kind == "int32" and is_to:
            continue
        scales = [np.float32(0.11)]
        if m.version >= 13:
            scales.append(m.any("float32", 3, low=0.01, high=0.3))
        for scale in scales:
            zero = np.zeros(np.shape(scale), kind) if kind == "int32" else (
                m.any(kind, *np.shape(scale), low=0, high=9))
            # Halves too, which go to even.
            x = np.round(m.any("float32", 2, 3, 40, low=-30, high=30))
            x = x.astype(np.float32) * np.float32(0.055)
            if not is_to:
                x = m.any(kind, 2, 3, 40, low=low, high=-low or 255)
            attrs = {"axis": 1} if np.shape(scale) else {}
            m.add([x, np.asarray(scale), zero], **attrs)
            if kind == "uint8" or not is_to:
                m.add([x, np.asarray(scale)], **attrs)
    if m.version >= 21:
        blocked_quantize(m)


def blocked_quantize(m):
    x = m.any("float32", 2, 6, 4, low=-30, high=30)
    if m.op == "DequantizeLinear":
        x = m.any("int8", 2, 6, 4, low=-128, high=127)
    m.add([x, m.any("float32", 2, 2, 4, low=0.01, high=0.3),
           m.any("int8", 2, 2, 4)], axis=1, block_size=3)


@row("DynamicQuantizeLinear")
def dynamic_quantize(m):
    for low, high in ((-3, 5), (1, 4), (-4, -1)):
        m.add([m.any("float32", 3, 20, low=low, high=high)], steps(1),
              outputs=3)


# --- recurrent --------------------------------------------------------------


@row("RNN", "GRU", "LSTM")
def recurrent(m):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[m.op]
    count = 3 if m.op == "LSTM" else 2
    tolerance = sums(64, powers=1)
    for direction in ("forward", "reverse", "bidirectional"):
        d = 2 if direction == "bidirectional" else 1
        for full in (False, True):
            x = m.normal(5, 3, 4)
            w, r = m.normal(d, gates * 6, 4), m.normal(d, gates * 6, 6)
            inputs = [x, w, r]
            attrs = {}
            if full:
                inputs += [m.normal(d, 2 * gates * 6),
                           np.array([5, 2, 4], np.int32), m.normal(d, 3, 6)]
                if m.op == "LSTM":
                    inputs += [m.any("float32", d, 3, 6, low=-0.4, high=0.4),
                               m.normal(d, 3 * 6)]
                if m.op == "GRU":
                    attrs["linear_before_reset"] = 1
                # onnxruntime does not clip what goes into the last
                # activation, which here stays below.
                attrs["clip"] = 5.5
            m.add(inputs, tolerance, outputs=count, hidden_size=6,
                  direction=direction, **attrs)
    activations = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"],
                   "LSTM": ["HardSigmoid", "Tanh", "Softsign"]}[m.op]
    m.add([x, w[:1], r[:1]], tolerance, outputs=count, hidden_size=6,
          activations=activations)


# --- losses -----------------------------------------------------------------


@row("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(m):
    x = m.any("float32", 3, 5, 2)
    target = m.any("int64", 3, 2, low=0, high=4)
    for reduction in ("none", "sum", "mean"):
        for extra in ([], [m.any("float32", 5, low=0.1, high=1)]):
            m.add([x, target, *extra], sums(30, powers=4),
                  reduction=reduction)
            m.add([x, target, *extra], sums(30, powers=4),
                  reduction=reduction, ignore_index=2)
