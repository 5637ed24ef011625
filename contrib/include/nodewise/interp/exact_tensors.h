#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// What a network is given, and what it has to make of that, bit for bit.
struct ExactTensors {
  std::vector<NDArray> inputs;
  std::vector<NDArray> expected;
};

// Draws inputs of zeros and small whole numbers for a network with which every
// order of every sum in it gives the same: all that is added up is whole, and
// the sum of what is added up without its sign is below the first whole number
// whose neighbour the type does not have. Takes numbers as large, and as few
// zeros, as that allows. `given` holds inputs that are not drawn, by their
// places; undefined or missing: they are. Fails with kUnimplemented, saying
// why, for a network that does more than move, choose, add and multiply
// numbers, or has too long sums for its type.
absl::StatusOr<ExactTensors> DrawExactTensors(
    const Network& network, uint64_t seed,
    absl::Span<const NDArray> given = {});

// Draws many such inputs for one network, without their outputs. Where those
// with the largest numbers that may be drawn are exact, all are, and none is
// tried. Not thread-safe.
class ExactSource {
 public:
  // Returns null if there are no such inputs for the network, which outlives
  // what is returned.
  static std::shared_ptr<ExactSource> Create(const Network& network);

  // Draws and fails as DrawExactTensors().
  absl::StatusOr<std::vector<NDArray>> Draw(
      uint64_t seed, absl::Span<const NDArray> given = {});

 private:
  explicit ExactSource(const Network& network) : network_(network) {}
  bool AreAlwaysExact();
  bool MayBePlaces(const NetworkValue& value) const;

  const Network& network_;
  std::optional<bool> are_always_exact_;
};

// Returns whether there may be such inputs for the network: it has no operator
// that rounds for every input.
bool MayBeExact(const Network& network);
// Returns whether there may be such inputs for an operator. Its attributes are
// not considered.
bool MayBeExact(const OperatorDef& def);

}  // namespace nodewise
