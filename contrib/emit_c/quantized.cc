// Operators between floats and short integers, and what products of short
// integers share.

#include "contrib/emit_c/quantized.h"

#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/support/status.h"

namespace nodewise::emit_c {

CTensor CentredCopy(OperationCode& code, size_t slot, size_t zero_slot,
                    const View& zero_view) {
  const CTensor& x = code.in(slot);
  // 16 bits hold the difference of any two numbers of 8 bits, and compilers
  // multiply them faster than those of 32.
  const CTensor copy = code.store().ScratchTensor(kInt16, x.sizes);
  const LoopNest nest(x.sizes, {CompactView(x.sizes), zero_view});
  if (nest.is_empty()) return copy;
  const std::string zero =
      code.has(zero_slot)
          ? fmt::format(" - {}[{}]", code.in(zero_slot).name, nest.At(1))
          : "";
  nest.Each(&code.code(), "{0}[{1}] = (int16_t)({2}[{1}]{3});", copy.name,
            nest.At(0), x.name, zero);
  return copy;
}

absl::Status RequireOneScale(const OperationCode& code) {
  for (const size_t i : {6, 7}) {
    if (code.in(i).count() == 1) continue;
    return Refuse("input {}: has {} elements, expected 1", i,
                  code.in(i).count());
  }
  return absl::OkStatus();
}

// "factor" is the product of the scales of both factors; the sum is multiplied
// by it before it is divided by the scale of the output.
std::string RequantizedText(const OperationCode& code, const std::string& sum) {
  const DLDataType to = code.out().dtype;
  return fmt::format("({}){}", CTypeOf(to),
                     SaturatedText(fmt::format("{} * factor / (double){}[0]",
                                               sum, code.in(6).name),
                                   code.in(7).name + "[0]", to));
}

std::string SaturatedText(const std::string& x, const std::string& zero,
                          DLDataType to) {
  const int64_t values = int64_t{1} << to.bits;
  const int64_t low = to.code == kDLUInt ? 0 : -values / 2;
  const std::string moved = zero.empty() ? "" : " + " + zero;
  return fmt::format("nw_saturated(nearbyint({}){}, {}, {})", x, moved, low,
                     low + values - 1);
}

void OpenDynamicScale(CodeWriter* code, const CTensor& x) {
  code->Open();
  code->Line("float low = 0, high = 0, scale;");
  code->Line("double zero;");
  code->For("i", x.count());
  code->Line("if ({0}[i] < low) low = {0}[i];", x.name);
  code->Line("if ({0}[i] > high) high = {0}[i];", x.name);
  code->Close();
  code->Line("scale = nw_dynamic_scale(low, high, &zero);");
}

namespace {

// The index of an element, and of its scale (and zero point), in loops over all
// elements.
struct ScaledLoops {
  Lines lines;
  std::string element;
  std::string scale;
};

// One scale is for all elements, a list has one for each place of the axis, and
// others are for blocks along the axis.
template <typename Class>
absl::StatusOr<ScaledLoops> LoopsOf(const OperationCode& code,
                                    const Class& op) {
  const Sizes& x = code.in(0).sizes;
  const Sizes& scale = code.in(1).sizes;
  if (CountIn(scale) == 1 && scale.size() <= 1) {
    return ScaledLoops{{1, 1, CountIn(x)}, "i", "0"};
  }
  // A vector has one axis only, so the default does not apply.
  NODEWISE_ASSIGN_OR_RETURN(const size_t side,
                            SideAt(x.size() == 1 ? 0 : op.axis, x));
  const Lines lines = LinesAlong(x, side);
  return ScaledLoops{
      lines, fmt::format("(o * {} + k) * {} + i", lines.size, lines.inner),
      scale.size() == 1 ? "k"
                        : fmt::format("(o * {} + k / {}) * {} + i", scale[side],
                                      op.block_size, lines.inner)};
}

std::string RoundedText(const std::string& x, DLDataType to) {
  const std::string_view short_name = ShortFloatName(to);
  if (!short_name.empty()) return fmt::format("nw_as_{}({})", short_name, x);
  return fmt::format("({})({})", CTypeOf(to), x);
}

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

void WriteScaled(const OperationCode& code, const ScaledLoops& loops,
                 const std::string& element) {
  const CTensor& y = code.out();
  code.code().For({{"o", loops.lines.outer}, {"k", loops.lines.size}});
  code.code().Each("i", loops.lines.inner, "{}[{}] = ({})({});", y.name,
                   loops.element, y.type(), element);
  code.code().Close(2);
}

// The operator divides in the type that its attribute names, or in that of the
// scale, or in float32 where the scale is not a float. Rounding to a shorter
// float after each step gives its bits.
absl::Status WriteQuantize(OperationCode& code) {
  const auto& op = *code.As<ops::QuantizeLinear>();
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops, LoopsOf(code, op));
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
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops, LoopsOf(code, op));
  const std::string zero = ZeroText(code, loops);
  WriteScaled(
      code, loops,
      fmt::format("((double){}[{}]{}) * (double){}[{}]", code.in(0).name,
                  loops.element, zero.empty() ? "" : " - " + zero,
                  code.in(1).name, loops.scale));
  return absl::OkStatus();
}

// Numbers are rounded to integers and scaled back at once. The integers are of
// the type that the attribute names, or else of the zero point's, or else
// uint8.
absl::Status WriteFakeQuantize(OperationCode& code) {
  const auto& op = *code.As<ops::FakeQuantize>();
  NODEWISE_ASSIGN_OR_RETURN(const ScaledLoops loops, LoopsOf(code, op));
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

// ONNX defines the operator by others of float32, so all of it is computed in
// float32.
absl::Status WriteDynamicQuantize(OperationCode& operation) {
  const CTensor& x = operation.in(0);
  CodeWriter& code = operation.code();
  OpenDynamicScale(&code, x);
  if (operation.wants(1)) {
    code.Line("{}[0] = scale;", operation.out(1).name);
  }
  if (operation.wants(2)) {
    code.Line("{}[0] = (uint8_t)zero;", operation.out(2).name);
  }
  if (operation.wants(0)) {
    code.Each("i", x.count(),
              "{}[i] = (uint8_t)nw_dynamic_quantized({}[i], scale, zero);",
              operation.out(0).name, x.name);
  }
  code.Close();
  return absl::OkStatus();
}

constexpr Row kQuantizedRows[] = {
    LoopRow<ops::QuantizeLinear>(&WriteQuantize),
    LoopRow<ops::DequantizeLinear>(&WriteDequantize),
    LoopRow<ops::FakeQuantize>(&WriteFakeQuantize),
    LoopRow<ops::DynamicQuantizeLinear>(&WriteDynamicQuantize),
};

}  // namespace

absl::Span<const Row> QuantizedRows() { return kQuantizedRows; }

}  // namespace nodewise::emit_c
