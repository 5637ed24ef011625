#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/glow_types.h"
#include "nodewise/op/op_row.h"

// Glow's operators that find features of sounds and images, and products whose
// scales are chosen by what is read.

namespace nodewise {
namespace {

constexpr ContribFunction kGlowFeatureFunctions[] = {
    // The tables behind the window are means to a fast transform.
    {.name = "AudioSpectrogram",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Window", Optional("TwiddleFactors"),
                Optional("BitReverseIndices"),
                Optional("ComplexToRealWeights")},
     .outputs = {"Spectrogram"},
     .attributes = {{"WindowSize", int64_t{1}},
                    {"WindowStride", int64_t{1}},
                    {"MagnitudeSquared", int64_t{0}}},
     .body = R"(
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
       Spectrogram = Sqrt(p) if !$MagnitudeSquared)"},
    // The weights of each filter lie one behind the other, for the frequencies
    // from the first to the last of its range.
    {.name = "MFCC",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Spectrogram", "MelWeights", "MelRanges", "DctMat"},
     .outputs = {"Coefficients"},
     .attributes = {{"FilterBankCount", int64_t{0}}},
     .body = R"(
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
       Coefficients = MatMul(mel, d))"},
    // Boxes of five numbers begin with the number of the image.
    {.name = "ROIAlign",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"FeatureMap", "Boxes", "BatchIndices"},
     .outputs = {"Result"},
     .attributes = {{"Mode", int64_t{0}},
                    {"OutputHeight", int64_t{1}},
                    {"OutputWidth", int64_t{1}},
                    {"SamplingRatio", int64_t{0}},
                    {"SpatialScale", 1.0F},
                    {"Aligned", int64_t{0}},
                    {"Rotated", int64_t{0}}},
     .body = R"(
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
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"},
    // A number in float32, even if the first input around it has another type.
    {.name = "GlowFloat",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .outputs = {"y"},
     .attributes = {{"value", 0.0F}},
     .body = "y = Identity($value)"},
    // Rows as bytes, each with a scale of its own that both ends fit in.
    {.name = "GlowDynamic",
     .domain = kHelperDomain,
     .opset = kGlowOpset,
     .inputs = {"x"},
     .outputs = {"y", "scale"},
     .body = R"(
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
       y = nodewise.GlowClipped<type=3>(q))"},
    {.name = "DynamicQuantizedFullyConnected",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Weights", "Bias"},
     .outputs = {"Result"},
     .attributes = {{"IsSymmetric", int64_t{1}},
                    {"IsPerBatchElement", int64_t{1}}},
     .body = R"(
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
       Result = Cast<to=$o0_type>(y))",
     .numbers = GlowNumbers::kStored},
    {.name = "DynamicRowwiseQuantizedFullyConnected",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input", "Weights", "Bias", "Scales", "Offsets"},
     .outputs = {"Result"},
     .attributes = {{"IsSymmetric", int64_t{1}},
                    {"IsPerBatchElement", int64_t{1}}},
     .body = R"(
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
       Result = Cast<to=$o0_type>(y))",
     .numbers = GlowNumbers::kStored},
};

}  // namespace

absl::Span<const ContribFunction> GlowFeatureFunctions() {
  return kGlowFeatureFunctions;
}

}  // namespace nodewise
