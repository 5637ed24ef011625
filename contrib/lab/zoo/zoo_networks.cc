#include "nodewise/zoo/zoo_networks.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/demo/demo_network.h"
#include "nodewise/demo/layer_builder.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/recurrent.h"
#include "nodewise/ops/selection.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"
#include "nodewise/passes/quantization.h"
#include "nodewise/precision/precision.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<ValueId>;

ValueId ConvWithBias(LayerBuilder& b, const std::string& name, ValueId x,
                     int64_t from, int64_t to, bool by_channel = false) {
  ops::Conv conv;
  conv.kernel_shape = {3, 3};
  conv.pads = {1, 1, 1, 1};
  conv.group = by_channel ? from : 1;
  const int64_t channels = from / conv.group;
  return b.Op(
      name, conv,
      {x, b.Weights(name + "_weight", {to, channels, 3, 3}, channels * 9),
       b.Random(name + "_bias", {to}, 0.2)});
}

absl::StatusOr<Network> MakeConvolutional(const OpSet& ops, uint64_t seed) {
  LayerBuilder b(ops, "convolutional", seed);
  ValueId x = b.Input("image", Shape{1, 3, 14, 14});
  x = b.Op("stem_relu", ops::Relu(), {ConvWithBias(b, "stem", x, 3, 8)});
  ops::AveragePool pool;
  pool.kernel_shape = {3, 3};
  pool.strides = {2, 2};
  // At one end alone, so that 14 places become 7 and some windows reach into
  // the padding.
  pool.pads = {1, 1, 0, 0};
  x = b.Op("pool", pool, {x});
  ValueId y = ConvWithBias(b, "depth", x, 8, 8, /*by_channel=*/true);
  y = b.Op("depth_leaky", ops::LeakyRelu(), {y});
  y = b.ConvAndNorm("point", y, 8, 8, 1, 1);
  x = b.Op("sum", ops::Add(), {x, y});
  x = b.Op("last_relu", ops::Relu(), {b.ConvAndNorm("last", x, 8, 12, 3, 2)});
  return b.Finish({b.Classes(b.MeanOver("mean", x, {2, 3}), 12, 5)});
}

// Rows of scores have 9 elements: a whole vector of 4 or 8, and a rest.
constexpr int64_t kPlaces = 9;
constexpr int64_t kDepth = 16;
constexpr int64_t kHeadCount = 2;

// 0 where a query may look, minus infinity where it may not: at later places.
ValueId CausalMask(LayerBuilder& b) {
  std::vector<float> mask;
  for (int64_t query = 0; query < kPlaces; ++query) {
    for (int64_t key = 0; key < kPlaces; ++key) {
      mask.push_back(key > query ? -std::numeric_limits<float>::infinity() : 0);
    }
  }
  return b.Floats("mask", {1, 1, kPlaces, kPlaces}, mask);
}

ValueId MaskedAttention(LayerBuilder& b, ValueId x) {
  const ValueId normal = b.LayerNorm("attention_norm", x, kDepth);
  const auto heads = [&](const char* name, Ints order) {
    return b.Heads(name, normal, kPlaces, kDepth, kHeadCount, std::move(order));
  };
  ValueId y = b.Op("scores", ops::MatMul(),
                   {heads("query", {0, 2, 1, 3}), heads("key", {0, 2, 3, 1})});
  // About one over the root of the width of a head.
  y = b.Op("scaled", ops::Mul(), {y, b.Number("scale", 0.35F)});
  y = b.Op("masked", ops::Add(), {y, CausalMask(b)});
  y = b.Op("weights", ops::Softmax(), {y});
  y = b.Op("mix", ops::MatMul(), {y, heads("value", {0, 2, 1, 3})});
  y = b.Reshaped("joined", b.Transposed("swap", y, {0, 2, 1, 3}),
                 {1, kPlaces, kDepth});
  return b.Op("attention_add", ops::Add(),
              {b.Dense("attention_out", y, kDepth, kDepth), x});
}

// One block, whose Gelu is one operation here; in the demonstration it is made
// of five.
absl::StatusOr<Network> MakeTransformer(const OpSet& ops, uint64_t seed) {
  LayerBuilder b(ops, "transformer", seed);
  ValueId x = b.Input("tokens", Shape{1, kPlaces, kDepth});
  x = b.Op("placed", ops::Add(),
           {x, b.Random("places", {1, kPlaces, kDepth}, 0.3)});
  x = MaskedAttention(b, x);
  ValueId y = b.LayerNorm("feed_norm", x, kDepth);
  y = b.Op("feed_gelu", ops::Gelu(), {b.Dense("feed_up", y, kDepth, 40)});
  x = b.Op("feed_add", ops::Add(), {b.Dense("feed_down", y, 40, kDepth), x});
  x = b.LayerNorm("last_norm", x, kDepth);
  return b.Finish({b.Classes(b.MeanOver("mean", x, {1}), kDepth, 7)});
}

