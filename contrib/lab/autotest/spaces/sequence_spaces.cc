// Recurrent layers, attention and other operators along sequences.

#include <algorithm>
#include <utility>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

using Strings = std::vector<std::string>;

// Steps feed each other: weights are small, so that states do not run away and
// hide a fault of a later step, and states may be infinite in some cases.
constexpr InputDomain kStateDomain{-1, 1};
constexpr InputDomain kWeightDomain = InputDomain::Within(-1, 1);

struct Layer {
  int64_t gates = 1;
  int64_t functions = 1;  // Activations for each direction.
  int64_t ways = 1;
  int64_t steps = 1;
  int64_t batch = 1;
  int64_t width = 1;
  int64_t hidden = 1;
  bool is_batch_first = false;

  Ints state() const {
    return is_batch_first ? Ints{batch, ways, hidden}
                          : Ints{ways, batch, hidden};
  }
};

// Activations are the usual ones most of the time, and else any that ONNX
// names, one for each function of each direction.
void DrawActivations(ConfigurationDraw& draw, const Layer& layer) {
  if (!draw.Chance(40)) return;
  const Strings all = {
      "Tanh",       "Sigmoid",   "Relu",           "HardSigmoid",
      "Softsign",   "LeakyRelu", "Affine",         "Elu",
      "ScaledTanh", "Softplus",  "ThresholdedRelu"};
  Strings names;
  for (int64_t i = 0; i < layer.functions * layer.ways; ++i) {
    names.push_back(draw.One(all));
  }
  draw.Attr("activations", names);
  // It is not said what these two take for alpha and beta otherwise.
  if (std::ranges::any_of(names, [](const std::string& name) {
        return name == "Affine" || name == "ScaledTanh";
      })) {
    draw.Attr("activation_alpha", Floats(names.size(), 0.25F));
    draw.Attr("activation_beta", Floats(names.size(), 0.5F));
    return;
  }
  // Lists may be shorter than that of the names: the rest have their defaults.
  draw.MaybeAttr<Floats>("activation_alpha", {{0.25F}, {0.5F, 0.125F}});
  draw.MaybeAttr<Floats>("activation_beta", {{0.5F}, {0.25F, 0.5F}});
}

// All recurrent layers have these sides and attributes. Both ways of a
// bidirectional one have their own weights and activations.
Layer DrawLayer(ConfigurationDraw& draw) {
  Layer layer;
  const bool is_lstm = draw.Is("LSTM") || draw.Is("DynamicQuantizeLSTM");
  layer.gates = is_lstm ? 4 : draw.Is("GRU") ? 3 : 1;
  // One activation serves two of the gates, or it is the only one.
  layer.functions = std::max<int64_t>(layer.gates - 1, 1);
  layer.steps = draw.Between(1, 5);
  layer.batch = draw.Between(1, 3);
  layer.width = draw.Side(9);
  layer.hidden = draw.Side(9);
  const auto direction =
      draw.One<std::string>({"forward", "reverse", "bidirectional"});
  if (direction == "bidirectional") layer.ways = 2;
  draw.AttrUnless("direction", direction, "forward");
  // hidden_size became an attribute that may be left out.
  if (draw.Chance(80)) draw.Attr("hidden_size", layer.hidden);
  DrawActivations(draw, layer);
  if (draw.Chance(25)) draw.Attr("clip", draw.One<float>({2, 0.5F, 5}));
  if (is_lstm && draw.Chance(30)) draw.Attr("input_forget", draw.Between(0, 1));
  return layer;
}

// How many steps each sequence of the batch has, if that is told.
void DrawLengths(ConfigurationDraw& draw, const Layer& layer) {
  draw.InputIf(draw.Chance(30), kInt32, {layer.batch},
               InputDomain::Whole(1, layer.steps));
}

void DrawWanted(ConfigurationDraw& draw, size_t count) {
  std::vector<bool> wanted(count, true);
  if (draw.Chance(40)) wanted[static_cast<size_t>(draw.Axis(count))] = false;
  draw.WantOutputs(std::move(wanted));
}

