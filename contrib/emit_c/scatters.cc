// Operators that write into a copy of their first input, by index.

#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

using ops::ScatterReduction;

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

void WriteCopy(OperationCode& operation) {
  const CTensor& y = operation.out();
  operation.code().Line(fmt::format("memcpy({0}, {1}, {2} * sizeof(*{0}));",
                                    y.name, operation.in(0).name, y.count()));
}

template <typename Class>
absl::Status WriteScatterElements(OperationCode& operation) {
  const ops::ScatterElements& op = *operation.As<Class>();
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(op.axis, static_cast<int>(x.sizes.size())));
  const auto at = static_cast<size_t>(axis);
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    if (i != at && indices.sizes[i] > x.sizes[i]) {
      return Refuse("a side of its indices is too long");
    }
  }
  View to = CompactView(x.sizes);
  const int64_t stride = to.strides[at];
  to.strides[at] = 0;
  WriteCopy(operation);
  const LoopNest nest(indices.sizes, {to, CompactView(indices.sizes)});
  if (nest.is_empty()) return absl::OkStatus();
  CodeWriter& code = operation.code();
  // One element has no loop that its variables could stand in.
  code.Open();
  nest.Open(&code);
  WriteIndex(&code, "ScatterElements", "index",
             fmt::format("{}[{}]", indices.name, nest.At(1)), x.sizes[at]);
  code.Line(
      fmt::format("const int64_t to = {} + index * {};", nest.At(0), stride));
  code.Line(
      UpdateText(op.reduction, operation.out(), "to",
                 fmt::format("{}[{}]", operation.in(2).name, nest.At(1))));
  nest.Close(&code);
  code.Close();
  return absl::OkStatus();
}

absl::Status WriteScatterNd(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  const int64_t depth = indices.sizes.back();
  const auto sizes = absl::MakeConstSpan(x.sizes);
  const int64_t slice = CountIn(sizes.subspan(static_cast<size_t>(depth)));
  WriteCopy(operation);
  if (operation.in(2).count() == 0) return absl::OkStatus();
  const View view = CompactView(x.sizes);
  CodeWriter& code = operation.code();
  code.For("t", indices.count() / depth);
  std::string to;
  for (int64_t k = 0; k < depth; ++k) {
    const auto side = static_cast<size_t>(k);
    WriteIndex(&code, "ScatterND", fmt::format("index{}", k),
               fmt::format("{}[t * {} + {}]", indices.name, depth, k),
               x.sizes[side]);
    to += fmt::format("{}index{} * {}", k == 0 ? "" : " + ", k,
                      view.strides[side]);
  }
  code.Line(fmt::format("const int64_t to = {};", to));
  code.For("i", slice);
  code.Line(UpdateText(
      operation.As<ops::ScatterND>()->reduction, operation.out(), "to + i",
      fmt::format("{}[t * {} + i]", operation.in(2).name, slice)));
  code.Close(2);
  return absl::OkStatus();
}

constexpr Row kScatterRows[] = {
    LoopRow<ops::Scatter>("Scatter", &WriteScatterElements<ops::Scatter>),
    LoopRow<ops::ScatterElements>("ScatterElements",
                                  &WriteScatterElements<ops::ScatterElements>),
    LoopRow<ops::ScatterND>("ScatterND", &WriteScatterNd),
};

}  // namespace

absl::Span<const Row> ScatterRows() { return kScatterRows; }

}  // namespace nodewise::emit_c
