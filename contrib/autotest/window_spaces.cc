#include <string>
#include <vector>

#include "contrib/autotest/space_families.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kMostKernel = 4;
constexpr int64_t kMostChannels = 20;

// The attributes that windows have in common, and the sides they move over.
struct Window {
  Ints kernel;
  Ints strides;
  Ints dilations;
  Ints input;  // The spatial sides of what they read.
};

// Draws windows that fit into what they read, and adds their attributes.
Window DrawWindow(ConfigurationDraw& draw, size_t spatial, bool may_dilate,
                  int64_t room) {
  const Choices::Group group(draw.choices());
  Window window;
  Ints pads(2 * spatial);
  for (size_t s = 0; s < spatial; ++s) {
    window.kernel.push_back(draw.Between(1, kMostKernel));
    window.strides.push_back(draw.Between(1, 3));
    window.dilations.push_back(may_dilate ? draw.Between(1, 2) : 1);
    const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
    pads[s] = draw.Between(0, window.kernel[s] - 1);
    pads[s + spatial] = draw.Between(0, window.kernel[s] - 1);
    window.input.push_back(reach + draw.Side(std::max<int64_t>(room, 1)) - 1);
    room /= window.input[s];
  }
  if (draw.Often()) draw.Attr("strides", window.strides);
  if (may_dilate && draw.Often()) draw.Attr("dilations", window.dilations);
  const auto padding = draw.One<std::string>(
      {"", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"});
  if (padding == "pads") draw.Attr("pads", pads);
  if (!padding.empty() && padding != "pads") draw.Attr("auto_pad", padding);
  return window;
}

struct Channels {
  int64_t group = 1;
  int64_t in = 1;   // Of one group.
  int64_t out = 1;  // Of one group.
};

Channels DrawChannels(ConfigurationDraw& draw) {
  Channels channels;
  if (draw.Often(25)) {
    channels.group = draw.Between(1, kMostChannels);  // Depthwise.
    channels.out = draw.Between(1, 2);
    return channels;
  }
  channels.group = draw.Often(25) ? draw.Between(1, 3) : 1;
  channels.in = draw.Side(kMostChannels);
  channels.out = draw.Side(kMostChannels);
  return channels;
}

Ints Joined(Ints first, const Ints& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

size_t DrawSpatial(ConfigurationDraw& draw) {
  return static_cast<size_t>(draw.One<int64_t>({2, 1, 2, 3}));
}

void DrawConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const Channels channels = DrawChannels(draw);
  const int64_t batch = draw.Between(1, 2);
  const int64_t taken = batch * channels.group * channels.in;
  const Window window = DrawWindow(draw, DrawSpatial(draw), true,
                                   ConfigurationDraw::kMostElements / taken);
  if (channels.group > 1) draw.Attr("group", channels.group);
  if (draw.Often()) draw.Attr("kernel_shape", window.kernel);
  draw.Input(dtype,
             Joined({batch, channels.group * channels.in}, window.input));
  draw.Weight(dtype, Joined({channels.group * channels.out, channels.in},
                            window.kernel));
  if (draw.Often()) draw.Weight(dtype, {channels.group * channels.out});
}

void DrawConvTranspose(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const Channels channels = DrawChannels(draw);
  const size_t spatial = DrawSpatial(draw);
  const int64_t taken = 4 * channels.group * std::max(channels.in, channels.out);
  const Window window = DrawWindow(draw, spatial, true,
                                   ConfigurationDraw::kMostElements / taken);
  if (channels.group > 1) draw.Attr("group", channels.group);
  if (draw.Often()) draw.Attr("kernel_shape", window.kernel);
  if (draw.Often(25)) {
    Ints added;
    for (size_t s = 0; s < spatial; ++s) {
      added.push_back(draw.Between(0, window.strides[s] - 1));
    }
    draw.Attr("output_padding", added);
  }
  draw.Input(dtype, Joined({1, channels.group * channels.in}, window.input));
  draw.Weight(dtype, Joined({channels.group * channels.in, channels.out},
                            window.kernel));
  if (draw.Often()) draw.Weight(dtype, {channels.group * channels.out});
}

void DrawPool(ConfigurationDraw& draw) {
  const DLDataType dtype =
      draw.def().name == "MaxPool" && draw.opset() >= 12 && draw.Often(15)
          ? draw.One({kInt8, kUint8})
          : draw.Float();
  const bool may_dilate = draw.def().name == "MaxPool" ? draw.opset() >= 10
                          : draw.def().name == "AveragePool"
                              ? draw.opset() >= 19
                              : draw.opset() >= 18;
  const int64_t channels = draw.Side(kMostChannels);
  const Window window = DrawWindow(draw, DrawSpatial(draw), may_dilate,
                                   ConfigurationDraw::kMostElements / channels);
  draw.Attr("kernel_shape", window.kernel);
  if (draw.opset() >= 10 && draw.Often(25)) draw.Attr("ceil_mode", 1);
  if (draw.def().name == "AveragePool" && draw.Often()) {
    draw.Attr("count_include_pad", draw.Between(0, 1));
  }
  if (draw.def().name == "LpPool" && draw.Often()) {
    draw.Attr("p", draw.Between(1, 3));
  }
  if (draw.def().name == "MaxPool" && draw.opset() >= 8 && draw.Often(30)) {
    draw.Outputs(2);
    if (draw.Often()) draw.Attr("storage_order", 1);
  }
  draw.Input(dtype, Joined({draw.Between(1, 2), channels}, window.input));
}

void DrawGlobalPool(ConfigurationDraw& draw) {
  if (draw.def().name == "GlobalLpPool" && draw.Often()) {
    draw.Attr("p", draw.Between(1, 3));
  }
  draw.Input(draw.Float(), draw.Sides(3, 5, false));
}

constexpr OperatorSpace kWindowSpaces[] = {
    {"AveragePool", &DrawPool},
    {"Conv", &DrawConv},
    {"ConvTranspose", &DrawConvTranspose},
    {"GlobalAveragePool", &DrawGlobalPool},
    {"GlobalLpPool", &DrawGlobalPool},
    {"GlobalMaxPool", &DrawGlobalPool},
    {"LpPool", &DrawPool},
    {"MaxPool", &DrawPool},
};

}  // namespace

absl::Span<const OperatorSpace> WindowSpaces() { return kWindowSpaces; }

}  // namespace nodewise
