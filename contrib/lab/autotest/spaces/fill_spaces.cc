// Operators that make tensors of little or nothing: constants, counting
// numbers, windows of signals, random numbers.

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Sizes and limits are constants most of the time, since few candidates take
// shapes that only a run tells.
bool DrawsConstant(ConfigurationDraw& draw) { return !draw.Chance(15); }

// Draws a tensor for an attribute; undefined if there is no memory for it.
NDArray DrawAttrTensor(ConfigurationDraw& draw, DLDataType dtype,
                       const Ints& shape) {
  return DrawTensor(dtype, shape, {}, draw.choices()).value_or(NDArray());
}

// One of several attributes is the value; those that are not tensors came with
// opset 12. Words are left out: no kernel calculates with them.
void DrawConstant(ConfigurationDraw& draw) {
  const int64_t kind = draw.opset() >= 12 ? draw.Between(0, 4) : 0;
  switch (kind) {
    case 0:
      return draw.Attr("value",
                       DrawAttrTensor(draw, draw.Any(), draw.Sides(0, 3)));
    case 1:
      return draw.Attr("value_float", draw.One<float>({0, 1.5F, -2}));
    case 2:
      return draw.Attr("value_int", draw.Between(-3, 3));
    case 3:
      return draw.Attr("value_floats",
                       draw.One<std::vector<float>>({{1.5F}, {0.5F, -2}, {}}));
    default:
      return draw.Attr("value_ints", draw.One<Ints>({{1}, {0, -2, 3}, {1, 2}}));
  }
}

void DrawConstantOfShape(ConfigurationDraw& draw) {
  if (draw.Chance(75))
    draw.Attr("value", DrawAttrTensor(draw, draw.Any(), {1}));
  draw.Ints(draw.Sides(0, 4));
}

// Float steps are such that they add up exactly in any type. The limit is the
// number behind the last one, or for floats half a unit before it now and then:
// how many numbers there are is a division that has to be rounded up.
void DrawRange(ConfigurationDraw& draw) {
  const DLDataType dtype =
      draw.Type({kFloat32, kInt64, kInt32, kFloat64, kInt16});
  const double unit = IsFloat(dtype) && draw.Chance() ? 0.25 : 1;
  const double start = unit * static_cast<double>(draw.Between(-5, 5));
  const double step =
      unit * static_cast<double>(draw.One<int64_t>({1, 2, 3, -1, -2, -7}));
  const auto count = static_cast<double>(draw.Side(40, true));
  const double more = draw.Chance(20) ? unit * (step < 0 ? 1 : -1) / 2 : 0;
  const double limit = start + step * count + (IsFloat(dtype) ? more : 0);
  if (draw.opset() >= 27) draw.MaybeAttr<int64_t>("stash_type", {1, 11});
  const bool is_constant = DrawsConstant(draw);
  for (const double number : {start, limit, step}) {
    draw.Scalar(dtype, number, is_constant);
  }
}

void DrawEyeLike(ConfigurationDraw& draw) {
  if (draw.Chance()) draw.TypeAttr("dtype", draw.Any());
  if (draw.Chance(70)) draw.Attr("k", draw.Between(-5, 5));
  draw.Input(draw.Any(), draw.Sides(2, 2));
}

// Diagonals from -5 to 5 lie beyond most matrices that are drawn, too.
void DrawTrilu(ConfigurationDraw& draw) {
  draw.Flag("upper");
  draw.Input(draw.Any(), draw.Sides(2, 4));
  if (draw.Chance(70)) draw.Int(draw.Between(-5, 5));
}

void DrawNonZero(ConfigurationDraw& draw) {
  draw.Input(draw.Any(), draw.Sides(1, 4));
}

