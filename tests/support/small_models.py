"""Small models of many kinds of operators and opsets: made here, and those of
ONNX's package."""

import pathlib
import random

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser, shape_inference

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"
IR = {7: 3, 9: 4, 11: 6, 13: 7, 15: 8, 17: 8, 18: 8, 19: 9, 21: 10, 22: 10}

# A name, the opset and the graph, as onnx.parser reads it.
TEXTS = (
    ("mlp", 13, """g (float[2, 8] x) => (float[2, 3] y)
       <float[8, 4] w1, float[4] b1, float[4, 3] w2> {
       h = MatMul(x, w1) a = Add(h, b1) r = Relu(a) m = MatMul(r, w2)
       y = Softmax<axis = -1>(m) }"""),
    ("gemm", 11, """g (float[N, 8] x) => (float[N, 3] y)
       <float[8, 4] w1, float[4] b1, float[3, 4] w2, float[3] b2> {
       h = Gemm(x, w1, b1) r = LeakyRelu<alpha = 0.1>(h)
       z = Gemm<alpha = 0.5, transB = 1>(r, w2, b2) y = LogSoftmax<axis = 1>(z)}
       """),
    ("conv", 13, """g (float[1, 3, 8, 8] x) => (float[1, 4] y)
       <float[4, 3, 3, 3] w, float[4] b, float[4] s, float[4] o, float[4] m,
        float[4] v> {
       c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b)
       n = BatchNormalization<epsilon = 0.001>(c, s, o, m, v) r = Relu(n)
       p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
       q = GlobalAveragePool(p) y = Flatten<axis = 1>(q) }"""),
    ("conv_old", 7, """g (float[1, 3, 8, 8] x) => (float[1, 4, 2, 2] y)
       <float[4, 3, 3, 3] w, float[4] s, float[4] o, float[4] m, float[4] v> {
       c = Conv<auto_pad = "SAME_UPPER", kernel_shape = [3, 3]>(x, w)
       n = BatchNormalization(c, s, o, m, v)
       e = Elu<alpha = 1.5>(n) l = LRN<size = 3>(e)
       y = AveragePool<kernel_shape = [3, 3], strides = [3, 3]>(l) }"""),
    ("residual", 9, """g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y)
       <float[4, 4, 3, 3] w1, float[4, 1, 3, 3] w2> {
       a = Conv<pads = [1, 1, 1, 1]>(x, w1) b = Relu(a)
       c = Conv<pads = [1, 1, 1, 1], group = 4>(b, w2) d = Add(c, x)
       y = Clip<min = 0.0, max = 6.0>(d) }"""),
    ("reshape", 13, """g (float[N, 4, 6] x) => (float[N, 24] y, int64[3] s)
       <int64[1] neg, int64 zero> {
       s = Shape(x) n = Gather<axis = 0>(s, zero)
       ax = Constant<value = int64[1] {0}>() n1 = Unsqueeze(n, ax)
       t = Concat<axis = 0>(n1, neg)
       p = Transpose<perm = [0, 2, 1]>(x) y = Reshape(p, t) }"""),
    ("casts", 13, """g (float[3, 4] x, int32[3, 4] i) => (bool[3, 4] y, int64[3, 4] k)
       { a = Cast<to = 6>(x) b = Add(a, i) k = Cast<to = 7>(b)
       c = Cast<to = 1>(i) d = Less(c, x) e = Greater(x, c) y = Or(d, e) }"""),
    ("attention", 17, """g (float[1, 4, 8] x) => (float[1, 4, 8] y)
       <float[8, 8] wq, float[8, 8] wk, float[8, 8] wv, float scale, float[8] g1,
        float[8] b1> {
       n = LayerNormalization<axis = -1>(x, g1, b1)
       q = MatMul(n, wq) k = MatMul(n, wk) v = MatMul(n, wv)
       kt = Transpose<perm = [0, 2, 1]>(k) s = MatMul(q, kt) d = Mul(s, scale)
       p = Softmax<axis = -1>(d) o = MatMul(p, v) y = Add(x, o) }"""),
    ("reduce", 18, """g (float[2, 3, 4] x) => (float[2, 1, 4] y, float[2] z, int64[2, 3] m)
       <int64[1] axes, int64[2] more> {
       y = ReduceMean<keepdims = 1>(x, axes) z = ReduceSum<keepdims = 0>(x, more)
       m = ArgMax<axis = 2, keepdims = 0>(x) }"""),
    ("reduce_old", 11, """g (float[2, 3, 4] x) => (float[2, 4] y, float[2, 3] z)
       { y = ReduceMax<axes = [1], keepdims = 0>(x)
       s = ReduceSum<axes = [2], keepdims = 1>(x) z = Squeeze<axes = [2]>(s) }"""),
    ("slices", 13, """g (float[4, 6] x) => (float[2, 3] y, float[4, 6] z)
       <int64[2] starts, int64[2] ends, int64[2] axes, int64[2] parts> {
       y = Slice(x, starts, ends, axes) a, b = Split<axis = 1>(x, parts)
       z = Concat<axis = 1>(b, a) }"""),
    ("where", 16, """g (float[3, 4] x, bool[3, 4] c) => (float[3, 4] y, float[3, 2] t)
       <float one, int64[1] k> {
       a = Mul(x, one) b = Where(c, a, x) y = PRelu(b, one)
       t, ti = TopK<axis = 1>(y, k) }"""),
    ("resize", 13, """g (float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y)
       <float[4] scales, int64[8] pads> {
       r = Resize<mode = "nearest">(x, , scales)
       p = Pad<mode = "constant">(r, pads) y = Sigmoid(p) }"""),
    ("quantized", 13, """g (float[1, 8] x) => (float[1, 4] y)
       <float s, uint8 z, int8[8, 4] w, float ws, int8 wz> {
       q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)
       v = DequantizeLinear(w, ws, wz) y = MatMul(d, v) }"""),
    ("lstm", 14, """g (float[5, 1, 3] x) => (float[5, 1, 1, 4] y, float[1, 1, 4] h)
       <float[1, 16, 3] w, float[1, 16, 4] r, float[1, 32] b> {
       y, h = LSTM<hidden_size = 4>(x, w, r, b) }"""),
    ("branches", 13, """g (float[2, 3] x, bool c) => (float[2, 3] y) {
       y = If (c) <
         then_branch = t () => (float[2, 3] p) { a = Relu(x) p = Neg(a) },
         else_branch = e () => (float[2, 3] q) { q = Add(x, x) }> }"""),
    ("loop", 13, """g (float[2] x, int64 n, bool c) => (float[2] y, float[K, 2] all) {
       y, all = Loop (n, c, x) <body = b (int64 i, bool go, float[2] s)
         => (bool on, float[2] t, float[2] u) {
         on = Identity(go) t = Add(s, x) u = Mul(t, t) }> }"""),
    ("scan", 11, """g (float[2] s, float[3, 2] x) => (float[2] f, float[3, 2] y) {
       f, y = Scan (s, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] e)
         => (float[2] n, float[2] o) { n = Add(a, e) o = Identity(n) }> }"""),
    ("einsum", 12, """g (float[2, 3] x, float[3, 4] z) => (float[2, 4] y)
       { e = Einsum<equation = "ij,jk->ik">(x, z) d, m = Dropout(e)
       y = Celu<alpha = 2.0>(d) }"""),
    ("new", 21, """g (float[2, 8] x) => (float[2, 8] y) <float[8] s> {
       g1 = Gelu<approximate = "tanh">(x) a, b = Split<axis = 1, num_outputs = 2>(g1)
       c = Concat<axis = 1>(b, a) r = ReduceMax<keepdims = 1>(c) k = Max(c, r)
       m = Mul(k, s) y = HardSwish(m) }"""),
    ("indices", 13, """g (float[4, 3] x, int64[2] i) => (float[4, 3] y, float[2, 3] z, int64[4, 1] w)
       <float[2, 3] u> { z = Gather(x, i)
       k = Constant<value_ints = [1]>() j = Unsqueeze(i, k)
       y = ScatterND(x, j, u) f = Flatten<axis = 1>(x) w = ArgMin<axis = 1>(f) }"""),
    ("expand", 13, """g (float[1, 3] x) => (float[2, 3] y, float[5] z)
       <int64[2] shape, float a, float b, float c, int64[1] five> {
       e = Expand(x, shape) r = Reciprocal(e) y = Pow(r, a)
       k = ConstantOfShape<value = float[1] {1.0}>(five)
       z = Clip(k, a, b) }"""),
    ("transposed", 11, """g (float[1, 2, 4, 4] x) => (float[1, 3, 9, 9] y)
       <float[2, 3, 3, 3] w, float[3] s, float[3] b> {
       c = ConvTranspose<strides = [2, 2]>(x, w)
       y = InstanceNormalization(c, s, b) }"""),
)

