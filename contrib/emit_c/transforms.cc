// Fourier transforms, sum by sum: what is emitted is read and checked, and
// longer transforms are left to others.

#include <algorithm>
#include <optional>

#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/ops/signal.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// Each element of a longer one would take too long.
constexpr int64_t kMostLength = 4096;

struct Transform {
  std::optional<int64_t> axis;
  bool inverse = false;
  bool onesided = false;
};

absl::Status WriteTransform(OperationCode& operation, const Transform& op) {
  const CTensor& x = operation.in(0);
  const CTensor& y = operation.out();
  if (!op.axis.has_value()) return Refuse("its axis is not constant");
  NODEWISE_ASSIGN_OR_RETURN(const int axis,
                            Axis(*op.axis, static_cast<int>(x.sizes.size())));
  const auto at = static_cast<size_t>(axis);
  const bool is_real_inverse = op.inverse && op.onesided;
  int64_t length = is_real_inverse ? 2 * (x.sizes[at] - 1) : x.sizes[at];
  if (operation.has(1)) {
    const auto told = operation.Ints(1);
    if (!told.has_value()) return Refuse("its length is not constant");
    length = (*told)[0];
  }
  if (length > kMostLength) return Refuse("it is too long");
  if (y.count() == 0) return absl::OkStatus();
  const int64_t parts = x.sizes.back();
  const int64_t made = y.sizes.back();
  const int64_t lanes =
      CountIn(absl::MakeConstSpan(x.sizes).subspan(at + 1)) / parts;
  const int64_t given =
      std::min(x.sizes[at], is_real_inverse ? length / 2 + 1 : length);
  CodeWriter& code = operation.code();
  code.For("o", CountIn(absl::MakeConstSpan(x.sizes).subspan(0, at)));
  code.For("i", lanes);
  code.For("k", y.sizes[at]);
  code.Line("double re = 0.0, im = 0.0;");
  code.For("n", given);
  code.Line(
      fmt::format("const {}* const from = {} + ((o * {} + n) * {} + i) * {};",
                  x.type(), x.name, x.sizes[at], lanes, parts));
  code.Line(
      fmt::format("const double angle = {}6.283185307179586 * "
                  "(double)(k * n % {}) / {}.0;",
                  op.inverse ? "" : "-", length, length));
  code.Line("const double a = from[0], c = cos(angle), s = sin(angle);");
  code.Line(
      fmt::format("const double b = {};", parts == 2 ? "from[1]" : "0.0"));
  if (is_real_inverse) {
    // The other half of the spectrum is its mirror image, and what is its own
    // is real.
    code.Line(
        fmt::format("re += n == 0 || 2 * n == {} ? a * c : 2.0 * (a * c "
                    "- b * s);",
                    length));
  } else {
    code.Line("re += a * c - b * s;");
    code.Line("im += a * s + b * c;");
  }
  code.Close();
  code.Line(
      fmt::format("{0}* const to = {1} + ((o * {2} + k) * {3} + i) * {4};",
                  y.type(), y.name, y.sizes[at], lanes, made));
  const std::string scale = op.inverse ? fmt::format(" / {}.0", length) : "";
  code.Line(fmt::format("to[0] = ({})(re{});", y.type(), scale));
  code.Line(made == 2 ? fmt::format("to[1] = ({})(im{});", y.type(), scale)
                      : "(void)im;");
  code.Close(3);
  return absl::OkStatus();
}

absl::Status WriteDft17(OperationCode& code) {
  const auto& op = *code.As<ops::DFT17>();
  return WriteTransform(code, {op.axis, op.inverse, op.onesided});
}

absl::Status WriteDft(OperationCode& code) {
  const auto& op = *code.As<ops::DFT>();
  Transform transform{-2, op.inverse, op.onesided};
  if (code.has(2)) {
    const auto told = code.Ints(2);
    transform.axis.reset();
    if (told.has_value()) transform.axis = (*told)[0];
  }
  return WriteTransform(code, transform);
}

constexpr Row kTransformRows[] = {
    SizedRow<ops::DFT17>("DFT", &WriteDft17),
    SizedRow<ops::DFT>("DFT", &WriteDft),
};

}  // namespace

absl::Span<const Row> TransformRows() { return kTransformRows; }

}  // namespace nodewise::emit_c
