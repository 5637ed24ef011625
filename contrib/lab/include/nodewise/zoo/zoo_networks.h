#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Small networks of the usual kinds, to test and to measure with: what looks
// for faults is tried on all of them.
struct ZooNetwork {
  std::string_view name;  // "recurrent"
  std::string_view what;  // "an LSTM in both directions, a GRU, a classifier"
  // There is C for all of its operations (EmitC), so that it can be a compiled
  // library, too.
  bool has_c = false;
  // Makes the network; one seed always gives the same one. REQUIRES: `ops` has
  // the operators of ONNX (AllOperators()).
  absl::StatusOr<Network> (*make)(const OpSet& ops, uint64_t seed) = nullptr;
};

// Returns them in an order that does not change. All inputs are float32.
absl::Span<const ZooNetwork> ZooNetworks();
// Returns the one of that name. Fails with kInvalidArgument, naming all.
absl::StatusOr<ZooNetwork> FindZooNetwork(std::string_view name);

}  // namespace nodewise
