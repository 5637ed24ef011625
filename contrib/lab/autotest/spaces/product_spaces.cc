// Products of matrices, also of quantised ones, and what makes tensors
// quantised; quantised convolutions are among the windows.

#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Two tiles of 16 and a rest, or one of 32: beyond that only time is added.
constexpr int64_t kMostProductSide = 40;
constexpr int kAxesSince = 13;
constexpr int kBlocksSince = 21;  // And integers of 16 bits, and output types.

constexpr InputDomain kScaleDomain = InputDomain::Within(1.0 / 64, 1);
// Scales of outputs are larger: a product of codes is larger than a code.
constexpr InputDomain kOutputScaleDomain = InputDomain::Within(0.25, 8);

// Integers came to both operators with opset 9.
DLDataType DrawProductType(ConfigurationDraw& draw) {
  return draw.Chance(15) && draw.opset() >= 9 ? draw.One({kInt32, kInt64})
                                              : draw.Float();
}

// Leading sides are a batch and broadcast; most products have none.
void DrawMatMul(ConfigurationDraw& draw) {
  const DLDataType dtype = DrawProductType(draw);
  const int64_t m = draw.Side(kMostProductSide, true);
  const int64_t k = draw.Side(kMostProductSide, true);
  const int64_t n = draw.Side(kMostProductSide, true);
  Ints batch;
  for (int64_t i = draw.One<int64_t>({0, 0, 1, 2}); i > 0; --i) {
    batch.push_back(draw.Between(1, 3));
  }
  Ints a = draw.PartOf(batch);
  Ints b = draw.PartOf(batch);
  a.insert(a.end(), {m, k});
  b.insert(b.end(), {k, n});
  // Vectors have no batch.
  if (draw.Chance(10)) a = {k};
  if (draw.Chance(10)) b = {k};
  draw.Input(dtype, std::move(a));
  draw.Weight(dtype, std::move(b));
}

void DrawGemm(ConfigurationDraw& draw) {
  const DLDataType dtype = DrawProductType(draw);
  const int64_t m = draw.Side(kMostProductSide, true);
  const int64_t k = draw.Side(kMostProductSide, true);
  const int64_t n = draw.Side(kMostProductSide, true);
  const bool turns_a = draw.Chance();
  const bool turns_b = draw.Chance();
  draw.AttrUnless("transA", turns_a, 0, 20);
  draw.AttrUnless("transB", turns_b, 0, 20);
  for (const char* name : {"alpha", "beta"}) {
    if (!draw.Chance(30)) continue;
    draw.Attr(name, draw.One<float>({1, 2, 0.5, -1, 0, 0.3F}));
  }
  draw.Input(dtype, turns_a ? Ints{k, m} : Ints{m, k});
  draw.Weight(dtype, turns_b ? Ints{n, k} : Ints{k, n});
  // The bias is repeated as an attribute says below version 7, always from then
  // on, and may be left out from opset 11 on.
  if (draw.def().since < 7) {
    const bool broadcasts = draw.Chance();
    draw.AttrUnless("broadcast", broadcasts, 0);
    draw.Weight(dtype, broadcasts ? draw.PartOf({m, n}) : Ints{m, n});
  } else if (draw.opset() < 11 || draw.Chance(70)) {
    draw.Weight(dtype, draw.PartOf({m, n}));
  }
}

// The usual type comes first, and once more among the new ones.
DLDataType DrawCode(ConfigurationDraw& draw) {
  return draw.opset() >= kBlocksSince
             ? draw.One({kUint8, kInt8, kUint8, kInt16, kUint16})
             : draw.One({kUint8, kInt8});
}

// An int32 is kept to what a float32 holds exactly.
InputDomain CodesOf(DLDataType dtype) {
  if (dtype == kInt8) return InputDomain::Whole(-128, 127);
  if (dtype == kUint8) return InputDomain::Whole(0, 255);
  if (dtype == kInt32) return InputDomain::Whole(-(1 << 23), 1 << 23);
  return InputDomain::Whole(dtype == kInt16 ? -32768 : 0, 65535);
}