FUNCTION = """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
agraph (float[2, 4] x) => (float[2, 4] y) <float[4, 4] w> {
  a = local.scaled<alpha = 0.5>(x, w)
  b = local.scaled(a, w)
  y = Relu(b)
}
<domain: "local", opset_import: ["" : 17]>
scaled <alpha: float = 2.0>(x, w) => (z) {
  m = MatMul(x, w)
  z = LeakyRelu<alpha: float = @alpha>(m)
}
"""

NUMBERS = {"axes": [1], "more": [1, 2], "zero": 0, "neg": [-1],
           "starts": [0, 0], "ends": [2, 3], "parts": [3, 3], "k": [2],
           "scales": [1, 1, 2, 2], "pads": [0] * 8, "shape": [2, 3],
           "five": [5]}


def filled(model, rng):
    """Gives initializers that the text only declares their numbers."""
    for tensor in model.graph.initializer:
        kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        dims = list(tensor.dims)
        name = tensor.name
        if name == "axes" and dims == [2]:
            data = np.array([0, 1])
        elif name in NUMBERS:
            data = np.array(NUMBERS[name]).reshape(dims)
        else:
            data = rng.random(dims) + 0.5
        tensor.CopyFrom(numpy_helper.from_array(data.astype(kind), name))
    return model


