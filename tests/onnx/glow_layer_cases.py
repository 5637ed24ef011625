"""Cases of Glow's layers, and of what only moves elements."""

import numpy as np

import glow_reference as glow
from glow_case import Value, int8

F = np.float32


def bytes_of(random, shape, scale, offset):
    return int8(random.integers(-128, 128, shape), scale, offset)


def convolutions(cases, random):
    form = {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1],
            "group": 2, "dilation": [1, 2]}
    given = {"Kernels": form["kernel"], "Strides": form["strides"],
             "Pads": form["pads"], "Group": 2, "Dilation": form["dilation"],
             "Layout": "NHWC", "FusedActivation": "NONE",
             "FusedActivationArgs": []}
    x = random.standard_normal((2, 5, 6, 4)).astype(F)
    w = random.standard_normal((6, 3, 2, 2)).astype(F)
    b = random.standard_normal(6).astype(F)
    expected = (glow.products(x, w, **form) + b).astype(F)
    cases.put("Convolution", [x, w, b], [expected], attributes=given,
              rtol=1e-5, atol=1e-5)
    for kind, args, by in (
            ("RELU", [], lambda y: np.maximum(y, 0)), ("TANH", [], np.tanh),
            ("CLIP", [-0.5, 1.5], lambda y: np.clip(y, -0.5, 1.5)),
            ("SIGMOID", [], glow.expit),
            ("LEAKY_RELU", [0.25], lambda y: np.where(y < 0, y / 4, y))):
        cases.put("Convolution", [x, w, b], [by(expected).astype(F)],
                  attributes={**given, "FusedActivation": kind,
                              "FusedActivationArgs": args},
                  rtol=1e-5, atol=1e-5, name=f"Convolution_{kind}")
    xq = bytes_of(random, x.shape, 0.5, 5)
    wq = bytes_of(random, w.shape, 0.25, -3)
    for kind, bias in (("i32", random.integers(-9999, 9999, 6)),
                       ("i8", random.integers(-128, 128, 6))):
        bq = Value(bias, kind, 0.3, 2)
        y = glow.conv_int8(xq, wq, bq, 32.0, 3, **form)
        cases.put("Convolution", [xq, wq, bq], [int8(y, 32.0, 3)],
                  attributes=given, name=f"Convolution_int8_{kind}",
                  constants=[1, 2])
    scales = np.array([0.25, 0.125, 0.3, 0.2, 1.0, 0.5], F)
    offsets = np.array([0, 3, -5, 1, 7, -128], np.int32)
    bias = random.integers(-999, 999, 6).astype(np.int32)
    y = glow.channelwise(xq, wq.array, bias, scales, offsets, scales, offsets,
                         32.0, 3, **form)
    cases.put("ChannelwiseQuantizedConvolution",
              [xq, wq, Value(bias, "i32", 1, 0), scales, offsets, scales,
               offsets], [int8(y, 32.0, 3)],
              attributes={k: v for k, v in given.items() if k != "Layout"},
              constants=range(1, 7))
    t = random.standard_normal((3, 3, 2, 4)).astype(F)
    c = random.standard_normal(6).astype(F)
    y = glow.transposed(x, t, c, [2, 3], [1, 0, 0, 1], 2, [1, 2])
    cases.put("ConvTranspose", [x, t, c], [y.astype(F)], rtol=1e-5, atol=1e-5,
              attributes={"Kernels": [3, 2], "Strides": [2, 3],
                          "Pads": [1, 0, 0, 1], "Group": 2,
                          "Dilation": [1, 2]})


def three_sides(cases, random):
    form = {"kernel": [2, 2, 1], "strides": [1, 2, 1],
            "pads": [1, 0, 0, 2, 1, 0], "group": 1}
    given = {"Kernels": form["kernel"], "Strides": form["strides"],
             "Pads": form["pads"], "Group": 1}
    x = random.standard_normal((2, 3, 4, 3, 2)).astype(F)
    w = random.standard_normal((3, 2, 2, 1, 2)).astype(F)
    b = random.standard_normal(3).astype(F)
    cases.put("Convolution3D", [x, w, b],
              [(glow.products(x, w, **form) + b).astype(F)], attributes=given,
              rtol=1e-5, atol=1e-5)
    xq = bytes_of(random, x.shape, 0.5, 5)
    wq = bytes_of(random, w.shape, 0.25, -3)
    bq = Value(random.integers(-999, 999, 3), "i32", 0.125, 0)
    cases.put("Convolution3D", [xq, wq, bq],
              [int8(glow.conv_int8(xq, wq, bq, 16.0, 1, **form), 16.0, 1)],
              attributes=given, name="Convolution3D_int8")
    pool = {"kernel": [2, 2, 2], "strides": [1, 1, 1],
            "pads": [1, 0, 0, 1, 0, 0]}
    cases.put("AvgPool", [x], [glow.pooled(x, **pool, how="mean").astype(F)],
              attributes={"Kernels": pool["kernel"],
                          "Strides": pool["strides"], "Pads": pool["pads"],
                          "Layout": 2, "CountIncludePads": 1},
              name="AvgPool_3D", rtol=1e-5, atol=1e-6)