// One scale for all, one for each place along an axis, or one for each block.
Ints DrawScaleShape(ConfigurationDraw& draw, const Ints& shape) {
  const int64_t kind =
      draw.opset() < kAxesSince
          ? 0
          : draw.Between(0, draw.opset() < kBlocksSince ? 1 : 2);
  // Without the attribute the axis is 1, which a vector does not have.
  int64_t axis = 1;
  if (draw.opset() >= kAxesSince && (shape.size() < 2 || draw.Chance(70))) {
    axis = draw.SignedAxis(shape.size());
    draw.Attr("axis", axis);
  }
  const size_t place = PlaceOf(axis, shape);
  if (kind == 0) {
    if (draw.opset() >= kBlocksSince && draw.Chance(20)) {
      draw.Attr("block_size", 0);
    }
    return draw.Chance(30) ? Ints{1} : Ints{};
  }
  const int64_t side = shape[place];
  if (kind == 1) return {side};
  const int64_t block = draw.Between(1, std::min<int64_t>(side, 8));
  draw.Attr("block_size", block);
  // The last block may be shorter.
  Ints blocks = shape;
  blocks[place] = (side + block - 1) / block;
  return blocks;
}

void DrawQuantize(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const DLDataType code = DrawCode(draw);
  const DLDataType dtype = draw.opset() >= kBlocksSince ? draw.Float()
                           : draw.Chance(10)            ? kInt32
                                                        : kFloat32;
  const Ints scale = DrawScaleShape(draw, shape);
  // The zero point says which type comes out; without one it is uint8.
  const bool has_zero = code != kUint8 || draw.Chance(70);
  if (draw.opset() >= kBlocksSince && (has_zero || code == kUint8)) {
    if (draw.Chance(30)) draw.TypeAttr("output_dtype", code);
  }
  if (draw.opset() >= 23 && draw.Chance(20)) {
    draw.TypeAttr("precision", draw.One({kFloat32, kFloat16, kFloat64}));
  }
  if (draw.opset() >= 19) draw.Flag("saturate");
  // Some saturate with the smaller scales, and no type has a code for NaN.
  InputDomain values{-30, 30};
  values.may_be_nan = false;
  draw.Input(dtype, shape, values);
  draw.Weight(IsFloat(dtype) ? dtype : kFloat32, scale, kScaleDomain);
  if (has_zero) {
    InputDomain zeros = CodesOf(code);
    zeros.most = std::min(zeros.most, 200.0);
    zeros.least = std::max(zeros.least, -100.0);
    draw.Weight(code, scale, zeros);
  }
}

void DrawDequantize(ConfigurationDraw& draw) {
  const Ints shape = draw.Sides(1, 4, false);
  const DLDataType code = draw.Chance(15) ? kInt32 : DrawCode(draw);
  const Ints scale = DrawScaleShape(draw, shape);
  const DLDataType of_scale = draw.opset() >= 19 && draw.Chance(30)
                                  ? draw.One({kFloat16, kBfloat16})
                                  : kFloat32;
  if (draw.opset() >= 23 && draw.Chance(30)) {
    draw.TypeAttr("output_dtype", draw.One({kFloat32, kFloat16}));
  }
  draw.Input(code, shape, CodesOf(code));
  draw.Weight(of_scale, scale, kScaleDomain);
  if (draw.Chance(70)) {
    // An int32 has no zero point but 0.
    draw.Weight(code, scale,
                code == kInt32 ? InputDomain::Whole(0, 0) : CodesOf(code));
  }
}

// Scale and zero point are results, and depend on the least and the largest
// number.
void DrawDynamicQuantize(ConfigurationDraw& draw) {
  draw.Outputs(3);
  draw.Input(kFloat32, draw.Sides(1, 4, false), InputDomain::Within(-4, 4));
}

