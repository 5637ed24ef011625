#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_store.h"

namespace nodewise {

// Returns the tensors with each float changed by up to so much of itself, by
// chance: as another way to round might have left it.
absl::StatusOr<std::vector<NDArray>> MovedBy(absl::Span<const NDArray> tensors,
                                             double roundoff, uint64_t seed,
                                             std::string_view stream);

// The reference, computed from what a compiled graph has made instead of from
// the beginning: where a tensor of the network has been found in the graph, the
// graph's numbers take its place, right or wrong. So what the reference makes
// of them differs from what the graph makes of them by no more than the
// operations between, and what was wrong before does not matter.
//
// Tensors are computed when they are asked for, and kept until something that
// they are made of changes: on the disk as far as memory is for others. A copy
// shares them, so that one may try what follows from a guess.
class FollowedReference {
 public:
  // A tensor of the network with every set of inputs. It is in memory as long
  // as a caller has it.
  struct Value {
    TensorFacts facts;
    std::vector<NDArray> tensors;
  };

  // Large enough that tensors which are read again and again need not come from
  // the disk each time.
  static constexpr size_t kUsualBytesInMemory = size_t{32} << 20;

  // `inputs` are by set and in the network's order. Tensors beyond
  // `most_bytes_in_memory` are on the disk. REQUIRES: the network outlives
  // this.
  FollowedReference(const Network& network,
                    absl::Span<const std::vector<NDArray>> inputs,
                    size_t most_bytes_in_memory = kUsualBytesInMemory);

  const Network& network() const { return network_; }

  // Puts these in the place of a value, by set. What depends on it is computed
  // again when it is asked for. REQUIRES: tensors of the value's type.
  void Pin(ValueId id, std::vector<NDArray> tensors);
  // Computes the value again instead.
  void Unpin(ValueId id);
  // Forgets what the values that depend on this one were pinned to.
  void UnpinDependents(ValueId id);
  bool IsPinned(ValueId id) const { return pinned_[Index(id)]; }

  // Fails as the operations do that lead to the value: they may reject wrong
  // tensors as inputs.
  absl::StatusOr<std::shared_ptr<const Value>> ValueOf(ValueId id);

  // Returns the value as the operations make it of floats that differ from
  // those that are pinned by up to so much of themselves, by chance: what is
  // next to a step, or a maximum, may turn into something else, as it may in a
  // kernel that rounds differently. Fails as ValueOf().
  absl::StatusOr<std::shared_ptr<const Value>> PerturbedValue(
      ValueId id, double roundoff, uint64_t seed) const;

 private:
  void ForgetDependents(ValueId id);

  struct Kept {
    TensorFacts facts;
    NDArray constant;  // A constant of the network; else undefined.
    std::vector<std::shared_ptr<StoredTensor>> tensors;
    std::weak_ptr<const Value> value;  // While a caller has it.
  };

  absl::Status Compute(OperationId id);
  std::shared_ptr<Kept> Keep(std::vector<NDArray> tensors) const;
  absl::StatusOr<std::shared_ptr<const Value>> Open(ValueId id) const;

  const Network& network_;
  size_t sets_ = 0;
  std::shared_ptr<TensorStore> store_;
  std::vector<bool> pinned_;                     // By value.
  std::vector<std::shared_ptr<Kept>> computed_;  // By value.
};

}  // namespace nodewise
