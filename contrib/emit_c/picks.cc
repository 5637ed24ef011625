// Operators that pick elements by index, and those that write into a copy of
// their first input by index.

#include <utility>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

using ops::ScatterReduction;

// Whole runs of elements behind the axis lie one behind the other.
absl::Status WriteGather(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const size_t at,
                            SideAt(operation.As<ops::Gather>()->axis, x.sizes));
  const Lines lines = LinesAlong(x.sizes, at);
  CodeWriter& code = operation.code();
  code.For({{"o", lines.outer}, {"i", indices.count()}});
  WriteIndex(&code, "Gather", "index", indices.name + "[i]", lines.size);
  code.Line(
      "memcpy({0} + (o * {1} + i) * {2}, {3} + (o * {4} + index) * {2}, {2} * "
      "sizeof(*{0}));",
      y.name, indices.count(), lines.inner, x.name, lines.size);
  code.Close(2);
  return absl::OkStatus();
}

// Each index replaces one side of its place in the data, whose view has a
// stride of 0 there.
absl::Status WriteGatherElements(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  NODEWISE_ASSIGN_OR_RETURN(
      const size_t at,
      SideAt(operation.As<ops::GatherElements>()->axis, x.sizes));
  View data = CompactView(x.sizes);
  const int64_t stride = std::exchange(data.strides[at], 0);
  const LoopNest nest(indices.sizes, {data, CompactView(indices.sizes)});
  CodeWriter& code = operation.code();
  nest.Open(&code);
  WriteIndex(&code, "GatherElements", "index",
             fmt::format("{}[{}]", indices.name, nest.At(1)), x.sizes[at]);
  code.Line("{}[{}] = {}[{} + index * {}];", operation.out().name, nest.At(1),
            x.name, nest.At(0), stride);
  nest.Close(&code);
  return absl::OkStatus();
}

// Each tuple of indices picks a slice, whose elements lie one behind the other.
// In front are batches, in which indices and data go together.
absl::Status WriteGatherNd(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  const CTensor& y = operation.out();
  const auto batches =
      static_cast<size_t>(operation.As<ops::GatherND>()->batch_dims);
  const auto sizes = absl::MakeConstSpan(x.sizes);
  const int64_t length = indices.sizes.back();
  const auto end = batches + static_cast<size_t>(length);
  const int64_t batch = CountIn(sizes.subspan(0, batches));
  const int64_t slice = CountIn(sizes.subspan(end));
  const int64_t tuples = y.count() / (batch * slice);
  const View view = CompactView(x.sizes);
  CodeWriter& code = operation.code();
  code.For({{"b", batch}, {"t", tuples}});
  std::string from = fmt::format("b * {}", x.count() / batch);
  for (int64_t k = 0; k < length; ++k) {
    const size_t side = batches + static_cast<size_t>(k);
    WriteIndex(&code, "GatherND", fmt::format("index{}", k),
               fmt::format("{}[(b * {} + t) * {} + {}]", indices.name, tuples,
                           length, k),
               sizes[side]);
    from += fmt::format(" + index{} * {}", k, view.strides[side]);
  }
  code.Line("memcpy({0} + (b * {1} + t) * {2}, {3} + {4}, {2} * sizeof(*{0}));",
            y.name, tuples, slice, x.name, from);
  code.Close(2);
  return absl::OkStatus();
}

std::string UpdateText(ScatterReduction reduction, const CTensor& y,
                       const std::string& to, const std::string& update) {
  const std::string old = fmt::format("{}[{}]", y.name, to);
  const bool adds = reduction == ScatterReduction::kAdd;
  const bool is_larger = reduction == ScatterReduction::kMax;
  if (reduction == ScatterReduction::kNone) {
    return fmt::format("{} = {};", old, update);
  }
  if (IsBool(y.dtype)) {
    return fmt::format("{0} = {0} {1} {2};", old, adds || is_larger ? "|" : "&",
                       update);
  }
  if (adds || reduction == ScatterReduction::kMul) {
    const char* const sign = adds ? "+" : "*";
    if (IsFloat(y.dtype)) return fmt::format("{} {}= {};", old, sign, update);
    // C leaves open what an overflow of a signed type gives, so integers are
    // changed without a sign.
    return fmt::format("{0} = ({1})(({2}){0} {3} ({2}){4});", old, y.type(),
                       WrappingTypeOf(y.dtype), sign, update);
  }
  if (!IsFloat(y.dtype)) {
    return fmt::format("if ({0} {1} {2}) {0} = {2};", old,
                       is_larger ? "<" : ">", update);
  }
  // NaN stays, and an update that is NaN is taken.
  return fmt::format("if ({0} == {0} && !({0} {1} {2})) {0} = {2};", old,
                     is_larger ? ">=" : "<=", update);
}

