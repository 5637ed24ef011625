#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/alignment.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_spool.h"

namespace nodewise {

// Returns what was recorded of one side, by set of inputs.
std::vector<const TensorSpool*> SpoolsOf(
    absl::Span<const RecordedPair> pairs,
    std::unique_ptr<TensorSpool> RecordedPair::*side);

// A tensor as it was recorded with every set of inputs.
class RecordedTensor {
 public:
  // Returns none if a set lacks it, or if its shape or type is another one with
  // another set: sizes that depend on the data have no layout.
  static std::optional<RecordedTensor> Find(
      std::vector<const TensorSpool*> spools, const TensorKey& key);

  const TensorFacts& facts() const { return facts_; }
  // Reads the contents, by set. Fails as TensorSpool::Load().
  absl::StatusOr<std::vector<NDArray>> Load() const;

 private:
  std::vector<const TensorSpool*> spools_;
  std::vector<size_t> places_;  // TensorSpool::kept(), by spool.
  TensorFacts facts_;
};

}  // namespace nodewise
