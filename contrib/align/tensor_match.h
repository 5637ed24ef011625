#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/tensors/tensor_spool.h"

namespace nodewise {

// A tensor as it was recorded with each set of inputs.
struct Recorded {
  std::vector<const TensorSpool*> spools;
  std::vector<size_t> places;  // TensorSpool::kept(), by spool.

  const TensorSpool::Kept& kept(size_t set) const {
    return spools[set]->kept()[places[set]];
  }
};

struct TensorMatch {
  Layout layout;
  double distance = 0;
  bool has_unknown_order = false;
};

// Returns whether the statistics of both allow one to hold the numbers of the
// other, in whatever order: that is asked of all pairs, and reads nothing.
bool MayMatch(const Recorded& source, const Recorded& compiled);

// Compares one compiled tensor with tensors of the network, one after the
// other.
class TensorMatcher {
 public:
  // Reads the compiled tensor. Fails as TensorSpool::Load().
  static absl::StatusOr<TensorMatcher> Create(const Recorded& compiled);

  // Returns the nearest layout, if any is near enough with every set of inputs.
  // Fails as TensorSpool::Load(). REQUIRES: MayMatch().
  absl::StatusOr<std::optional<TensorMatch>> Match(
      const Recorded& source) const;

 private:
  explicit TensorMatcher(const Recorded& compiled) : compiled_(compiled) {}

  Recorded compiled_;
  std::vector<std::vector<double>> numbers_;  // By set of inputs.
};

}  // namespace nodewise
