#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/ir/network.h"

namespace nodewise {

// Computes, while a model is imported, what does not depend on the network's
// inputs: shapes above all, so that operators that are given one as a tensor
// know it. Only what is small, and not more than a budget.
class ConstantFolder {
 public:
  explicit ConstantFolder(bool is_on) : is_on_(is_on) {}

  // The outputs of the operation by slot (undefined: not wanted), if they are
  // known before the network runs; none otherwise.
  std::optional<std::vector<NDArray>> Fold(const Network& network,
                                           OperationId id);

 private:
  bool Affords(const Network& network, const Operation& operation);

  bool is_on_;
  double work_left_ = 2e8;  // Operations on elements.
};

}  // namespace nodewise
