#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/glow_types.h"
#include "nodewise/op/op_row.h"

// Glow's layers: convolutions, pooling, products of matrices, normalisation and
// losses. Glow has channels last and the output channels of a filter first.

namespace nodewise {
namespace {

// Pads of three dimensions are given in pairs.
#define NODEWISE_GLOW_PADS_3D                                \
  "pads=[$Pads[0], $Pads[2], $Pads[4], $Pads[1], $Pads[3], " \
  "$Pads[5]]"

constexpr ContribFunction kGlowLayerFunctions[] = {
    // A bias of 8 or 32 bits in steps of products.
    {.name = "GlowBias",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"bias", "ratio", "offset"},
     .outputs = {"y"},
     .body = R"(
       i = Cast<to=6>(bias)
       i = Sub(i, offset)
       f = Cast<to=1>(i)
       f = Mul(f, ratio)
       f = nodewise.RoundAway(f)
       y = Cast<to=6>(f))"},
    // Sums of products, with their bias, in steps of the result. A `scale` is
    // that of the products; both may have one number for each channel.
    {.name = "GlowProducts",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"sums", "bias", "scale", "bias_scale", "bias_offset"},
     .outputs = {"y"},
     .attributes = {{"out_scale", 0.0F}, {"rank", int64_t{2}}},
     .body = R"(
       ratio = Div(bias_scale, scale)
       b = nodewise.GlowBias(bias, ratio, bias_offset)
       b = Reshape(b, [1, -1, 1, 1]) if $rank=4
       b = Reshape(b, [1, -1, 1, 1, 1]) if $rank=5
       n = Add(sums, b)
       f = Cast<to=1>(n)
       s = Div(scale, $out_scale)
       s = Reshape(s, [-1])
       s = Reshape(s, [1, -1, 1, 1]) if $rank=4
       s = Reshape(s, [1, -1, 1, 1, 1]) if $rank=5
       y = Mul(f, s))"},
    {.name = "GlowActivated",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"x"},
     .outputs = {"y"},
     .attributes = {{"kind", std::string_view("NONE")}, {"args", NoFloats()}},
     .body = R"(
       y = Identity(x) if $kind=NONE
       y = Relu(x) if $kind=RELU
       y = Sigmoid(x) if $kind=SIGMOID
       y = Tanh(x) if $kind=TANH
       y = Clip(x, $args[0], $args[1]) if $kind=CLIP
       n = Mul(x, $args[0]) if $kind=LEAKY_RELU
       low = Less(x, 0) if $kind=LEAKY_RELU
       y = Where(low, n, x) if $kind=LEAKY_RELU)"},
    {.name = "Convolution",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Filter", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Group", int64_t{1}},
                    {"Dilation", NoInts()},
                    {"Layout", std::string_view("NHWC")},
                    {"FusedActivation", std::string_view("NONE")},
                    {"FusedActivationArgs", NoFloats()}},
     .body = R"(
       Result = Refuse(a bias in floats beside quantized numbers) if $steps and
           type(Bias)=float32
       x = Transpose<perm=[0, 3, 1, 2]>(Input) if !$Layout=NCHW
       w = Transpose<perm=[0, 3, 1, 2]>(Filter) if !$Layout=NCHW
       x = Identity(Input) if $Layout=NCHW
       w = Identity(Filter) if $Layout=NCHW
       y = Conv<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           group=$Group, dilations=$Dilation>(x, w, Bias) if !$steps
       xz = CastAs(#$i0_qOffset, Input)
       wz = CastAs(#$i1_qOffset, Filter)
       n = ConvInteger<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           group=$Group, dilations=$Dilation>(x, w, xz, wz) if $steps
       s = Mul($i0_qScale, $i1_qScale)
       bz = Cast<to=6>(#$i2_qOffset)
       o = Cast<to=1>(#$o0_qOffset)
       y = nodewise.GlowProducts<out_scale=$o0_qScale, rank=4>(n, Bias, s,
           $i2_qScale, bz) if $steps
       y = nodewise.GlowActivated<kind=$FusedActivation,
           args=$FusedActivationArgs>(y) if !$FusedActivation=NONE
       Result = Refuse(a fused activation of quantized numbers other than
           RELU) if !$FusedActivation=NONE and !$FusedActivation=RELU and $steps
       y = Add(y, o) if $steps
       Result = Transpose<perm=[0, 2, 3, 1]>(y) if !$Layout=NCHW
       Result = Identity(y) if $Layout=NCHW)",
     .numbers = GlowNumbers::kSteps},
    {.name = "ChannelwiseQuantizedConvolution",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Filter", "Bias", "FilterScales", "FilterOffsets",
                "BiasScales", "BiasOffsets"},
     .outputs = {"Result"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Group", int64_t{1}},
                    {"Dilation", NoInts()},
                    {"FusedActivation", std::string_view("NONE")},
                    {"FusedActivationArgs", NoFloats()}},
     .body = R"(
       Result = Refuse(a bias in floats beside quantized
           numbers) if type(Bias)=float32
       Result = Refuse(a fused activation of quantized numbers other than
           RELU) if !$FusedActivation=NONE and !$FusedActivation=RELU
       x = Transpose<perm=[0, 3, 1, 2]>(Input) if rank(Input)=4
       w = Transpose<perm=[0, 3, 1, 2]>(Filter) if rank(Filter)=4
       x = Transpose<perm=[0, 4, 1, 2, 3]>(Input) if rank(Input)=5
       w = Transpose<perm=[0, 4, 1, 2, 3]>(Filter) if rank(Filter)=5
       xz = CastAs(#$i0_qOffset, Input)
       wz = CastAs(FilterOffsets, Filter)
       n = ConvInteger<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           group=$Group, dilations=$Dilation>(x, w, xz, wz) if rank(Input)=4
       n = ConvInteger<kernel_shape=$Kernels, strides=$Strides,
           )" NODEWISE_GLOW_PADS_3D R"(,
           group=$Group, dilations=$Dilation>(x, w, xz, wz) if rank(Input)=5
       s = Mul(FilterScales, $i0_qScale)
       y = nodewise.GlowProducts<out_scale=$o0_qScale, rank=4>(n, Bias, s,
           BiasScales, BiasOffsets) if rank(Input)=4
       y = nodewise.GlowProducts<out_scale=$o0_qScale, rank=5>(n, Bias, s,
           BiasScales, BiasOffsets) if rank(Input)=5
       y = Relu(y) if $FusedActivation=RELU
       o = Cast<to=1>(#$o0_qOffset)
       y = Add(y, o)
       Result = Transpose<perm=[0, 2, 3, 1]>(y) if rank(Input)=4
       Result = Transpose<perm=[0, 2, 3, 4, 1]>(y) if rank(Input)=5)",
     .numbers = GlowNumbers::kSteps},
    {.name = "Convolution3D",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Filter", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Group", int64_t{1}}},
     .body = R"(
       Result = Refuse(a bias in floats beside quantized numbers) if $steps and
           type(Bias)=float32
       x = Transpose<perm=[0, 4, 1, 2, 3]>(Input)
       w = Transpose<perm=[0, 4, 1, 2, 3]>(Filter)
       y = Conv<kernel_shape=$Kernels, strides=$Strides,
           )" NODEWISE_GLOW_PADS_3D R"(,
           group=$Group>(x, w, Bias) if !$steps
       xz = CastAs(#$i0_qOffset, Input)
       wz = CastAs(#$i1_qOffset, Filter)
       n = ConvInteger<kernel_shape=$Kernels, strides=$Strides,
           )" NODEWISE_GLOW_PADS_3D R"(,
           group=$Group>(x, w, xz, wz) if $steps
       s = Mul($i0_qScale, $i1_qScale)
       bz = Cast<to=6>(#$i2_qOffset)
       o = Cast<to=1>(#$o0_qOffset)
       y = nodewise.GlowProducts<out_scale=$o0_qScale, rank=5>(n, Bias, s,
           $i2_qScale, bz) if $steps
       y = Add(y, o) if $steps
       Result = Transpose<perm=[0, 2, 3, 4, 1]>(y))",
     .numbers = GlowNumbers::kSteps},
    {.name = "ConvTranspose",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Filter", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Group", int64_t{1}},
                    {"Dilation", NoInts()}},
     .body = R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       w = Transpose<perm=[3, 0, 1, 2]>(Filter)
       y = ConvTranspose<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           group=$Group, dilations=$Dilation>(x, w, Bias)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"},
    // The index of the largest is that in the whole input. Among equal ones the
    // last counts in Glow and the first in ONNX, so it cannot be had.
    {.name = "MaxPool",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result", "Argmax"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Layout", int64_t{0}}},
     .body = R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input) if !$Layout=1
       x = Identity(Input) if $Layout=1
       y = MaxPool<kernel_shape=$Kernels, strides=$Strides, pads=$Pads>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y) if !$Layout=1
       Result = Identity(y) if $Layout=1)",
     .numbers = GlowNumbers::kStored},
    {.name = "AvgPool",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Kernels", NoInts()},
                    {"Strides", NoInts()},
                    {"Pads", NoInts()},
                    {"Layout", int64_t{0}},
                    {"CountIncludePads", int64_t{1}}},
     .body = R"(
       i = Identity(Input) if !$steps
       i = nodewise.GlowCentred<offset=$i0_qOffset>(Input) if $steps
       x = Identity(i) if $Layout=1
       x = Identity(i) if $Layout=3
       x = Transpose<perm=[0, 3, 1, 2]>(i) if rank(Input)=4 and $Layout=0
       x = Transpose<perm=[0, 4, 1, 2, 3]>(i) if rank(Input)=5 and $Layout!=3
       y = AveragePool<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           count_include_pad=$CountIncludePads>(x) if rank(Input)=4
       y = AveragePool<kernel_shape=$Kernels, strides=$Strides,
           )" NODEWISE_GLOW_PADS_3D R"(,
           count_include_pad=$CountIncludePads>(x) if rank(Input)=5
       s = Div($i0_qScale, $o0_qScale)
       y = Mul(y, s) if $steps
       o = Cast<to=1>(#$o0_qOffset)
       y = Add(y, o) if $steps
       Result = Identity(y) if $Layout=1
       Result = Identity(y) if $Layout=3
       Result = Transpose<perm=[0, 2, 3, 1]>(y) if rank(Input)=4 and $Layout=0
       Result = Transpose<perm=[0, 2, 3, 4, 1]>(y) if rank(Input)=5 and
           $Layout!=3)",
     .numbers = GlowNumbers::kSteps},
    // Which of n numbers belong to each of m windows that cover them evenly.
    {.name = "GlowWindows",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"m", "n", "like"},
     .outputs = {"mask", "count"},
     .body = R"(
       i = Range(#0, m, #1)
       first = Mul(i, n)
       first = Div(first, m)
       end = Add(i, #1)
       end = Mul(end, n)
       end = Add(end, m)
       end = Sub(end, #1)
       end = Div(end, m)
       count = Sub(end, first)
       count = CastAs(count, like)
       first = Unsqueeze(first, [1])
       end = Unsqueeze(end, [1])
       j = Range(#0, n, #1)
       from = GreaterOrEqual(j, first)
       to = Less(j, end)
       mask = And(from, to)
       mask = CastAs(mask, like))"},
    {.name = "AdaptiveAvgPool",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .body = R"(
       n = Shape(Input)
       h = Gather(n, #1)
       w = Gather(n, #2)
       a, r = nodewise.GlowWindows(#$o0_shape[1], h, Input)
       b, c = nodewise.GlowWindows(#$o0_shape[2], w, Input)
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       b = Transpose<perm=[1, 0]>(b)
       y = MatMul(x, b)
       y = MatMul(a, y)
       r = Unsqueeze(r, [1])
       y = Div(y, c)
       y = Div(y, r)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"},
    {.name = "Gemm",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"A", "B", Optional("C")},
     .outputs = {"Result"},
     .attributes = {{"Alpha", 1.0F},
                    {"Beta", 1.0F},
                    {"TransposeA", int64_t{0}},
                    {"TransposeB", int64_t{0}}},
     .body = R"(
       Result = Gemm<alpha=$Alpha, beta=$Beta, transA=$TransposeA,
           transB=$TransposeB>(A, B, C))"},
    {.name = "FullyConnected",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Weights", "Bias"},
     .outputs = {"Result"},
     .body = R"(
       Result = Refuse(a bias in floats beside quantized numbers) if $steps and
           type(Bias)=float32
       y = MatMul(Input, Weights) if !$steps
       Result = Add(y, Bias) if !$steps
       xz = CastAs(#$i0_qOffset, Input)
       wz = CastAs(#$i1_qOffset, Weights)
       n = MatMulInteger(Input, Weights, xz, wz) if $steps
       s = Mul($i1_qScale, $i0_qScale)
       bz = Cast<to=6>(#$i2_qOffset)
       o = Cast<to=1>(#$o0_qOffset)
       y = nodewise.GlowProducts<out_scale=$o0_qScale>(n, Bias, s, $i2_qScale,
           bz) if $steps
       y = nodewise.RoundAway(y) if $steps
       Result = Add(y, o) if $steps)",
     .numbers = GlowNumbers::kSteps},
    // A scale and an offset for each row of the weights, which are one column
    // of the product.
    {.name = "RowwiseQuantizedFullyConnected",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Weights", "Scales", "Offsets", "Bias"},
     .outputs = {"Result"},
     .body = R"(
       Result = Refuse(a bias in floats beside quantized
           numbers) if type(Bias)=float32
       w = Transpose<perm=[1, 0]>(Weights)
       xz = CastAs(#$i0_qOffset, Input)
       wz = CastAs(Offsets, Weights)
       n = MatMulInteger(Input, w, xz, wz)
       s = Mul(Scales, $i0_qScale)
       bz = Cast<to=6>(#$i4_qOffset)
       y = nodewise.GlowProducts<out_scale=$o0_qScale>(n, Bias, s, $i4_qScale,
           bz)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(y, o))",
     .numbers = GlowNumbers::kSteps},
    {.name = "MatMul",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"LHS", "RHS"},
     .outputs = {"Result"},
     .body = R"(
       Result = MatMul(LHS, RHS) if !$steps
       lz = CastAs(#$i0_qOffset, LHS)
       rz = CastAs(#$i1_qOffset, RHS)
       n = MatMulInteger(LHS, RHS, lz, rz) if $steps
       f = Cast<to=1>(n)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       y = Mul(s, f)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(y, o) if $steps)",
     .numbers = GlowNumbers::kSteps},
    {.name = "BatchMatMul",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"LHS", "RHS"},
     .outputs = {"Result"},
     .body = R"(
       Result = MatMul(LHS, RHS) if !$steps
       lz = CastAs(#$i0_qOffset, LHS)
       rz = CastAs(#$i1_qOffset, RHS)
       n = MatMulInteger(LHS, RHS, lz, rz) if $steps
       f = Cast<to=1>(n)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       y = Mul(s, f)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(y, o) if $steps)",
     .numbers = GlowNumbers::kSteps},
    {.name = "BatchNormalization",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Scale", "Bias", "Mean", "Var"},
     .outputs = {"Result"},
     .attributes = {{"ChannelIdx", int64_t{0}}, {"Epsilon", 1e-5F}},
     .body = R"(
       Result = Refuse(channels that are neither second nor last) if $ChannelIdx!=1 and
           !last(ChannelIdx, Input)
       x = Identity(Input) if $ChannelIdx=1
       x = ChannelsFirst(Input, Input) if $ChannelIdx!=1
       y = BatchNormalization<epsilon=$Epsilon>(x, Scale, Bias, Mean, Var)
       Result = Identity(y) if $ChannelIdx=1
       Result = ChannelsLast(y, Input) if $ChannelIdx!=1)"},
    {.name = "InstanceNormalization",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Scale", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"ChannelIdx", int64_t{0}}, {"Epsilon", 1e-5F}},
     .body = R"(
       Result = Refuse(channels that are neither second nor last) if $ChannelIdx!=1 and
           !last(ChannelIdx, Input)
       x = Identity(Input) if $ChannelIdx=1
       x = ChannelsFirst(Input, Input) if $ChannelIdx!=1
       y = InstanceNormalization<epsilon=$Epsilon>(x, Scale, Bias)
       Result = Identity(y) if $ChannelIdx=1
       Result = ChannelsLast(y, Input) if $ChannelIdx!=1)"},
    {.name = "MeanVarNormalization",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Mean", "Var"},
     .outputs = {"NewMean", "NewVar"},
     .attributes = {{"ChannelIdx", int64_t{0}}, {"Momentum", 0.0F}},
     .body = R"(
       NewMean = Refuse(channels that are neither second nor last) if $ChannelIdx!=1 and
           !last(ChannelIdx, Input)
       x = ChannelsLast(Input, Input) if $ChannelIdx=1
       x = Identity(Input) if $ChannelIdx!=1
       c = Shape(Mean)
       g = Concat<axis=0>([-1], c)
       x = Reshape(x, g)
       m = ReduceMean<keepdims=0>(x, [0])
       d = Sub(x, m)
       d = Mul(d, d)
       v = ReduceMean<keepdims=0>(d, [0])
       old = Sub(1, $Momentum)
       m = Mul(m, $Momentum)
       k = Mul(Mean, old)
       NewMean = Add(m, k)
       v = Mul(v, $Momentum)
       w = Mul(Var, old)
       NewVar = Add(v, w))"},
    {.name = "LocalResponseNormalization",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"HalfWindowSize", int64_t{0}},
                    {"Alpha", 0.0F},
                    {"Beta", 0.0F},
                    {"K", 0.0F}},
     .body = R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       y = LRN<size=$HalfWindowSize*2+1, alpha=$Alpha, beta=$Beta, bias=$K>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"},
    {.name = "LayerNormalization",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Scale", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"Epsilon", 1e-5F}},
     .body = R"(
       Result = LayerNormalization<axis=-1, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=1
       Result = LayerNormalization<axis=-2, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=2
       Result = LayerNormalization<axis=-3, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=3
       Result = LayerNormalization<axis=-4, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=4)"},
    {.name = "BatchBoxCox",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Lambda1", "Lambda2"},
     .outputs = {"Result"},
     .attributes = {{"Epsilon", 0.0F}},
     .body = R"(
       x = Add(Input, Lambda2)
       x = Max(x, 0.000001)
       logs = Log(x)
       p = Pow(x, Lambda1)
       p = Sub(p, 1)
       d = Add(Lambda1, $Epsilon)
       p = Div(p, d)
       zero = Equal(Lambda1, 0)
       Result = Where(zero, logs, p))"},
    {.name = "VectorNorm",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}, {"P", int64_t{2}}},
     .body = R"(
       Result = Refuse(a norm other than of 2) if $P!=2
       Result = ReduceL2<keepdims=0>(Input, [$Axis]))"},
    {.name = "SoftMax",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Selected"},
     .outputs = {"Result"},
     .body = "Result = Softmax<axis=1>(Input)"},
    {.name = "LogSoftMax",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Selected"},
     .outputs = {"Result"},
     .body = "Result = LogSoftmax<axis=1>(Input)"},
    {.name = "CrossEntropyLoss",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"P", "Labels"},
     .outputs = {"CE"},
     .body = R"(
       i = Reshape(Labels, [-1, 1])
       p = GatherElements<axis=1>(P, i)
       p = Log(p)
       p = ReduceSum(p)
       p = Neg(p)
       CE = Reshape(p, [1]))"},
    {.name = "SigmoidCrossEntropyWithLogits",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Logits", "Targets"},
     .outputs = {"Result"},
     .body = R"(
       l = nodewise.BinaryEntropy(Logits, Targets, , )
       Result = ReduceMean<keepdims=0>(l, [-1]))"},
    // -(p t log s + (1 - t) log(1 - s)) w, where s is the sigmoid of x.
    {.name = "BinaryEntropy",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"x", "t", Optional("w"), Optional("p")},
     .outputs = {"y"},
     .body = R"(
       n = Neg(x)
       l = Softplus(n)
       p = Sub(p, 1) if p
       c = Mul(p, t) if p
       c = Add(c, 1) if p
       l = Mul(c, l) if p
       u = Sub(1, t)
       k = Mul(u, x)
       y = Add(k, l)
       y = Mul(y, w) if w)"},
    {.name = "GlowReduced",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"x"},
     .outputs = {"y"},
     .attributes = {{"reduction", int64_t{0}}, {"shape", NoInts()}},
     .body = R"(
       m = Identity(x) if $reduction=0
       m = ReduceMean(x) if $reduction=1
       m = ReduceSum(x) if $reduction=2
       y = Reshape(m, $shape))"},
    {.name = "BinaryCrossEntropyWithLogits",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Target", "Weight", "PosWeight"},
     .outputs = {"Result"},
     .attributes = {{"Reduction", int64_t{0}}},
     .body = R"(
       l = nodewise.BinaryEntropy(Input, Target, Weight, PosWeight)
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"},
    {.name = "WeightBinaryCrossEntropyWithLogits",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Target", "Weight"},
     .outputs = {"Result"},
     .attributes = {{"Reduction", int64_t{0}}},
     .body = R"(
       l = nodewise.BinaryEntropy(Input, Target, Weight, )
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"},
    {.name = "PosWeightBinaryCrossEntropyWithLogits",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Target", "PosWeight"},
     .outputs = {"Result"},
     .attributes = {{"Reduction", int64_t{0}}},
     .body = R"(
       l = nodewise.BinaryEntropy(Input, Target, , PosWeight)
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"},
    {.name = "SimpleBinaryCrossEntropyWithLogits",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Target"},
     .outputs = {"Result"},
     .attributes = {{"Reduction", int64_t{0}}},
     .body = R"(
       l = nodewise.BinaryEntropy(Input, Target, , )
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"},
};

#undef NODEWISE_GLOW_PADS_3D

}  // namespace

absl::Span<const ContribFunction> GlowLayerFunctions() {
  return kGlowLayerFunctions;
}

}  // namespace nodewise
