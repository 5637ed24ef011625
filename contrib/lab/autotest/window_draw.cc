#include "contrib/lab/autotest/window_draw.h"

#include <algorithm>
#include <string>

namespace nodewise {
namespace {

constexpr int64_t kMostKernel = 4;
constexpr int64_t kMostChannels = 20;

}  // namespace

int64_t DrawnWindow::CountAlong(size_t side) const {
  const int64_t reach = (kernel[side] - 1) * dilations[side] + 1;
  const int64_t padded = input[side] + pads[side] + pads[side + kernel.size()];
  return (padded - reach) / strides[side] + 1;
}

DrawnWindow DrawWindow(ConfigurationDraw& draw, size_t spatial,
                       const WindowOptions& options) {
  const Choices::Group group(draw.choices());
  DrawnWindow window;
  window.pads.resize(2 * spatial);
  const bool has_strides = draw.Often();
  const bool has_dilations = options.may_dilate && draw.Often();
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
    const int64_t reach = (window.kernel[s] - 1) * window.dilations[s] + 1;
    if (padding == "pads") {
      window.pads[s] = draw.Between(0, window.kernel[s] - 1);
      window.pads[s + spatial] = draw.Between(0, window.kernel[s] - 1);
    }
    window.input.push_back(reach + draw.Side(std::max<int64_t>(room, 1)) - 1);
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

DrawnChannels DrawChannels(ConfigurationDraw& draw) {
  DrawnChannels channels;
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

std::vector<int64_t> JoinedSides(std::vector<int64_t> first,
                                 const std::vector<int64_t>& others) {
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

}  // namespace nodewise
