#include "contrib/onnx/contrib_functions.h"
#include "contrib/onnx/glow_types.h"
#include "nodewise/op/op_row.h"

// Glow's operators that move elements, fill tensors, or reduce a side.

namespace nodewise {
namespace {

constexpr ContribFunction kGlowShapeFunctions[] = {
    {.name = "Reshape",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Dims", NoInts()}},
     .body = "Result = Reshape(Input, $Dims)",
     .numbers = GlowNumbers::kStored},
    {.name = "Transpose",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Shuffle", NoInts()}},
     .body = "Result = Transpose<perm=$Shuffle>(Input)",
     .numbers = GlowNumbers::kStored},
    {.name = "Concat",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {Variadic("Inputs")},
     .outputs = {"Result"},
     .attributes = {{"Dim", int64_t{0}}},
     .body = "Result = Concat<axis=$Dim>(Inputs...)",
     .numbers = GlowNumbers::kStored},
    {.name = "Slice",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Start", NoInts()}},
     .body = R"(
       end = Add($Start, $o0_shape)
       Result = Slice(Input, $Start, end))",
     .numbers = GlowNumbers::kStored},
    // Copies of the small one lie one behind the other in the big one.
    {.name = "InsertTensor",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Big", "Small"},
     .outputs = {"Result"},
     .attributes = {{"Start", NoInts()},
                    {"Count", int64_t{1}},
                    {"Axis", int64_t{0}}},
     .body = R"(
       n = Shape(Small)
       one = Div(n, n)
       times = ScatterElements(one, [$Axis], [$Count])
       x = Tile(Small, times)
       n = Shape(x)
       all = Shape(Big)
       rest = Sub(all, n)
       rest = Sub(rest, $Start)
       pads = Concat<axis=0>($Start, rest)
       x = Pad(x, pads)
       in = Expand(#1, n)
       in = Pad(in, pads)
       in = Cast<to=9>(in)
       Result = Where(in, x, Big))",
     .numbers = GlowNumbers::kStored},
    {.name = "Gather",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Data", "Indices"},
     .outputs = {"Result"},
     .attributes = {{"BatchDims", int64_t{0}}},
     .body = "Result = Gather<axis=$BatchDims>(Data, Indices)",
     .numbers = GlowNumbers::kStored},
    {.name = "GatherND",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Data", "Indices"},
     .outputs = {"Result"},
     .attributes = {{"BatchDims", int64_t{0}}},
     .body = R"(
       i = Cast<to=7>(Indices)
       Result = GatherND<batch_dims=$BatchDims>(Data, i))",
     .numbers = GlowNumbers::kStored},
    {.name = "GatherElements",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Data", "Indices"},
     .outputs = {"Result"},
     .attributes = {{"Dim", int64_t{0}}},
     .body = "Result = GatherElements<axis=$Dim>(Data, Indices)",
     .numbers = GlowNumbers::kStored},
    {.name = "ScatterData",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Data", "Indices", "Slices"},
     .outputs = {"Result"},
     .attributes = {{"Cumulative", int64_t{0}}},
     .body = R"(
       i = Cast<to=7>(Indices)
       Result = ScatterND<reduction=add>(Data, i, Slices) if $Cumulative
       Result = ScatterND(Data, i, Slices) if !$Cumulative)"},
    {.name = "Tile",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Count", int64_t{1}}, {"Axis", int64_t{0}}},
     .body = R"(
       n = Shape(Input)
       one = Div(n, n)
       times = ScatterElements(one, [$Axis], [$Count])
       Result = Tile(Input, times))",
     .numbers = GlowNumbers::kStored},
    {.name = "Broadcast",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}, {"TargetDim", NoInts()}},
     .body = R"(
       n = Shape(Input)
       rank = Shape(n)
       all = Shape($TargetDim)
       behind = Sub(all, rank)
       behind = Sub(behind, [$Axis])
       ones = Expand(#1, behind)
       shape = Concat<axis=0>(n, ones)
       x = Reshape(Input, shape)
       Result = Expand(x, $TargetDim))",
     .numbers = GlowNumbers::kStored},
    {.name = "Flip",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}},
     .body = R"(
       Result = Slice(Input, [-1], [-9223372036854774784], [$Axis], [-1]))",
     .numbers = GlowNumbers::kStored},
    {.name = "ChannelShuffle",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Group", int64_t{1}}, {"Kernel", int64_t{0}}},
     .body = R"(
       n = Shape(Input)
       flat = Flatten<axis=$Kernel+1>(Input)
       inner = Shape(flat)
       inner = Slice(inner, [1], [2])
       side = Slice(n, [$Kernel], [$Kernel+1])
       side = Div(side, #$Group)
       shape = Concat<axis=0>([-1, $Group], side, inner)
       x = Reshape(Input, shape)
       x = Transpose<perm=[0, 2, 1, 3]>(x)
       Result = Reshape(x, n))",
     .numbers = GlowNumbers::kStored},
    {.name = "SpaceToDepth",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"BlockSize", int64_t{1}}},
     .body = R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       y = SpaceToDepth<blocksize=$BlockSize>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))",
     .numbers = GlowNumbers::kStored},
    {.name = "ResizeNearest",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Scale", NoFloats()}},
     .body = R"(
       Result = Resize<mode=nearest, coordinate_transformation_mode=asymmetric,
           nearest_mode=floor>(Input, , $Scale))",
     .numbers = GlowNumbers::kStored},
    // Between integers the fraction is cut off, as Glow does.
    {.name = "ResizeBilinear",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Scale", NoFloats()}},
     .body = R"(
       x = Cast<to=1>(Input)
       y = Resize<mode=linear,
           coordinate_transformation_mode=asymmetric>(x, , $Scale)
       Result = CastAs(y, Input))",
     .numbers = GlowNumbers::kStored},
    {.name = "Pad",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Mode", int64_t{0}}, {"Pads", NoInts()}, {"Value", 0.0F}},
     .body = R"(
       v = CastAs($Value, Input) if !$o0_qScale
       v = Identity($Value) if $o0_qScale
       Result = Pad<mode=constant>(Input, $Pads, v) if $Mode=0
       Result = Pad<mode=reflect>(Input, $Pads) if $Mode=1
       Result = Pad<mode=edge>(Input, $Pads) if $Mode=2)"},
    {.name = "Splat",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .outputs = {"Result"},
     .attributes = {{"Value", 0.0F}},
     .body = R"(
       v = Cast<to=$o0_type>($Value) if !$o0_qScale
       v = Cast<to=1>($Value) if $o0_qScale
       Result = Expand(v, $o0_shape))"},
    {.name = "NonZero",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Cond"},
     .outputs = {"Result"},
     .body = R"(
       c = Reshape(Cond, [-1])
       is = Cast<to=7>(c)
       n = Shape(c)
       count = CumSum(is, #0)
       place = Sub(count, #1)
       place = Where(c, place, n)
       more = Add(n, #1)
       zeros = Expand(#0, more)
       side = Gather(n, #0)
       i = Range(#0, side, #1)
       y = ScatterElements(zeros, place, i)
       y = Slice(y, [0], n)
       y = Reshape(y, $o0_shape)
       Result = Cast<to=$o0_type>(y))"},
    {.name = "ArgMax",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}, {"KeepDims", int64_t{0}}},
     .body = R"(
       i = ArgMax<axis=$Axis, keepdims=$KeepDims>(Input)
       Result = Cast<to=$o0_type>(i))",
     .numbers = GlowNumbers::kStored},
    {.name = "ArgMin",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}, {"KeepDims", int64_t{0}}},
     .body = R"(
       i = ArgMin<axis=$Axis, keepdims=$KeepDims>(Input)
       Result = Cast<to=$o0_type>(i))",
     .numbers = GlowNumbers::kStored},
    {.name = "TopK",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Values", "Indices"},
     .attributes = {{"K", int64_t{1}}},
     .body = R"(
       Values, i = TopK(Input, [$K])
       Indices = Cast<to=$o1_type>(i))",
     .numbers = GlowNumbers::kStored},
    {.name = "CumSum",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Input"},
     .outputs = {"Result"},
     .attributes = {{"Dim", int64_t{0}},
                    {"Exclusive", int64_t{0}},
                    {"Reverse", int64_t{0}}},
     .body = R"(
       Result = CumSum<exclusive=$Exclusive, reverse=$Reverse>(Input, #$Dim))"},
    {.name = "BatchedAdd",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch", "Slice"},
     .outputs = {"Result"},
     .body = R"(
       Result = Add(Batch, Slice) if !$steps
       Result = nodewise.GlowSum<a_scale=$i0_qScale, a_offset=$i0_qOffset,
           b_scale=$i1_qScale, b_offset=$i1_qOffset, scale=$o0_qScale,
           offset=$o0_qOffset>(Batch, Slice) if $steps)",
     .numbers = GlowNumbers::kSteps},
    {.name = "BatchedMul",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch", "Slice"},
     .outputs = {"Result"},
     .body = R"(
       Result = Mul(Batch, Slice) if !$steps
       l = nodewise.GlowCentred<offset=$i0_qOffset>(Batch)
       r = nodewise.GlowCentred<offset=$i1_qOffset>(Slice)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       p = Mul(l, r)
       p = Mul(p, s)
       p = nodewise.RoundAway(p)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(p, o) if $steps)",
     .numbers = GlowNumbers::kSteps},
    {.name = "BatchedReduceAdd",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}},
     .body = R"(
       Result = ReduceSum<keepdims=0>(Batch, [$Axis]) if !$steps
       x = nodewise.GlowCentred<offset=$i0_qOffset>(Batch)
       x = ReduceSum<keepdims=0>(x, [$Axis])
       x = Mul(x, $i0_qScale)
       x = Div(x, $o0_qScale)
       x = nodewise.RoundAway(x)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(x, o) if $steps)",
     .numbers = GlowNumbers::kSteps},
    {.name = "BatchedReduceSumSquare",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}},
     .body = "Result = ReduceSumSquare<keepdims=0>(Batch, [$Axis])"},
    {.name = "BatchedReduceProd",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axis", int64_t{0}}},
     .body = "Result = ReduceProd<keepdims=0>(Batch, [$Axis])"},
    {.name = "BatchedReduceMean",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axes", NoInts()}},
     .body = "Result = ReduceMean<keepdims=0>(Batch, $Axes)"},
    {.name = "BatchedReduceMin",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axes", NoInts()}},
     .body = R"(
       y = ReduceMin<keepdims=0>(Batch, $Axes)
       Result = Reshape(y, $o0_shape))",
     .numbers = GlowNumbers::kStored},
    {.name = "BatchedReduceMax",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {"Batch"},
     .outputs = {"Result"},
     .attributes = {{"Axes", NoInts()}},
     .body = R"(
       y = ReduceMax<keepdims=0>(Batch, $Axes)
       Result = Reshape(y, $o0_shape))",
     .numbers = GlowNumbers::kStored},
    // The product of each two vectors, of the second with the first, then of
    // the third with both before it, and so on.
    {.name = "BatchedPairwiseDotProduct",
     .domain = kGlowDomain,
     .opset = kGlowOpset,
     .inputs = {Variadic("Inputs")},
     .outputs = {"Result"},
     .body = R"(
       x = Concat<axis=1>(Inputs...)
       x = Reshape(x, [0, -1, $i0_shape[1]])
       t = Transpose<perm=[0, 2, 1]>(x)
       y = MatMul(x, t)
       y = Reshape(y, [0, -1])
       n = Shape(x)
       n = Gather(n, #1)
       i = Range(#0, n, #1)
       j = Unsqueeze(i, [1])
       below = Less(i, j)
       below = Reshape(below, [-1])
       at = NonZero(below)
       at = Reshape(at, [-1])
       Result = Gather<axis=1>(y, at))"},
};

}  // namespace

absl::Span<const ContribFunction> GlowShapeFunctions() {
  return kGlowShapeFunctions;
}

}  // namespace nodewise
