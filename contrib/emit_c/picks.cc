// Operators that pick elements by index, and those that make tensors of little.

#include <algorithm>

#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/indexing.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

absl::Status WriteGather(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(operation.As<ops::Gather>()->axis,
                                 static_cast<int>(x.sizes.size())));
  const auto at = static_cast<size_t>(axis);
  const auto sizes = absl::MakeConstSpan(x.sizes);
  const int64_t outer = CountIn(sizes.subspan(0, at));
  const int64_t inner = CountIn(sizes.subspan(at + 1));
  if (y.count() == 0) return absl::OkStatus();
  CodeWriter& code = operation.code();
  code.For("o", outer);
  code.For("i", indices.count());
  WriteIndex(&code, "Gather", "index", indices.name + "[i]", sizes[at]);
  code.Line(fmt::format(
      "memcpy({0} + (o * {1} + i) * {2}, {3} + (o * {4} + index) * {2}, {2} * "
      "sizeof(*{0}));",
      y.name, indices.count(), inner, x.name, sizes[at]));
  code.Close(2);
  return absl::OkStatus();
}

absl::Status WriteGatherElements(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  const CTensor& indices = operation.in(1);
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(operation.As<ops::GatherElements>()->axis,
                                 static_cast<int>(x.sizes.size())));
  const auto at = static_cast<size_t>(axis);
  View from = CompactView(x.sizes);
  const int64_t stride = from.strides[at];
  from.strides[at] = 0;
  const LoopNest nest(indices.sizes, {from, CompactView(indices.sizes)});
  if (nest.is_empty()) return absl::OkStatus();
  CodeWriter& code = operation.code();
  nest.Open(&code);
  WriteIndex(&code, "GatherElements", "index",
             fmt::format("{}[{}]", indices.name, nest.At(1)), x.sizes[at]);
  code.Line(fmt::format("{}[{}] = {}[{} + index * {}];", operation.out().name,
                        nest.At(1), x.name, nest.At(0), stride));
  nest.Close(&code);
  return absl::OkStatus();
}

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
  if (y.count() == 0) return absl::OkStatus();
  const int64_t tuples = y.count() / (batch * slice);
  const View view = CompactView(x.sizes);
  CodeWriter& code = operation.code();
  code.For("b", batch);
  code.For("t", tuples);
  std::string from = fmt::format("b * {}", x.count() / batch);
  for (int64_t k = 0; k < length; ++k) {
    const size_t side = batches + static_cast<size_t>(k);
    WriteIndex(&code, "GatherND", fmt::format("index{}", k),
               fmt::format("{}[(b * {} + t) * {} + {}]", indices.name, tuples,
                           length, k),
               sizes[side]);
    from += fmt::format(" + index{} * {}", k, view.strides[side]);
  }
  code.Line(fmt::format(
      "memcpy({0} + (b * {1} + t) * {2}, {3} + {4}, {2} * sizeof(*{0}));",
      y.name, tuples, slice, x.name, from));
  code.Close(2);
  return absl::OkStatus();
}

void WriteFilled(OperationCode& operation, const std::string& value) {
  CodeWriter& code = operation.code();
  code.For("i", operation.out().count());
  code.Line(fmt::format("{}[i] = {};", operation.out().name, value));
  code.Close();
}

absl::Status WriteConstantOfShape(OperationCode& code) {
  const auto& op = *code.As<ops::ConstantOfShape>();
  WriteFilled(code, op.value.has_value() ? ElementText(*op.value, 0) : "0");
  return absl::OkStatus();
}

absl::Status WriteShape(OperationCode& code) {
  const auto& op = *code.As<ops::Shape>();
  const Sizes& x = code.in(0).sizes;
  const auto rank = static_cast<int64_t>(x.size());
  int64_t first = op.start < 0 ? op.start + rank : op.start;
  first = std::clamp<int64_t>(first, 0, rank);
  const Sizes part(x.begin() + first, x.begin() + first + code.out().count());
  if (part.empty()) return absl::OkStatus();
  WriteFilled(code, code.store().Table(part) + "[i]");
  return absl::OkStatus();
}

