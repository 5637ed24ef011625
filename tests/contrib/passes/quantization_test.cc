// Both passes on random networks, in which everything may read everything.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/unary.h"
#include "nodewise/random/random.h"
#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

// Draws networks of matrices, with scales that are powers of two, of which few
// different ones exist, so that neighbours often fit together.
class NetworkDrawer {
 public:
  explicit NetworkDrawer(uint64_t seed) : random_(seed) {}

  Network Draw() {
    floats_ = {builder_.Input("f", "float32[4, 4]")};
    integers_ = {builder_.Input("u", "uint8[4, 4]"),
                 builder_.Input("i", "int8[4, 4]")};
    for (int64_t i = 0; i < 3; ++i) {
      scales_.push_back(builder_.Constant(
          Float(static_cast<float>(std::exp2(Below(6) - 3)))));
    }
    const int64_t operations = 4 + Below(30);
    for (int64_t i = 0; i < operations; ++i) AddOne();
    std::vector<ValueId> outputs = {floats_.back(), integers_.back()};
    if (Below(3) == 0) outputs.push_back(PickOf(floats_));
    if (Below(3) == 0) outputs.push_back(PickOf(integers_));
    return builder_.Finish(outputs);
  }

  std::vector<NDArray> Inputs() {
    const NDArray f = NDArray::Empty({4, 4}, kFloat32, kCpu).value();
    const NDArray u = NDArray::Empty({4, 4}, kUint8, kCpu).value();
    const NDArray i = NDArray::Empty({4, 4}, kInt8, kCpu).value();
    for (int64_t k = 0; k < 16; ++k) {
      f.As<float>()[k] = static_cast<float>(100 * random_.Symmetric());
      u.As<uint8_t>()[k] = static_cast<uint8_t>(random_.Next());
      i.As<uint8_t>()[k] = static_cast<uint8_t>(random_.Next());
    }
    return {f, u, i};
  }

 private:
  int64_t Below(int64_t end) { return random_.Between(0, end - 1); }
  // Prefers what has just been made.
  ValueId PickOf(const std::vector<ValueId>& values) {
    const auto count = static_cast<int64_t>(values.size());
    const int64_t back = std::min(Below(count), Below(count));
    return values[static_cast<size_t>(count - 1 - back)];
  }
  ValueId Scale() { return scales_[static_cast<size_t>(Below(3))]; }

  void AddOne() {
    switch (Below(10)) {
      case 0:
        floats_.push_back(builder_.Add(ops::Relu{}, {PickOf(floats_)}, ""));
        break;
      case 1:
        floats_.push_back(
            builder_.Add(ops::Add{}, {PickOf(floats_), PickOf(floats_)}, ""));
        break;
      case 2:
      case 3:
        floats_.push_back(builder_.Add(ops::MatMul{},
                                       {PickOf(floats_), PickOf(floats_)}, ""));
        break;
      case 4:
      case 5:
        AddDequantize();
        break;
      case 6:
        AddDequantize();
        AddDequantize();
        floats_.push_back(builder_.Add(
            ops::MatMul{}, {floats_.back(), *(floats_.rbegin() + 1)}, ""));
        AddQuantize(floats_.back());
        break;
      case 7:
        AddDequantize();
        AddQuantize(floats_.back());
        break;
      default:
        AddQuantize(PickOf(floats_));
    }
  }

  void AddDequantize() {
    const ValueId x = PickOf(integers_);
    std::vector<ValueId> inputs = {x, Scale()};
    if (Below(2) == 0) inputs.push_back(Zero(builder_.net.value(x).type.dtype));
    floats_.push_back(
        builder_.Add(ops::DequantizeLinear{}, std::move(inputs), ""));
  }

  void AddQuantize(ValueId x) {
    const DLDataType types[] = {kUint8, kInt8, kInt8, kUint16};
    ops::QuantizeLinear op;
    op.output_dtype = types[Below(4)];
    std::vector<ValueId> inputs = {x, Scale()};
    if (Below(2) == 0) inputs.push_back(Zero(*op.output_dtype));
    integers_.push_back(builder_.Add(op, std::move(inputs), ""));
  }

  ValueId Zero(DLDataType type) {
    const NDArray zero = NDArray::Empty({}, type, kCpu).value();
    const double value = static_cast<double>(Below(2) * 3);
    StoreDoubles(&value, 0, 1, zero);
    return builder_.Constant(zero);
  }

