#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Operators of quantized tensors. Nearly all are told by making real numbers of
// integers, calculating in float32 and rounding once; kernels that stay in
// integers may round otherwise.

namespace nodewise {
namespace {

constexpr ContribFunction kQuantizedFunctions[] = {
    // Weights may have a scale for each column, which is a row where they are
    // transposed. The bias is an integer in steps of both scales and alpha, so
    // it is added to the real product. Without a scale for the result, that
    // stays float32.
    kContribRow("QGemm", 11,
                {"A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point",
                 Optional("C"), Optional("y_scale"), Optional("y_zero_point")},
                {"Y"}, {{"alpha", 1.0F}, {"transA", 0}, {"transB", 0}}, R"(
       a = DequantizeLinear(A, a_scale, a_zero_point)
       b = DequantizeLinear<axis=0>(B, b_scale, b_zero_point) if $transB
       b = DequantizeLinear<axis=1>(B, b_scale, b_zero_point) if !$transB
       Y = Gemm<alpha=$alpha, transA=$transA, transB=$transB>(a, b)
       s = Mul(a_scale, b_scale) if C
       s = Mul(s, $alpha) if C
       c = Cast<to=1>(C) if C
       c = Mul(c, s) if C
       Y = Add(Y, c) if C
       Y = QuantizeLinear(Y, y_scale, y_zero_point) if y_scale)"),
    // A zero point that is left out is 0 in the type of the input, and the type
    // of the zero point is that of the result; so one is made even where it
    // adds nothing. Channels may be last, for which ONNX has no operator.
    {"QLinearAveragePool",
     11,
     {"X", "x_scale", Optional("x_zero_point"), "y_scale",
      Optional("y_zero_point")},
     {"Y"},
     {{"channels_last", 0}},
     R"(
       y_zero_point = ZeroOf(X) if !y_zero_point
       x = DequantizeLinear(X, x_scale, x_zero_point)
       x = ChannelsFirst(x, X) if $channels_last
       y = AveragePool<*>(x)
       y = ChannelsLast(y, X) if $channels_last
       Y = QuantizeLinear(y, y_scale, y_zero_point))",
     kContribDomain,
     "AveragePool"},
    kContribRow("QLinearGlobalAveragePool", 10,
                {"X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"},
                {"Y"}, {{"channels_last", 0}}, R"(
       x = DequantizeLinear(X, x_scale, x_zero_point)
       x = ChannelsFirst(x, X) if $channels_last
       y = GlobalAveragePool(x)
       y = ChannelsLast(y, X) if $channels_last
       Y = QuantizeLinear(y, y_scale, y_zero_point))"),
    kContribRow("QLinearAdd", 10,
                {"A", "A_scale", Optional("A_zero_point"), "B", "B_scale",
                 Optional("B_zero_point"), "C_scale", Optional("C_zero_point")},
                {"C"}, {}, R"(
       C_zero_point = ZeroOf(A) if !C_zero_point
       a = DequantizeLinear(A, A_scale, A_zero_point)
       b = DequantizeLinear(B, B_scale, B_zero_point)
       c = Add(a, b)
       C = QuantizeLinear(c, C_scale, C_zero_point))"),
    kContribRow("QLinearMul", 10,
                {"A", "A_scale", Optional("A_zero_point"), "B", "B_scale",
                 Optional("B_zero_point"), "C_scale", Optional("C_zero_point")},
                {"C"}, {}, R"(
       C_zero_point = ZeroOf(A) if !C_zero_point
       a = DequantizeLinear(A, A_scale, A_zero_point)
       b = DequantizeLinear(B, B_scale, B_zero_point)
       c = Mul(a, b)
       C = QuantizeLinear(c, C_scale, C_zero_point))"),
    kContribRow("QLinearSigmoid", 10,
                {"X", "X_scale", Optional("X_zero_point"), "Y_scale",
                 Optional("Y_zero_point")},
                {"Y"}, {}, R"(
       Y_zero_point = ZeroOf(X) if !Y_zero_point
       x = DequantizeLinear(X, X_scale, X_zero_point)
       y = Sigmoid(x)
       Y = QuantizeLinear(y, Y_scale, Y_zero_point))"),
    kContribRow("QLinearLeakyRelu", 10,
                {"X", "X_scale", Optional("X_zero_point"), "Y_scale",
                 Optional("Y_zero_point")},
                {"Y"}, {{"alpha", 0.01F}}, R"(
       Y_zero_point = ZeroOf(X) if !Y_zero_point
       x = DequantizeLinear(X, X_scale, X_zero_point)
       y = LeakyRelu<alpha=$alpha>(x)
       Y = QuantizeLinear(y, Y_scale, Y_zero_point))"),
    // The node says itself which of the two meanings of Softmax it has: before
    // opset 13 of ONNX, all sides from the axis on count as one. The largest
    // number is taken off first, so that no exponential overflows.
    kContribRow(
        "QLinearSoftmax", 11,
        {"X", "X_scale", Optional("x_zero_point"), "y_scale", "y_zero_point"},
        {"Y"}, {{"axis", -1}, {"opset", 0, true}}, R"(
       x = DequantizeLinear(X, X_scale, x_zero_point)
       n = Shape(x)
       x = Flatten<axis=$axis>(x) if $opset<13
       m = ReduceMax(x, [-1]) if $opset<13
       m = ReduceMax(x, [$axis]) if !$opset<13
       e = Sub(x, m)
       e = Exp(e)
       s = ReduceSum(e, [-1]) if $opset<13
       s = ReduceSum(e, [$axis]) if !$opset<13
       y = Div(e, s)
       y = Reshape(y, n) if $opset<13
       Y = QuantizeLinear(y, y_scale, y_zero_point))"),
    // Inputs come in groups of three: a tensor, its scale and its zero point.
    // The first line is repeated for each group.
    kContribRow("QLinearConcat", 10,
                {"Y_scale", "Y_zero_point", Variadic("inputs")}, {"Y"},
                {{"axis", 0, true}}, R"(
       x... = DequantizeLinear(inputs...3)
       y = Concat<axis=$axis>(x...)
       Y = QuantizeLinear(y, Y_scale, Y_zero_point))"),
    // The numbers of so many bits that lie in each byte, the lowest first, side
    // by side as the last side.
    kHelperRow("Unpack", 11, {"x"}, {"y"}, {{"bits", 4}}, R"(
       n = Shape(x)
       g = Slice(n, [0], [-1])
       g = Concat<axis=0>(g, [-1])
       sixteen = CastAs(#16, x)
       a = Mod(x, sixteen)
       four = CastAs(#4, x)
       b = BitShift<direction=RIGHT>(x, four)
       a = Unsqueeze(a, [-1])
       b = Unsqueeze(b, [-1])
       half = Concat<axis=-1>(a, b)
       half = Reshape(half, g)
       y = Identity(half) if $bits=4
       c = Mod(half, four)
       two = CastAs(#2, x)
       d = BitShift<direction=RIGHT>(half, two)
       c = Unsqueeze(c, [-1])
       d = Unsqueeze(d, [-1])
       quarter = Concat<axis=-1>(c, d)
       y = Reshape(quarter, g) if $bits=2
       y = Identity(x) if $bits=8)"),
    // (x - zero_points) scales of bytes with numbers of so many bits: each
    // scale is for a block of them, one behind the other in the last side, or
    // the one that `block` names.
    kHelperRow("DequantizeBlocks", 11,
               {"scales", "x", Optional("zero_points"), Optional("block")},
               {"y"}, {{"bits", 4}, {"block_size", 0}}, R"(
       x = nodewise.Unpack<bits=$bits>(x)
       x = CastAs(x, scales)
       n = Shape(block) if block
       x = Slice(x, [0], n, [-1]) if block
       n = Shape(x) if !block
       n = Gather(n, #-1) if !block
       block = Range(#0, n, #1) if !block
       block = Div(block, #$block_size) if !block
       s = Gather<axis=-1>(scales, block)
       z = nodewise.Unpack<bits=$bits>(zero_points) if type(zero_points)=uint8
       z = CastAs(z, scales) if type(zero_points)=uint8
       z = CastAs(zero_points,
           scales) if zero_points and !type(zero_points)=uint8
       z = Gather<axis=-1>(z, block) if zero_points
       z = CastAs(#8, scales) if !zero_points and $bits=4
       z = CastAs(#128, scales) if !zero_points and $bits=8
       z = CastAs(#2, scales) if !zero_points and $bits=2
       y = Sub(x, z)
       y = Mul(y, s))"),
    // (x - zero_points) scales of integers or floats of 4 or 8 bits, with a
    // scale for each block along an axis, or for all of it where block_size is
    // 0. Scales of one element stand for all of a side.
    kHelperRow("DequantizeElements", 11,
               {"scales", "x", Optional("zero_points")}, {"y"},
               {{"axis", -1}, {"block_size", 0}}, R"(
       x = CastAs(x, scales)
       n = Shape(x)
       n = Gather(n, #$axis)
       block = Range(#0, n, #1)
       block = Div(block, #$block_size)
       s = Gather<axis=$axis>(scales, block) if $block_size
       s = Identity(scales) if !$block_size
       z = CastAs(zero_points, scales) if zero_points
       z = Gather<axis=$axis>(z, block) if zero_points and $block_size
       x = Sub(x, z) if zero_points
       y = Mul(x, s))"),
    // Weights are rows of packed numbers, one row for each column of B; blocks
    // of a row may be filled up beyond K, so the rest is cut off. Products are
    // made in float32 for any type of A. `accuracy_level` allows a kernel to
    // round A to 8 bits, and is taken as a hint only.
    kContribRow("MatMulNBits", 11,
                {"A", "B", "scales", Optional("zero_points"), Optional("g_idx"),
                 Optional("bias")},
                {"Y"},
                {{"K", 0, true},
                 {"N", 0, true},
                 {"bits", 4},
                 {"block_size", 0, true},
                 {"accuracy_level", 0},
                 {"weight_prepacked", 0}},
                R"(
       Y = Refuse() if $weight_prepacked
       a = Cast<to=1>(A) if !type(A)=float32
       a = Identity(A) if type(A)=float32
       b = Reshape(B, [$N, -1])
       s = Cast<to=1>(scales)
       s = Reshape(s, [$N, -1])
       z = Reshape(zero_points, [$N, -1]) if zero_points
       w = nodewise.DequantizeBlocks<bits=$bits, block_size=$block_size>(s, b,
           z, g_idx)
       w = Slice(w, [0], [$K], [1])
       w = Transpose<perm=[1, 0]>(w)
       Y = MatMul(a, w)
       bias = Cast<to=1>(bias) if bias and !type(A)=float32
       Y = Add(Y, bias) if bias
       Y = CastAs(Y, A) if !type(A)=float32)"),
    // Rows are gathered before they are made real where that is possible, since
    // a table may be large: with packed bytes always, and with integers of 4
    // bits if the blocks lie along the last side and the lookup goes along
    // another one. Otherwise all of the table is made real. Bytes that hold two
    // numbers cannot be looked up along the side in which they are packed.
    kContribRow("GatherBlockQuantized", 11,
                {"data", "indices", "scales", Optional("zero_points")},
                {"output"},
                {{"gather_axis", 0},
                 {"quantize_axis", 1},
                 {"block_size", 128},
                 {"bits", 4}},
                R"(
       Y = Refuse() if !last(quantize_axis, data) and type(data)=uint8
       Y = Refuse() if last(gather_axis, data) and type(data)=uint8
       data = CastAs(data, scales) if type(data)=int4
       data = CastAs(data, scales) if type(data)=uint4
       zeros = Identity(zero_points) if zero_points and type(data)=uint8
       zeros = CastAs(zero_points, scales) if zero_points and !type(data)=uint8
       x = Gather<axis=$gather_axis>(data, indices)
       s = Gather<axis=$gather_axis>(scales, indices)
       z = Gather<axis=$gather_axis>(zeros, indices) if zero_points
       output = nodewise.DequantizeBlocks<bits=$bits, block_size=$block_size>(
           s, x, z) if type(data)=uint8
       output = nodewise.DequantizeElements<axis=-1, block_size=$block_size>(
           s, x, z) if !type(data)=uint8
       all = nodewise.DequantizeElements<axis=$quantize_axis,
           block_size=$block_size>(scales, data,
           zeros) if !type(data)=uint8
       any = Gather<axis=$gather_axis>(all, indices) if !type(data)=uint8
       output = Identity(any) if last(gather_axis, data) and
           !type(data)=uint8
       output = Identity(any) if !last(quantize_axis, data) and
           !type(data)=uint8
       output = Identity(any) if !type(data)=uint8 and !type(data)=int4 and
           !type(data)=uint4)"),
    // Channels are last in the data, and in the filter as ONNX has them.
    {"NhwcConv",
     11,
     {"X", "W", Optional("B")},
     {"Y"},
     {},
     R"(
       x = ChannelsFirst(X, X)
       y = Conv<*>(x, W, B)
       Y = ChannelsLast(y, X))",
     kContribDomain,
     "Conv"},
    // The product of integers is exact. The scales are multiplied with each
    // other before they meet it; another order would round otherwise.
    kContribRow("MatMulIntegerToFloat", 10,
                {"A", "B", "a_scale", "b_scale", Optional("a_zero_point"),
                 Optional("b_zero_point"), Optional("bias")},
                {"Y"}, {}, R"(
       i = MatMulInteger(A, B, a_zero_point, b_zero_point)
       f = Cast<to=1>(i)
       s = Mul(a_scale, b_scale)
       Y = Mul(f, s)
       Y = Add(Y, bias) if bias)"),
    // This is the operator above, with a left side that is quantized by its own
    // range first.
    kContribRow(
        "DynamicQuantizeMatMul", 11,
        {"A", "B", "b_scale", Optional("b_zero_point"), Optional("bias")},
        {"Y"}, {}, R"(
       q, s, z = DynamicQuantizeLinear(A)
       i = MatMulInteger(q, B, z, b_zero_point)
       f = Cast<to=1>(i)
       s = Mul(s, b_scale)
       Y = Mul(f, s)
       Y = Add(Y, bias) if bias)"),
    // These two are ONNX's own in another domain.
    kContribRow("QuantizeLinear", 10,
                {"x", "y_scale", Optional("y_zero_point")}, {"y"},
                {{"axis", 1}},
                "y = QuantizeLinear<axis=$axis>(x, y_scale, y_zero_point)"),
    kContribRow("DequantizeLinear", 10,
                {"x", "x_scale", Optional("x_zero_point")}, {"y"},
                {{"axis", 1}},
                "y = DequantizeLinear<axis=$axis>(x, x_scale, x_zero_point)"),
};

}  // namespace

absl::Span<const ContribFunction> QuantizedFunctions() {
  return kQuantizedFunctions;
}

}  // namespace nodewise