absl::Status WriteSize(OperationCode& code) {
  WriteFilled(code, IntegerText(code.in(0).count()));
  return absl::OkStatus();
}

absl::Status WriteRange(OperationCode& code) {
  const CTensor& y = code.out();
  const std::string_view type =
      IsFloat(y.dtype) ? "double" : WrappingTypeOf(y.dtype);
  WriteFilled(code,
              fmt::format("({0})(({1}){2}[0] + ({1})i * ({1}){3}[0])", y.type(),
                          type, code.in(0).name, code.in(2).name));
  return absl::OkStatus();
}

absl::Status WriteEyeLike(OperationCode& operation) {
  const CTensor& y = operation.out();
  if (y.count() == 0) return absl::OkStatus();
  CodeWriter& code = operation.code();
  code.For("i", y.sizes[0]);
  code.For("j", y.sizes[1]);
  code.Line(fmt::format("{}[i * {} + j] = j - i == {};", y.name, y.sizes[1],
                        IntegerText(operation.As<ops::EyeLike>()->k)));
  code.Close(2);
  return absl::OkStatus();
}

absl::Status WriteTrilu(OperationCode& operation) {
  const CTensor& y = operation.out();
  if (y.count() == 0) return absl::OkStatus();
  const int64_t columns = y.sizes.back();
  const int64_t rows = y.sizes[y.sizes.size() - 2];
  CodeWriter& code = operation.code();
  code.Open();
  code.Line(fmt::format("const int64_t k = {};",
                        operation.has(1) ? operation.in(1).name + "[0]" : "0"));
  code.For("n", y.count() / (rows * columns));
  code.For("i", rows);
  code.For("j", columns);
  code.Line(
      fmt::format("const int64_t at = (n * {} + i) * {} + j;", rows, columns));
  code.Line(fmt::format(
      "{}[at] = j - i {} k ? {}[at] : 0;", y.name,
      operation.As<ops::Trilu>()->upper ? ">=" : "<=", operation.in(0).name));
  code.Close(4);
  return absl::OkStatus();
}

absl::Status WriteOneHot(OperationCode& operation) {
  const CTensor& indices = operation.in(0);
  const CTensor& values = operation.in(2);
  const CTensor& y = operation.out();
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(operation.As<ops::OneHot>()->axis,
                                 static_cast<int>(y.sizes.size())));
  const auto at = static_cast<size_t>(axis);
  const auto sizes = absl::MakeConstSpan(y.sizes);
  const int64_t inner = CountIn(sizes.subspan(at + 1));
  if (y.count() == 0) return absl::OkStatus();
  WriteFilled(operation, values.name + "[0]");
  CodeWriter& code = operation.code();
  code.For("o", CountIn(sizes.subspan(0, at)));
  code.For("i", inner);
  code.Line(fmt::format(
      "const int64_t index = nw_index((int64_t){}[o * {} + i], {});",
      indices.name, inner, sizes[at]));
  code.Line(
      fmt::format("if (index >= 0) {}[(o * {} + index) * {} + i] = {}[1];",
                  y.name, sizes[at], inner, values.name));
  code.Close(2);
  return absl::OkStatus();
}

constexpr Row kPickRows[] = {
    MoveRow<ops::Gather>("Gather", &WriteGather),
    MoveRow<ops::GatherElements>("GatherElements", &WriteGatherElements),
    MoveRow<ops::GatherND>("GatherND", &WriteGatherNd),
    MoveRow<ops::ConstantOfShape>("ConstantOfShape", &WriteConstantOfShape),
    MoveRow<ops::Shape>("Shape", &WriteShape),
    MoveRow<ops::Size>("Size", &WriteSize),
    LoopRow<ops::Range>("Range", &WriteRange),
    LoopRow<ops::EyeLike>("EyeLike", &WriteEyeLike),
    MoveRow<ops::Trilu>("Trilu", &WriteTrilu),
    LoopRow<ops::OneHot>("OneHot", &WriteOneHot),
};

}  // namespace

absl::Span<const Row> PickRows() { return kPickRows; }

}  // namespace nodewise::emit_c
