// Operators that work element by element.

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

constexpr int kRepeatsLikeNumpySince = 7;

// The numbers that a second input may hold: an integer divided by 0 has no
// result, and neither has one raised to a negative power. Powers are small, or
// they would overflow.
InputDomain SecondDomain(ConfigurationDraw& draw, DLDataType dtype) {
  if (IsFloat(dtype)) return {};
  if (draw.Is("Pow")) return InputDomain::Whole(0, 4);
  if (!draw.Is("Div") && !draw.Is("Mod")) return {};
  return draw.Chance(30) && !IsUnsigned(dtype) ? InputDomain::Whole(-7, -1)
                                               : InputDomain::Whole(1, 7);
}

// Below opset 7 the second input is repeated along sides of the first, from
// `axis` on.
void DrawAtAxis(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Legal();
  const Ints x = draw.Sides(0, 4);
  Ints y = x;
  if (draw.Chance(70)) {
    const auto rank = std::ssize(x);
    const int64_t first = draw.Between(0, rank);
    const int64_t last = draw.Chance() ? draw.Between(first, rank) : rank;
    y = Ints(x.begin() + first, x.begin() + last);
    for (int64_t& side : y) {
      if (draw.Chance(15)) side = 1;
    }
    draw.Attr("broadcast", 1);
    if (first < rank && (last < rank || draw.Chance()))
      draw.Attr("axis", first);
  } else if (draw.Chance()) {
    draw.Attr("broadcast", 0);
  }
  draw.Input(dtype, x);
  draw.Input(dtype, y, SecondDomain(draw, dtype));
}

// Operators that had the old way of repeating sides, and got NumPy's. The type
// of an exponent is its own from opset 12 on. A remainder of floats is that of
// C alone, fmod, until version 28 brought the other one.
void DrawPair(ConfigurationDraw& draw) {
  if (draw.def().since < kRepeatsLikeNumpySince) return DrawAtAxis(draw);
  const DLDataType dtype = draw.Is("Mod") ? draw.Number() : draw.Legal();
  DLDataType second = dtype;
  if (draw.Is("Pow") && draw.opset() >= 12 && draw.Chance(20)) {
    second = draw.Number();
  }
  const Ints shape = draw.Sides(0, 4);
  draw.Input(dtype, draw.PartOf(shape));
  draw.Input(second, draw.PartOf(shape), SecondDomain(draw, second));
  if (!draw.Is("Mod")) return;
  IsFloat(dtype) && draw.def().since < 28 ? draw.Attr("fmod", 1)
                                          : draw.Flag("fmod");
}

// A shift by all bits of a type, or more, is not defined.
void DrawBitShift(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Legal();
  const Ints shape = draw.Sides(0, 4);
  draw.Attr("direction", draw.One<std::string>({"LEFT", "RIGHT"}));
  draw.Input(dtype, draw.PartOf(shape), InputDomain::Whole(-100, 100));
  draw.Input(dtype, draw.PartOf(shape), InputDomain::Whole(0, dtype.bits - 1));
}

// Slopes are by channel below opset 7, or one for all.
void DrawPRelu(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Chance(15) ? draw.Number() : draw.Float();
  const Ints shape = draw.Sides(1, 4);
  draw.Input(dtype, shape);
  draw.Weight(dtype, draw.def().since >= kRepeatsLikeNumpySince
                         ? draw.PartOf(shape)
                     : shape.size() > 1 && draw.Chance() ? Ints{shape[1]}
                                                         : Ints{1});
}

// Limits are one number each, and were attributes below opset 11, which are
// float32 for an input of any type. The upper one may be below the lower one.
void DrawClip(ConfigurationDraw& draw) {
  constexpr int kInputsSince = 11;
  const DLDataType dtype =
      draw.opset() < kInputsSince ? draw.Float() : draw.Number();
  const DLDataType of_limit = draw.opset() < kInputsSince ? kFloat32 : dtype;
  draw.Input(dtype, draw.Sides(0, 4));
  for (int i = 0; i < 2; ++i) {
    draw.WeightIf(draw.Chance(70), of_limit, {}, InputDomain::Within(-4, 4));
  }
}

void DrawWhere(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Any();
  const Ints shape = draw.Sides(0, 4);
  draw.Input(kBool, draw.PartOf(shape));
  draw.Input(dtype, draw.PartOf(shape));
  draw.Input(dtype, draw.PartOf(shape));
}

