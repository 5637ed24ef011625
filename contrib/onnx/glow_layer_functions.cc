#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

namespace nodewise {

// Glow's layers: convolutions, pooling, products of matrices, normalisation and
// losses. Glow has channels last and the output channels of a filter first.

namespace {

// Pads of three dimensions are given in pairs, side by side; ONNX wants all
// that come before and then all that come behind. A macro, since only the
// preprocessor joins raw strings.
#define NODEWISE_GLOW_PADS_3D                                \
  "pads=[$Pads[0], $Pads[2], $Pads[4], $Pads[1], $Pads[3], " \
  "$Pads[5]]"

// ONNX's MatMul takes batches, so that two operators mean one thing.
constexpr char kGlowMatMul[] = R"(
       Result = MatMul(LHS, RHS) if !$steps
       lz = CastAs(#$i0_qOffset, LHS)
       rz = CastAs(#$i1_qOffset, RHS)
       n = MatMulInteger(LHS, RHS, lz, rz) if $steps
       f = Cast<to=1>(n)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       y = Mul(s, f)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(y, o) if $steps)";

constexpr ContribFunction kGlowLayerFunctions[] = {
    // Here are operators that find features of sounds and images, and products
    // that choose their scales by what they read. A window moves over the
    // samples; each of its places gives one row of frequencies. A transform of
    // real numbers that gives n of them needs 2 (n - 1) samples, hence the
    // length. The tables behind the window serve a fast transform alone.
    GlowRow("AudioSpectrogram",
            {"Input", "Window", Optional("TwiddleFactors"),
             Optional("BitReverseIndices"), Optional("ComplexToRealWeights")},
            {{"WindowSize", 1}, {"WindowStride", 1}, {"MagnitudeSquared", 0}},
            R"(
       x = Reshape(Input, [-1])
       begin = Range(#0, #$o0_shape[0], #1)
       begin = Mul(begin, #$WindowStride)
       begin = Unsqueeze(begin, [1])
       i = Range(#0, #$WindowSize, #1)
       i = Add(begin, i)
       x = Gather(x, i)
       w = Reshape(Window, [-1])
       x = Mul(x, w)
       x = Unsqueeze(x, [-1])
       y = DFT<onesided=1>(x, #$o0_shape[1]*2+-2, #1)
       p = ReduceSumSquare<keepdims=0>(y, [-1])
       Spectrogram = Identity(p) if $MagnitudeSquared
       Spectrogram = Sqrt(p) if !$MagnitudeSquared)",
            {"Spectrogram"}),
    // The weights of each filter lie one behind the other, for the frequencies
    // from the first to the last of its range.
    GlowRow("MFCC", {"Spectrogram", "MelWeights", "MelRanges", "DctMat"},
            {{"FilterBankCount", 0}}, R"(
       r = Reshape(MelRanges, [-1, 2])
       r = Cast<to=7>(r)
       begin = Gather<axis=1>(r, #0)
       last = Gather<axis=1>(r, #1)
       l = Sub(last, begin)
       l = Add(l, #1)
       n = Shape(MelWeights)
       n = Gather(n, #0)
       filter = nodewise.SegmentOf(n, l)
       first = CumSum<exclusive=1>(l, #0)
       move = Sub(begin, first)
       i = Range(#0, n, #1)
       m = Gather(move, filter)
       frequency = Add(i, m)
       frequency = Unsqueeze(frequency, [1])
       filter = Unsqueeze(filter, [1])
       at = Concat<axis=1>(frequency, filter)
       side = Shape(Spectrogram)
       side = Slice(side, [1], [2])
       shape = Concat<axis=0>(side, [$FilterBankCount])
       zero = CastAs(#0, MelWeights)
       zeros = Expand(zero, shape)
       w = ScatterND(zeros, at, MelWeights)
       s = Sqrt(Spectrogram)
       mel = MatMul(s, w)
       none = Equal(mel, 0)
       mel = Where(none, 1.17549435e-38, mel)
       mel = Log(mel)
       d = Transpose<perm=[1, 0]>(DctMat)
       Coefficients = MatMul(mel, d))",
            {"Coefficients"}),
    // Boxes of five numbers begin with the number of the image.
    GlowRow("ROIAlign", {"FeatureMap", "Boxes", "BatchIndices"},
            {{"Mode", 0},
             {"OutputHeight", 1},
             {"OutputWidth", 1},
             {"SamplingRatio", 0},
             {"SpatialScale", 1.0F},
             {"Aligned", 0},
             {"Rotated", 0}},
            R"(
       Result = Refuse(boxes that are turned) if $Rotated
       Result = Refuse(the largest of the samples) if $Mode!=0
       x = Transpose<perm=[0, 3, 1, 2]>(FeatureMap)
       r = Slice(Boxes, [-4], [1000], [1])
       b = Cast<to=7>(BatchIndices) if $i1_last!=5
       b = Gather<axis=1>(Boxes, #0) if $i1_last=5
       b = Cast<to=7>(b) if $i1_last=5
       y = RoiAlign<coordinate_transformation_mode=half_pixel, mode=avg,
           output_height=$OutputHeight, output_width=$OutputWidth,
           sampling_ratio=$SamplingRatio,
           spatial_scale=$SpatialScale>(x, r, b) if $Aligned
       y = RoiAlign<coordinate_transformation_mode=output_half_pixel, mode=avg,
           output_height=$OutputHeight, output_width=$OutputWidth,
           sampling_ratio=$SamplingRatio,
           spatial_scale=$SpatialScale>(x, r, b) if !$Aligned
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"),
    // A constant takes the type of the first input; this function has none, so
    // that its number stays in float32.
    kHelperRow("GlowFloat", kGlowOpset, {}, {"y"}, {{"value", 0.0F}},
               "y = Identity($value)"),
    // Rows as bytes, each with a scale of its own that both ends fit in.
    kHelperRow("GlowDynamic", kGlowOpset, {"x"}, {"y", "scale"}, {}, R"(
       low = ReduceMin(x, [1])
       low = Min(low, 0)
       low = Div(low, -128)
       high = ReduceMax(x, [1])
       high = Max(high, 0)
       high = Div(high, 127)
       s = Max(low, high)
       none = Equal(s, 0)
       scale = Where(none, 0.1, s)
       q = Div(x, scale)
       q = Round(q)
       y = nodewise.GlowClipped<type=3>(q))"),
    GlowStoredRow("DynamicQuantizedFullyConnected",
                  {"Input", "Weights", "Bias"},
                  {{"IsSymmetric", 1}, {"IsPerBatchElement", 1}}, R"(
       Result = Refuse(an offset that is chosen) if !$IsSymmetric
       Result = Refuse(one scale for all rows) if !$IsPerBatchElement
       x = Cast<to=1>(Input)
       q, s = nodewise.GlowDynamic(x)
       wz = CastAs(#$i1_qOffset, Weights)
       n = MatMulInteger(q, Weights, , wz)
       f = Cast<to=1>(n)
       w = nodewise.GlowFloat<value=$i1_qScale>()
       m = Mul(s, w)
       y = Mul(f, m)
       b = Cast<to=1>(Bias)
       y = Add(y, b)
       Result = Cast<to=$o0_type>(y))"),
    GlowStoredRow("DynamicRowwiseQuantizedFullyConnected",
                  {"Input", "Weights", "Bias", "Scales", "Offsets"},
                  {{"IsSymmetric", 1}, {"IsPerBatchElement", 1}}, R"(
       Result = Refuse(an offset that is chosen) if !$IsSymmetric
       Result = Refuse(one scale for all rows) if !$IsPerBatchElement
       x = Cast<to=1>(Input)
       q, s = nodewise.GlowDynamic(x)
       wz = CastAs(Offsets, Weights)
       n = MatMulInteger(q, Weights, , wz)
       f = Cast<to=1>(n)
       m = Mul(s, Scales)
       y = Mul(f, m)
       b = Cast<to=1>(Bias)
       y = Add(y, b)
       Result = Cast<to=$o0_type>(y))"),
    // Layers. In 8 bits they follow Glow's interpreter step by step: products
    // are summed up as integers without their offsets, the bias is brought to
    // the scale of the products and rounded, and the sum is brought to steps of
    // the result, whose offset comes last.
    kHelperRow("GlowBias", kGlowOpset, {"bias", "ratio", "offset"}, {"y"}, {},
               R"(
       i = Cast<to=6>(bias)
       i = Sub(i, offset)
       f = Cast<to=1>(i)
       f = Mul(f, ratio)
       f = nodewise.RoundAway(f)
       y = Cast<to=6>(f))"),
    // Sums of products, with their bias, in steps of the result. A `scale` is
    // that of the products; both may have one number for each channel.
    kHelperRow("GlowProducts", kGlowOpset,
               {"sums", "bias", "scale", "bias_scale", "bias_offset"}, {"y"},
               {{"out_scale", 0.0F}, {"rank", 2}}, R"(
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
       y = Mul(f, s))"),
    kHelperRow("GlowActivated", kGlowOpset, {"x"}, {"y"},
               {{"kind", "NONE"}, {"args", NoFloats()}}, R"(
       y = Identity(x) if $kind=NONE
       y = Relu(x) if $kind=RELU
       y = Sigmoid(x) if $kind=SIGMOID
       y = Tanh(x) if $kind=TANH
       y = Clip(x, $args[0], $args[1]) if $kind=CLIP
       n = Mul(x, $args[0]) if $kind=LEAKY_RELU
       low = Less(x, 0) if $kind=LEAKY_RELU
       y = Where(low, n, x) if $kind=LEAKY_RELU)"),
    // ConvInteger takes the offsets off and makes the sums. A bias in floats
    // beside quantized numbers is refused: only one in integers has steps that
    // could be brought to those of the products.
    GlowStepsRow("Convolution", {"Input", "Filter", "Bias"},
                 {{"Kernels", NoInts()},
                  {"Strides", NoInts()},
                  {"Pads", NoInts()},
                  {"Group", 1},
                  {"Dilation", NoInts()},
                  {"Layout", "NHWC"},
                  {"FusedActivation", "NONE"},
                  {"FusedActivationArgs", NoFloats()}},
                 R"(
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
       Result = Identity(y) if $Layout=NCHW)"),
    // Each output channel has a scale and an offset of its own. The name does
    // not say the number of dimensions, so lines are there for two and for
    // three.
    GlowStepsRow("ChannelwiseQuantizedConvolution",
                 {"Input", "Filter", "Bias", "FilterScales", "FilterOffsets",
                  "BiasScales", "BiasOffsets"},
                 {{"Kernels", NoInts()},
                  {"Strides", NoInts()},
                  {"Pads", NoInts()},
                  {"Group", 1},
                  {"Dilation", NoInts()},
                  {"FusedActivation", "NONE"},
                  {"FusedActivationArgs", NoFloats()}},
                 R"(
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
       Result = Transpose<perm=[0, 2, 3, 4, 1]>(y) if rank(Input)=5)"),
    GlowStepsRow("Convolution3D", {"Input", "Filter", "Bias"},
                 {{"Kernels", NoInts()},
                  {"Strides", NoInts()},
                  {"Pads", NoInts()},
                  {"Group", 1}},
                 R"(
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
       Result = Transpose<perm=[0, 2, 3, 4, 1]>(y))"),
    // ONNX has the input channels of the filter first here.
    GlowRow("ConvTranspose", {"Input", "Filter", "Bias"},
            {{"Kernels", NoInts()},
             {"Strides", NoInts()},
             {"Pads", NoInts()},
             {"Group", 1},
             {"Dilation", NoInts()}},
            R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       w = Transpose<perm=[3, 0, 1, 2]>(Filter)
       y = ConvTranspose<kernel_shape=$Kernels, strides=$Strides, pads=$Pads,
           group=$Group, dilations=$Dilation>(x, w, Bias)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"),
    // The index of the largest is that in the whole input. Among equal ones the
    // last counts in Glow and the first in ONNX, so it cannot be had.
    GlowStoredRow("MaxPool", {"Input"},
                  {{"Kernels", NoInts()},
                   {"Strides", NoInts()},
                   {"Pads", NoInts()},
                   {"Layout", 0}},
                  R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input) if !$Layout=1
       x = Identity(Input) if $Layout=1
       y = MaxPool<kernel_shape=$Kernels, strides=$Strides, pads=$Pads>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y) if !$Layout=1
       Result = Identity(y) if $Layout=1)",
                  {"Result", "Argmax"}),
    // The layout is 0 for channels last and 1 for channels first, of two
    // dimensions; 2 and 3 mean these of three. In 8 bits the sum is divided
    // before it is scaled, where the interpreter divides the scale; this may be
    // one step off.
    GlowStepsRow("AvgPool", {"Input"},
                 {{"Kernels", NoInts()},
                  {"Strides", NoInts()},
                  {"Pads", NoInts()},
                  {"Layout", 0},
                  {"CountIncludePads", 1}},
                 R"(
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
           $Layout!=3)"),
    // Which of n numbers belong to each of m windows that cover them evenly.
    kHelperRow("GlowWindows", kGlowOpset, {"m", "n", "like"}, {"mask", "count"},
               {}, R"(
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
       mask = CastAs(mask, like))"),
    // A window begins at floor(i n / m) and ends at ceil((i + 1) n / m), so
    // windows have different sizes, which no pooling of ONNX has. Sums over
    // windows are products with matrices of 0 and 1, one for the height and one
    // for the width.
    GlowRow("AdaptiveAvgPool", {"Input"}, {}, R"(
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
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"),
    // Quantized numbers are multiplied in float32, as what they stand for.
    GlowRow(
        "Gemm", {"A", "B", Optional("C")},
        {{"Alpha", 1.0F}, {"Beta", 1.0F}, {"TransposeA", 0}, {"TransposeB", 0}},
        R"(
       Result = Gemm<alpha=$Alpha, beta=$Beta, transA=$TransposeA,
           transB=$TransposeB>(A, B, C))"),
    // Halves are rounded away from zero, so that it matters that the product is
    // rounded before the offset is added.
    GlowStepsRow("FullyConnected", {"Input", "Weights", "Bias"}, {}, R"(
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
       Result = Add(y, o) if $steps)"),
    // Each row of the weights, which has a scale and an offset of its own,
    // makes one column of the product.
    GlowStepsRow("RowwiseQuantizedFullyConnected",
                 {"Input", "Weights", "Scales", "Offsets", "Bias"}, {}, R"(
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
       Result = Add(y, o))"),
    GlowStepsRow("MatMul", {"LHS", "RHS"}, {}, kGlowMatMul),
    GlowStepsRow("BatchMatMul", {"LHS", "RHS"}, {}, kGlowMatMul),
    // ONNX has channels second; where they are last, they are moved.
    GlowRow("BatchNormalization", {"Input", "Scale", "Bias", "Mean", "Var"},
            {{"ChannelIdx", 0}, {"Epsilon", 1e-5F}}, R"(
       Result = Refuse(channels that are neither second nor last) if
           $ChannelIdx!=1 and !last(ChannelIdx, Input)
       x = Identity(Input) if $ChannelIdx=1
       x = ChannelsFirst(Input, Input) if $ChannelIdx!=1
       y = BatchNormalization<epsilon=$Epsilon>(x, Scale, Bias, Mean, Var)
       Result = Identity(y) if $ChannelIdx=1
       Result = ChannelsLast(y, Input) if $ChannelIdx!=1)"),
    GlowRow("InstanceNormalization", {"Input", "Scale", "Bias"},
            {{"ChannelIdx", 0}, {"Epsilon", 1e-5F}}, R"(
       Result = Refuse(channels that are neither second nor last) if
           $ChannelIdx!=1 and !last(ChannelIdx, Input)
       x = Identity(Input) if $ChannelIdx=1
       x = ChannelsFirst(Input, Input) if $ChannelIdx!=1
       y = InstanceNormalization<epsilon=$Epsilon>(x, Scale, Bias)
       Result = Identity(y) if $ChannelIdx=1
       Result = ChannelsLast(y, Input) if $ChannelIdx!=1)"),
    // The results are the running mean and variance as one more batch leaves
    // them.
    GlowRow("MeanVarNormalization", {"Input", "Mean", "Var"},
            {{"ChannelIdx", 0}, {"Momentum", 0.0F}}, R"(
       NewMean = Refuse(channels that are neither second nor last) if
           $ChannelIdx!=1 and !last(ChannelIdx, Input)
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
       NewVar = Add(v, w))",
            {"NewMean", "NewVar"}),
    GlowRow(
        "LocalResponseNormalization", {"Input"},
        {{"HalfWindowSize", 0}, {"Alpha", 0.0F}, {"Beta", 0.0F}, {"K", 0.0F}},
        R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       y = LRN<size=$HalfWindowSize*2+1, alpha=$Alpha, beta=$Beta, bias=$K>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"),
    // The scale has the sides that are normalised, so its rank says the axis;
    // an attribute is not something that a line could compute.
    GlowRow("LayerNormalization", {"Input", "Scale", "Bias"},
            {{"Epsilon", 1e-5F}}, R"(
       Result = LayerNormalization<axis=-1, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=1
       Result = LayerNormalization<axis=-2, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=2
       Result = LayerNormalization<axis=-3, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=3
       Result = LayerNormalization<axis=-4, epsilon=$Epsilon>(Input, Scale,
           Bias) if rank(Scale)=4)"),
    // (x^l - 1) / l, and log x where l is 0. Epsilon keeps the division finite
    // there, although its result is not taken.
    GlowRow("BatchBoxCox", {"Input", "Lambda1", "Lambda2"}, {{"Epsilon", 0.0F}},
            R"(
       x = Add(Input, Lambda2)
       x = Max(x, 0.000001)
       logs = Log(x)
       p = Pow(x, Lambda1)
       p = Sub(p, 1)
       d = Add(Lambda1, $Epsilon)
       p = Div(p, d)
       zero = Equal(Lambda1, 0)
       Result = Where(zero, logs, p))"),
    GlowRow("VectorNorm", {"Input"}, {{"Axis", 0}, {"P", 2}}, R"(
       Result = Refuse(a norm other than of 2) if $P!=2
       Result = ReduceL2<keepdims=0>(Input, [$Axis]))"),
    // `Selected` is for the gradient.
    GlowRow("SoftMax", {"Input", "Selected"}, {},
            "Result = Softmax<axis=1>(Input)"),
    GlowRow("LogSoftMax", {"Input", "Selected"}, {},
            "Result = LogSoftmax<axis=1>(Input)"),
    GlowRow("CrossEntropyLoss", {"P", "Labels"}, {}, R"(
       i = Reshape(Labels, [-1, 1])
       p = GatherElements<axis=1>(P, i)
       p = Log(p)
       p = ReduceSum(p)
       p = Neg(p)
       CE = Reshape(p, [1]))",
            {"CE"}),
    GlowRow("SigmoidCrossEntropyWithLogits", {"Logits", "Targets"}, {}, R"(
       l = nodewise.BinaryEntropy(Logits, Targets, , )
       Result = ReduceMean<keepdims=0>(l, [-1]))"),
    // -(p t log s + (1 - t) log(1 - s)) w, where s is the sigmoid of x.
    kHelperRow("BinaryEntropy", kGlowOpset,
               {"x", "t", Optional("w"), Optional("p")}, {"y"}, {}, R"(
       n = Neg(x)
       l = Softplus(n)
       p = Sub(p, 1) if p
       c = Mul(p, t) if p
       c = Add(c, 1) if p
       l = Mul(c, l) if p
       u = Sub(1, t)
       k = Mul(u, x)
       y = Add(k, l)
       y = Mul(y, w) if w)"),
    kHelperRow("GlowReduced", kGlowOpset, {"x"}, {"y"},
               {{"reduction", 0}, {"shape", NoInts()}}, R"(
       m = Identity(x) if $reduction=0
       m = ReduceMean(x) if $reduction=1
       m = ReduceSum(x) if $reduction=2
       y = Reshape(m, $shape))"),
    // Four operators differ in which weights they have; those that are missing
    // are left out of the call.
    GlowRow("BinaryCrossEntropyWithLogits",
            {"Input", "Target", "Weight", "PosWeight"}, {{"Reduction", 0}}, R"(
       l = nodewise.BinaryEntropy(Input, Target, Weight, PosWeight)
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"),
    GlowRow("WeightBinaryCrossEntropyWithLogits", {"Input", "Target", "Weight"},
            {{"Reduction", 0}}, R"(
       l = nodewise.BinaryEntropy(Input, Target, Weight, )
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"),
    GlowRow("PosWeightBinaryCrossEntropyWithLogits",
            {"Input", "Target", "PosWeight"}, {{"Reduction", 0}}, R"(
       l = nodewise.BinaryEntropy(Input, Target, , PosWeight)
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"),
    GlowRow("SimpleBinaryCrossEntropyWithLogits", {"Input", "Target"},
            {{"Reduction", 0}}, R"(
       l = nodewise.BinaryEntropy(Input, Target, , )
       Result = nodewise.GlowReduced<reduction=$Reduction,
           shape=$o0_shape>(l))"),
};

#undef NODEWISE_GLOW_PADS_3D

}  // namespace

absl::Span<const ContribFunction> GlowLayerFunctions() {
  return kGlowLayerFunctions;
}

}  // namespace nodewise