def pools(cases, random):
    pool = {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    given = {"Kernels": pool["kernel"], "Strides": pool["strides"],
             "Pads": pool["pads"], "Layout": 0}
    x = random.standard_normal((2, 5, 4, 3)).astype(F)
    q = bytes_of(random, x.shape, 0.5, 5)
    y = glow.pooled(x, **pool, how="max").astype(F)
    unread = np.zeros(y.shape, np.int64)
    cases.put("MaxPool", [x], [y, unread], attributes=given, read=[0])
    z = glow.pooled(q.array, **pool, how="max")
    cases.put("MaxPool", [q], [int8(z, 0.5, 5), unread], attributes=given,
              read=[0], name="MaxPool_int8")
    for counts in (0, 1):
        given["CountIncludePads"] = counts
        cases.put("AvgPool", [x], attributes=given, name=f"AvgPool_{counts}",
                  outputs=[glow.pooled(x, **pool, how="mean",
                                       counts_pads=counts).astype(F)],
                  rtol=1e-5, atol=1e-6)
        mean = glow.pooled(q.centred(), **pool, how="mean",
                           counts_pads=counts)
        z = glow.stepped(mean.astype(F) * F(0.5 / 0.3) + F(2))
        cases.put("AvgPool", [q], [int8(z, 0.3, 2)], attributes=given,
                  name=f"AvgPool_int8_{counts}")
    cases.put("AdaptiveAvgPool", [x], [glow.adaptive(x, 3, 2).astype(F)],
              rtol=1e-5, atol=1e-6)


def products(cases, random):
    a = random.standard_normal((3, 4)).astype(F)
    b = random.standard_normal((4, 5)).astype(F)
    c = random.standard_normal(5).astype(F)
    cases.put("MatMul", [a, b], [a @ b], rtol=1e-5, atol=1e-6)
    cases.put("FullyConnected", [a, b, c], [a @ b + c], rtol=1e-5, atol=1e-6)
    cases.put("Gemm", [a.T.copy(), b, c], [F(0.5) * (a @ b) + F(2) * c],
              attributes={"Alpha": 0.5, "Beta": 2.0, "TransposeA": 1,
                          "TransposeB": 0}, rtol=1e-5, atol=1e-6)
    batch = random.standard_normal((2, 3, 4)).astype(F)
    right = random.standard_normal((2, 4, 5)).astype(F)
    cases.put("BatchMatMul", [batch, right], [batch @ right], rtol=1e-5,
              atol=1e-6)
    aq, bq = (bytes_of(random, (7, 9), 0.5, 3),
              bytes_of(random, (9, 5), 0.25, -2))
    cases.put("MatMul", [aq, bq],
              [int8(glow.matmul_int8(aq, bq, 64.0, 1), 64.0, 1)],
              name="MatMul_int8")
    batch, right = (bytes_of(random, (2, 3, 9), 0.5, 3),
                    bytes_of(random, (2, 9, 5), 0.25, -2))
    cases.put("BatchMatMul", [batch, right],
              [int8(glow.matmul_int8(batch, right, 64.0, 1), 64.0, 1)],
              name="BatchMatMul_int8")
    bias = Value(random.integers(-9999, 9999, 5), "i32", 0.125, 0)
    cases.put("FullyConnected", [aq, bq, bias],
              [int8(glow.full_int8(aq, bq, bias, 64.0, 1), 64.0, 1)],
              name="FullyConnected_int8", constants=[1, 2])
    scales = np.array([0.25, 0.125, 0.3, 1.0, 0.5], F)
    offsets = np.array([0, 3, -5, 1, 7], np.int32)
    rows = bytes_of(random, (5, 9), 1, 0)
    y = glow.rows_int8(aq, rows.array, scales, offsets, bias, 64.0, 1)
    cases.put("RowwiseQuantizedFullyConnected",
              [aq, rows, scales, offsets, bias], [int8(y, 64.0, 1)])
    vectors = [random.standard_normal((2, 6)).astype(F) for _ in range(4)]
    pairs = [(vectors[i] * vectors[j]).sum(1)
             for i in range(4) for j in range(i)]
    cases.put("BatchedPairwiseDotProduct", vectors, [np.stack(pairs, 1)],
              attributes={"Inputs": [f"in{i}" for i in range(4)]}, rtol=1e-5,
              atol=1e-5)


def normalisation(cases, random):
    x = random.standard_normal((2, 3, 4, 5)).astype(F)
    s, b, m = random.standard_normal((3, 5)).astype(F)
    v = np.abs(m) + F(0.5)
    wide = x.astype(np.float64)
    y = (wide - m) / np.sqrt(v.astype(np.float64) + 1e-3) * s + b
    cases.put("BatchNormalization", [x, s, b, m, v], [y.astype(F)], rtol=1e-5,
              attributes={"ChannelIdx": 3, "Epsilon": 1e-3, "Momentum": 0.9},
              atol=1e-5)
    mean, var = wide.mean((1, 2), keepdims=True), wide.var((1, 2),
                                                           keepdims=True)
    cases.put("InstanceNormalization", [x, s, b],
              [((wide - mean) / np.sqrt(var + 1e-3) * s + b).astype(F)],
              attributes={"ChannelIdx": 3, "Epsilon": 1e-3}, rtol=1e-5,
              atol=1e-5)
    mean, var = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    cases.put("MeanVarNormalization", [x, m, v],
              [(0.25 * mean + 0.75 * m).astype(F),
               (0.25 * var + 0.75 * v).astype(F)],
              attributes={"ChannelIdx": 3, "Momentum": 0.25}, rtol=1e-5,
              atol=1e-5)
    scale, bias = random.standard_normal((2, 4, 5)).astype(F)
    mean, var = wide.mean((2, 3), keepdims=True), wide.var((2, 3),
                                                           keepdims=True)
    cases.put("LayerNormalization", [x, scale, bias],
              [((wide - mean) / np.sqrt(var + 1e-3) * scale
                + bias).astype(F)], attributes={"Epsilon": 1e-3}, rtol=1e-5,
              atol=1e-5)
    squares = np.zeros_like(wide)
    for c in range(5):
        squares[..., c] = (wide[..., max(c - 1, 0):c + 2] ** 2).sum(-1)
    cases.put("LocalResponseNormalization", [x],
              [(wide * (2 + 0.5 / 3 * squares) ** -0.75).astype(F)],
              attributes={"HalfWindowSize": 1, "Alpha": 0.5, "Beta": 0.75,
                          "K": 2.0}, rtol=1e-5, atol=1e-6)
    cases.put("VectorNorm", [x], [np.sqrt((wide ** 2).sum(2)).astype(F)],
              attributes={"Axis": 2, "P": 2}, rtol=1e-5)
    d = (random.random((3, 3)) * 5).astype(F)
    l1, l2 = (random.random((2, 3)) + 1).astype(F)
    l1[0::2] = 0
    t = np.maximum(d + l2, F(1e-6)).astype(np.float64)
    y = np.where(l1 == 0, np.log(t), (t ** l1 - 1) / np.where(l1 == 0, 1, l1))
    cases.put("BatchBoxCox", [d, l1, l2], [y.astype(F)], rtol=1e-4,
              attributes={"Epsilon": 1e-6}, atol=1e-5)


def losses(cases, random):
    x = random.standard_normal((3, 4)).astype(F)
    labels = np.array([[1], [0], [3]], np.int64)
    e = np.exp(x.astype(np.float64))
    p = e / e.sum(1, keepdims=True)
    cases.put("SoftMax", [x, labels], [p.astype(F)], rtol=1e-5)
    cases.put("LogSoftMax", [x, labels], [np.log(p).astype(F)], rtol=1e-5)
    cases.put("CrossEntropyLoss", [p.astype(F), labels],
              [np.array([-np.log(p[np.arange(3), labels[:, 0]]).sum()], F)],
              rtol=1e-5)
    t = random.random((3, 4)).astype(F)
    w, k = (random.random((2, 3, 4)) + 0.5).astype(F)
    share = glow.expit(x.astype(np.float64))

    def loss(weight=1.0, positive=1.0):
        return -weight * (positive * t * np.log(share)
                          + (1 - t) * np.log(1 - share))
    cases.put("SigmoidCrossEntropyWithLogits", [x, t],
              [loss().mean(1).astype(F)], rtol=1e-5)
    for op, more, y in (
            ("Simple", [], loss()), ("Weight", [w], loss(weight=w)),
            ("PosWeight", [k], loss(positive=k)),
            ("", [w, k], loss(weight=w, positive=k))):
        cases.put(f"{op}BinaryCrossEntropyWithLogits", [x, t, *more],
                  [np.array([y.mean()], F)], attributes={"Reduction": 1},
                  rtol=1e-5)
    cases.put("SimpleBinaryCrossEntropyWithLogits", [x, t],
              [loss().astype(F)], attributes={"Reduction": 0}, rtol=1e-5,
              name="SimpleBinaryCrossEntropyWithLogits_each")


def shapes(cases, random):
    x = random.standard_normal((2, 3, 4)).astype(F)
    q = bytes_of(random, (2, 3, 4), 0.5, 5)
    cases.put("Reshape", [q], [int8(q.array.reshape(4, 6), 0.5, 5)],
              attributes={"Dims": [4, 6], "Layout": "*"})
    cases.put("Transpose", [q], [int8(q.array.transpose(2, 0, 1), 0.5, 5)],
              attributes={"Shuffle": [2, 0, 1], "Layout": "*"})
    cases.put("Concat", [q, q, q],
              [int8(np.concatenate([q.array] * 3, 1), 0.5, 5)],
              attributes={"Inputs": ["in0", "in1", "in2"], "Dim": 1})
    cases.put("Slice", [q], [int8(q.array[1:, 1:3, 2:], 0.5, 5)],
              attributes={"Start": [1, 1, 2]})
    small = random.standard_normal((2, 1, 2)).astype(F)
    big = x.copy()
    big[:, 1:3, 1:3] = small
    cases.put("InsertTensor", [x, small], [big],
              attributes={"Start": [0, 1, 1], "Count": 2, "Axis": 1})
    cases.put("Tile", [q], [int8(np.tile(q.array, (1, 3, 1)), 0.5, 5)],
              attributes={"Count": 3, "Axis": 1})
    cases.put("Broadcast", [x[0]],
              [np.broadcast_to(x[0][None, :, :, None], (5, 3, 4, 2)).copy()],
              attributes={"Axis": 1, "TargetDim": [5, 3, 4, 2]})
    cases.put("Flip", [q], [int8(q.array[:, ::-1], 0.5, 5)],
              attributes={"Axis": 1})
    c = np.arange(12, dtype=F).reshape(1, 6, 2)
    y = c.reshape(1, 3, 2, 2).transpose(0, 2, 1, 3).reshape(1, 6, 2)
    cases.put("ChannelShuffle", [c], [y],
              attributes={"Group": 3, "Kernel": 1})
    image = random.standard_normal((1, 4, 6, 3)).astype(F)
    parts = image.reshape(1, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5)
    cases.put("SpaceToDepth", [image], [parts.reshape(1, 2, 3, 12).copy()],
              attributes={"BlockSize": 2})
    rows = [min(int(i / 1.5), 3) for i in range(6)]
    columns = [min(int(i / 2.0), 5) for i in range(12)]
    cases.put("ResizeNearest", [image], [image[:, rows][:, :, columns]],
              attributes={"Scale": [1.0, 1.5, 2.0, 1.0]})
    for name, given in (("", image), ("_int8", bytes_of(
            random, image.shape, 0.5, 5))):
        values = given if isinstance(given, np.ndarray) else given.array
        y = bilinear(values.astype(np.float64), 2.0, 1.5)
        out = (y.astype(F) if name == ""
               else int8(np.trunc(np.round(y, 6)), 0.5, 5))
        cases.put("ResizeBilinear", [given], [out], rtol=1e-5, atol=1e-6,
                  attributes={"Scale": [1.0, 2.0, 1.5, 1.0]},
                  name=f"ResizeBilinear{name}")
    padded = np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=1.5)
    cases.put("Pad", [x], [padded],
              attributes={"Mode": 0, "Pads": [0, 1, 0, 0, 2, 1], "Value": 1.5})
    wide = np.pad(q.array, ((0, 0), (1, 2), (0, 1)),
                  constant_values=glow.quantized(1.5, 0.5, 5))
    cases.put("Pad", [q], [int8(wide, 0.5, 5)], name="Pad_int8",
              attributes={"Mode": 0, "Pads": [0, 1, 0, 0, 2, 1], "Value": 1.5})
    cases.put("Pad", [x], [np.pad(x, ((0, 0), (2, 1), (0, 0)), "reflect")],
              attributes={"Mode": 1, "Pads": [0, 2, 0, 0, 1, 0], "Value": 0.0},
              name="Pad_reflect")


