#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nodewise/ir/network.h"

namespace nodewise {

// Computes, while a model is imported, what does not depend on the network's
// inputs: mainly shapes, so that operators that take one as a tensor know it.
// It computes only what is small, and no more than a budget allows.
class ConstantFolder {
 public:
  explicit ConstantFolder(bool is_on) : is_on_(is_on) {}

  // Returns the outputs of the operation by slot (undefined: not wanted), if
  // they are known before the network runs; none otherwise.
  std::optional<std::vector<NDArray>> Fold(const Network& network,
                                           OperationId id);

 private:
  bool Affords(const Network& network, const Operation& operation);

  bool is_on_;
  double work_left_ = 2e8;  // Operations on elements.
};

}  // namespace nodewise
