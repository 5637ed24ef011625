#include "nodewise/demo/demo_network.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/demo/layer_builder.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/pool.h"
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

// Makes the network in one go. The operation of the name `exchanged` becomes
// another one; weights do not depend on that, since each is drawn by its own
// name.
class DemoBuilder : public LayerBuilder {
 public:
  DemoBuilder(const OpSet& ops, uint64_t seed, std::string_view exchanged)
      : LayerBuilder(ops, "demo", seed), exchanged_(exchanged) {}

  absl::StatusOr<Network> Build() {
    ValueId x = Input("image", Shape{1, 3, kSide, kSide});
    x = Op("stem_relu", ops::Relu(), {ConvAndNorm("stem", x, 3, 16, 3, 1)});
    x = ResidualBlock("block1", x, 16, 16, 1);
    x = ResidualBlock("block2", x, 16, kWidth, 2);
    x = OpOr("pool", PoolOf2<ops::MaxPool>(), PoolOf2<ops::AveragePool>(), x);
    x = Tokens(x);
    x = SelfAttention(x);
    x = FeedForward(x);
    x = LayerNorm("last_norm", x, kWidth);
    return Finish({Classes(MeanOver("mean", x, {1}), kWidth, kClasses)});
  }

 private:
  // Where the number of channels changes, a convolution of 1 x 1 gives the
  // input the new shape, so that it can be added.
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

  // Each place of the image becomes a token, the row of its channels. Random
  // numbers are added, one row for each place, which tell places apart.
  ValueId Tokens(ValueId x) {
    x = Reshaped("tokens_flatten", x, {1, kWidth, kTokens});
    x = Transposed("tokens", x, {0, 2, 1});
    return Op("tokens_placed", ops::Add(),
              {x, Random("tokens_places", {1, kTokens, kWidth}, 0.1)});
  }

  // The keys are transposed with their heads already, so that the scores are a
  // plain product.
  ValueId SelfAttention(ValueId x) {
    const ValueId normal = LayerNorm("attention_norm", x, kWidth);
    const auto heads = [&](const char* name, std::vector<int64_t> order) {
      return Heads(name, normal, kTokens, kWidth, kHeads, std::move(order));
    };
    const ValueId query = heads("query", {0, 2, 1, 3});
    const ValueId key = heads("key", {0, 2, 3, 1});
    const ValueId value = heads("value", {0, 2, 1, 3});
    ValueId y = Op("attention_scores", ops::MatMul(), {query, key});
    y = Op("attention_scaled", ops::Mul(),
           {y, Number("attention_scale",
                      1 / std::sqrt(static_cast<float>(kWidth / kHeads)))});
    y = Op("attention_weights", ops::Softmax(), {y});
    y = Op("attention_mix", ops::MatMul(), {y, value});
    y = Transposed("attention_swap", y, {0, 2, 1, 3});
    y = Reshaped("attention_joined", y, {1, kTokens, kWidth});
    y = Dense("attention_out", y, kWidth, kWidth);
    return Op("attention_add", ops::Add(), {y, x});
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

  const std::string_view exchanged_;
};

// All keep the shapes, so that the network stays valid and its numbers alone
// differ. `nodewise demo` chooses one by its seed: the first belongs to seed 1.
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