def bilinear(x, high, wide):
    out = np.zeros((x.shape[0], int(x.shape[1] * high),
                    int(x.shape[2] * wide), x.shape[3]))
    for i, j in np.ndindex(*out.shape[1:3]):
        h, w = i / high, j / wide
        top, left = int(h), int(w)
        rows = [min(top, x.shape[1] - 1), min(top + 1, x.shape[1] - 1)]
        columns = [min(left, x.shape[2] - 1), min(left + 1, x.shape[2] - 1)]
        ends = [x[:, rows[0], c] + (x[:, rows[1], c] - x[:, rows[0], c])
                * (h - top) for c in columns]
        out[:, i, j] = ends[0] + (ends[1] - ends[0]) * (w - left)
    return out


def features(cases, random):
    sound = random.standard_normal((40, 1)).astype(F)
    window = random.random(12).astype(F)
    tables = [np.zeros(4, F), np.zeros(4, np.int32), np.zeros(4, F)]
    for squared in (0, 1):
        frames = np.stack([sound[i * 7:i * 7 + 12, 0] * window
                           for i in range(5)]).astype(np.float64)
        power = np.abs(np.fft.rfft(frames, 16)) ** 2
        cases.put("AudioSpectrogram", [sound, window, *tables],
                  [(power if squared else np.sqrt(power)).astype(F)],
                  attributes={"WindowSize": 12, "WindowStride": 7,
                              "MagnitudeSquared": squared}, rtol=1e-4,
                  atol=1e-4, name=f"AudioSpectrogram_{squared}")
    ranges = [(1, 3), (2, 5), (6, 6)]
    weights = random.random(8).astype(F)
    dct = random.standard_normal((2, 3)).astype(F)
    power[1] = 0
    mel = np.zeros((5, 3))
    at = 0
    for i, (first, last) in enumerate(ranges):
        size = last - first + 1
        mel[:, i] = np.sqrt(power[:, first:last + 1]) @ weights[at:at + size]
        at += size
    logs = np.log(np.where(mel == 0, np.finfo(F).tiny, mel))
    cases.put("MFCC", [power.astype(F), weights,
                       np.array(ranges, np.int32).ravel(), dct],
              [(logs @ dct.T).astype(F)], rtol=1e-4, atol=1e-4,
              attributes={"FilterBankCount": 3, "NumCoefficients": 2,
                          "SampleRate": 16000.0})
    image = random.standard_normal((2, 6, 7, 3)).astype(F)
    boxes = np.array([[0.5, 1.0, 5.0, 4.5], [1.0, 0.0, 3.0, 6.0],
                      [2.0, 2.0, 2.5, 2.25]], F)
    batch = np.array([0, 1, 1], np.int64)
    for aligned in (0, 1):
        given = {"Mode": 0, "OutputHeight": 2, "OutputWidth": 3,
                 "SamplingRatio": 2, "SpatialScale": 0.75,
                 "Aligned": aligned, "Rotated": 0}
        y = np.stack([glow.aligned_box(image[i], box, 2, 3, 2, 0.75, aligned)
                      for i, box in zip(batch, boxes)]).astype(F)
        cases.put("ROIAlign", [image, boxes, batch], [y], attributes=given,
                  rtol=1e-4, atol=1e-5, name=f"ROIAlign_{aligned}")
    five = np.concatenate([batch[:, None].astype(F), boxes], 1)
    cases.put("ROIAlign", [image, five, batch * 0], [y], attributes=given,
              rtol=1e-4, atol=1e-5, name="ROIAlign_five")
    x = random.standard_normal((4, 9)).astype(np.float16)
    x[2] = 0
    w = bytes_of(random, (9, 5), 0.25, -2)
    b = random.standard_normal(5).astype(F)
    scales = np.array([0.25, 0.125, 0.3, 1.0, 0.5], F)
    offsets = np.array([0, 3, -5, 1, 7], np.int32)
    how = {"IsSymmetric": 1, "IsPerBatchElement": 1}
    y = glow.dynamic(x, w.array, b, np.full(5, w.scale), np.full(5, w.offset))
    cases.put("DynamicQuantizedFullyConnected", [x, w, b], [y], rtol=2e-3,
              attributes=how, atol=1e-2)
    y = glow.dynamic(x, w.array, b, scales, offsets)
    cases.put("DynamicRowwiseQuantizedFullyConnected",
              [x, w, b, scales, offsets], [y], rtol=2e-3, attributes=how,
              atol=1e-2)


def write(cases, random):
    for part in (convolutions, three_sides, pools, products, normalisation,
                 losses, shapes, features):
        part(cases, random)
