#include <algorithm>

#include "contrib/lab/autotest/spaces/spaces.h"

namespace nodewise {
namespace {

// Small enough that padding, strides and dilations all matter to inputs of a
// few elements.
constexpr int64_t kMostKernel = 4;
// More than 16, a usual width of blocks of channels.
constexpr int64_t kMostChannels = 20;

// Windows that move over spatial sides. The numbers hold whether the attributes
// are set or left out.
struct DrawnWindow {
  Ints kernel;
  Ints strides;
  Ints dilations;
  Ints pads;   // Those of auto_pad are not among them.
  Ints input;  // The spatial sides of what they read.

  int64_t ReachAlong(size_t s) const {
    return (kernel[s] - 1) * dilations[s] + 1;
  }
  // How often a window fits along a side, if there is no auto_pad.
  int64_t CountAlong(size_t s) const {
    const int64_t padded = input[s] + pads[s] + pads[s + kernel.size()];
    return (padded - ReachAlong(s)) / strides[s] + 1;
  }
  int64_t taps() const { return Product(kernel); }
};

constexpr int64_t kRoom = ConfigurationDraw::kMostElements;

struct WindowOptions {
  bool may_dilate = true;
  bool has_auto_pad = true;  // There is such an attribute.
  // How many elements the spatial sides may have together.
  int64_t room = kRoom;
};

// Draws windows that fit into what they read, and adds their attributes but
// kernel_shape. The input is drawn last, as the reach of a window and a side
// that is added to it, so that every draw is legal: drawn first, most inputs
// would be too small for a dilated window.
DrawnWindow DrawWindow(ConfigurationDraw& draw, size_t spatial,
                       const WindowOptions& options) {
  const Choices::Group group(draw.choices());
  DrawnWindow window;
  window.pads.resize(2 * spatial);
  const bool has_strides = draw.Chance();
  const bool has_dilations = options.may_dilate && draw.Chance();
  // "" leaves both attributes out.
  const auto padding =
      options.has_auto_pad
          ? draw.One<std::string>(
                {"", "pads", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"})
          : draw.One<std::string>({"", "pads"});
  int64_t room = options.room;
  for (size_t s = 0; s < spatial; ++s) {
    window.kernel.push_back(draw.Between(1, kMostKernel));
    window.strides.push_back(has_strides ? draw.Between(1, 3) : 1);
    window.dilations.push_back(has_dilations ? draw.Between(1, 2) : 1);
    if (padding == "pads") {
      // No window lies in the padding alone: the mean of no element is not
      // defined.
      window.pads[s] = draw.Between(0, window.kernel[s] - 1);
      window.pads[s + spatial] = draw.Between(0, window.kernel[s] - 1);
    }
    window.input.push_back(window.ReachAlong(s) +
                           draw.Side(std::max<int64_t>(room, 1)) - 1);
    room /= window.input[s];
  }
  if (has_strides) draw.Attr("strides", window.strides);
  if (has_dilations) draw.Attr("dilations", window.dilations);
  if (padding == "pads") {
    draw.Attr("pads", window.pads);
  } else if (!padding.empty()) {
    draw.Attr("auto_pad", padding);
  }
  return window;
}

size_t DrawSpatial(ConfigurationDraw& draw) {
  return static_cast<size_t>(draw.One<int64_t>({2, 1, 2, 3}));
}

struct DrawnChannels {
  int64_t group = 1;
  int64_t in = 1;   // In one group.
  int64_t out = 1;  // In one group.

  int64_t all_in() const { return group * in; }
  int64_t all_out() const { return group * out; }
};

// A quarter are depthwise, with one channel in each group, since many runtimes
// have kernels of their own for these.
DrawnChannels DrawChannels(ConfigurationDraw& draw) {
  DrawnChannels channels;
  if (draw.Chance(25)) {
    channels.group = draw.Between(1, kMostChannels);
    channels.out = draw.Between(1, 2);
    return channels;
  }
  channels.group = draw.Chance(25) ? draw.Between(1, 3) : 1;
  channels.in = draw.Side(kMostChannels);
  channels.out = draw.Side(kMostChannels);
  return channels;
}

Ints JoinedSides(Ints first, const Ints& others) {
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

void AddGroupAndKernel(ConfigurationDraw& draw, int64_t group,
                       const DrawnWindow& window) {
  draw.AttrUnless("group", group, 1, 20);
  if (draw.Chance()) draw.Attr("kernel_shape", window.kernel);
}

void DrawConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const DrawnChannels channels = DrawChannels(draw);
  const int64_t batch = draw.Between(1, 2);
  const DrawnWindow window = DrawWindow(
      draw, DrawSpatial(draw), {.room = kRoom / (batch * channels.all_in())});
  AddGroupAndKernel(draw, channels.group, window);
  draw.Input(dtype, JoinedSides({batch, channels.all_in()}, window.input));
  draw.Weight(dtype,
              JoinedSides({channels.all_out(), channels.in}, window.kernel));
  if (draw.Chance()) draw.Weight(dtype, {channels.all_out()});
}

// Strides make the output larger than the input, so there is a quarter of the
// usual room for it.
void DrawConvTranspose(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const DrawnChannels channels = DrawChannels(draw);
  const size_t spatial = DrawSpatial(draw);
  const DrawnWindow window = DrawWindow(
      draw, spatial,
      {.room =
           kRoom / (4 * channels.group * std::max(channels.in, channels.out))});
  AddGroupAndKernel(draw, channels.group, window);
  if (draw.Chance(25)) {
    // An addition of a stride or more would be one more row of windows.
    Ints added;
    for (const int64_t stride : window.strides) {
      added.push_back(draw.Between(0, stride - 1));
    }
    draw.Attr("output_padding", added);
  } else if (draw.Chance(20)) {
    // Sides that are told are made by padding, so that they are the full ones
    // or somewhat less.
    Ints told;
    for (size_t s = 0; s < spatial; ++s) {
      const int64_t full =
          (window.input[s] - 1) * window.strides[s] + window.ReachAlong(s);
      told.push_back(std::max<int64_t>(full - draw.Between(0, 2), 1));
    }
    draw.Attr("output_shape", told);
  }
  draw.Input(dtype, JoinedSides({1, channels.all_in()}, window.input));
  draw.Weight(dtype,
              JoinedSides({channels.all_in(), channels.out}, window.kernel));
  if (draw.Chance()) draw.Weight(dtype, {channels.all_out()});
}

// The norm is a whole number from version 2 on.
void DrawNorm(ConfigurationDraw& draw) {
  draw.def().since < 2 ? draw.MaybeAttr<float>("p", {2, 1, 3, 1.5F})
                       : draw.MaybeAttr<int64_t>("p", {2, 1, 3});
}

// Dilations and ceil_mode came to the three pools with different opsets.
void DrawPool(ConfigurationDraw& draw) {
  const bool is_max = draw.Is("MaxPool");
  const DLDataType dtype = is_max && draw.opset() >= 12 && draw.Chance(15)
                               ? draw.One({kInt8, kUint8})
                               : draw.Float();
  const int dilates_since = is_max ? 10 : draw.Is("AveragePool") ? 19 : 18;
  const int ceils_since = draw.Is("LpPool") ? 18 : 10;
  const int64_t channels = draw.Side(kMostChannels);
  const DrawnWindow window = DrawWindow(
      draw, DrawSpatial(draw),
      {.may_dilate = draw.opset() >= dilates_since, .room = kRoom / channels});
  draw.Attr("kernel_shape", window.kernel);
  if (draw.opset() >= ceils_since) draw.Flag("ceil_mode");
  if (draw.Is("AveragePool") && draw.opset() >= 7) {
    draw.Flag("count_include_pad");
  }
  if (draw.Is("LpPool")) DrawNorm(draw);
  if (is_max && draw.opset() >= 8 && draw.Chance(30)) {
    draw.Outputs(2);
    draw.Flag("storage_order");
  }
  draw.Input(dtype, JoinedSides({draw.Between(1, 2), channels}, window.input));
}

void DrawGlobalPool(ConfigurationDraw& draw) {
  if (draw.Is("GlobalLpPool")) DrawNorm(draw);
  draw.Input(draw.Float(), draw.Sides(3, 5, false));
}

// Codes lie in the range of both types, and are cut to that of the one that is
// drawn. Zero points are about the middle of each range.
void DrawIntegerConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.One({kUint8, kInt8});
  const DLDataType of_weights = draw.One({kUint8, kInt8});
  const DrawnChannels channels = DrawChannels(draw);
  const int64_t outputs = channels.all_out();
  const DrawnWindow window =
      DrawWindow(draw, DrawSpatial(draw), {.room = kRoom / channels.all_in()});
  AddGroupAndKernel(draw, channels.group, window);
  const InputDomain codes = InputDomain::Whole(-128, 255);
  const InputDomain zeros = InputDomain::Whole(-20, 100);
  const Ints x = JoinedSides({1, channels.all_in()}, window.input);
  const Ints w = JoinedSides({outputs, channels.in}, window.kernel);
  const Ints by_output = draw.Chance() ? Ints{outputs} : Ints{};
  draw.Input(dtype, x, codes);
  if (draw.Is("ConvInteger")) {
    draw.Weight(of_weights, w, codes);
    if (draw.Chance(30)) return;
    draw.Weight(dtype, {}, zeros);
    if (draw.Chance(70)) draw.Weight(of_weights, by_output, zeros);
    return;
  }
  const InputDomain scales = InputDomain::Within(1.0 / 64, 0.25);
  draw.Weight(kFloat32, {}, scales);
  draw.Weight(dtype, {}, zeros);
  draw.Weight(of_weights, w, codes);
  draw.Weight(kFloat32, by_output, scales);
  draw.Weight(of_weights, by_output, zeros);
  // The scale of the output is larger, or nearly all results would saturate.
  draw.Weight(kFloat32, {}, InputDomain::Within(0.25, 8));
  draw.Weight(dtype, {}, zeros);
  if (draw.Chance()) {
    draw.Weight(kInt32, {outputs}, InputDomain::Whole(-300, 300));
  }
}

// Offsets lie between elements, and around them.
void DrawDeformConv(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const int64_t group = draw.Chance(70) ? 1 : draw.Between(1, 3);
  const int64_t in = draw.Between(1, 3);
  const int64_t outputs = group * draw.Between(1, 3);
  const int64_t offset_group = draw.One<int64_t>({1, 1, group, in});
  const size_t spatial = draw.Chance(15) ? 1 : 2;
  // There is little room, since every tap of every window has an offset.
  const DrawnWindow window =
      DrawWindow(draw, spatial, {.has_auto_pad = false, .room = 64});
  draw.AttrUnless("group", group, 1, 20);
  draw.AttrUnless("offset_group", offset_group, 1, 20);
  if (draw.Chance()) draw.Attr("kernel_shape", window.kernel);
  Ints output;
  for (size_t s = 0; s < spatial; ++s) output.push_back(window.CountAlong(s));
  const int64_t batch = draw.Between(1, 2);
  const int64_t offsets = offset_group * window.taps();
  // Neighbours that do not count may be multiplied by 0, or left out.
  const InputDomain finite = InputDomain::Within(-4, 4);
  draw.Input(dtype, JoinedSides({batch, group * in}, window.input), finite);
  draw.Weight(dtype, JoinedSides({outputs, in}, window.kernel), finite);
  draw.Input(
      dtype,
      JoinedSides({batch, offsets * static_cast<int64_t>(spatial)}, output),
      InputDomain::Within(-2, 2));
  draw.WeightIf(draw.Chance(), dtype, {outputs});
  if (draw.Chance()) {
    draw.Input(dtype, JoinedSides({batch, offsets}, output),
               InputDomain::Within(0, 1));
  }
}

// Columns are put back where windows of an image would have read them.
void DrawCol2Im(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const DrawnWindow window =
      DrawWindow(draw, DrawSpatial(draw), {.has_auto_pad = false, .room = 200});
  int64_t columns = 1;
  for (size_t s = 0; s < window.kernel.size(); ++s) {
    columns *= window.CountAlong(s);
  }
  draw.Input(dtype,
             {draw.Between(1, 2), draw.Between(1, 3) * window.taps(), columns});
  draw.Ints(window.input);
  draw.Ints(window.kernel);
}

// Each element goes to another place: which of two that go to one is left there
// is not said.
void DrawMaxUnpool(ConfigurationDraw& draw) {
  const DLDataType dtype = draw.Float();
  const Ints shape = draw.Sides(3, 4, false);
  const size_t spatial = shape.size() - 2;
  Ints kernel;
  Ints strides;
  Ints pads(2 * spatial);
  const bool has_strides = draw.Chance(75);
  const bool has_pads = draw.Chance(30);
  Ints output = {shape[0], shape[1]};
  for (size_t s = 0; s < spatial; ++s) {
    kernel.push_back(draw.Between(1, 3));
    strides.push_back(has_strides ? draw.Between(1, kernel[s]) : 1);
    if (has_pads) pads[s] = draw.Between(0, (kernel[s] - 1) / 2);
    output.push_back((shape[s + 2] - 1) * strides[s] + kernel[s] - pads[s]);
  }
  draw.Attr("kernel_shape", kernel);
  if (has_strides) draw.Attr("strides", strides);
  if (has_pads) draw.Attr("pads", pads);
  draw.Input(dtype, shape);
  const Ints chosen = draw.Distinct(Product(output), Product(shape));
  draw.Numbers(kInt64, shape, {chosen.begin(), chosen.end()}, draw.Chance());
  if (draw.Chance(30)) {
    // The places stay inside of an output that is told to be larger.
    for (size_t s = 2; s < output.size(); ++s) output[s] += draw.Between(0, 2);
    draw.Ints(output);
  }
}

constexpr OperatorSpace kWindowSpaces[] = {
    {&DrawPool, "AveragePool LpPool MaxPool"},
    {&DrawCol2Im, "Col2Im"},
    {&DrawConv, "Conv"},
    {&DrawIntegerConv, "ConvInteger QLinearConv"},
    {&DrawConvTranspose, "ConvTranspose"},
    {&DrawDeformConv, "DeformConv"},
    {&DrawGlobalPool, "GlobalAveragePool GlobalLpPool GlobalMaxPool"},
    {&DrawMaxUnpool, "MaxUnpool"}};

}  // namespace

absl::Span<const OperatorSpace> WindowSpaces() { return kWindowSpaces; }

}  // namespace nodewise
