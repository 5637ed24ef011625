#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nodewise/interp/network_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

constexpr uint64_t kSeed = 20261124;

NDArray Drawn(const std::string& stream, const std::vector<int64_t>& shape,
              DLDataType dtype = kFloat32) {
  RandomSource source(kSeed, stream);
  return RandomTensor(source, shape, dtype).value();
}

// A network like a fused kernel, and what it is given.
struct Fused {
  const char* what;
  NetBuilder net;
  std::vector<NDArray> inputs;
};

ValueId Given(Fused* fused, const std::string& name,
              const std::vector<int64_t>& shape, DLDataType dtype = kFloat32) {
  fused->inputs.push_back(Drawn(name, shape, dtype));
  return fused->net.In(name, Shape(shape.begin(), shape.end()), dtype);
}

ValueId ConstFloats(Fused* fused, const std::string& name, int64_t count,
                    float offset) {
  NDArray drawn = Drawn(name, {count});
  for (int64_t i = 0; i < count; ++i) drawn.As<float>()[i] += offset;
  return fused->net.Const(name, drawn);
}

ValueId Normalised(Fused* fused, ValueId x, int64_t channels) {
  return fused->net.Op("BatchNormalization",
                       {x, ConstFloats(fused, "scale", channels, 2),
                        ConstFloats(fused, "shift", channels, 0),
                        ConstFloats(fused, "mean", channels, 0),
                        ConstFloats(fused, "variance", channels, 2)})[0];
}

