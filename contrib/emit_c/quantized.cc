// Operators between floats and short integers.

#include "contrib/emit_c/integer_products.h"
#include "contrib/emit_c/rows.h"
#include "fmt/format.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::emit_c {
namespace {

// Loops over all elements, which find their scale (and zero point).
struct ScaledLoops {
  int64_t outer = 1;
  int64_t size = 1;  // Along the axis.
  int64_t inner = 1;
  std::string element;  // The index of an element, and of its scale.
  std::string scale;

  void Open(CodeWriter* code) const {
    code->For("o", outer);
    code->For("k", size);
    code->For("i", inner);
  }
  static void Close(CodeWriter* code) { code->Close(3); }
};

absl::StatusOr<ScaledLoops> LoopsOf(const OperationCode& code, int64_t axis,
                                    int64_t block) {
  const auto x = absl::MakeConstSpan(code.in(0).sizes);
  const Sizes& scale = code.in(1).sizes;
  ScaledLoops loops;
  if (CountIn(scale) == 1 && scale.size() <= 1) {
    loops.inner = CountIn(x);
    loops.element = "i";
    loops.scale = "0";
    return loops;
  }
  // A vector has one axis only, so the default does not apply.
  const int rank = static_cast<int>(x.size());
  NODEWISE_ASSIGN_OR_RETURN(const int side, Axis(rank == 1 ? 0 : axis, rank));
  const auto at = static_cast<size_t>(side);
  loops.outer = CountIn(x.first(at));
  loops.size = x[at];
  loops.inner = CountIn(x.subspan(at + 1));
  loops.element = fmt::format("(o * {} + k) * {} + i", loops.size, loops.inner);
  loops.scale = "k";
  if (scale.size() == 1) return loops;
  loops.scale =
      fmt::format("(o * {} + k / {}) * {} + i", scale[at], block, loops.inner);
  return loops;
}

// Returns an expression of a float rounded to a type.
std::string RoundedText(const std::string& x, DLDataType to) {
  const std::string_view short_name = ShortFloatName(to);
  if (!short_name.empty()) return fmt::format("nw_as_{}({})", short_name, x);
  return fmt::format("({})({})", CTypeOf(to), x);
}

// Returns what the zero point adds, or "" if there is none.
std::string ZeroText(const OperationCode& code, const ScaledLoops& loops) {
  if (!code.has(2)) return "";
  return fmt::format("{}[{}]", code.in(2).name, loops.scale);
}

// Returns x / scale, rounded to the type that the operator divides in.
std::string QuotientText(const OperationCode& code, const ScaledLoops& loops,
                         DLDataType precision) {
  const auto part = [&](size_t i, const std::string& at) {
    return RoundedText(fmt::format("{}[{}]", code.in(i).name, at), precision);
  };
  return RoundedText(part(0, loops.element) + " / " + part(1, loops.scale),
                     precision);
}

// y = `element`, in all loops.
void WriteScaled(const OperationCode& code, const ScaledLoops& loops,
                 const std::string& element) {
  const CTensor& y = code.out();
  loops.Open(&code.code());
  code.code().Line(fmt::format("{}[{}] = ({})({});", y.name, loops.element,
                               y.type(), element));
  ScaledLoops::Close(&code.code());
}

absl::Status WriteQuantize(OperationCode& code) {
  const auto& op = *code.As<ops::QuantizeLinear>();
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops,
                            LoopsOf(code, op.axis, op.block_size));
  const DLDataType scale = code.StoredType(1);
  const DLDataType precision =
      op.precision.value_or(IsFloat(scale) ? scale : kFloat32);
  WriteScaled(code, loops,
              SaturatedText(QuotientText(code, loops, precision),
                            ZeroText(code, loops), code.out().dtype));
  return absl::OkStatus();
}

absl::Status WriteDequantize(OperationCode& code) {
  const auto& op = *code.As<ops::DequantizeLinear>();
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops,
                            LoopsOf(code, op.axis, op.block_size));
  const std::string zero = ZeroText(code, loops);
  WriteScaled(
      code, loops,
      fmt::format("((double){}[{}]{}) * (double){}[{}]", code.in(0).name,
                  loops.element, zero.empty() ? "" : " - " + zero,
                  code.in(1).name, loops.scale));
  return absl::OkStatus();
}

absl::Status WriteFakeQuantize(OperationCode& code) {
  const auto& op = *code.As<ops::FakeQuantize>();
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops,
                            LoopsOf(code, op.axis, op.block_size));
  const DLDataType between =
      op.output_dtype.value_or(code.has(2) ? code.StoredType(2) : kUint8);
  const std::string zero = ZeroText(code, loops);
  WriteScaled(
      code, loops,
      fmt::format("({}{}) * (double){}[{}]",
                  SaturatedText(QuotientText(code, loops, code.StoredType(1)),
                                zero, between),
                  zero.empty() ? "" : " - " + zero, code.in(1).name,
                  loops.scale));
  return absl::OkStatus();
}

// All in float32, since the operator is defined by others of that type.
absl::Status WriteDynamicQuantize(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  CodeWriter& code = operation.code();
  code.Open();
  code.Line("float low = 0, high = 0, scale;");
  code.Line("double zero;");
  code.For("i", x.count());
  code.Line(fmt::format("if ({0}[i] < low) low = {0}[i];", x.name));
  code.Line(fmt::format("if ({0}[i] > high) high = {0}[i];", x.name));
  code.Close();
  code.Line("scale = nw_dynamic_scale(low, high, &zero);");
  if (operation.wants(1)) {
    code.Line(fmt::format("{}[0] = scale;", operation.out(1).name));
  }
  if (operation.wants(2)) {
    code.Line(fmt::format("{}[0] = (uint8_t)zero;", operation.out(2).name));
  }
  if (operation.wants(0)) {
    code.For("i", x.count());
    code.Line(fmt::format(
        "{}[i] = (uint8_t)nw_dynamic_quantized({}[i], scale, zero);",
        operation.out(0).name, x.name));
    code.Close();
  }
  code.Close();
  return absl::OkStatus();
}

constexpr Row kQuantizedRows[] = {
    LoopRow<ops::QuantizeLinear>("QuantizeLinear", &WriteQuantize),
    LoopRow<ops::DequantizeLinear>("DequantizeLinear", &WriteDequantize),
    LoopRow<ops::FakeQuantize>("FakeQuantize", &WriteFakeQuantize),
    LoopRow<ops::DynamicQuantizeLinear>("DynamicQuantizeLinear",
                                        &WriteDynamicQuantize),
};

}  // namespace

absl::Span<const Row> QuantizedRows() { return kQuantizedRows; }

}  // namespace nodewise::emit_c
