// Operators of signals: Fourier transforms. Each element of the output is a sum
// along a side, with weights.

#include <algorithm>
#include <optional>

#include "contrib/emit_c/operation_code.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/signal.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {
namespace {

// Each element of a longer one would take too long.
constexpr int64_t kMostLength = 4096;

// Fourier transforms, sum by sum: what is emitted is read and checked, and
// longer transforms are left to others.
absl::Status WriteTransform(OperationCode& operation,
                            std::optional<int64_t> axis, bool is_inverse,
                            bool is_onesided) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  if (!axis.has_value()) return Refuse("its axis is not constant");
  NODEWISE_ASSIGN_OR_RETURN(const size_t at, SideAt(*axis, x.sizes));
  const Lines lines = LinesAlong(x.sizes, at);
  const bool is_real_inverse = is_inverse && is_onesided;
  int64_t length = is_real_inverse ? 2 * (lines.size - 1) : lines.size;
  if (operation.has(1)) {
    const auto told = operation.Ints(1);
    if (!told.has_value()) return Refuse("its length is not constant");
    length = (*told)[0];
  }
  if (length > kMostLength) return Refuse("it is too long");
  const int64_t parts = x.sizes.back();
  const int64_t made = y.sizes.back();
  const int64_t lanes = lines.inner / parts;
  const int64_t given =
      std::min(lines.size, is_real_inverse ? length / 2 + 1 : length);
  CodeWriter& code = operation.code();
  code.For({{"o", lines.outer}, {"i", lanes}, {"k", y.sizes[at]}});
  code.Line("double re = 0.0, im = 0.0;");
  code.For("n", given);
  code.Line("const {}* const from = {} + ((o * {} + n) * {} + i) * {};",
            x.type(), x.name, lines.size, lanes, parts);
  code.Line(
      "const double angle = {}6.283185307179586 * (double)(k * n % {}) / {}.0;",
      is_inverse ? "" : "-", length, length);
  code.Line("const double a = from[0], c = cos(angle), s = sin(angle);");
  code.Line("const double b = {};", parts == 2 ? "from[1]" : "0.0");
  if (is_real_inverse) {
    // The other half of the spectrum is its mirror image, and what is its own
    // is real.
    code.Line("re += n == 0 || 2 * n == {} ? a * c : 2.0 * (a * c - b * s);",
              length);
  } else {
    code.Line("re += a * c - b * s;");
    code.Line("im += a * s + b * c;");
  }
  code.Close();
  code.Line("{0}* const to = {1} + ((o * {2} + k) * {3} + i) * {4};", y.type(),
            y.name, y.sizes[at], lanes, made);
  const std::string scale = is_inverse ? fmt::format(" / {}.0", length) : "";
  code.Line("to[0] = ({})(re{});", y.type(), scale);
  code.Line(made == 2 ? fmt::format("to[1] = ({})(im{});", y.type(), scale)
                      : "(void)im;");
  code.Close(3);
  return absl::OkStatus();
}

absl::Status WriteDft17(OperationCode& code) {
  const auto& op = *code.As<ops::DFT17>();
  return WriteTransform(code, op.axis, op.inverse, op.onesided);
}

// The axis became an input in opset 20, the last side but that of the parts by
// default.
absl::Status WriteDft(OperationCode& code) {
  const auto& op = *code.As<ops::DFT>();
  std::optional<int64_t> axis = -2;
  if (code.has(2)) {
    const auto told = code.Ints(2);
    axis = told.has_value() ? std::optional((*told)[0]) : std::nullopt;
  }
  return WriteTransform(code, axis, op.inverse, op.onesided);
}

constexpr Row kSignalRows[] = {
    SizedRow<ops::DFT17>(&WriteDft17),
    SizedRow<ops::DFT>(&WriteDft),
};

}  // namespace

absl::Span<const Row> SignalRows() { return kSignalRows; }

}  // namespace nodewise::emit_c