Fused Convolution(bool is_channels_last) {
  Fused f{is_channels_last ? "channels last" : "convolution", {}, {}};
  ValueId x = Given(&f, "x", {2, 6, 7, 5});
  const ValueId w = Given(&f, "w", {8, 3, 3, 3});
  const ValueId residue = Given(&f, "r", {2, 8, 4, 3});
  ValueId y = f.net.Op("Conv", {x, w, Given(&f, "b", {8})},
                       {{"group", int64_t{2}},
                        {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                        {"strides", std::vector<int64_t>{2, 2}}})[0];
  y = f.net.Op("Add", {Normalised(&f, y, 8), residue})[0];
  y = f.net.Op("Relu", {y})[0];
  if (is_channels_last) {
    y = f.net.Op("Transpose", {y},
                 {{"perm", std::vector<int64_t>{0, 2, 3, 1}}})[0];
  }
  f.net.Out({y});
  return f;
}

Fused Product(DLDataType dtype) {
  Fused f{"matrix product", {}, {}};
  const ValueId x = Given(&f, "x", {3, 10, 33}, dtype);
  const ValueId w = Given(&f, "w", {33, 12}, dtype);
  const ValueId y = f.net.Op("MatMul", {x, w})[0];
  f.net.Out(
      f.net.Op("Tanh", {f.net.Op("Add", {y, Given(&f, "b", {12}, dtype)})[0]}));
  return f;
}

Fused Linear() {
  Fused f{"Gemm", {}, {}};
  const ValueId a = Given(&f, "a", {40, 9});
  const ValueId b = Given(&f, "b", {20, 40});
  const ValueId y = f.net.Op("Gemm", {a, b, Given(&f, "c", {9, 1})},
                             {{"alpha", 0.5F},
                              {"beta", 3.0F},
                              {"transA", int64_t{1}},
                              {"transB", int64_t{1}}})[0];
  // A Gelu, which reads it twice.
  const ValueId half = f.net.Const("half", Floats({0.5F}));
  const ValueId erf = f.net.Op("Erf", {y})[0];
  f.net.Out(f.net.Op("Mul", {f.net.Op("Mul", {y, half})[0], erf}));
  return f;
}

Fused Quotient() {
  Fused f{"quotient", {}, {}};
  const ValueId y =
      f.net.Op("Div", {Given(&f, "x", {4, 50}), Given(&f, "y", {50})})[0];
  f.net.Out(f.net.Op("Relu", {y}));
  return f;
}

// What is added is much larger than the products.
Fused Residue() {
  Fused f{"residue", {}, {}};
  const ValueId x = Given(&f, "x", {10, 33});
  const ValueId w = Given(&f, "w", {33, 12});
  const ValueId large = f.net.Const("large", Floats({40}));
  const ValueId y = f.net.Op("Sum", {f.net.Op("MatMul", {x, w})[0], large})[0];
  f.net.Out(f.net.Op("Relu", {y}));
  return f;
}

// The normalization's input is a sum whose second term is not a weight.
Fused NormBehindASum() {
  Fused f{"normalization behind a sum", {}, {}};
  const ValueId y = f.net.Op(
      "Conv", {Given(&f, "x", {2, 6, 7, 5}), Given(&f, "w", {8, 6, 1, 1})})[0];
  const ValueId sum = f.net.Op("Add", {y, Given(&f, "r", {2, 8, 7, 5})})[0];
  f.net.Out({Normalised(&f, sum, 8)});
  return f;
}

Fused Attention() {
  Fused f{"probabilities", {}, {}};
  const ValueId y = f.net.Op("Softmax", {Given(&f, "x", {4, 30})})[0];
  f.net.Out(f.net.Op("Mul", {y, Given(&f, "mask", {30})}));
  return f;
}

Fused NormalisedRows() {
  Fused f{"normalized rows", {}, {}};
  const ValueId x = f.net.Op("Transpose", {Given(&f, "x", {30, 4})},
                             {{"perm", std::vector<int64_t>{1, 0}}})[0];
  const ValueId y =
      f.net.Op("LayerNormalization",
               {x, Given(&f, "scale", {30}), Given(&f, "bias", {30})})[0];
  f.net.Out(f.net.Op("Tanh", {y}));
  return f;
}

std::vector<Fused> AllFused() {
  std::vector<Fused> all;
  all.push_back(Convolution(false));
  all.push_back(Convolution(true));
  all.push_back(Product(kFloat32));
  all.push_back(Product(kBfloat16));
  all.push_back(Linear());
  all.push_back(Quotient());
  all.push_back(Residue());
  all.push_back(Attention());
  all.push_back(NormalisedRows());
  return all;
}

// Some divisors are as small as their bounds.
Fused Pole() {
  Fused f{"pole", {}, {}};
  NDArray x = Drawn("x", {6, 2});
  for (int64_t i = 0; i < 3; ++i) {
    x.As<float>()[2 * i] = 1;
    x.As<float>()[2 * i + 1] = -1;
  }
  NDArray w = Drawn("w", {2, 20});
  for (int64_t i = 0; i < 20; ++i) {
    const float steps = static_cast<float>(i % 7) * 0x1p-22F;
    w.As<float>()[20 + i] = w.As<float>()[i] * (1 + steps);
  }
  f.inputs.push_back(x);
  const ValueId given = f.net.In("x", {6, 2}, kFloat32);
  const ValueId y = f.net.Op("MatMul", {given, f.net.Const("w", w)})[0];
  f.net.Out(f.net.Op("Reciprocal", {y}));
  return f;
}

// Nothing is known of sums of what is not exact.
Fused UnknownBeside() {
  Fused f{"unknown beside", {}, {}};
  const ValueId w = Given(&f, "w", {9, 12});
  const ValueId y = f.net.Op("MatMul", {Given(&f, "x", {5, 9}), w})[0];
  const ValueId x = f.net.Op("Sigmoid", {Given(&f, "other", {5, 9})})[0];
  f.net.Out(f.net.Op("Add", {y, f.net.Op("MatMul", {x, w})[0]}));
  return f;
}

Fused UnknownBefore() {
  Fused f{"unknown before", {}, {}};
  const ValueId x = f.net.Op("Sigmoid", {Given(&f, "x", {5, 9})})[0];
  const ValueId y = f.net.Op("MatMul", {x, Given(&f, "w", {9, 12})})[0];
  f.net.Out(f.net.Op("Sigmoid", {y}));
  return f;
}

std::vector<Fused> WithUnknownBounds() {
  std::vector<Fused> all;
  all.push_back(Pole());
  all.push_back(UnknownBeside());
  all.push_back(UnknownBefore());
  return all;
}

double SmallerBound(const Bounds& bounds, size_t i) {
  return std::fmin(bounds.proved[i], bounds.expected[i]);
}

// Each element is off by up to `share` of the smaller of its bounds, or of some
// steps of its type.
NDArray Disturbed(const BoundedTensor& reference, double share,
                  RandomSource* random) {
  const NDArray found = reference.tensor.CopyToHost().value();
  std::vector<double> values = ToDoubles(found);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double bound = SmallerBound(reference.bounds, i);
    values[i] +=
        share * random->Symmetric() *
        (std::isfinite(bound) ? bound : 8 * HalfUlp(found.dtype(), values[i]));
  }
  StoreDoubles(values.data(), 0, CountOf(found), found);
  return found;
}