def declared(text):
    """onnx.parser wants data for initializers: reads them as inputs first."""
    head, rest = text.split("{", 1)
    if "<" not in head:
        return text, []
    before, names = head.rsplit("<", 1)
    names = names.rsplit(">", 1)[0]
    return before + "{" + rest, names


def parsed(name, opset, text, rng):
    text, names = declared(text)
    model = parser.parse_model(
        f'<ir_version: {IR.get(opset, 7)}, opset_import: ["" : {opset}]>\n'
        + text)
    model.graph.name = name
    if names:
        with_types = parser.parse_graph(f"g ({names}) => () {{}}")
        for value in with_types.input:
            kind = value.type.tensor_type
            model.graph.initializer.add(
                name=value.name, data_type=kind.elem_type,
                dims=[side.dim_value for side in kind.shape.dim])
            if opset < 9:
                model.graph.input.add().CopyFrom(value)
    return filled(model, rng)


def made_models(rng):
    for name, opset, text in TEXTS:
        model = parsed(name, opset, text, rng)
        yield name, model
        # Exporters write what they know of values between the nodes.
        yield name + "_typed", shape_inference.infer_shapes(model)
    text, names = declared(FUNCTION.split("\n<domain")[0].split(">", 1)[1])
    model = parser.parse_model(
        FUNCTION.replace(" <float[4, 4] w> {", " {", 1))
    model.graph.initializer.add(name="w", data_type=1, dims=[4, 4])
    yield "function", filled(model, rng)


def packaged_models(count, seed):
    """Some of ONNX's own, of at most 100 kB."""
    rng = random.Random(seed)
    for folder, share in (("node", 0.6), ("pytorch-operator", 0.15),
                          ("pytorch-converted", 0.1), ("simple", 0.1),
                          ("light", 0.05)):
        files = sorted((DATA / folder).glob("*/model.onnx")) + sorted(
            (DATA / folder).glob("*.onnx"))
        files = [file for file in files if file.stat().st_size < 100_000]
        for file in rng.sample(files, min(len(files), int(count * share))):
            name = file.parent.name if file.name == "model.onnx" else file.stem
            yield name, onnx.load(file)


def base_models(seed, packaged=120):
    rng = np.random.default_rng(1)
    made = list(made_models(rng))
    # Those made here are larger than most others: twice each.
    return made * 2 + list(packaged_models(packaged, seed))
