// Operators that make the elements of their output up: from a few numbers, or
// from where each element stands.

#include <algorithm>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/constant.h"
#include "nodewise/ops/layout.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

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

constexpr Row kFillRows[] = {
    MoveRow<ops::ConstantOfShape>(&WriteConstantOfShape),
    MoveRow<ops::Shape>(&WriteShape),
    MoveRow<ops::Size>(&WriteSize),
    LoopRow<ops::Range>(&WriteRange),
    LoopRow<ops::EyeLike>(&WriteEyeLike),
    MoveRow<ops::Trilu>(&WriteTrilu),
    LoopRow<ops::OneHot>(&WriteOneHot),
};

}  // namespace

absl::Span<const Row> FillRows() { return kFillRows; }

}  // namespace nodewise::emit_c
