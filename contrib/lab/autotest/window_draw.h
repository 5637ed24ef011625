#pragma once

#include <cstdint>
#include <vector>

#include "nodewise/autotest/configuration.h"

namespace nodewise {

// Windows that move over spatial sides, as they are whether their attributes
// are set or left out.
struct DrawnWindow {
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;   // Those of auto_pad are not among them.
  std::vector<int64_t> input;  // The spatial sides of what they read.

  // How often a window fits along a side, if there is no auto_pad.
  int64_t CountAlong(size_t side) const;
};

struct WindowOptions {
  bool may_dilate = true;
  bool has_auto_pad = true;  // There is such an attribute.
  // How many elements the spatial sides may have together.
  int64_t room = ConfigurationDraw::kMostElements;
};

// Draws windows that fit into what they read, and adds their attributes but
// kernel_shape.
DrawnWindow DrawWindow(ConfigurationDraw& draw, size_t spatial,
                       const WindowOptions& options);

// Draws how many spatial sides there are: 2 most of the time.
size_t DrawSpatial(ConfigurationDraw& draw);

// The channels of a convolution.
struct DrawnChannels {
  int64_t group = 1;
  int64_t in = 1;   // In one group.
  int64_t out = 1;  // In one group.
};
DrawnChannels DrawChannels(ConfigurationDraw& draw);

// Returns the first sides followed by the others.
std::vector<int64_t> JoinedSides(std::vector<int64_t> first,
                                 const std::vector<int64_t>& others);

}  // namespace nodewise
