#include "contrib/onnx/contrib_functions.h"
#include "nodewise/op/op_row.h"

// Glow's lookups in tables, and its operators on segments: numbers one behind
// the other, of which `lengths` says how many belong together.

namespace nodewise {
namespace {

constexpr ContribFunction kGlowLookupFunctions[] = {
    // The segment of each of n places; the number of segments for places that
    // are in none. Places are counted up wherever a segment ends.
    kHelperRow("SegmentOf", kGlowOpset, {"n", "lengths"}, {"segment"}, {}, R"(
       l = Cast<to=7>(lengths)
       ends = CumSum(l, #0)
       ends = Min(ends, n)
       places = Add(n, #1)
       places = Reshape(places, [1])
       zeros = Expand(#0, places)
       ones = Mul(l, #0)
       ones = Add(ones, #1)
       marks = ScatterElements<reduction=add>(zeros, ends, ones)
       count = CumSum(marks, #0)
       n = Reshape(n, [1])
       segment = Slice(count, [0], n, [0]))"),
    kHelperRow("SegmentSums", kGlowOpset, {"rows", "lengths"}, {"sums"}, {}, R"(
       shape = Shape(rows)
       n = Gather(shape, #0)
       segment = nodewise.SegmentOf(n, lengths)
       segment = Unsqueeze(segment, [1])
       count = Shape(lengths)
       more = Add(count, #1)
       row = Slice(shape, [1], [1000])
       all = Concat<axis=0>(more, row)
       zero = CastAs(#0, rows)
       zeros = Expand(zero, all)
       sums = ScatterND<reduction=add>(zeros, segment, rows)
       sums = Slice(sums, [0], count, [0]))"),
    // Indices behind the last segment may be any number, so that 0 takes their
    // place.
    kHelperRow("SegmentIndices", kGlowOpset, {"indices", "lengths"}, {"y"}, {},
               R"(
       l = Cast<to=7>(lengths)
       total = ReduceSum<keepdims=0>(l, [0])
       n = Shape(indices)
       n = Gather(n, #0)
       i = Range(#0, n, #1)
       used = Less(i, total)
       zero = CastAs(#0, indices)
       y = Where(used, indices, zero))"),
    // A number for each row, so shaped that it can be multiplied with the row.
    kHelperRow("BesideRows", kGlowOpset, {"x", "rows"}, {"y"}, {}, R"(
       n = Shape(rows)
       one = Div(n, n)
       shape = ScatterElements(one, [0], [-1])
       y = Reshape(x, shape))"),
    // The lengths of segments that begin at offsets; the first one reaches from
    // 0 to the first offset if `from_zero`.
    kHelperRow("LengthsOfOffsets", kGlowOpset, {"offsets", "indices"},
               {"lengths"}, {{"has_end", 0}, {"from_zero", 0}}, R"(
       o = Cast<to=7>(offsets)
       n = Shape(indices)
       n = Slice(n, [0], [1])
       o = Concat<axis=0>(o, n) if !$has_end
       o = Concat<axis=0>([0], o) if $from_zero
       next = Slice(o, [1], [9223372036854774784])
       this = Slice(o, [0], [-1])
       lengths = Sub(next, this))"),
    // The float32 that each four bytes of the last side are, or the float16
    // that two are.
    kHelperRow("FloatOfBytes", kGlowBytesOpset, {"bytes"}, {"y"}, {{"half", 0}},
               R"(
       b = Cast<to=12>(bytes)
       f = Cast<to=12>([1, 256, 65536, 16777216]) if !$half
       f = Cast<to=12>([1, 256]) if $half
       w = Mul(b, f)
       w = ReduceSum(w, [-1])
       y = BitCast<to=1>(w) if !$half
       h = Cast<to=4>(w) if $half
       h = BitCast<to=10>(h) if $half
       y = Cast<to=1>(h) if $half)"),
    // Rows of integers with their scale and offset behind them, in float32.
    kHelperRow("GlowRows", kGlowBytesOpset, {"rows"}, {"y"},
               {{"kind", "ui8fused"}}, R"(
       q = Slice(rows, [0], [-8], [-1])
       q = Slice(rows, [0], [-4], [-1]) if $kind=ui8fusedfp16
       q = Slice(rows, [0], [-4], [-1]) if $kind=ui4fusedfp16
       s = Slice(rows, [-8], [-4], [-1])
       s = Slice(rows, [-4], [-2], [-1]) if $kind=ui8fusedfp16
       s = Slice(rows, [-4], [-2], [-1]) if $kind=ui4fusedfp16
       o = Slice(rows, [-4], [1000000000], [-1])
       o = Slice(rows, [-2], [1000000000], [-1]) if $kind=ui8fusedfp16
       o = Slice(rows, [-2], [1000000000], [-1]) if $kind=ui4fusedfp16
       q = nodewise.Unpack<bits=4>(q) if $kind=ui4fused
       q = nodewise.Unpack<bits=4>(q) if $kind=ui4fusedfp16
       wide = nodewise.FloatOfBytes(s)
       wide = nodewise.FloatOfBytes<half=1>(s) if $kind=ui8fusedfp16
       wide = nodewise.FloatOfBytes<half=1>(s) if $kind=ui4fusedfp16
       wide = Cast<to=10>(wide) if $kind=ui8fusedrounded
       wide = Cast<to=1>(wide) if $kind=ui8fusedrounded
       from = nodewise.FloatOfBytes(o)
       from = nodewise.FloatOfBytes<half=1>(o) if $kind=ui8fusedfp16
       from = nodewise.FloatOfBytes<half=1>(o) if $kind=ui4fusedfp16
       from = Cast<to=10>(from) if $kind=ui8fusedrounded
       from = Cast<to=1>(from) if $kind=ui8fusedrounded
       f = Cast<to=1>(q)
       f = Mul(f, wide)
       y = Add(f, from))"),
    GlowRow("LengthsSum", {"Data", "Lengths"}, {},
            "Result = nodewise.SegmentSums(Data, Lengths)"),
    GlowRow("SparseLengthsSum", {"Data", "Indices", "Lengths"}, {}, R"(
       i = nodewise.SegmentIndices(Indices, Lengths)
       rows = Gather(Data, i)
       Result = nodewise.SegmentSums(rows, Lengths))"),
    GlowRow("SparseLengthsWeightedSum",
            {"Data", "Weights", "Indices", "Lengths"}, {}, R"(
       i = nodewise.SegmentIndices(Indices, Lengths)
       rows = Gather(Data, i)
       w = nodewise.BesideRows(Weights, rows)
       rows = Mul(rows, w)
       Result = nodewise.SegmentSums(rows, Lengths))"),
    // The row of the padding's index counts as 0, even if it has numbers.
    GlowRow("Embedding", {"Weights", "Indices"},
            {{"PadIdx", -1}, {"Scale", 0}, {"Sparse", 0}}, R"(
       Result = Refuse(gradients by frequency) if $Scale
       Result = Refuse(sparse gradients) if $Sparse
       p = CastAs(#$PadIdx, Indices)
       pad = Equal(Indices, p)
       pad = Unsqueeze(pad, [-1])
       y = Gather(Weights, Indices)
       Result = Where(pad, 0, y))"),
    // This is the weighted sum above, whose segments are given by where they
    // begin.
    GlowRow("EmbeddingBag", {"Data", "Weights", "Indices", "Offsets"},
            {{"HasEndOffset", 0}}, R"(
       l = nodewise.LengthsOfOffsets<has_end=$HasEndOffset>(Offsets, Indices)
       i = nodewise.SegmentIndices(Indices, l)
       rows = Gather(Data, i)
       w = nodewise.BesideRows(Weights, rows)
       rows = Mul(rows, w)
       Result = nodewise.SegmentSums(rows, l))"),
    // Here the table has rows of bytes. The segment from 0 to the first offset
    // is there for the sums alone, and its row is cut off the result.
    GlowRow("EmbeddingBagByteRowwiseOffsets",
            {"Data", "Weights", "Indices", "Offsets"},
            {{"HasEndOffset", 0}, {"UseFP16Accumulation", 0}}, R"(
       l = nodewise.LengthsOfOffsets<has_end=$HasEndOffset, from_zero=1>(
           Offsets, Indices)
       y = nodewise.GlowWeighted<kind=$i0_kind,
           half=$UseFP16Accumulation>(Data, Weights, Indices, l)
       Result = Slice(y, [1], [9223372036854774784], [0]))",
            {"Result"}, kGlowBytesOpset),
    // Sums of rows of bytes, each times its weight; in float16 if `half` and
    // both are of that type.
    kHelperRow("GlowWeighted", kGlowBytesOpset,
               {"data", "weights", "indices", "lengths"}, {"y"},
               {{"kind", "ui8fused"}, {"half", 0}}, R"(
       i = nodewise.SegmentIndices(indices, lengths)
       rows = Gather(data, i)
       rows = nodewise.GlowRows<kind=$kind>(rows)
       w = Cast<to=1>(weights)
       w = nodewise.BesideRows(w, rows)
       rows = Mul(rows, w)
       rows = Cast<to=10>(rows) if $half and type(weights)=float16 and
           !$kind=ui8fused and !$kind=ui4fused
       s = nodewise.SegmentSums(rows, lengths)
       y = CastAs(s, weights))"),
    // Scales and offsets are tensors of their own, with one number for each row
    // of the table, and the offset is a real number that is added.
    GlowStoredRow(
        "RowwiseQuantizedSparseLengthsWeightedSum",
        {"Data", "Scales", "Offsets", "Weights", "Indices", "Lengths"},
        {{"UseFP16Accumulation", 0}}, R"(
       i = nodewise.SegmentIndices(Indices, Lengths)
       rows = Gather(Data, i)
       rows = Cast<to=1>(rows)
       s = Gather(Scales, i)
       s = Cast<to=1>(s)
       s = nodewise.BesideRows(s, rows)
       o = Gather(Offsets, i)
       o = Cast<to=1>(o)
       o = nodewise.BesideRows(o, rows)
       w = Cast<to=1>(Weights)
       w = nodewise.BesideRows(w, rows)
       rows = Mul(rows, s)
       rows = Add(rows, o)
       rows = Mul(rows, w)
       rows = CastAs(rows, Weights) if $UseFP16Accumulation
       y = nodewise.SegmentSums(rows, Lengths)
       Result = CastAs(y, Weights))"),
    GlowRow("FusedRowwiseQuantizedSparseLengthsWeightedSum",
            {"Data", "Weights", "Indices", "Lengths"},
            {{"UseFP16Accumulation", 0}}, R"(
       Result = nodewise.GlowWeighted<kind=$i0_kind,
           half=$UseFP16Accumulation>(Data, Weights, Indices, Lengths))",
            {"Result"}, kGlowBytesOpset),
    // Weights are all 1, in the type of the result, since GlowWeighted gives
    // its result the type of its weights. Equal makes a tensor of the right
    // length without a look at the values.
    GlowRow("FusedRowwiseQuantizedSparseLengthsSum",
            {"Data", "Indices", "Lengths"}, {{"UseFP16Accumulation", 0}}, R"(
       ones = Equal(Indices, Indices)
       ones = Cast<to=$o0_type>(ones)
       Result = nodewise.GlowWeighted<kind=$i0_kind,
           half=$UseFP16Accumulation>(Data, ones, Indices, Lengths))",
            {"Result"}, kGlowBytesOpset),
    // A range is where a segment begins, and its length.
    GlowRow("LengthsToRanges", {"Lengths"}, {}, R"(
       first = CumSum<exclusive=1>(Lengths, #0)
       first = Unsqueeze(first, [1])
       l = Unsqueeze(Lengths, [1])
       Result = Concat<axis=1>(first, l))"),
    // Places in no segment are left as they are by Glow; here they are 0.
    GlowRow("LengthsRangeFill", {"Lengths"}, {}, R"(
       s = nodewise.SegmentOf(#$o0_shape[0], Lengths)
       l = Cast<to=7>(Lengths)
       first = CumSum<exclusive=1>(l, #0)
       total = ReduceSum(l, [0])
       first = Concat<axis=0>(first, total)
       i = Range(#0, #$o0_shape[0], #1)
       begin = Gather(first, s)
       y = Sub(i, begin)
       in = Less(i, total)
       y = Where(in, y, #0)
       Result = CastAs(y, Lengths))"),
    // Each value goes to a place by its segment and its index; elsewhere the
    // default stands.
    GlowRow("BatchSparseToDense", {"Lengths", "Indices", "Values"},
            {{"DefaultValue", 0.0F}, {"DenseLastDim", 0}}, R"(
       n = Shape(Indices)
       n = Gather(n, #0)
       s = nodewise.SegmentOf(n, Lengths)
       s = Unsqueeze(s, [1])
       i = Cast<to=7>(Indices)
       i = Unsqueeze(i, [1])
       places = Concat<axis=1>(s, i)
       d = Cast<to=1>($DefaultValue)
       d = CastAs(d, Values)
       empty = Expand(d, $o0_shape)
       Result = ScatterND(empty, places, Values))"),
    // Rows of data are handed out one after the other to the places that the
    // indicator marks. Places before the first mark would have the index -1, so
    // indices are kept in range, and what they give there is not taken.
    GlowRow("FillExamplesWithIndicator", {"Data", "Indicator"}, {}, R"(
       is = Cast<to=9>(Indicator)
       i = Cast<to=7>(is)
       place = CumSum(i, #0)
       place = Sub(place, #1)
       place = Max(place, #0)
       n = Shape(Data)
       n = Slice(n, [0], [1])
       n = Sub(n, #1)
       place = Min(place, n)
       rows = Gather(Data, place)
       is = nodewise.BesideRows(is, rows)
       zero = CastAs(#0, Data)
       Result = Where(is, rows, zero))"),
    // A value goes to where the mask has its index; one that the mask does not
    // have goes to one place too many, which is cut off.
    GlowStoredRow("SparseToDenseMask",
                  {"Indices", "Values", "DefaultValue", "Lengths"},
                  {{"Mask", NoInts()}}, R"(
       n = Shape(Indices)
       n = Gather(n, #0)
       l = Reshape(Lengths, [-1])
       s = nodewise.SegmentOf(n, l)
       s = Unsqueeze(s, [1])
       i = Unsqueeze(Indices, [1])
       at = Equal(i, $Mask)
       at = Cast<to=7>(at)
       size = Shape($Mask)
       count = Gather(size, #0)
       j = Range(#0, count, #1)
       j = Sub(j, count)
       j = Mul(at, j)
       j = ReduceSum(j, [1])
       j = Add(j, count)
       places = Concat<axis=1>(s, j)
       batch = Shape(l)
       more = Add(size, #1)
       row = Shape(DefaultValue)
       all = Concat<axis=0>(batch, more, row)
       empty = Expand(DefaultValue, all)
       y = ScatterND(empty, places, Values)
       y = Slice(y, [0], size, [1])
       Result = Reshape(y, $o0_shape))"),
    GlowStoredRow("BatchOneHot", {"Data", "Lengths", "Values"}, {}, R"(
       n = Shape(Values)
       n = Gather(n, #0)
       s = nodewise.SegmentOf(n, Lengths)
       x = Gather<axis=1>(Data, s)
       same = Equal(x, Values)
       Result = Cast<to=$o0_type>(same))"),
    // The result has ranges of the data, one behind the other. The place in the
    // data of each element is that in the result, moved by what lies between
    // the two beginnings of its range; MFCC and PermutePooledEmbeddings do so
    // too.
    GlowStoredRow("GatherRanges", {"Data", "Ranges"}, {}, R"(
       length = Gather<axis=2>(Ranges, #1)
       Lengths = ReduceSum<keepdims=0>(length, [1])
       r = Reshape(Ranges, [-1, 2])
       r = Cast<to=7>(r)
       begin = Gather<axis=1>(r, #0)
       l = Gather<axis=1>(r, #1)
       s = nodewise.SegmentOf(#$o0_shape[0], l)
       first = CumSum<exclusive=1>(l, #0)
       move = Sub(begin, first)
       i = Range(#0, #$o0_shape[0], #1)
       m = Gather(move, s)
       i = Add(i, m)
       Output = Gather(Data, i))",
                  {"Output", "Lengths"}),
    // Bags lie table by table, and within a table batch by batch. The tables
    // themselves lie one behind the other, so an index is moved by where its
    // table begins.
    GlowRow("BatchedUnaryEmbeddingsBags",
            {"Weights", "TableOffsets", "Offsets", "Indices"}, {}, R"(
       tables = Cast<to=7>(TableOffsets)
       first = Slice(tables, [0], [-1])
       count = Shape(first)
       bags = Shape(Offsets)
       bags = Sub(bags, #1)
       batches = Div(bags, count)
       tasks = Shape(Weights)
       tasks = Slice(tasks, [0], [1])
       l = nodewise.LengthsOfOffsets<has_end=1>(Offsets, Indices)
       i = nodewise.SegmentIndices(Indices, l)
       i = Cast<to=7>(i)
       n = Shape(Indices)
       n = Gather(n, #0)
       bag = nodewise.SegmentOf(n, l)
       last = Sub(bags, #1)
       bag = Min(bag, last)
       table = Div(bag, batches)
       from = Gather(first, table)
       i = Add(i, from)
       g = Concat<axis=0>(tasks, [-1])
       w = Reshape(Weights, g)
       x = Gather<axis=1>(w, i)
       x = Transpose<perm=[1, 0]>(x)
       y = nodewise.SegmentSums(x, l)
       g = Concat<axis=0>(count, batches, tasks)
       y = Reshape(y, g)
       Result = Transpose<perm=[2, 1, 0]>(y))"),
    // Columns belong to embeddings of different widths, which change places.
    GlowRow("PermutePooledEmbeddings",
            {"PooledEmbeddings", "OffsetDimList", "PermuteList",
             "InvOffsetDimList", "InvPermuteList"},
            {}, R"(
       begin = Slice(OffsetDimList, [0], [-1])
       end = Slice(OffsetDimList, [1], [1000000000])
       size = Sub(end, begin)
       begin = Gather(begin, PermuteList)
       l = Gather(size, PermuteList)
       n = Shape(PooledEmbeddings)
       n = Gather(n, #1)
       s = nodewise.SegmentOf(n, l)
       first = CumSum<exclusive=1>(l, #0)
       move = Sub(begin, first)
       i = Range(#0, n, #1)
       m = Gather(move, s)
       i = Add(i, m)
       Result = Gather<axis=1>(PooledEmbeddings, i))"),
    // Each label gets the values and examples that have it, in their order. The
    // place of an entry among those of its label is how many before it have the
    // same one.
    GlowRow("SparseLabelSplit", {"Lengths", "Indices", "Values"},
            {{"NumLabels", 0}}, R"(
       n = Shape(Indices)
       n = Gather(n, #0)
       example = nodewise.SegmentOf(n, Lengths)
       example = Cast<to=6>(example)
       label = Unsqueeze(Indices, [1])
       j = Range(#0, #$NumLabels, #1)
       is = Equal(label, j)
       is = Cast<to=7>(is)
       before = CumSum<exclusive=1>(is, #0)
       place = Mul(before, is)
       place = ReduceSum(place, [1])
       at = Concat<axis=1>(label, place)
       map = Reshape(place, [-1])
       GradientOffsetMap = Cast<to=6>(map)
       none = CastAs(#0, Values)
       empty = Expand(none, $o0_shape)
       LabelValues = ScatterND(empty, at, Values)
       zero = Cast<to=6>(#0)
       zeros = Expand(zero, $o1_shape)
       ExampleIds = ScatterND(zeros, at, example))",
            {"LabelValues", "ExampleIds", "GradientOffsetMap"}),
    // The index is spread over all other sides, as ScatterElements wants it.
    GlowRow("IndexAdd", {"Input", "Index", "Source"},
            {{"Dim", 0}, {"Alpha", 1.0F}}, R"(
       n = Shape(Source)
       one = Div(n, n)
       shape = ScatterElements(one, [$Dim], [-1])
       i = Reshape(Index, shape)
       i = Expand(i, n)
       x = Mul(Source, $Alpha)
       Result = ScatterElements<axis=$Dim, reduction=add>(Input, i, x))"),
};

}  // namespace

absl::Span<const ContribFunction> GlowLookupFunctions() {
  return kGlowLookupFunctions;
}

}  // namespace nodewise