// Floats of 8 bits, or now and then integers: quarters, as far as the type has
// them. Few, so that each may be a choice of its own.
void DrawBytes(ConfigurationDraw& draw, DLDataType dtype, const Ints& shape) {
  const Choices::Group group(draw.choices());
  std::vector<double> numbers;
  for (int64_t count = Product(shape); count > 0; --count) {
    numbers.push_back(static_cast<double>(draw.Between(0, 32) - 16) / 4);
  }
  draw.Numbers(dtype, shape, numbers, draw.Chance());
}

void DrawFloatMatMul(ConfigurationDraw& draw) {
  constexpr int64_t kMost = 5;
  const auto draw_type = [&draw] {
    return draw.One({DLDataType{kDTypeE4M3, 8, 1}, DLDataType{kDTypeE5M2, 8, 1},
                     DLDataType{kDTypeE4M3Fnuz, 8, 1},
                     DLDataType{kDTypeE5M2Fnuz, 8, 1}, kInt8});
  };
  const DLDataType of_a = draw_type();
  const DLDataType of_b = draw_type();
  const int64_t m = draw.Side(kMost);
  const int64_t k = draw.Side(kMost);
  const int64_t n = draw.Side(kMost);
  const Ints rows = draw.Chance(30) ? Ints{m} : Ints{};
  const Ints columns = draw.Chance(30) ? Ints{n} : Ints{};
  DrawBytes(draw, of_a, {m, k});
  draw.Weight(kFloat32, rows, kScaleDomain);
  DrawBytes(draw, of_a, rows);
  DrawBytes(draw, of_b, {k, n});
  draw.Weight(kFloat32, columns, kScaleDomain);
  DrawBytes(draw, of_b, columns);
  draw.Weight(kFloat32, {}, kOutputScaleDomain);
  DrawBytes(draw, draw_type(), {});
}

// Both operators read each operand with its zero point; QLinearMatMul has
// scales as well, and those of the output.
void DrawIntegerMatMul(ConfigurationDraw& draw) {
  const bool has_scales = draw.Is("QLinearMatMul");
  if (has_scales && draw.opset() >= kBlocksSince && draw.Chance(20)) {
    return DrawFloatMatMul(draw);
  }
  constexpr int64_t kMost = 33;
  const DLDataType of_a = draw.One({kUint8, kInt8});
  const DLDataType of_b = draw.One({kUint8, kInt8});
  const int64_t m = draw.Side(kMost);
  const int64_t k = draw.Side(kMost);
  const int64_t n = draw.Side(kMost);
  const bool has_batch = draw.Chance(25);
  const Ints a = has_batch ? Ints{2, m, k} : Ints{m, k};
  const Ints b = has_batch && draw.Chance() ? Ints{2, k, n} : Ints{k, n};
  const InputDomain zeros = InputDomain::Whole(-20, 100);
  const bool is_by_column = b.size() == 2 && draw.Chance();
  const Ints columns = is_by_column ? Ints{n} : Ints{};
  draw.Input(of_a, a, CodesOf(of_a));
  if (!has_scales) {
    draw.Weight(of_b, b, CodesOf(of_b));
    draw.WeightIf(draw.Chance(70), of_a, {}, zeros);
    if (draw.Chance(70)) draw.Weight(of_b, columns, zeros);
    return;
  }
  draw.Weight(kFloat32, {}, kScaleDomain);
  draw.Weight(of_a, {}, zeros);
  draw.Weight(of_b, b, CodesOf(of_b));
  draw.Weight(kFloat32, columns, kScaleDomain);
  draw.Weight(of_b, columns, zeros);
  draw.Weight(kFloat32, {}, kOutputScaleDomain);
  draw.Weight(of_a, {}, zeros);
}

constexpr OperatorSpace kProductSpaces[] = {
    {&DrawDequantize, "DequantizeLinear"},
    {&DrawDynamicQuantize, "DynamicQuantizeLinear"},
    {&DrawGemm, "Gemm"},
    {&DrawMatMul, "MatMul"},
    {&DrawIntegerMatMul, "MatMulInteger QLinearMatMul"},
    {&DrawQuantize, "QuantizeLinear"}};

}  // namespace

absl::Span<const OperatorSpace> ProductSpaces() { return kProductSpaces; }

}  // namespace nodewise
