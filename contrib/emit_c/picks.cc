// Operators that pick elements by index, those that write into a copy of their
// first input by index, and those that make tensors of little.

#include <algorithm>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
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

absl::Status WriteFilled(OperationCode& operation, const std::string& value) {
  operation.code().Each("i", operation.out().count(), "{}[i] = {};",
                        operation.out().name, value);
  return absl::OkStatus();
}

// The shape itself is known: it is that of the output.
absl::Status WriteConstantOfShape(OperationCode& code) {
  const auto& op = *code.As<ops::ConstantOfShape>();
  return WriteFilled(code,
                     op.value.has_value() ? ElementText(*op.value, 0) : "0");
}

// Start and end may leave out sides; how many are left is the size of the
// output.
absl::Status WriteShape(OperationCode& code) {
  const auto& op = *code.As<ops::Shape>();
  const Sizes& x = code.in(0).sizes;
  const auto rank = static_cast<int64_t>(x.size());
  int64_t first = op.start < 0 ? op.start + rank : op.start;
  first = std::clamp<int64_t>(first, 0, rank);
  const Sizes part(x.begin() + first, x.begin() + first + code.out().count());
  return WriteFilled(code, code.store().Table(part) + "[i]");
}

absl::Status WriteSize(OperationCode& code) {
  return WriteFilled(code, IntegerText(code.in(0).count()));
}

// An element is start + i * delta as ONNX defines it, and not the one before
// plus delta, which would add up roundings. The limit is in the size of the
// output.
absl::Status WriteRange(OperationCode& code) {
  const CTensor& y = code.out();
  const std::string_view type =
      IsFloat(y.dtype) ? "double" : WrappingTypeOf(y.dtype);
  return WriteFilled(
      code, fmt::format("({0})(({1}){2}[0] + ({1})i * ({1}){3}[0])", y.type(),
                        type, code.in(0).name, code.in(2).name));
}

// Comparisons give 0 or 1 in C, which is converted to any type.
absl::Status WriteEyeLike(OperationCode& operation) {
  const CTensor& y = operation.out();
  CodeWriter& code = operation.code();
  code.For("i", y.sizes[0]);
  code.Each("j", y.sizes[1], "{}[i * {} + j] = j - i == {};", y.name,
            y.sizes[1], IntegerText(operation.As<ops::EyeLike>()->k));
  code.Close();
  return absl::OkStatus();
}

// The diagonal may be data, so it is a variable, and needs a block of its own.
absl::Status WriteTrilu(OperationCode& operation) {
  const CTensor& y = operation.out();
  const int64_t columns = y.sizes.back();
  const int64_t rows = y.sizes[y.sizes.size() - 2];
  CodeWriter& code = operation.code();
  code.Open();
  code.Line("const int64_t k = {};",
            operation.has(1) ? operation.in(1).name + "[0]" : "0");
  code.For({{"n", y.count() / (rows * columns)}, {"i", rows}, {"j", columns}});
  code.Line("const int64_t at = (n * {} + i) * {} + j;", rows, columns);
  code.Line(
      "{}[at] = j - i {} k ? {}[at] : 0;", y.name,
      operation.As<ops::Trilu>()->upper ? ">=" : "<=", operation.in(0).name);
  code.Close(4);
  return absl::OkStatus();
}

// All elements are "off" first, and then those that are picked "on". Indices
// out of range pick none.
absl::Status WriteOneHot(OperationCode& operation) {
  const CTensor& indices = operation.in(0);
  const CTensor& values = operation.in(2);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const size_t at,
                            SideAt(operation.As<ops::OneHot>()->axis, y.sizes));
  const Lines lines = LinesAlong(y.sizes, at);
  NODEWISE_RETURN_IF_ERROR(WriteFilled(operation, values.name + "[0]"));
  CodeWriter& code = operation.code();
  code.For({{"o", lines.outer}, {"i", lines.inner}});
  code.Line("const int64_t index = nw_index((int64_t){}[o * {} + i], {});",
            indices.name, lines.inner, lines.size);
  code.Line("if (index >= 0) {}[(o * {} + index) * {} + i] = {}[1];", y.name,
            lines.size, lines.inner, values.name);
  code.Close(2);
  return absl::OkStatus();
}

// Returns the statement that writes or adds an update, and so on.
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
    // Without a sign, so that it wraps around.
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

// Sides of the indices other than the axis may be shorter than those of the
// data: places are theirs then.
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
    MoveRow<ops::ConstantOfShape>(&WriteConstantOfShape),
    MoveRow<ops::Shape>(&WriteShape),
    MoveRow<ops::Size>(&WriteSize),
    LoopRow<ops::Range>(&WriteRange),
    LoopRow<ops::EyeLike>(&WriteEyeLike),
    MoveRow<ops::Trilu>(&WriteTrilu),
    LoopRow<ops::OneHot>(&WriteOneHot),
    LoopRow<ops::Scatter, ops::ScatterElements>(&WriteScatterElements),
    LoopRow<ops::ScatterND>(&WriteScatterNd),
};

}  // namespace

absl::Span<const Row> PickRows() { return kPickRows; }

}  // namespace nodewise::emit_c
