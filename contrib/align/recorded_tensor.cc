#include "contrib/align/recorded_tensor.h"

#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {

std::vector<const TensorSpool*> SpoolsOf(
    absl::Span<const RecordedPair> pairs,
    std::unique_ptr<TensorSpool> RecordedPair::*side) {
  std::vector<const TensorSpool*> spools;
  for (const RecordedPair& pair : pairs) spools.push_back((pair.*side).get());
  return spools;
}

std::optional<RecordedTensor> RecordedTensor::Find(
    std::vector<const TensorSpool*> spools, const TensorKey& key) {
  RecordedTensor recorded;
  recorded.spools_ = std::move(spools);
  for (const TensorSpool* const spool : recorded.spools_) {
    const auto place = spool->Find(key);
    if (!place.ok()) return std::nullopt;
    const TensorSpool::Kept& kept = spool->kept()[*place];
    TensorFacts& facts = recorded.facts_;
    if (recorded.places_.empty()) {
      facts.shape = kept.shape;
      facts.dtype = kept.dtype;
    } else if (facts.shape != kept.shape || facts.dtype != kept.dtype) {
      return std::nullopt;
    }
    facts.stats.push_back(kept.stats);
    recorded.places_.push_back(*place);
  }
  return recorded;
}

absl::StatusOr<std::vector<NDArray>> RecordedTensor::Load() const {
  std::vector<NDArray> tensors;
  for (size_t set = 0; set < spools_.size(); ++set) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, spools_[set]->Load(places_[set]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace nodewise
