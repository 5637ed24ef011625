#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// The version of the text that is written; older ones are read, too.
inline constexpr int kNetworkTextVersion = 2;

// A whole network as text (docs/formats/network_text.md): constants with their
// bytes, bodies of If and Loop nested. Two equal networks have equal texts, so
// they can be compared with `diff`.
struct TextOptions {
  // Constants with more elements are written as a hash, which cannot be read
  // back; 0: no constant is.
  size_t max_elements = 0;
};
std::string NetworkToText(const NetworkData& data,
                          const TextOptions& options = {});

// Returns whether the text begins as one that NetworkToText() writes.
bool LooksLikeNetworkText(std::string_view text);

// Returns what the text says, whether that is a valid network or not: only what
// cannot be understood at all is an error (kDataLoss, with line and column).
// Types of outputs may be left out; they are inferred.
absl::StatusOr<NetworkData> ParseNetworkText(std::string_view text,
                                             const OpSet& ops,
                                             const std::string& where);

}  // namespace nodewise
