// The merged form of products, and the one that it is split into, against the
// original: bit for bit where the report says so, within one step otherwise.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/unary.h"
#include "nodewise/random/random.h"
#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

// Draws products: Conv or MatMul, of tensors of all sorts.
class ProductDrawer {
 public:
  ProductDrawer(uint64_t seed, bool powers_of_two)
      : random_(seed), powers_of_two_(powers_of_two) {}

  ProductSetup Draw() {
    ProductSetup setup;
    setup.is_conv = Below(2) == 0;
    if (setup.is_conv) {
      DrawConv(&setup);
    } else {
      DrawMatMul(&setup);
    }
    const DLDataType y_type = Byte8();
    setup.y = DrawScaling(y_type, {}, 1);
    // Most numbers are within the range of the output.
    const double spread =
        std::exp2(Below(6)) * std::sqrt(static_cast<double>(depth_)) * 16;
    const double step = scale_product_ * spread;
    setup.y.scale = Float(static_cast<float>(
        powers_of_two_ ? std::exp2(std::round(std::log2(step))) : step));
    setup.quantize.output_dtype = y_type;
    return setup;
  }
  NDArray X() { return DrawIntegers(x_type_, x_shape_); }

 private:
  int64_t Below(int64_t end) { return random_.Between(0, end - 1); }
  DLDataType Byte8() { return Below(2) == 0 ? kUint8 : kInt8; }

  double DrawScale() {
    const double exponent = static_cast<double>(Below(12)) - 8;
    const double fraction = powers_of_two_ ? 0 : random_.Symmetric();
    return static_cast<float>(std::exp2(exponent + fraction));
  }

