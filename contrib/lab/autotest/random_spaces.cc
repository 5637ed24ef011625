#include <string>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

// What is drawn is left to each implementation; types and shapes are not.
void DrawSeed(ConfigurationDraw& draw) {
  draw.MaybeAttr<float>("seed", {1, 0, 7.5F});
}

// The attributes of a distribution: the names of its two numbers.
void DrawDistribution(ConfigurationDraw& draw) {
  const bool is_normal = draw.def().name.starts_with("RandomNormal");
  if (draw.Often()) draw.TypeAttr("dtype", draw.Float());
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
  if (draw.Often()) draw.TypeAttr("dtype", draw.Number());
  DrawSeed(draw);
  draw.Input(draw.Float(), draw.Sides(0, 4), InputDomain::Within(0, 1));
}

void DrawMultinomial(ConfigurationDraw& draw) {
  if (draw.Often()) draw.TypeAttr("dtype", draw.One({kInt32, kInt64}));
  draw.MaybeAttr<int64_t>("sample_size", {1, 2, 5});
  DrawSeed(draw);
  draw.Input(draw.One({kFloat32, kFloat16, kFloat64}), draw.Sides(2, 2, false));
}

constexpr OperatorSpace kRandomSpaces[] = {
    {"Bernoulli", &DrawBernoulli},  {"Multinomial", &DrawMultinomial},
    {"RandomNormal", &DrawRandom},  {"RandomNormalLike", &DrawRandomLike},
    {"RandomUniform", &DrawRandom}, {"RandomUniformLike", &DrawRandomLike},
};

}  // namespace

absl::Span<const OperatorSpace> RandomSpaces() { return kRandomSpaces; }

}  // namespace nodewise