// All windows of signals have the same attributes and the size as their input.
void DrawWindowFunction(ConfigurationDraw& draw) {
  const int64_t size = draw.Side(65);
  // The formulas divide by the size without one.
  if (size > 1) draw.Flag("periodic");
  if (draw.Chance()) draw.TypeAttr("output_datatype", draw.Float());
  draw.Numbers(draw.One({kInt64, kInt32}), {}, {static_cast<double>(size)},
               !draw.Chance(15));
}

// The upper edge is a part of the rate, half of it at most, and the lower one
// is below all of these.
void DrawMelWeights(ConfigurationDraw& draw) {
  if (draw.Chance()) draw.TypeAttr("output_datatype", draw.Float());
  const bool is_constant = DrawsConstant(draw);
  const double rate = draw.One({8000.0, 16000.0, 44100.0});
  const auto bins = static_cast<double>(draw.Side(17));
  const double length = draw.One({64.0, 16.0, 100.0, 256.0});
  for (const double number : {bins, length, rate}) {
    draw.Scalar(draw.One({kInt64, kInt32}), number, is_constant);
  }
  draw.Scalar(kFloat32, draw.One({0.0, 100.0, 440.0}), is_constant);
  draw.Scalar(kFloat32, rate / draw.One({2.0, 3.0, 4.0}), is_constant);
}

constexpr OperatorSpace kFillSpaces[] = {
    {&DrawWindowFunction, "BlackmanWindow HammingWindow HannWindow"},
    {&DrawConstant, "Constant"},
    {&DrawConstantOfShape, "ConstantOfShape"},
    {&DrawEyeLike, "EyeLike"},
    {&DrawMelWeights, "MelWeightMatrix"},
    {&DrawNonZero, "NonZero"},
    {&DrawRange, "Range"},
    {&DrawTrilu, "Trilu"}};

// Random numbers themselves are left to each implementation; types and shapes
// are not, and are what a case can be judged by.
void DrawSeed(ConfigurationDraw& draw) {
  draw.MaybeAttr<float>("seed", {1, 0, 7.5F});
}

void DrawDistribution(ConfigurationDraw& draw) {
  const bool is_normal = draw.def().name.starts_with("RandomNormal");
  if (draw.Chance()) draw.TypeAttr("dtype", draw.Float());
  draw.MaybeAttr<float>(is_normal ? "mean" : "low", {0, -1, -2.5F});
  draw.MaybeAttr<float>(is_normal ? "scale" : "high", {1, 2, 0.5F});
  DrawSeed(draw);
}

void DrawRandom(ConfigurationDraw& draw) {
  DrawDistribution(draw);
  draw.Attr("shape", draw.Sides(1, 4));
}

void DrawRandomLike(ConfigurationDraw& draw) {
  DrawDistribution(draw);
  draw.Input(draw.Float(), draw.Sides(0, 4));
}

void DrawBernoulli(ConfigurationDraw& draw) {
  if (draw.Chance()) draw.TypeAttr("dtype", draw.Number());
  DrawSeed(draw);
  draw.Input(draw.Float(), draw.Sides(0, 4), InputDomain::Within(0, 1));
}

void DrawMultinomial(ConfigurationDraw& draw) {
  if (draw.Chance()) draw.TypeAttr("dtype", draw.One({kInt32, kInt64}));
  draw.MaybeAttr<int64_t>("sample_size", {1, 2, 5});
  DrawSeed(draw);
  draw.Input(draw.One({kFloat32, kFloat16, kFloat64}), draw.Sides(2, 2, false));
}

constexpr OperatorSpace kRandomSpaces[] = {
    {&DrawBernoulli, "Bernoulli"},
    {&DrawMultinomial, "Multinomial"},
    {&DrawRandom, "RandomNormal RandomUniform"},
    {&DrawRandomLike, "RandomNormalLike RandomUniformLike"}};

}  // namespace

absl::Span<const OperatorSpace> FillSpaces() { return kFillSpaces; }
absl::Span<const OperatorSpace> RandomSpaces() { return kRandomSpaces; }

}  // namespace nodewise
