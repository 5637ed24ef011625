#include "nodewise/demo/demo_network.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/demo/layer_builder.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/ops/unary.h"

namespace nodewise {
namespace {

constexpr int64_t kSide = 32;    // Side of the image.
constexpr int64_t kWidth = 32;   // Per token: the channels of the last block.
constexpr int64_t kTokens = 64;  // 8 x 8 places are left after pooling.
constexpr int64_t kHeads = 4;
constexpr int64_t kHidden = 64;  // Inside the feed-forward block.
constexpr int64_t kClasses = 10;

class DemoBuilder : public LayerBuilder {
 public:
  DemoBuilder(const OpSet& ops, uint64_t seed, std::string_view exchanged)
      : LayerBuilder(ops, "demo", seed), exchanged_(exchanged) {}

  absl::StatusOr<Network> Build() {
    ValueId x = Input("image", Shape{1, 3, kSide, kSide});
    x = Stem(x);
    x = ResidualBlock("block1", x, 16, 16, 1);
    x = ResidualBlock("block2", x, 16, kWidth, 2);
    x = OpOr("pool", PoolOf2<ops::MaxPool>(), PoolOf2<ops::AveragePool>(), x);
    x = Tokens(x);
    x = SelfAttention(x);
    x = FeedForward(x);
    x = Classifier(x);
    return Finish({x});
  }

 private:
  // --- The parts ---

  ValueId Stem(ValueId x) {
    x = ConvAndNorm("stem", x, 3, 16, 3, 1);
    return Op("stem_relu", ops::Relu(), {x});
  }

  ValueId ResidualBlock(const std::string& name, ValueId x, int64_t from,
                        int64_t to, int64_t stride) {
    ValueId y = ConvAndNorm(name + "_a", x, from, to, 3, stride);
    y = Op(name + "_a_relu", ops::Relu(), {y});
    y = ConvAndNorm(name + "_b", y, to, to, 3, 1);
    if (from != to) {
      x = ConvAndNorm(name + "_shortcut", x, from, to, 1, stride);
    }
    y = Op(name + "_add", ops::Add(), {y, x});
    return OpOr(name + "_relu", ops::Relu(), ops::Abs(), y);
  }

  // Makes a row of the channels of each place, and adds what tells places
  // apart.
  ValueId Tokens(ValueId x) {
    x = Op("tokens_flatten", ops::Reshape(),
           {x, Sizes("tokens_flatten", {1, kWidth, kTokens})});
    x = Op("tokens", Swap({0, 2, 1}), {x});
    return Op("tokens_placed", ops::Add(),
              {x, Random("tokens_places", {1, kTokens, kWidth}, 0.1)});
  }

  ValueId SelfAttention(ValueId x) {
    constexpr int64_t kDepth = kWidth / kHeads;
    const ValueId normal = LayerNorm("attention_norm", x, kWidth);
    const ValueId query = Heads("query", normal, {0, 2, 1, 3});
    const ValueId key = Heads("key", normal, {0, 2, 3, 1});
    const ValueId value = Heads("value", normal, {0, 2, 1, 3});
    ValueId y = Op("attention_scores", ops::MatMul(), {query, key});
    y = Op("attention_scaled", ops::Mul(),
           {y, Number("attention_scale", 1 / std::sqrt(float{kDepth}))});
    y = Op("attention_weights", ops::Softmax(), {y});
    y = Op("attention_mix", ops::MatMul(), {y, value});
    y = Op("attention_swap", Swap({0, 2, 1, 3}), {y});
    y = Op("attention_joined", ops::Reshape(),
           {y, Sizes("attention_joined", {1, kTokens, kWidth})});
    y = Dense("attention_out", y, kWidth, kWidth);
    return Op("attention_add", ops::Add(), {y, x});
  }

  ValueId Heads(const std::string& name, ValueId x,
                std::vector<int64_t> order) {
    x = Dense(name, x, kWidth, kWidth);
    x = Op(name + "_split", ops::Reshape(),
           {x, Sizes(name + "_split", {1, kTokens, kHeads, kWidth / kHeads})});
    return Op(name + "_heads", Swap(std::move(order)), {x});
  }

  ValueId FeedForward(ValueId x) {
    ValueId y = LayerNorm("feed_norm", x, kWidth);
    y = Gelu("feed_gelu", Dense("feed_up", y, kWidth, kHidden));
    y = Dense("feed_down", y, kHidden, kWidth);
    return Op("feed_add", ops::Add(), {y, x});
  }

  // y = x / 2 * (1 + erf(x / sqrt(2))), as exporters write it.
  ValueId Gelu(const std::string& name, ValueId x) {
    ValueId y = Op(name + "_divided", ops::Div(),
                   {x, Number(name + "_root", std::sqrt(2.0F))});
    y = OpOr(name + "_erf", ops::Erf(), ops::Tanh(), y);
    y = Op(name + "_plus", ops::Add(), {y, Number(name + "_one", 1)});
    y = Op(name + "_times", ops::Mul(), {x, y});
    return Op(name, ops::Mul(), {y, Number(name + "_half", 0.5F)});
  }

  ValueId Classifier(ValueId x) {
    x = LayerNorm("last_norm", x, kWidth);
    x = Op("mean",
           [] {
             ops::ReduceMean mean;
             mean.keepdims = false;
             return mean;
           }(),
           {x, Sizes("mean", {1})});
    x = Op("classes", ops::Gemm(),
           {x, Weights("classes_weight", {kWidth, kClasses}, kWidth),
            Random("classes_bias", {kClasses}, 0.1)});
    return Op("probabilities", ops::Softmax(), {x});
  }

  // --- What the parts are made of ---

  // An operation that may be exchanged for another one.
  template <typename Usual, typename Other>
  ValueId OpOr(const std::string& name, const Usual& usual, const Other& other,
               ValueId x) {
    return name == exchanged_ ? Op(name, other, {x}) : Op(name, usual, {x});
  }

  template <typename Pool>
  static Pool PoolOf2() {
    Pool pool;
    pool.kernel_shape = {2, 2};
    pool.strides = {2, 2};
    return pool;
  }

  static ops::Transpose Swap(std::vector<int64_t> order) {
    ops::Transpose transpose;
    transpose.perm = std::move(order);
    return transpose;
  }

  const std::string_view exchanged_;
};

constexpr DemoExchange kExchanges[] = {
    {"pool", "AveragePool", "MaxPool"},
    {"block1_relu", "Abs", "Relu"},
    {"feed_gelu_erf", "Tanh", "Erf"},
    {"block2_relu", "Abs", "Relu"},
};

}  // namespace

absl::Span<const DemoExchange> DemoExchanges() { return kExchanges; }

absl::StatusOr<Network> MakeDemoNetwork(const OpSet& ops, uint64_t seed) {
  return DemoBuilder(ops, seed, "").Build();
}

absl::StatusOr<Network> MakeExchangedDemo(const OpSet& ops, uint64_t seed,
                                          const DemoExchange& exchange) {
  return DemoBuilder(ops, seed, exchange.operation).Build();
}

}  // namespace nodewise
