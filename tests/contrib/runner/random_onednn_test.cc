// Random networks with the kernels of oneDNN: every node makes what the
// reference makes of the same inputs.

#include <gtest/gtest.h>

#include <iostream>

#include "nodewise/onednn/onednn.h"
#include "tests/contrib/lower/random_network.h"
#include "tests/contrib/runner/checked_kernels.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

// A random chain of convolutions with what usually follows them.
class RandomConvNet {
 public:
  explicit RandomConvNet(uint64_t seed) : random_(seed) {
    ValueId x = b_.In("x", {2, channels_, 9, 9});
    inputs_ = {Data({2, channels_, 9, 9})};
    for (int i = 0; i < 4; ++i) x = Block(x);
    const ValueId pooled = b_.Op("GlobalAveragePool", {x})[0];
    const ValueId flat = b_.Op("Flatten", {pooled})[0];
    const ValueId w = b_.Const("", Data({5, channels_}));
    const ValueId scores = b_.Op("Gemm", {flat, w, b_.Const("", Data({5}))},
                                 {{"transB", AttrValue(int64_t{1})}})[0];
    b_.Out({b_.Op("Softmax", {scores})[0], x});
  }

  const Network& net() const { return b_.net; }
  const std::vector<NDArray>& inputs() const { return inputs_; }

 private:
  int Below(int limit) {
    return static_cast<int>(random_() % static_cast<uint64_t>(limit));
  }
  NDArray Data(const std::vector<int64_t>& shape, float shift = 0) {
    std::vector<float> values(static_cast<size_t>(*NumElements(shape)));
    for (float& value : values) {
      value = shift + static_cast<float>(Below(2001) - 1000) / 1000;
    }
    return MakeTensor<float>(shape, values);
  }

  ValueId Conv(ValueId x) {
    const bool is_deep = Below(3) == 0;
    const int64_t after = is_deep ? channels_ : 4 + 4 * Below(3);
    const int64_t group = is_deep ? channels_ : 1;
    const int64_t size = 1 + 2 * Below(2);
    std::vector<ValueId> in = {
        x, b_.Const("", Data({after, channels_ / group, size, size}))};
    if (Below(2) == 0) in.push_back(b_.Const("", Data({after})));
    channels_ = after;
    const std::vector<int64_t> pads(4, size / 2);
    return b_.Op("Conv", in,
                 {{"group", AttrValue(group)}, {"pads", AttrValue(pads)}})[0];
  }
  ValueId Normalized(ValueId x) {
    return b_.Op(
        "BatchNormalization",
        {x, b_.Const("", Data({channels_}, 1.5F)),
         b_.Const("", Data({channels_})), b_.Const("", Data({channels_})),
         b_.Const("", Data({channels_}, 2))})[0];
  }
  ValueId Block(ValueId x) {
    const int64_t before = channels_;
    ValueId y = Conv(x);
    if (Below(2) == 0) y = Normalized(y);
    if (Below(2) == 0 && before == channels_) y = b_.Op("Add", {x, y})[0];
    const char* const kinds[] = {"Relu", "Sigmoid",   "HardSwish", "Elu",
                                 "Tanh", "LeakyRelu", "Softplus",  "Abs"};
    if (Below(4) > 0) y = b_.Op(kinds[Below(8)], {y})[0];
    if (Below(4) > 0) return y;
    const char* const pools[] = {"MaxPool", "AveragePool"};
    return b_.Op(pools[Below(2)], {y},
                 {{"kernel_shape", AttrValue(std::vector<int64_t>{2, 2})}})[0];
  }

  std::mt19937_64 random_;
  int64_t channels_ = 8;
  NetBuilder b_;
  std::vector<NDArray> inputs_;
};

LowerOptions WithLayouts(bool fuse, bool reuse) {
  LowerOptions options = LoweringFor(AllOperators());
  options.fuse = fuse;
  options.reuse_storage = reuse;
  return options;
}

// Runs it in every way, with channels last where it is faster. Memory that is
// reused must not change a bit.
void ExpectNodesAgree(const Network& network,
                      const std::vector<NDArray>& inputs, size_t* nodes) {
  for (const int threads : {1, 2}) {
    const OneDnnThreads count(threads);
    for (const bool fuse : {false, true}) {
      CheckedRuns runs;
      std::vector<NDArray> before;
      for (const bool reuse : {false, true}) {
        const auto outputs = RunLowered(
            network, inputs, WithLayouts(fuse, reuse), CheckedFunctions(&runs));
        ASSERT_THAT(outputs, IsOk());
        EXPECT_EQ(runs.wrong, "")
            << (fuse ? "fused" : "not fused") << ", " << threads << " threads";
        for (size_t i = 0; i < before.size(); ++i) {
          EXPECT_TRUE(HaveSameBits(before[i], (*outputs)[i]))
              << "memory that is reused changes output " << i;
        }
        before = *outputs;
      }
      *nodes += runs.nodes;
    }
  }
}

template <typename Random>
void ExpectNetworksAgree(int networks, const char* test) {
  const uint64_t seed = FirstSeed();
  size_t nodes = 0;
  for (int i = 0; i < networks && !testing::Test::HasFailure(); ++i) {
    const Random random(seed + static_cast<uint64_t>(i));
    ExpectNodesAgree(random.net(), random.inputs(), &nodes);
    if (!testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                  << " nodewise_ops_tests --gtest_filter=" << test;
  }
  std::cout << networks << " networks from NODEWISE_SEED=" << seed << ": "
            << nodes << " runs of nodes compared\n";
  EXPECT_GT(nodes, 0u);
}

TEST(RandomOneDnnTest, NodesOfConvolutionsMakeWhatTheReferenceDoes) {
  ExpectNetworksAgree<RandomConvNet>(
      NumCases(4, 200),
      "RandomOneDnnTest.NodesOfConvolutionsMakeWhatTheReferenceDoes");
}

TEST(RandomOneDnnTest, NodesOfAllKindsMakeWhatTheReferenceDoes) {
  ExpectNetworksAgree<RandomNetwork>(
      NumCases(15, 1'000),
      "RandomOneDnnTest.NodesOfAllKindsMakeWhatTheReferenceDoes");
}

}  // namespace
}  // namespace nodewise