void DrawRecurrent(ConfigurationDraw& draw) {
  Layer layer = DrawLayer(draw);
  const bool is_lstm = draw.Is("LSTM");
  if (draw.opset() >= 14 && draw.Chance(30)) {
    layer.is_batch_first = draw.Chance();
    draw.Attr("layout", layer.is_batch_first ? 1 : 0);
  }
  if (draw.Is("GRU") && draw.opset() >= 3) draw.Flag("linear_before_reset");
  if (draw.def().since < 7) draw.Flag("output_sequence");
  const DLDataType dtype = draw.Float();
  const int64_t columns = layer.gates * layer.hidden;
  draw.Input(dtype,
             layer.is_batch_first ? Ints{layer.batch, layer.steps, layer.width}
                                  : Ints{layer.steps, layer.batch, layer.width},
             kStateDomain);
  draw.Weight(dtype, {layer.ways, columns, layer.width}, kWeightDomain);
  draw.Weight(dtype, {layer.ways, columns, layer.hidden}, kWeightDomain);
  draw.WeightIf(draw.Chance(), dtype, {layer.ways, 2 * columns}, kWeightDomain);
  DrawLengths(draw, layer);
  draw.InputIf(draw.Chance(30), dtype, layer.state(), kStateDomain);
  if (is_lstm) {
    draw.InputIf(draw.Chance(30), dtype, layer.state(), kStateDomain);
    draw.WeightIf(draw.Chance(30), dtype, {layer.ways, 3 * layer.hidden},
                  kWeightDomain);
  }
  DrawWanted(draw, is_lstm ? 3 : 2);
}

// The zero points of one side are the same for all columns. Codes and scales
// are so small that the weights they stand for do not reach 1.
void DrawDynamicLstm(ConfigurationDraw& draw) {
  const Layer layer = DrawLayer(draw);
  const int64_t columns = 4 * layer.hidden;
  const DLDataType code = draw.One({kUint8, kInt8});
  const InputDomain codes =
      code == kUint8 ? InputDomain::Whole(0, 60) : InputDomain::Whole(-60, 60);
  draw.Input(kFloat32, {layer.steps, layer.batch, layer.width}, kWeightDomain);
  draw.Weight(code, {layer.ways, layer.width, columns}, codes);
  draw.Weight(code, {layer.ways, layer.hidden, columns}, codes);
  const auto maybe = [&](const Ints& shape) {
    draw.InputIf(draw.Chance(30), kFloat32, shape, kWeightDomain);
  };
  maybe({layer.ways, 2 * columns});
  DrawLengths(draw, layer);
  maybe(layer.state());
  maybe(layer.state());
  maybe({layer.ways, 3 * layer.hidden});
  for (int i = 0; i < 2; ++i) {
    const Ints sides =
        draw.Chance() ? Ints{layer.ways, columns} : Ints{layer.ways};
    draw.Weight(kFloat32, sides, InputDomain::Within(1.0 / 512, 1.0 / 64));
    const auto zero = code == kUint8 ? draw.Between(0, 60) : int64_t{0};
    draw.Weight(code, sides, InputDomain::Whole(zero, zero));
  }
  DrawWanted(draw, 3);
}

// The state is what the windows of the first steps read of the time before.
void DrawCausalConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 3);
  const int64_t channels = draw.Side(17);
  const int64_t taps = draw.Between(1, 4);
  draw.MaybeWord("activation", {"none", "silu", "swish"});
  draw.Input(dtype, {batch, channels, draw.Side(33)});
  draw.Weight(dtype, {channels, 1, taps});
  draw.WeightIf(draw.Chance(), dtype, {channels});
  if (draw.Chance()) draw.Input(dtype, {batch, channels, taps - 1});
  draw.Outputs(2);
}

