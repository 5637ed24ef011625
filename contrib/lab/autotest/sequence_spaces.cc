#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "contrib/lab/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

constexpr InputDomain kStateDomain{-1, 1};
constexpr InputDomain kWeightDomain = InputDomain::Within(-1, 1);

// The sides of a recurrent layer.
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

void DrawActivations(ConfigurationDraw& draw, const Layer& layer) {
  if (!draw.Often(40)) return;
  const Strings all = {
      "Tanh",       "Sigmoid",   "Relu",           "HardSigmoid",
      "Softsign",   "LeakyRelu", "Affine",         "Elu",
      "ScaledTanh", "Softplus",  "ThresholdedRelu"};
  Strings names;
  for (int64_t i = 0; i < layer.functions * layer.ways; ++i) {
    names.push_back(draw.One(all));
  }
  draw.Attr("activations", names);
  // What these two take for alpha and beta otherwise is not said.
  const bool needs_all =
      std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name == "Affine" || name == "ScaledTanh";
      });
  if (needs_all) {
    draw.Attr("activation_alpha", std::vector<float>(names.size(), 0.25F));
    draw.Attr("activation_beta", std::vector<float>(names.size(), 0.5F));
    return;
  }
  if (draw.Often()) {
    draw.Attr("activation_alpha",
              draw.One<std::vector<float>>({{0.25F}, {0.5F, 0.125F}}));
  }
  if (draw.Often()) {
    draw.Attr("activation_beta",
              draw.One<std::vector<float>>({{0.5F}, {0.25F, 0.5F}}));
  }
}

Layer DrawLayer(ConfigurationDraw& draw) {
  Layer layer;
  const bool is_lstm = draw.Is("LSTM") || draw.Is("DynamicQuantizeLSTM");
  layer.gates = is_lstm ? 4 : draw.Is("GRU") ? 3 : 1;
  layer.functions = std::max<int64_t>(layer.gates - 1, 1);
  layer.steps = draw.Between(1, 5);
  layer.batch = draw.Between(1, 3);
  layer.width = draw.Side(9);
  layer.hidden = draw.Side(9);
  const auto direction =
      draw.One<std::string>({"forward", "reverse", "bidirectional"});
  if (direction == "bidirectional") layer.ways = 2;
  if (direction != "forward" || draw.Often()) draw.Attr("direction", direction);
  // hidden_size became an attribute that may be left out.
  if (draw.Often(80)) draw.Attr("hidden_size", layer.hidden);
  DrawActivations(draw, layer);
  if (draw.Often(25)) draw.Attr("clip", draw.One<float>({2, 0.5F, 5}));
  if (is_lstm && draw.Often(30)) draw.Attr("input_forget", draw.Between(0, 1));
  return layer;
}

// Each output may be left out, but one.
void DrawWanted(ConfigurationDraw& draw, size_t count) {
  std::vector<bool> wanted(count, true);
  if (draw.Often(40)) {
    wanted[static_cast<size_t>(draw.Axis(count))] = false;
  }
  draw.WantOutputs(std::move(wanted));
}

void DrawRecurrent(ConfigurationDraw& draw) {
  Layer layer = DrawLayer(draw);
  const bool is_lstm = draw.Is("LSTM");
  if (draw.opset() >= 14 && draw.Often(30)) {
    layer.is_batch_first = draw.Often();
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
  const auto maybe = [&](bool is_given, auto add) {
    if (is_given) return add();
    draw.NoInput();
  };
  maybe(draw.Often(), [&] {
    draw.Weight(dtype, {layer.ways, 2 * columns}, kWeightDomain);
  });
  maybe(draw.Often(30), [&] {
    draw.Input(kInt32, {layer.batch}, InputDomain::Whole(1, layer.steps));
  });
  maybe(draw.Often(30),
        [&] { draw.Input(dtype, layer.state(), kStateDomain); });
  if (is_lstm) {
    maybe(draw.Often(30),
          [&] { draw.Input(dtype, layer.state(), kStateDomain); });
    maybe(draw.Often(30), [&] {
      draw.Weight(dtype, {layer.ways, 3 * layer.hidden}, kWeightDomain);
    });
  }
  DrawWanted(draw, is_lstm ? 3 : 2);
}

// The zero points of one side are the same for all columns.
void DrawDynamicLstm(ConfigurationDraw& draw) {
  const Layer layer = DrawLayer(draw);
  const int64_t columns = 4 * layer.hidden;
  const DLDataType code = draw.One({kUint8, kInt8});
  const InputDomain codes =
      code == kUint8 ? InputDomain::Whole(0, 60) : InputDomain::Whole(-60, 60);
  draw.Input(kFloat32, {layer.steps, layer.batch, layer.width},
             InputDomain::Within(-1, 1));
  draw.Weight(code, {layer.ways, layer.width, columns}, codes);
  draw.Weight(code, {layer.ways, layer.hidden, columns}, codes);
  const auto maybe = [&](const Ints& shape) {
    if (draw.Often(30)) {
      draw.Input(kFloat32, shape, InputDomain::Within(-1, 1));
    } else {
      draw.NoInput();
    }
  };
  maybe({layer.ways, 2 * columns});
  if (draw.Often(30)) {
    draw.Input(kInt32, {layer.batch}, InputDomain::Whole(1, layer.steps));
  } else {
    draw.NoInput();
  }
  maybe(layer.state());
  maybe(layer.state());
  maybe({layer.ways, 3 * layer.hidden});
  for (int i = 0; i < 2; ++i) {
    const Ints sides =
        draw.Often() ? Ints{layer.ways, columns} : Ints{layer.ways};
    draw.Weight(kFloat32, sides, InputDomain::Within(1.0 / 512, 1.0 / 64));
    const auto zero = code == kUint8 ? draw.Between(0, 60) : int64_t{0};
    draw.Weight(code, sides, InputDomain::Whole(zero, zero));
  }
  DrawWanted(draw, 3);
}

void DrawCausalConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t batch = draw.Between(1, 3);
  const int64_t channels = draw.Side(17);
  const int64_t taps = draw.Between(1, 4);
  draw.MaybeWord("activation", {"none", "silu", "swish"});
  draw.Input(dtype, {batch, channels, draw.Side(33)});
  draw.Weight(dtype, {channels, 1, taps});
  if (draw.Often()) {
    draw.Weight(dtype, {channels});
  } else {
    draw.NoInput();
  }
  if (draw.Often()) draw.Input(dtype, {batch, channels, taps - 1});
  draw.Outputs(2);
}

constexpr OperatorSpace kSequenceSpaces[] = {
    {"CausalConvWithState", &DrawCausalConv},
    {"DynamicQuantizeLSTM", &DrawDynamicLstm},
    {"GRU", &DrawRecurrent},
    {"LSTM", &DrawRecurrent},
    {"RNN", &DrawRecurrent},
};

}  // namespace

absl::Span<const OperatorSpace> SequenceSpaces() { return kSequenceSpaces; }

}  // namespace nodewise
