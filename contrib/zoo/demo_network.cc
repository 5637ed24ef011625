#include "nodewise/zoo/demo_network.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/ops/activation.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/batch_norm.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/elementary.h"
#include "nodewise/ops/gemm.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/reshape.h"
#include "nodewise/ops/slice.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr DLDataType kFloat{kDLFloat, 32, 1};
constexpr DLDataType kInt{kDLInt, 64, 1};

constexpr int64_t kSide = 32;    // Of the image.
constexpr int64_t kWidth = 32;   // Of a token: the channels of the last block.
constexpr int64_t kTokens = 64;  // 8 x 8 places are left after pooling.
constexpr int64_t kHeads = 4;
constexpr int64_t kHidden = 64;  // Inside the feed-forward block.
constexpr int64_t kClasses = 10;

// Adds operations under names of their own. After the first error it does
// nothing more; Finish() returns that error.
class DemoBuilder {
 public:
  DemoBuilder(const OpSet& ops, uint64_t seed) : ops_(ops), seed_(seed) {}

  absl::StatusOr<Network> Build() {
    ValueId x = Take(network_.AddInput(
        "image", TensorType(kFloat, Shape{1, 3, kSide, kSide})));
    x = Stem(x);
    x = ResidualBlock("block1", x, 16, 16, 1);
    x = ResidualBlock("block2", x, 16, kWidth, 2);
    x = Op("pool", PoolOf2(), {x});
    x = Tokens(x);
    x = SelfAttention(x);
    x = FeedForward(x);
    x = Classifier(x);
    if (status_.ok()) status_ = network_.SetOutputs({x});
    if (!status_.ok()) return status_;
    return std::move(network_);
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
    return Op(name + "_relu", ops::Relu(), {y});
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
    const ValueId normal = LayerNorm("attention_norm", x);
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
    ValueId y = LayerNorm("feed_norm", x);
    y = Gelu("feed_gelu", Dense("feed_up", y, kWidth, kHidden));
    y = Dense("feed_down", y, kHidden, kWidth);
    return Op("feed_add", ops::Add(), {y, x});
  }

  // y = x / 2 * (1 + erf(x / sqrt(2))), as exporters write it.
  ValueId Gelu(const std::string& name, ValueId x) {
    ValueId y = Op(name + "_divided", ops::Div(),
                   {x, Number(name + "_root", std::sqrt(2.0F))});
    y = Op(name + "_erf", ops::Erf(), {y});
    y = Op(name + "_plus", ops::Add(), {y, Number(name + "_one", 1)});
    y = Op(name + "_times", ops::Mul(), {x, y});
    return Op(name, ops::Mul(), {y, Number(name + "_half", 0.5F)});
  }

  ValueId Classifier(ValueId x) {
    x = LayerNorm("last_norm", x);
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

  ValueId ConvAndNorm(const std::string& name, ValueId x, int64_t from,
                      int64_t to, int64_t kernel, int64_t stride) {
    ops::Conv conv;
    conv.kernel_shape = {kernel, kernel};
    conv.strides = {stride, stride};
    conv.pads = std::vector<int64_t>(4, kernel / 2);
    x = Op(name + "_conv", conv,
           {x, Weights(name + "_weight", {to, from, kernel, kernel},
                       from * kernel * kernel)});
    return Op(
        name + "_norm", ops::BatchNormalization(),
        {x, Random(name + "_scale", {to}, 0.3, 1),
         Random(name + "_shift", {to}, 0.3), Random(name + "_mean", {to}, 0.1),
         Random(name + "_variance", {to}, 0.3, 1)});
  }

  ValueId LayerNorm(const std::string& name, ValueId x) {
    return Op(name, ops::LayerNormalization(),
              {x, Random(name + "_scale", {kWidth}, 0.3, 1),
               Random(name + "_shift", {kWidth}, 0.3)});
  }

  ValueId Dense(const std::string& name, ValueId x, int64_t from, int64_t to) {
    x = Op(name + "_product", ops::MatMul(),
           {x, Weights(name + "_weight", {from, to}, from)});
    return Op(name, ops::Add(), {x, Random(name + "_bias", {to}, 0.1)});
  }

  static ops::MaxPool PoolOf2() {
    ops::MaxPool pool;
    pool.kernel_shape = {2, 2};
    pool.strides = {2, 2};
    return pool;
  }

  static ops::Transpose Swap(std::vector<int64_t> order) {
    ops::Transpose transpose;
    transpose.perm = std::move(order);
    return transpose;
  }

  template <typename Class>
  ValueId Op(const std::string& name, const Class& op,
             std::vector<ValueId> inputs) {
    if (!status_.ok()) return kNoValue;
    return Take(network_.Add(ops_, op, std::move(inputs), name));
  }

  // --- Constants ---

  // Uniform numbers whose sums of `terms` products stay as large as what they
  // are multiplied with.
  ValueId Weights(const std::string& name, std::vector<int64_t> shape,
                  int64_t terms) {
    return Random(name, std::move(shape),
                  std::sqrt(6.0 / static_cast<double>(terms)));
  }

  // Uniform numbers from middle - range to middle + range.
  ValueId Random(const std::string& name, std::vector<int64_t> shape,
                 double range, double middle = 0) {
    RandomSource source(seed_, name);
    auto tensor = RandomTensor(source, shape, kFloat);
    if (!tensor.ok()) return Fail(tensor.status());
    auto* const data = tensor->As<float>();
    for (size_t i = 0; i < tensor->bytes() / sizeof(float); ++i) {
      data[i] = static_cast<float>(middle + range * double{data[i]});
    }
    return Take(network_.AddConstant(name, *std::move(tensor)));
  }

  ValueId Number(const std::string& name, float value) {
    return Constant<float>(name, {}, kFloat, {value});
  }

  // What a Reshape, or the sides of a reduction, are given as.
  ValueId Sizes(const std::string& name, const std::vector<int64_t>& sizes) {
    return Constant<int64_t>(name + "_sizes",
                             {static_cast<int64_t>(sizes.size())}, kInt, sizes);
  }

  template <typename T>
  ValueId Constant(const std::string& name, const std::vector<int64_t>& shape,
                   DLDataType dtype, const std::vector<T>& values) {
    auto tensor = NDArray::Empty(shape, dtype, {kDLCPU, 0});
    if (!tensor.ok()) return Fail(tensor.status());
    const absl::Status copied =
        CopyFromBytes(values.data(), values.size() * sizeof(T), **tensor);
    if (!copied.ok()) return Fail(copied);
    return Take(network_.AddConstant(name, *std::move(tensor)));
  }

  ValueId Take(const absl::StatusOr<ValueId>& id) {
    return id.ok() ? *id : Fail(id.status());
  }
  ValueId Fail(const absl::Status& status) {
    status_.Update(status);
    return kNoValue;
  }

  const OpSet& ops_;
  const uint64_t seed_;
  Network network_{"demo"};
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Network> MakeDemoNetwork(const OpSet& ops, uint64_t seed) {
  return DemoBuilder(ops, seed).Build();
}

}  // namespace nodewise