  RandomSource random_;
  QuantizedBuilder builder_;
  std::vector<ValueId> floats_;
  std::vector<ValueId> integers_;
  std::vector<ValueId> scales_;
};

// Everything that is read of the outputs, so that networks can be compared.
std::string ResultOf(const Network& net, const std::vector<NDArray>& inputs) {
  const auto outputs = Interpret(net, inputs);
  EXPECT_THAT(outputs, IsOk());
  std::ostringstream text;
  for (size_t i = 0; outputs.ok() && i < outputs->size(); ++i) {
    text << net.value(net.outputs()[i]).name << ":";
    for (const double x : ToDoubles((*outputs)[i])) text << " " << x;
    text << "\n";
  }
  return text.str();
}

void CheckOne(uint64_t seed, std::map<std::string, size_t>* counts) {
  NetworkDrawer drawer(seed);
  Network net = drawer.Draw();
  // What nothing needs is a reader all the same, until a pass removes it.
  net.RemoveUnused();
  const std::vector<NDArray> inputs = drawer.Inputs();
  const std::string expected = ResultOf(net, inputs);
  const QuantizationReport report = Merge(net);
  for (const auto& change : report.changes) {
    ++(*counts)[change.kind];
    EXPECT_EQ(change.agreement, Agreement::kExact);
  }
  (*counts)["left alone"] += report.left_alone.size();
  EXPECT_EQ(ResultOf(net, inputs), expected);
  const std::string merged = RenumberedText(net);
  EXPECT_TRUE(Merge(net).changes.empty());
  EXPECT_TRUE(Split(net).left_alone.empty());
  EXPECT_EQ(ResultOf(net, inputs), expected);
  Merge(net);
  EXPECT_EQ(RenumberedText(net), merged);
  EXPECT_EQ(ResultOf(net, inputs), expected);
}

TEST(QuantizationTest, RandomNetworksGiveTheSameResults) {
  const int cases = NumCases(300, 10'000);
  const uint64_t seed = FirstSeed();
  std::map<std::string, size_t> counts;
  for (int i = 0; i < cases && !HasFailure(); ++i) {
    CheckOne(seed + static_cast<uint64_t>(i), &counts);
    if (HasFailure()) {
      ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                    << " nodewise_ops_tests "
                       "--gtest_filter=QuantizationTest.*";
    }
  }
  std::cout << cases << " networks from NODEWISE_SEED=" << seed << ":";
  for (const auto& [kind, count] : counts) {
    std::cout << " " << (kind.empty() ? "removed" : kind) << " " << count;
  }
  std::cout << "\n";
  for (const char* kind : {"", "QLinearMatMul", "FakeQuantize", "left alone"}) {
    EXPECT_GT(counts[kind], 0u) << kind;
  }
}

TEST(QuantizationTest, ReportIsOfTheLastRun) {
  QuantizationReport report;
  const Pass pass = MergeQuantizationPass(&report);
  Network net = ProductSetup().Make();
  ASSERT_THAT(RunPasses({pass}, {}, net), IsOk());
  EXPECT_EQ(report.changes.size(), 1u);
  ASSERT_THAT(RunPasses({pass}, {}, net), IsOk());
  EXPECT_EQ(report.ToString(), "0 merged, 0 not\n");
}

TEST(QuantizationTest, WhatIsLeftAloneIsNamedWithTheReason) {
  ProductSetup setup;
  setup.quantize.output_dtype = kInt16;
  Network net = setup.Make();
  EXPECT_THAT(Merge(net).ToString(),
              HasSubstr("operation product: not merged: y is of type int16"));
}

TEST(QuantizationTest, NetworkOfFloatsIsNotChanged) {
  QuantizedBuilder builder;
  const ValueId x = builder.Input("x", "float32[2, 2]");
  builder.Add(ops::Relu{}, {x}, "unused");
  Network net = builder.Finish({builder.Add(ops::MatMul{}, {x, x}, "y")});
  const uint64_t version = net.version();
  EXPECT_EQ(MergeQuantization(net).ToString(), "0 merged, 0 not\n");
  EXPECT_EQ(SplitQuantization(net).ToString(), "0 split, 0 not\n");
  EXPECT_EQ(net.version(), version);
}

}  // namespace
}  // namespace nodewise