// The sides of Attention. Tensors have their heads as a side of their own, or
// flat: side by side in their vectors, so that attributes have to tell their
// number.
struct Heads {
  int64_t batch = 1;
  int64_t kv = 1;     // Heads of keys and values.
  int64_t group = 1;  // Heads of queries for each of these.
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t past = 0;
  int64_t size = 1;
  int64_t value_size = 1;
  bool is_flat = false;

  Ints Shape(int64_t heads, int64_t places, int64_t vector) const {
    return is_flat ? Ints{batch, places, heads * vector}
                   : Ints{batch, heads, places, vector};
  }
};

// Several heads of queries may share one of keys and values. A cache of the
// past goes before the keys of this call.
Heads DrawHeads(ConfigurationDraw& draw) {
  Heads heads;
  heads.is_flat = draw.Chance();
  heads.batch = draw.Between(1, 2);
  heads.kv = draw.Between(1, 3);
  heads.group = draw.Chance(30) ? draw.Between(1, 3) : 1;
  heads.queries = draw.Side(9);
  heads.keys = draw.Side(17);
  heads.size = draw.Side(17);
  heads.value_size = draw.Chance(30) ? draw.Side(17) : heads.size;
  if (draw.Chance(30)) heads.past = draw.Between(1, 4);
  return heads;
}

// An attribute names the stage of the scores, the fourth output; without that
// output it is of no use. Windows came with version 25.
void DrawAttentionAttributes(ConfigurationDraw& draw, const Heads& heads,
                             bool wants_scores) {
  if (heads.is_flat || draw.Chance(20)) {
    draw.Attr("q_num_heads", heads.kv * heads.group);
    draw.Attr("kv_num_heads", heads.kv);
  }
  draw.Flag("is_causal");
  draw.MaybeAttr<float>("scale", {0.5F, 1, 0.25F});
  draw.MaybeAttr<float>("softcap", {0, 2, 5});
  if (wants_scores || draw.Chance(20)) {
    draw.MaybeAttr<int64_t>("qk_matmul_output_mode", {0, 1, 2, 3});
  }
  if (draw.Chance(20)) {
    draw.TypeAttr("softmax_precision", draw.One({kFloat32, kFloat64}));
  }
  if (draw.def().since < 25) return;
  draw.MaybeAttr<int64_t>("left_window_size", {-1, 0, 2, 4});
  draw.MaybeAttr<int64_t>("right_window_size", {-1, 0, 2, 4});
}

void DrawAttention(ConfigurationDraw& draw) {
  const Heads heads = DrawHeads(draw);
  const DLDataType dtype = draw.Float();
  const bool wants_scores = draw.Chance(20);
  DrawAttentionAttributes(draw, heads, wants_scores);
  // Exponents of products: larger values would leave one key per query.
  const InputDomain small = InputDomain::Within(-2, 2);
  draw.Input(dtype,
             heads.Shape(heads.kv * heads.group, heads.queries, heads.size),
             small);
  draw.Input(dtype, heads.Shape(heads.kv, heads.keys, heads.size), small);
  draw.Input(dtype, heads.Shape(heads.kv, heads.keys, heads.value_size), small);
  if (draw.Chance(40)) {
    // Sides may be left out at the front, or be 1, but for the keys.
    const Ints mask = {heads.batch, heads.kv * heads.group, heads.queries,
                       heads.past + heads.keys};
    Ints part(mask.begin() + draw.Between(0, 2), mask.end());
    for (size_t i = 0; i + 1 < part.size(); ++i) {
      if (draw.Chance(25)) part[i] = 1;
    }
    draw.Input(draw.Chance() ? kBool : dtype, part, small);
  } else {
    draw.NoInput();
  }
  for (const int64_t size : {heads.size, heads.value_size}) {
    draw.InputIf(heads.past > 0, dtype,
                 {heads.batch, heads.kv, heads.past, size}, small);
  }
  // The lengths of caches that the caller fills go without a past.
  if (draw.opset() >= 24 && heads.past == 0 && draw.Chance(20)) {
    draw.Input(kInt64, {heads.batch}, InputDomain::Whole(1, heads.keys));
  }
  const bool wants_present = heads.past > 0 || draw.Chance(20);
  draw.WantOutputs({true, wants_present, wants_present, wants_scores});
}