  NDArray DrawIntegers(DLDataType type, const std::vector<int64_t>& shape) {
    const NDArray tensor = NDArray::Empty(shape, type, kCpu).value();
    auto* const bytes = tensor.As<uint8_t>();
    const bool is_extreme = Below(4) == 0;
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      const uint64_t bits = random_.Next();
      bytes[i] = static_cast<uint8_t>(is_extreme ? -(bits & 1) : bits);
    }
    return tensor;
  }

  // One scale and zero point, or as many as `shape` has elements.
  Scaling DrawScaling(DLDataType type, const std::vector<int64_t>& shape,
                      int64_t axis) {
    Scaling scaling;
    scaling.scale = NDArray::Empty(shape, kFloat32, kCpu).value();
    for (int64_t i = 0; i < CountOf(scaling.scale); ++i) {
      scaling.scale.As<float>()[i] = static_cast<float>(DrawScale());
    }
    if (Below(3) > 0) scaling.zero = DrawIntegers(type, shape);
    scaling.axis = axis;
    return scaling;
  }

  void SetX(ProductSetup* setup, const std::vector<int64_t>& shape) {
    x_type_ = Byte8();
    x_shape_ = shape;
    setup->x_type =
        ToString(TensorType(x_type_, Shape(shape.begin(), shape.end())));
    setup->x = DrawScaling(x_type_, {}, 1);
  }

  void SetW(ProductSetup* setup, const std::vector<int64_t>& shape,
            int64_t axis) {
    const DLDataType type = Byte8();
    setup->w_data = DrawIntegers(type, shape);
    std::vector<int64_t> scales;
    if (axis >= 0 && Below(2) == 0) {
      scales = {shape[static_cast<size_t>(axis)]};
    }
    setup->w = DrawScaling(type, scales, axis);
    const std::vector<double> w = ToDoubles(setup->w.scale);
    scale_product_ =
        ToDoubles(setup->x.scale)[0] * *std::max_element(w.begin(), w.end());
  }

  void DrawConv(ProductSetup* setup) {
    const int64_t group = 1 + Below(3);
    const int64_t channels = 1 + Below(4);
    const int64_t kernels = group * (1 + Below(3));
    std::vector<int64_t> x = {Below(3), group * channels};
    std::vector<int64_t> w = {kernels, channels};
    ops::Conv& conv = setup->conv;
    const int64_t sides = 1 + Below(2);
    const bool is_padded = Below(2) == 0;
    for (int64_t i = 0; i < sides; ++i) {
      w.push_back(1 + Below(3));
      x.push_back(5 + Below(6));
      conv.strides.push_back(1 + Below(2));
      conv.dilations.push_back(1 + Below(2));
    }
    for (int64_t i = 0; is_padded && i < 2 * sides; ++i) {
      conv.pads.push_back(Below(3));
    }
    if (!is_padded) conv.auto_pad = ops::Padding::kSameLower;
    conv.group = group;
    depth_ = channels * w[2] * (sides == 2 ? w[3] : 1);
    SetX(setup, x);
    SetW(setup, w, 0);
    if (Below(2) == 0) AddBias(setup, kernels);
  }

  void AddBias(ProductSetup* setup, int64_t kernels) {
    const NDArray bias = NDArray::Empty({kernels}, kInt32, kCpu).value();
    for (int64_t i = 0; i < kernels; ++i) {
      bias.As<int32_t>()[i] = static_cast<int32_t>(Below(200'000)) - 100'000;
    }
    const NDArray scale = setup->w.scale.CopyToHost().value();
    for (int64_t i = 0; i < CountOf(scale); ++i) {
      scale.As<float>()[i] *= *setup->x.scale.As<float>();
    }
    setup->bias = [bias, scale](QuantizedBuilder& net) {
      return net.Dequantize(net.Constant(bias), {scale, NDArray(), 0}, "bias");
    };
  }

  void DrawMatMul(ProductSetup* setup) {
    depth_ = 1 + Below(Below(8) == 0 ? 2000 : 40);
    std::vector<int64_t> x = {1 + Below(3), depth_};
    std::vector<int64_t> w = {depth_, 1 + Below(4)};
    const int64_t kind = Below(6);
    if (kind == 0) x = {depth_};
    if (kind == 1) w = {depth_};
    if (kind == 2) x.insert(x.begin(), {2, Below(3)});
    if (kind == 3) w.insert(w.begin(), 1 + Below(2));
    SetX(setup, x);
    SetW(setup, w, w.size() == 2 ? 1 : -1);
  }

  RandomSource random_;
  const bool powers_of_two_;
  DLDataType x_type_ = kUint8;
  std::vector<int64_t> x_shape_;
  int64_t depth_ = 1;
  double scale_product_ = 1;  // The scale of x times that of w.
};

std::vector<double> RunToDoubles(const Network& net, const NDArray& x) {
  const auto outputs = Interpret(net, {x});
  EXPECT_THAT(outputs, IsOk());
  return outputs.ok() ? ToDoubles((*outputs)[0]) : std::vector<double>();
}

struct Tally {
  size_t exact = 0;
  size_t one_step = 0;
  size_t left_alone = 0;
  size_t elements = 0;
  size_t different = 0;
  size_t saturated = 0;
};

void ExpectAgreement(const std::vector<double>& a, const std::vector<double>& b,
                     Agreement agreement, Tally* tally) {
  ASSERT_EQ(a.size(), b.size());
  const double most = agreement == Agreement::kExact ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(a[i] - b[i]);
    ASSERT_LE(difference, most) << a[i] << " and " << b[i];
    ++tally->elements;
    tally->different += difference > 0 ? 1 : 0;
    tally->saturated += a[i] == 255 || a[i] == 127 || a[i] <= -128 ? 1 : 0;
  }
}

void CheckOne(ProductDrawer* drawer, Tally* tally) {
  const ProductSetup setup = drawer->Draw();
  Network net = setup.Make();
  const NDArray x = drawer->X();
  const std::vector<double> expected = RunToDoubles(net, x);
  const QuantizationReport report = Merge(net);
  if (report.changes.empty()) {
    ++tally->left_alone;
    return;
  }
  const Agreement agreement = report.changes[0].agreement;
  ++(agreement == Agreement::kExact ? tally->exact : tally->one_step);
  ASSERT_EQ(net.order().size(), 1u);
  ExpectAgreement(expected, RunToDoubles(net, x), agreement, tally);
  const std::string merged = RenumberedText(net);
  const QuantizationReport split = Split(net);
  ASSERT_EQ(split.changes.size(), 1u) << split.ToString();
  EXPECT_EQ(split.changes[0].agreement, agreement);
  EXPECT_EQ(RunToDoubles(net, x), expected);
  Merge(net);
  EXPECT_EQ(RenumberedText(net), merged);
}