// What BoundSource::IsProvablyWithin() promises, by all the bounds.
bool IsWithin(const BoundedTensor& reference, const UnboundedLimit& unbounded,
              const NDArray& found) {
  const std::vector<double> x = ToDoubles(reference.tensor);
  const std::vector<double> y = ToDoubles(found);
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = std::fabs(y[i] - x[i]);
    if (error > SmallerBound(reference.bounds, i)) return false;
    if (std::isnan(reference.bounds.proved[i]) &&
        error > unbounded.absolute + unbounded.relative * std::fabs(x[i])) {
      return false;
    }
  }
  return true;
}

// How often all is surely within `unbounded` and the bounds, of 60 tensors that
// are disturbed from well within to just beyond, where few elements are.
// Expects that what is said of each is true.
int TimesSure(const Fused& fused, const UnboundedLimit& unbounded) {
  const auto all = InterpretCarryingBounds(fused.net.net, fused.inputs);
  const auto run = RunWithLazyBounds(fused.net.net, fused.inputs);
  EXPECT_THAT(all, IsOk());
  EXPECT_THAT(run, IsOk());
  if (!all.ok() || !run.ok()) return 0;
  RandomSource random(kSeed, fused.what);
  int sure = 0;
  for (int i = 0; i < 60; ++i) {
    const double share = 0.1 + 0.02 * i;
    const NDArray found = Disturbed((*all)[0], share, &random);
    const auto is_sure = (*run)->bounds(0).IsProvablyWithin(*found, unbounded);
    EXPECT_THAT(is_sure, IsOk());
    if (!is_sure.ok() || !*is_sure) continue;
    ++sure;
    EXPECT_TRUE(IsWithin((*all)[0], unbounded, found))
        << fused.what << " " << share;
  }
  return sure;
}

// A few, a quarter and most of the elements are beyond it.
std::vector<UnboundedLimit> LimitsFor(DLDataType dtype) {
  const double u = UnitRoundoff(dtype);
  return {{0, 40 * u}, {0, 10 * u}, {0, 2 * u}, {2 * u, u}};
}

TEST(BoundedRunTest, WhatIsSurelyWithinIsWithinTheCarriedBounds) {
  for (const Fused& fused : AllFused()) {
    EXPECT_GE(TimesSure(fused, {}), 3) << fused.what;
  }
}

TEST(BoundedRunTest, WhatIsFarOffIsOnlySureWhereABoundIsKnown) {
  int sure = 0;
  for (const Fused& fused : AllFused()) {
    for (const UnboundedLimit& limit : LimitsFor(fused.inputs[0].dtype())) {
      sure += TimesSure(fused, limit);
    }
  }
  EXPECT_GE(sure, 100);
  for (const Fused& fused : WithUnknownBounds()) {
    TimesSure(fused, {});
    for (const UnboundedLimit& limit : LimitsFor(fused.inputs[0].dtype())) {
      TimesSure(fused, limit);
    }
  }
}

