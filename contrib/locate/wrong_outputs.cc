#include "contrib/locate/wrong_outputs.h"

#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<WrongOutputs> WrongOutputs::Find(
    const std::vector<NDArray>& reference,
    const std::vector<NamedTensor>& outputs, Tolerance tolerance,
    std::vector<TensorComparison>* compared) {
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<TensorComparison> all,
      CompareNetworkOutputs(reference, outputs, tolerance));
  WrongOutputs found;
  found.tolerance_ = tolerance;
  std::vector<TensorComparison> wrong;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_wrong()) continue;
    found.heads_.push_back(i);
    found.names_.push_back(outputs[i].name);
    found.reference_.push_back(reference[i]);
    wrong.push_back(all[i]);
  }
  found.error_ = ErrorOf(wrong);
  if (compared != nullptr) *compared = std::move(all);
  return found;
}

absl::StatusOr<double> WrongOutputs::ShareLeft(
    std::vector<NDArray> outputs) const {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < outputs.size(); ++i) {
    named.push_back({names_[i], std::move(outputs[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const auto compared,
      CompareNetworkOutputs(reference_, named, tolerance_));
  return 1 - ShareGone(error_, ErrorOf(compared));
}

absl::StatusOr<double> WrongOutputs::ShareLeftIn(
    const std::vector<NamedTensor>& outputs) const {
  std::vector<NDArray> tensors;
  for (const size_t head : heads_) tensors.push_back(outputs[head].tensor);
  return ShareLeft(std::move(tensors));
}

}  // namespace nodewise