Tally CheckAll(bool powers_of_two) {
  const uint64_t seed = FirstSeed();
  const int cases = NumCases(400, 20'000);
  Tally tally;
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
    ProductDrawer drawer(seed + static_cast<uint64_t>(i), powers_of_two);
    CheckOne(&drawer, &tally);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                    << " nodewise_ops_tests "
                       "--gtest_filter=QuantizedProductTest.*";
    }
  }
  std::cout << cases << " products from NODEWISE_SEED=" << seed << ": "
            << tally.exact << " exact, " << tally.one_step
            << " within one step, " << tally.left_alone << " left alone; "
            << tally.different << " of " << tally.elements
            << " elements differ, " << tally.saturated << " at an end\n";
  EXPECT_GT(tally.elements, 0u);
  return tally;
}

// OV-38: merging, splitting and merging again.
TEST(QuantizedProductTest, PowersOfTwoAgreeBitForBit) {
  const Tally tally = CheckAll(true);
  EXPECT_EQ(tally.different, 0u);
  EXPECT_EQ(tally.left_alone, 0u);
  EXPECT_GT(tally.exact, 10 * tally.one_step);
}

// OV-38.
TEST(QuantizedProductTest, OtherScalesAgreeWithinOneStep) {
  const Tally tally = CheckAll(false);
  EXPECT_EQ(tally.exact, 0u);
  EXPECT_EQ(tally.left_alone, 0u);
}

// --- The limits.

// A product of rows by one column whose sums of |w| are `count` * 255 + 3, so
// that every sum of integers up to 255 times that can be had.
ProductSetup ColumnSetup(int64_t rows, int64_t count) {
  ProductSetup setup = MatMulSetup();
  std::vector<uint8_t> w(static_cast<size_t>(count), 255);
  w.insert(w.end(), {1, 1, 1});
  setup.x_type =
      "uint8[" + std::to_string(rows) + ", " + std::to_string(count + 3) + "]";
  setup.w_data = MakeTensor<uint8_t>({count + 3, 1}, w);
  setup.x.scale = Float(1);
  setup.w.scale = Float(1);
  return setup;
}

// Rows whose products with that column are these sums.
NDArray RowsOf(const std::vector<int64_t>& sums, int64_t count) {
  std::vector<uint8_t> rows;
  for (int64_t sum : sums) {
    for (int64_t i = 0; i < count + 3; ++i) {
      const int64_t weight = i < count ? 255 : 1;
      const int64_t factor = std::min<int64_t>(255, sum / weight);
      rows.push_back(static_cast<uint8_t>(factor));
      sum -= factor * weight;
    }
    EXPECT_EQ(sum, 0);
  }
  return MakeTensor<uint8_t>({static_cast<int64_t>(sums.size()), count + 3},
                             rows);
}

// Sums at and beside every tie between two steps of 2^17, below `end`.
std::vector<int64_t> SumsAtTies(int64_t end) {
  std::vector<int64_t> sums = {0, 1, end - 2, end - 1};
  for (int64_t tie = 1 << 16; tie + 2 < end; tie += 1 << 17) {
    for (int64_t i = -2; i <= 2; ++i) sums.push_back(tie + i);
  }
  return sums;
}

// Every sum is a float32 up to 2^24, so nothing is rounded twice.
TEST(QuantizedProductTest, SumsUpTo2To24AreExact) {
  const std::vector<int64_t> sums = SumsAtTies(1 << 24);
  ProductSetup setup = ColumnSetup(static_cast<int64_t>(sums.size()), 258);
  setup.y.scale = Float(0x1p17F);
  Network net = setup.Make();
  const NDArray x = RowsOf(sums, 258);
  const auto expected = OutputOf<uint8_t>(net, {x});
  ASSERT_EQ(Merge(net).changes[0].agreement, Agreement::kExact);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), expected);
}

// Why the limit is there: 2^24 + 2^16 + 1 is not a float32, and rounded to one
// it is a tie.
TEST(QuantizedProductTest, SumsAbove2To24MayDifferByAStep) {
  const std::vector<int64_t> sums = {(1 << 24) + (1 << 16) + 1};
  ProductSetup setup = ColumnSetup(1, 260);
  setup.y.scale = Float(0x1p17F);
  Network net = setup.Make();
  const NDArray x = RowsOf(sums, 260);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), std::vector<uint8_t>{128});
  ASSERT_EQ(Merge(net).changes[0].agreement, Agreement::kOneStep);
  EXPECT_EQ(OutputOf<uint8_t>(net, {x}), std::vector<uint8_t>{129});
}