// Everything else is right but the one element of which no bound is known.
TEST(BoundedRunTest, OneElementWithoutABoundIsNotSureIfItIsFarOff) {
  for (const Fused& fused : WithUnknownBounds()) {
    const auto all = InterpretCarryingBounds(fused.net.net, fused.inputs);
    const auto run = RunWithLazyBounds(fused.net.net, fused.inputs);
    ASSERT_THAT(all, IsOk());
    ASSERT_THAT(run, IsOk());
    const NDArray& middle = (*all)[0].tensor;
    int tried = 0;
    for (int64_t i = 0; i < CountOf(middle); ++i) {
      const auto at = static_cast<size_t>(i);
      std::vector<double> values = ToDoubles(middle);
      if (!std::isnan((*all)[0].bounds.proved[at]) || values[at] == 0 ||
          !std::isfinite(values[at])) {
        continue;
      }
      const double limit = 2 * UnitRoundoff(middle.dtype());
      values[at] *= 1 + 1.5 * limit;
      const NDArray found = middle.CopyToHost().value();
      StoreDoubles(values.data(), 0, CountOf(found), found);
      EXPECT_FALSE(
          (*run)->bounds(0).IsProvablyWithin(*found, {0, limit}).value())
          << fused.what << " " << i;
      ++tried;
    }
    EXPECT_GE(tried, 5) << fused.what;
  }
}

TEST(BoundedRunTest, OneElementBeyondItsBoundIsNotSurelyWithin) {
  std::vector<Fused> every = AllFused();
  every.push_back(NormBehindASum());
  for (const Fused& fused : every) {
    const auto all = InterpretCarryingBounds(fused.net.net, fused.inputs);
    const auto run = RunWithLazyBounds(fused.net.net, fused.inputs);
    ASSERT_THAT(all, IsOk());
    ASSERT_THAT(run, IsOk());
    const NDArray& middle = (*all)[0].tensor;
    for (int64_t i = 0; i < CountOf(middle); i += 7) {
      const NDArray found = middle.CopyToHost().value();
      double value = 0;
      LoadDoubles(middle, i, i + 1, &value);
      value += 1.01 * SmallerBound((*all)[0].bounds, static_cast<size_t>(i)) +
               2 * HalfUlp(middle.dtype(), value);
      std::vector<double> values = ToDoubles(found);
      values[static_cast<size_t>(i)] = value;
      StoreDoubles(values.data(), 0, CountOf(found), found);
      EXPECT_FALSE((*run)->bounds(0).IsProvablyWithin(*found, {}).value())
          << fused.what << " " << i;
    }
  }
}

TEST(BoundedRunTest, AllBoundsAreThoseThatAreCarried) {
  const Fused fused = Convolution(true);
  const auto all = InterpretCarryingBounds(fused.net.net, fused.inputs);
  const auto run = RunWithLazyBounds(fused.net.net, fused.inputs);
  ASSERT_THAT(all, IsOk());
  ASSERT_THAT(run, IsOk());
  const auto spans = (*run)->bounds(0).All();
  ASSERT_THAT(spans, IsOk());
  EXPECT_THAT(spans->proved,
              testing::ElementsAreArray((*all)[0].bounds.proved));
  EXPECT_THAT(spans->expected,
              testing::ElementsAreArray((*all)[0].bounds.expected));
  EXPECT_EQ(ValuesOf((*run)->outputs()[0]), ValuesOf((*all)[0].tensor));
}

TEST(BoundedRunTest, NothingIsSureWhereSomethingElseFollowsASum) {
  Fused fused{"softmax", {}, {}};
  const ValueId sum = fused.net.Op(
      "MatMul", {Given(&fused, "x", {4, 8}), Given(&fused, "w", {8, 5})})[0];
  fused.net.Out(fused.net.Op("Softmax", {sum}));
  const auto run = RunWithLazyBounds(fused.net.net, fused.inputs);
  ASSERT_THAT(run, IsOk());
  const NDArray& output = (*run)->outputs()[0];
  EXPECT_FALSE((*run)->bounds(0).IsProvablyWithin(*output, {}).value());
}

}  // namespace
}  // namespace nodewise