// The precision pass makes this network of the convolutional one; what can be
// computed with integers is.
absl::StatusOr<Network> MakeQuantised(const OpSet& ops, uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(Network network, MakeConvolutional(ops, seed));
  std::vector<Sample> samples;
  for (uint64_t i = 0; i < 2; ++i) {
    RandomSource source(seed + i, "calibration");
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray image, RandomTensor(source, Ints{1, 3, 14, 14}, kDemoFloat));
    samples.push_back({std::move(image)});
  }
  PrecisionOptions options;
  options.precision = Precision::kInt8;
  // Also right where kernels add two products in 16 bits.
  options.most_weight = 63;
  NODEWISE_ASSIGN_OR_RETURN(options.calibration, Calibrate(network, samples));
  NODEWISE_RETURN_IF_ERROR(LowerPrecision(options, network).status());
  MergeQuantization(network);
  return network;
}

constexpr int64_t kSteps = 6;
constexpr int64_t kState = 8;

absl::StatusOr<Network> MakeRecurrent(const OpSet& ops, uint64_t seed) {
  LayerBuilder b(ops, "recurrent", seed);
  ValueId x = b.Input("series", Shape{kSteps, 1, 5});
  ops::LSTM lstm;
  lstm.hidden_size = kState;
  lstm.direction = ops::Direction::kBidirectional;
  x = b.Ops("lstm", lstm,
            {x, b.Weights("lstm_w", {2, 4 * kState, 5}, 5),
             b.Weights("lstm_r", {2, 4 * kState, kState}, kState),
             b.Random("lstm_b", {2, 8 * kState}, 0.2)},
            {"lstm_states"})[0];
  // Steps, directions, batch, state: both directions become one state.
  x = b.Reshaped("joined", b.Transposed("swap", x, {0, 2, 1, 3}),
                 {kSteps, 1, 2 * kState});
  // The GRU reads both directions, and the probabilities are those of its last
  // state.
  ops::GRU gru;
  gru.hidden_size = kState;
  const Values made =
      b.Ops("gru", gru,
            {x, b.Weights("gru_w", {1, 3 * kState, 2 * kState}, 2 * kState),
             b.Weights("gru_r", {1, 3 * kState, kState}, kState),
             b.Random("gru_b", {1, 6 * kState}, 0.2)},
            {"gru_states", "gru_last"});
  x = b.Reshaped("last", made[1], {1, kState});
  return b.Finish({b.Classes(x, kState, 4), made[0]});
}

// Nodes with several outputs, outputs of the network that other nodes read, and
// results that are only seen through a reshape.
absl::StatusOr<Network> MakeSeveralOutputs(const OpSet& ops, uint64_t seed) {
  LayerBuilder b(ops, "several_outputs", seed);
  ValueId x = b.Input("rows", Shape{6, 13});
  x = b.Op("up_tanh", ops::Tanh(), {b.Dense("up", x, 13, 30)});
  const Values parts =
      b.Ops("parts", ops::Split{1, {}}, {x, b.Sizes("parts", {10, 10, 10})},
            {"part_a", "part_b", "part_c"});
  const ValueId gate = b.Op("gate", ops::Sigmoid(), {parts[0]});
  const ValueId gated = b.Op("gated", ops::Mul(), {gate, parts[1]});
  const ValueId difference = b.Op("difference", ops::Sub(), {gated, parts[2]});
  const ValueId folded = b.Reshaped("folded", difference, {3, 2, 10});
  const Values best = b.Ops("best", ops::TopK(), {folded, b.Sizes("best", {3})},
                            {"best_values", "best_places"});
  const ValueId turned = b.Transposed("turned", folded, {2, 0, 1});
  const ValueId flat = b.Reshaped("flat", turned, {10, 6});
  return b.Finish({b.Classes(flat, 6, 3), best[0], best[1], gated});
}

constexpr ZooNetwork kZooNetworks[] = {
    {"demo", "residual convolutions, pooling, self-attention, a classifier",
     true, &MakeDemoNetwork},
    {"convolutional",
     "convolutions, one of them by channel, a padded pool, a residual sum",
     true, &MakeConvolutional},
    {"transformer", "attention masked with minus infinity, a Gelu", true,
     &MakeTransformer},
    {"quantised", "the convolutional network in int8", true, &MakeQuantised},
    {"recurrent", "an LSTM in both directions, a GRU, a classifier", true,
     &MakeRecurrent},
    {"several_outputs",
     "a split, a top k, results behind reshapes, four outputs", false,
     &MakeSeveralOutputs},
};

}  // namespace

absl::Span<const ZooNetwork> ZooNetworks() { return kZooNetworks; }

absl::StatusOr<ZooNetwork> FindZooNetwork(std::string_view name) {
  std::string names;
  for (const ZooNetwork& network : kZooNetworks) {
    if (network.name == name) return network;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", network.name);
  }
  return InvalidArgument("{}: is not a network of the zoo, expected one of {}",
                         name, names);
}

}  // namespace nodewise