// Elements that no index names stay as they are.
void WriteCopy(OperationCode& operation) {
  const CTensor& y = operation.out();
  operation.code().Line("memcpy({0}, {1}, {2} * sizeof(*{0}));", y.name,
                        operation.in(0).name, y.count());
}

// A side of the indices other than the axis may be shorter than that side of
// the data, whose first places it then stands for.
absl::Status WriteScatterElements(OperationCode& operation) {
  const auto& op =
      operation
          .Common<ops::ScatterElements, ops::Scatter, ops::ScatterElements>();
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  NODEWISE_ASSIGN_OR_RETURN(const size_t at, SideAt(op.axis, x.sizes));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (i != at && indices.sizes[i] > x.sizes[i]) {
      return Refuse("a side of its indices is too long");
    }
  }
  WriteCopy(operation);
  View data = CompactView(x.sizes);
  const int64_t stride = std::exchange(data.strides[at], 0);
  const LoopNest nest(indices.sizes, {data, CompactView(indices.sizes)});
  if (nest.is_empty()) return absl::OkStatus();
  CodeWriter& code = operation.code();
  // One element has no loop that its variables could stand in.
  code.Open();
  nest.Open(&code);
  WriteIndex(&code, "ScatterElements", "index",
             fmt::format("{}[{}]", indices.name, nest.At(1)), x.sizes[at]);
  code.Line("const int64_t to = {} + index * {};", nest.At(0), stride);
  code.Line(
      UpdateText(op.reduction, operation.out(), "to",
                 fmt::format("{}[{}]", operation.in(2).name, nest.At(1))));
  nest.Close(&code);
  code.Close();
  return absl::OkStatus();
}

// Updates are written in order: where two tuples are the same, the last one
// wins or both count, as the reduction says.
absl::Status WriteScatterNd(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  const int64_t depth = indices.sizes.back();
  const auto sizes = absl::MakeConstSpan(x.sizes);
  const int64_t slice = CountIn(sizes.subspan(static_cast<size_t>(depth)));
  WriteCopy(operation);
  if (operation.in(2).count() == 0) return absl::OkStatus();
  CodeWriter& code = operation.code();
  code.For("t", indices.count() / depth);
  for (int64_t k = 0; k < depth; ++k) {
    WriteIndex(&code, "ScatterND", fmt::format("index{}", k),
               fmt::format("{}[t * {} + {}]", indices.name, depth, k),
               x.sizes[static_cast<size_t>(k)]);
  }
  const View view = CompactView(x.sizes);
  const auto strides = absl::MakeConstSpan(view.strides);
  code.Line("const int64_t to = {};",
            IndexText("index", strides.first(static_cast<size_t>(depth))));
  code.For("i", slice);
  code.Line(UpdateText(
      operation.As<ops::ScatterND>()->reduction, operation.out(), "to + i",
      fmt::format("{}[t * {} + i]", operation.in(2).name, slice)));
  code.Close(2);
  return absl::OkStatus();
}

constexpr Row kPickRows[] = {
    MoveRow<ops::Gather>(&WriteGather),
    MoveRow<ops::GatherElements>(&WriteGatherElements),
    MoveRow<ops::GatherND>(&WriteGatherNd),
    LoopRow<ops::Scatter, ops::ScatterElements>(&WriteScatterElements),
    LoopRow<ops::ScatterND>(&WriteScatterNd),
};

}  // namespace

absl::Span<const Row> PickRows() { return kPickRows; }

}  // namespace nodewise::emit_c