// Inputs of one shape: those of Max, Min, Sum and Mean below opset 8, and the
// two of SwiGLU. From 8 on, shapes broadcast.
void DrawAlike(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Legal();
  const Ints shape = draw.Sides(0, 4);
  const bool broadcasts = draw.def().since >= 8 && draw.Chance(60);
  int64_t count = draw.Between(1, 4);
  if (draw.Is("SwiGLU")) {
    count = 2;
    draw.MaybeAttr<float>("alpha", {1, 0.5, 2, -1, 0});
  }
  for (; count > 0; --count) {
    const Choices::Group group(draw.choices());
    draw.Input(dtype,
               broadcasts && !draw.Is("SwiGLU") ? draw.PartOf(shape) : shape);
  }
}

void DrawGelu(ConfigurationDraw& draw) {
  draw.MaybeWord("approximate", {"none", "tanh"});
  draw.Input(draw.Float(), draw.Sides(0, 4));
}

// Nothing is divided by an alpha of 0.
void DrawCelu(ConfigurationDraw& draw) {
  draw.MaybeAttr<float>("alpha", {1, 0.5F, 2, -1});
  draw.Input(draw.Float(), draw.Sides(0, 4));
}

// Numbers that may be cast to a type: for those out of range ONNX says nothing,
// unless both are integers, which wrap around: 70000 does in 16 bits.
InputDomain CastDomain(DLDataType from, DLDataType to) {
  if (!IsFloat(from)) return InputDomain::Whole(-70000, 70000);
  if (IsFloat(to) || IsBool(to)) return {};
  return InputDomain::Within(IsUnsigned(to) ? 0 : -100, 100);
}

void DrawCast(ConfigurationDraw& draw) {
  const DLDataType from = draw.Any();
  const DLDataType to = draw.Any();
  const Ints shape = draw.Sides(0, 4);
  draw.Input(from, shape, CastDomain(from, to));
  draw.Is("CastLike") ? draw.Input(to, draw.Sides(0, 2))
                      : draw.TypeAttr("to", to);
  if (draw.opset() >= 19) draw.Flag("saturate");
  if (draw.opset() >= 24)
    draw.MaybeWord("round_mode", {"up", "down", "nearest"});
}

// Types of one width, since the bits stay as they are.
void DrawBitCast(ConfigurationDraw& draw) {
  const std::vector<DLDataType> of_width[] = {
      {kFloat32, kInt32, kUint32},
      {kFloat16, kBfloat16, kInt16, kUint16},
      {kFloat64, kInt64, kUint64},
      {kInt8, kUint8}};
  const auto& types = of_width[draw.Between(0, std::size(of_width) - 1)];
  draw.Input(draw.One(types), draw.Sides(0, 4));
  draw.TypeAttr("to", draw.One(types));
}

// Trained it is random, and the reference refuses it: so most cases are told
// that they are tests. The ratio, an input from opset 12 on, counts for nothing
// then.
void DrawDropout(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  draw.Input(dtype, draw.Sides(0, 4));
  draw.Outputs(draw.Chance() ? 2 : 1);
  if (draw.def().since < 10) {
    if (draw.def().since < 7 && draw.Chance(90)) {
      draw.Attr("is_test", draw.One<int64_t>({1, 1, 1, 1, 0}));
    }
    return draw.MaybeAttr<float>("ratio", {0.5, 0, 0.25});
  }
  if (draw.opset() >= 12) draw.MaybeAttr<int64_t>("seed", {0, 7});
  draw.WeightIf(draw.Chance(), draw.opset() < 12 ? kFloat32 : dtype, {},
                InputDomain::Within(0, 0.75));
  if (draw.opset() >= 12 && draw.Chance()) {
    draw.Numbers(kBool, {}, {0}, draw.Chance());
  }
}

constexpr OperatorSpace kPointwiseSpaces[] = {
    {&DrawPair, "Add And Div Equal Greater Less Mod Mul Or Pow Sub Xor"},
    {&DrawBitCast, "BitCast"},
    {&DrawBitShift, "BitShift"},
    {&DrawCelu, "Celu"},
    {&DrawCast, "Cast CastLike"},
    {&DrawClip, "Clip"},
    {&DrawDropout, "Dropout"},
    {&DrawGelu, "Gelu"},
    {&DrawAlike, "Max Mean Min Sum SwiGLU"},
    {&DrawPRelu, "PRelu"},
    {&DrawWhere, "Where"}};

}  // namespace

absl::Span<const OperatorSpace> PointwiseSpaces() { return kPointwiseSpaces; }

}  // namespace nodewise
