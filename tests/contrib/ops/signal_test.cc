#include <cmath>
#include <complex>
#include <numbers>

#include "contrib/ops/util/fourier.h"
#include "tests/contrib/ops/eval_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

NDArray Signal() { return MakeTensor<float>({1, 6, 1}, {1, 2, 3, 4, 5, 6}); }
MATCHER(IsVeryNear, "") {
  return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 2e-6F;
}

std::complex<double> SlowTerm(const std::vector<std::complex<double>>& x,
                              size_t k) {
  std::complex<double> sum;
  for (size_t n = 0; n < x.size(); ++n) {
    const double angle = -2 * std::numbers::pi *
                         static_cast<double>(k * n % x.size()) /
                         static_cast<double>(x.size());
    sum += x[n] * std::polar(1.0, angle);
  }
  return sum;
}

TEST(FourierTest, EveryLengthIsTheSumByDefinition) {
  for (const size_t n : {1, 2, 3, 5, 8, 12, 17, 64, 97, 100}) {
    std::vector<std::complex<double>> x;
    for (size_t i = 0; i < n; ++i) {
      x.emplace_back(std::sin(3.7 * static_cast<double>(i)),
                     std::cos(static_cast<double>(i * i)));
    }
    std::vector<std::complex<double>> y = x;
    const Fourier fourier(static_cast<int64_t>(n));
    fourier.Transform(y.data(), false);
    for (size_t k = 0; k < n; ++k) {
      EXPECT_LT(std::abs(y[k] - SlowTerm(x, k)), 1e-12) << n << " " << k;
    }
    fourier.Transform(y.data(), true);
    for (size_t k = 0; k < n; ++k) {
      EXPECT_LT(std::abs(y[k] / static_cast<double>(n) - x[k]), 1e-13);
    }
  }
}

TEST(DftTest, RealSignalsHaveASpectrumOfTwoHalves) {
  const auto whole = ElementsOf({"DFT", 17}, {Signal()});
  EXPECT_THAT(whole, Pointwise(IsVeryNear(),
                               std::vector<float>{
                                   21, 0, -3, 5.1961524F, -3, 1.7320508F, -3, 0,
                                   -3, -1.7320508F, -3, -5.1961524F}));
  const auto half =
      ElementsOf({"DFT", 20, {Attr("onesided", 1)}}, {Signal(), Long(5)});
  EXPECT_THAT(
      half, Pointwise(IsVeryNear(), std::vector<float>{15, 0, -2.5F, 3.440955F,
                                                       -2.5F, 0.812299F}));
}

TEST(DftTest, TheInverseOfOneHalfIsReal) {
  const auto half = EvaluateOne({"DFT", 20, {Attr("onesided", 1)}}, {Signal()});
  ASSERT_THAT(half, IsOk());
  EXPECT_THAT(ElementsOf({"DFT", 20, {Attr("onesided", 1), Attr("inverse", 1)}},
                         {*half}),
              Pointwise(IsVeryNear(), std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(DftTest, LengthsAndAxesOutsideAreRefused) {
  EXPECT_THAT(EvaluateOne({"DFT", 20}, {Signal(), Long(0)}),
              FailsWith(kInvalid, HasSubstr("is 0, expected 1 to 2^32")));
  EXPECT_FALSE(EvaluateOne({"DFT", 20}, {Signal(), Long(INT64_MAX)}).ok());
  EXPECT_THAT(EvaluateOne({"DFT", 20}, {Signal(), NDArray(), Long(-1)}),
              FailsWith(kInvalid, HasSubstr("axis")));
}

TEST(StftTest, FramesAreTransformedOneByOne) {
  const auto y = EvaluateOne({"STFT", 17}, {Signal(), Long(2), Floats({1, 1})});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(1, 3, 2, 2));
  EXPECT_THAT(ValuesOf(*y),
              Pointwise(IsVeryNear(), std::vector<float>{3, 0, -1, 0, 7, 0, -1,
                                                         0, 11, 0, -1, 0}));
  EXPECT_FALSE(
      EvaluateOne({"STFT", 17}, {Signal(), Long(0), Floats({1})}).ok());
  EXPECT_FALSE(
      EvaluateOne({"STFT", 17}, {Signal(), Long(1), NDArray(), Long(9)}).ok());
}

TEST(WindowTest, WindowsAreAsDefined) {
  EXPECT_THAT(
      ElementsOf({"HannWindow", 17}, {Long(5)}),
      Pointwise(IsVeryNear(), std::vector<float>{0, 0.3454915F, 0.9045085F,
                                                 0.9045085F, 0.3454915F}));
  EXPECT_THAT(ElementsOf({"HammingWindow", 17}, {Long(3)}),
              Pointwise(IsVeryNear(), std::vector<float>{0.0869565F, 0.7717391F,
                                                         0.7717391F}));
  EXPECT_THAT(
      ElementsOf({"BlackmanWindow", 17, {Attr("periodic", 0)}}, {Long(4)}),
      Pointwise(IsVeryNear(), std::vector<float>{0, 0.63F, 0.63F, 0}));
}

TEST(WindowTest, TheMiddleOfIntegersIsOne) {
  for (const char* name : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    const OpSetup window{
        name, 17, {Attr("output_datatype", 7), Attr("periodic", 0)}};
    EXPECT_THAT(ElementsOf<int64_t>(window, {Long(9)}),
                ElementsAre(0, 0, 0, 0, 1, 0, 0, 0, 0))
        << name;
  }
}

TEST(WindowTest, NoWindowIsShorterThanNothing) {
  EXPECT_FALSE(EvaluateOne({"HannWindow", 17}, {Long(-1)}).ok());
  EXPECT_THAT(ElementsOf({"HannWindow", 17}, {Long(0)}), ElementsAre());
}

TEST(MelWeightMatrixTest, TrianglesOverlap) {
  const auto y =
      EvaluateOne({"MelWeightMatrix", 17},
                  {Long(3), Long(16), Long(8192), Float(0), Float(4096)});
  ASSERT_THAT(y, IsOk());
  EXPECT_THAT(y->shape(), ElementsAre(9, 3));
  auto first = ValuesOf(*y);
  first.resize(15);
  EXPECT_THAT(
      first, ElementsAre(1, 0, 0, 0, 1, 0, 0, 0.5F, 0.5F, 0, 0, 1, 0, 0, 0.5F));
}

}  // namespace
}  // namespace nodewise
