#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Glow's operators that move elements, fill tensors, or reduce a side. Those
// that only move elements take integers of quantized types as they are: input
// and result have one scale and one offset.

namespace nodewise {
namespace {

constexpr ContribFunction kGlowShapeFunctions[] = {
    GlowStoredRow("Reshape", {"Input"}, {{"Dims", NoInts()}},
                  "Result = Reshape(Input, $Dims)"),
    GlowStoredRow("Transpose", {"Input"}, {{"Shuffle", NoInts()}},
                  "Result = Transpose<perm=$Shuffle>(Input)"),
    GlowStoredRow("Concat", {Variadic("Inputs")}, {{"Dim", 0}},
                  "Result = Concat<axis=$Dim>(Inputs...)"),
    // Glow states the shape of the result; where the slice ends follows from
    // it.
    GlowStoredRow("Slice", {"Input"}, {{"Start", NoInts()}}, R"(
       end = Add($Start, $o0_shape)
       Result = Slice(Input, $Start, end))"),
    // Copies of the small one lie one behind the other in the big one.
    GlowStoredRow("InsertTensor", {"Big", "Small"},
                  {{"Start", NoInts()}, {"Count", 1}, {"Axis", 0}}, R"(
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
       Result = Where(in, x, Big))"),
    // BatchDims is the axis.
    GlowStoredRow("Gather", {"Data", "Indices"}, {{"BatchDims", 0}},
                  "Result = Gather<axis=$BatchDims>(Data, Indices)"),
    GlowStoredRow("GatherND", {"Data", "Indices"}, {{"BatchDims", 0}}, R"(
       i = Cast<to=7>(Indices)
       Result = GatherND<batch_dims=$BatchDims>(Data, i))"),
    GlowStoredRow("GatherElements", {"Data", "Indices"}, {{"Dim", 0}},
                  "Result = GatherElements<axis=$Dim>(Data, Indices)"),
    GlowRow("ScatterData", {"Data", "Indices", "Slices"}, {{"Cumulative", 0}},
            R"(
       i = Cast<to=7>(Indices)
       Result = ScatterND<reduction=add>(Data, i, Slices) if $Cumulative
       Result = ScatterND(Data, i, Slices) if !$Cumulative)"),
    // One side alone is copied. The list of times is 1 but at that side: it is
    // made of the shape divided by itself, which has the right length for any
    // rank, and one element is written into it.
    GlowStoredRow("Tile", {"Input"}, {{"Count", 1}, {"Axis", 0}}, R"(
       n = Shape(Input)
       one = Div(n, n)
       times = ScatterElements(one, [$Axis], [$Count])
       Result = Tile(Input, times))"),
    // The sides of the input begin at `Axis`. Those before it come by the rule
    // of broadcasting, and those behind it are added as sides of 1.
    GlowStoredRow("Broadcast", {"Input"},
                  {{"Axis", 0}, {"TargetDim", NoInts()}}, R"(
       n = Shape(Input)
       rank = Shape(n)
       all = Shape($TargetDim)
       behind = Sub(all, rank)
       behind = Sub(behind, [$Axis])
       ones = Expand(#1, behind)
       shape = Concat<axis=0>(n, ones)
       x = Reshape(Input, shape)
       Result = Expand(x, $TargetDim))"),
    // A step of -1 from the last element to before the first, for which the end
    // must be far below 0.
    GlowStoredRow("Flip", {"Input"}, {{"Axis", 0}}, R"(
       Result = Slice(Input, [-1], [-9223372036854774784], [$Axis], [-1]))"),
    // The side of channels is divided into groups and their parts, which change
    // places.
    GlowStoredRow("ChannelShuffle", {"Input"}, {{"Group", 1}, {"Kernel", 0}},
                  R"(
       n = Shape(Input)
       flat = Flatten<axis=$Kernel+1>(Input)
       inner = Shape(flat)
       inner = Slice(inner, [1], [2])
       side = Slice(n, [$Kernel], [$Kernel+1])
       side = Div(side, #$Group)
       shape = Concat<axis=0>([-1, $Group], side, inner)
       x = Reshape(Input, shape)
       x = Transpose<perm=[0, 2, 1, 3]>(x)
       Result = Reshape(x, n))"),
    // Glow has channels last, and so they are moved there and back.
    GlowStoredRow("SpaceToDepth", {"Input"}, {{"BlockSize", 1}}, R"(
       x = Transpose<perm=[0, 3, 1, 2]>(Input)
       y = SpaceToDepth<blocksize=$BlockSize>(x)
       Result = Transpose<perm=[0, 2, 3, 1]>(y))"),
    GlowStoredRow("ResizeNearest", {"Input"}, {{"Scale", NoFloats()}}, R"(
       Result = Resize<mode=nearest, coordinate_transformation_mode=asymmetric,
           nearest_mode=floor>(Input, , $Scale))"),
    // Between integers the fraction is cut off, as Glow does.
    GlowStoredRow("ResizeBilinear", {"Input"}, {{"Scale", NoFloats()}}, R"(
       x = Cast<to=1>(Input)
       y = Resize<mode=linear,
           coordinate_transformation_mode=asymmetric>(x, , $Scale)
       Result = CastAs(y, Input))"),
    // The number is a float. Beside quantized numbers it is one of those that
    // they stand for, and the lines around the body bring all to the result's
    // scale.
    GlowRow("Pad", {"Input"},
            {{"Mode", 0}, {"Pads", NoInts()}, {"Value", 0.0F}}, R"(
       v = CastAs($Value, Input) if !$o0_qScale
       v = Identity($Value) if $o0_qScale
       Result = Pad<mode=constant>(Input, $Pads, v) if $Mode=0
       Result = Pad<mode=reflect>(Input, $Pads) if $Mode=1
       Result = Pad<mode=edge>(Input, $Pads) if $Mode=2)"),
    // There is no input whose type the number could have, so that of the output
    // is asked.
    GlowRow("Splat", {}, {{"Value", 0.0F}}, R"(
       v = Cast<to=$o0_type>($Value) if !$o0_qScale
       v = Cast<to=1>($Value) if $o0_qScale
       Result = Expand(v, $o0_shape))"),
    // The output has room for all places, and those that are not needed are 0.
    // Each true element is numbered, and its place is written where its number
    // says; false ones are written to one element too many, which is cut off.
    GlowRow("NonZero", {"Cond"}, {}, R"(
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
       Result = Cast<to=$o0_type>(y))"),
    // The result may be of int32, and that of ONNX's operator is of int64.
    GlowStoredRow("ArgMax", {"Input"}, {{"Axis", 0}, {"KeepDims", 0}}, R"(
       i = ArgMax<axis=$Axis, keepdims=$KeepDims>(Input)
       Result = Cast<to=$o0_type>(i))"),
    GlowStoredRow("ArgMin", {"Input"}, {{"Axis", 0}, {"KeepDims", 0}}, R"(
       i = ArgMin<axis=$Axis, keepdims=$KeepDims>(Input)
       Result = Cast<to=$o0_type>(i))"),
    GlowStoredRow("TopK", {"Input"}, {{"K", 1}}, R"(
       Values, i = TopK(Input, [$K])
       Indices = Cast<to=$o1_type>(i))",
                  {"Values", "Indices"}),
    GlowRow("CumSum", {"Input"}, {{"Dim", 0}, {"Exclusive", 0}, {"Reverse", 0}},
            R"(
       Result = CumSum<exclusive=$Exclusive, reverse=$Reverse>(Input, #$Dim))"),
    // Sums and products with a slice that is the same for each of the batch go
    // as those of two tensors do.
    GlowStepsRow("BatchedAdd", {"Batch", "Slice"}, {}, R"(
       Result = Add(Batch, Slice) if !$steps
       Result = nodewise.GlowSum<a_scale=$i0_qScale, a_offset=$i0_qOffset,
           b_scale=$i1_qScale, b_offset=$i1_qOffset, scale=$o0_qScale,
           offset=$o0_qOffset>(Batch, Slice) if $steps)"),
    GlowStepsRow("BatchedMul", {"Batch", "Slice"}, {}, R"(
       Result = Mul(Batch, Slice) if !$steps
       l = nodewise.GlowCentred<offset=$i0_qOffset>(Batch)
       r = nodewise.GlowCentred<offset=$i1_qOffset>(Slice)
       s = Mul($i0_qScale, $i1_qScale)
       s = Div(s, $o0_qScale)
       p = Mul(l, r)
       p = Mul(p, s)
       p = nodewise.RoundAway(p)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(p, o) if $steps)"),
    GlowStepsRow("BatchedReduceAdd", {"Batch"}, {{"Axis", 0}}, R"(
       Result = ReduceSum<keepdims=0>(Batch, [$Axis]) if !$steps
       x = nodewise.GlowCentred<offset=$i0_qOffset>(Batch)
       x = ReduceSum<keepdims=0>(x, [$Axis])
       x = Mul(x, $i0_qScale)
       x = Div(x, $o0_qScale)
       x = nodewise.RoundAway(x)
       o = Cast<to=1>(#$o0_qOffset)
       Result = Add(x, o) if $steps)"),
    GlowRow("BatchedReduceSumSquare", {"Batch"}, {{"Axis", 0}},
            "Result = ReduceSumSquare<keepdims=0>(Batch, [$Axis])"),
    GlowRow("BatchedReduceProd", {"Batch"}, {{"Axis", 0}},
            "Result = ReduceProd<keepdims=0>(Batch, [$Axis])"),
    GlowRow("BatchedReduceMean", {"Batch"}, {{"Axes", NoInts()}},
            "Result = ReduceMean<keepdims=0>(Batch, $Axes)"),
    // No attribute says whether the reduced sides stay, so the result takes the
    // shape that Glow states for it.
    GlowStoredRow("BatchedReduceMin", {"Batch"}, {{"Axes", NoInts()}}, R"(
       y = ReduceMin<keepdims=0>(Batch, $Axes)
       Result = Reshape(y, $o0_shape))"),
    GlowStoredRow("BatchedReduceMax", {"Batch"}, {{"Axes", NoInts()}}, R"(
       y = ReduceMax<keepdims=0>(Batch, $Axes)
       Result = Reshape(y, $o0_shape))"),
    // The product of each two vectors, of the second with the first, then of
    // the third with both before it, and so on.
    GlowRow("BatchedPairwiseDotProduct", {Variadic("Inputs")}, {}, R"(
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
       Result = Gather<axis=1>(y, at))"),
};

}  // namespace

absl::Span<const ContribFunction> GlowShapeFunctions() {
  return kGlowShapeFunctions;
}

}  // namespace nodewise
