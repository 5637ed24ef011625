#pragma once

#include <optional>
#include <vector>

#include "nodewise/lower/region.h"
#include "nodewise/onednn/onednn.h"

namespace nodewise {

// How the values of a region lie in memory while it is computed, all by value
// but the last.
struct LayoutMap {
  std::vector<TensorLayout> layout;
  // In whose memory it is: its own, or that of the value at the other end of a
  // Transpose which is the same tensor in the other layout.
  std::vector<ValueId> home;
  std::vector<bool> is_transpose;  // By operation: one that is not computed.
};

// Everything plain.
LayoutMap PlainIn(const Region& region);
// Returns the map with Transposes between layouts taken as names of one tensor
// in either of them, and with the channels last in what is made between them;
// none if there are no such Transposes.
std::optional<LayoutMap> ChannelsLastIn(const Region& region);

}  // namespace nodewise