// States grow from step to step: vectors are small, and forgotten a little.
void DrawLinearAttention(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 2);
  const int64_t steps = draw.Between(1, 6);
  const int64_t kv = draw.Between(1, 3);
  const int64_t heads = kv * (draw.Chance(30) ? draw.Between(1, 2) : 1);
  const int64_t size = draw.Side(9);
  const int64_t value_size = draw.Side(9);
  const auto rule =
      draw.One<std::string>({"gated_delta", "linear", "gated", "delta"});
  draw.AttrUnless("update_rule", rule, "gated_delta");
  draw.Attr("q_num_heads", heads);
  draw.Attr("kv_num_heads", kv);
  draw.MaybeAttr<int64_t>("chunk_size", {64, 1, 2});
  draw.MaybeAttr<float>("scale", {0, 0.5F, 1});
  const InputDomain small = InputDomain::Within(-1, 1);
  draw.Input(dtype, {batch, steps, heads * size}, small);
  draw.Input(dtype, {batch, steps, kv * size}, small);
  draw.Input(dtype, {batch, steps, kv * value_size}, small);
  draw.InputIf(draw.Chance(), dtype, {batch, kv, size, value_size}, small);
  // A gate is a logarithm, 0 or less; a delta rule learns at a rate up to 1.
  if (rule == "gated" || rule == "gated_delta") {
    draw.Input(dtype, {batch, steps, draw.Chance() ? kv * size : kv},
               InputDomain::Within(-2, 0));
  } else {
    draw.NoInput();
  }
  if (rule == "delta" || rule == "gated_delta") {
    draw.Input(dtype, {batch, steps, draw.Chance() ? kv : 1},
               InputDomain::Within(0, 1));
  }
  draw.Outputs(2);
}

// A cache has a row for each place, or if places are told, rows that these
// choose from. Only a part of each vector may be turned, an even number of its
// elements.
void DrawRotary(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 2);
  const int64_t places = draw.Side(9);
  const int64_t heads = draw.Between(1, 3);
  const int64_t half = draw.Side(9);
  const bool is_part = draw.Chance(30);
  const int64_t size = 2 * half + (is_part ? draw.Between(0, 4) : 0);
  const bool is_flat = draw.Chance();
  draw.Flag("interleaved");
  if (is_flat || draw.Chance(20)) draw.Attr("num_heads", heads);
  if (is_part) {
    draw.Attr("rotary_embedding_dim", 2 * half);
  } else if (draw.Chance(20)) {
    draw.Attr("rotary_embedding_dim", 0);
  }
  draw.Input(dtype, is_flat ? Ints{batch, places, heads * size}
                            : Ints{batch, heads, places, size});
  const bool has_places = draw.Chance();
  const int64_t rows = places + draw.Between(0, 3);
  const Ints cache = has_places ? Ints{rows, half} : Ints{batch, places, half};
  draw.Weight(dtype, cache, InputDomain::Within(-1, 1));
  draw.Weight(dtype, cache, InputDomain::Within(-1, 1));
  if (has_places) {
    draw.Input(kInt64, {batch, places}, InputDomain::Whole(0, rows - 1));
  }
}

constexpr OperatorSpace kSequenceSpaces[] = {
    {&DrawAttention, "Attention"},
    {&DrawCausalConv, "CausalConvWithState"},
    {&DrawDynamicLstm, "DynamicQuantizeLSTM"},
    {&DrawRecurrent, "GRU LSTM RNN"},
    {&DrawLinearAttention, "LinearAttention"},
    {&DrawRotary, "RotaryEmbedding"}};

}  // namespace

absl::Span<const OperatorSpace> SequenceSpaces() { return kSequenceSpaces; }

}  // namespace nodewise