// Larger sums are exact too where they are beyond the end of the range.
TEST(QuantizedProductTest, SumsAbove2To24AreExactWhereTheySaturate) {
  std::vector<int64_t> sums = SumsAtTies(1 << 25);
  for (int64_t tie = 1 << 15; tie < 1 << 24; tie += 1 << 16) {
    sums.insert(sums.end(), {tie - 1, tie, tie + 1});
  }
  const Scaling outputs[] = {{Float(0x1p16F), Byte(0)},
                             {Float(0x1p16F), Byte(255)},
                             {Float(1), Byte(255)},
                             {Float(0x1p-60F), Byte(0)}};
  for (const Scaling& y : outputs) {
    ProductSetup setup = ColumnSetup(static_cast<int64_t>(sums.size()), 520);
    setup.y = y;
    Network net = setup.Make();
    const NDArray x = RowsOf(sums, 520);
    const auto expected = OutputOf<uint8_t>(net, {x});
    ASSERT_EQ(Merge(net).changes[0].agreement, Agreement::kExact);
    EXPECT_EQ(OutputOf<uint8_t>(net, {x}), expected);
  }
}

// Negative sums, and zero points at both ends.
TEST(QuantizedProductTest, TiesGoToTheSameEvenStep) {
  ProductSetup setup = MatMulSetup();
  setup.x_type = "int8[256, 1]";
  setup.w_data = MakeTensor<int8_t>({1, 1}, {1});
  setup.x = {Float(0.5F), SignedByte(0)};
  setup.w = {Float(1), SignedByte(0)};
  std::vector<int8_t> all(256);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<int8_t>(i);
  const NDArray x = MakeTensor<int8_t>({256, 1}, all);
  for (const int zero : {-128, -1, 0, 1, 127}) {
    setup.y = {Float(1), SignedByte(static_cast<int8_t>(zero))};
    Network net = setup.Make();
    const auto expected = OutputOf<int8_t>(net, {x});
    ASSERT_EQ(Merge(net).changes[0].agreement, Agreement::kExact);
    EXPECT_EQ(OutputOf<int8_t>(net, {x}), expected);
  }
}

// The longest sums whose rounding is below half a step.
TEST(QuantizedProductTest, LongestSumsAgreeWithinOneStep) {
  const uint64_t seed = FirstSeed();
  std::cout << "NODEWISE_SEED=" << seed << "\n";
  RandomSource random(seed);
  constexpr int64_t kDepth = 30'000;
  constexpr int64_t kRows = 64;
  ProductSetup setup = MatMulSetup();
  setup.x_type = "uint8[64, 30000]";
  setup.w_data = NDArray::Empty({kDepth, 1}, kInt8, kCpu).value();
  double sum = 0;
  for (int64_t i = 0; i < kDepth; ++i) {
    // The terms cancel each other out, so that not all results saturate.
    const auto w =
        static_cast<int8_t>(random.Between(1, 127) * (i % 2 * 2 - 1));
    setup.w_data.As<int8_t>()[i] = w;
    sum += std::abs(w) * 255.0;
  }
  setup.x.scale = Float(0.37F);
  setup.w.scale = Float(0.0123F);
  setup.y = {Float(static_cast<float>(sum * 0.37F * 0.0123F / 0x1.ffp20)),
             Byte(128)};
  const NDArray x = NDArray::Empty({kRows, kDepth}, kUint8, kCpu).value();
  for (int64_t i = 0; i < kRows * kDepth; i += 2) {
    const auto same = static_cast<uint8_t>(random.Next());
    x.As<uint8_t>()[i] = same;
    x.As<uint8_t>()[i + 1] = same;
  }
  Network net = setup.Make();
  const std::vector<double> expected = RunToDoubles(net, x);
  ASSERT_EQ(Merge(net).changes[0].agreement, Agreement::kOneStep);
  Tally tally;
  ExpectAgreement(expected, RunToDoubles(net, x), Agreement::kOneStep, &tally);
}

}  // namespace
}  // namespace nodewise
