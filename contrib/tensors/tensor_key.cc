#include "nodewise/tensors/tensor_key.h"

#include "fmt/format.h"

namespace nodewise {

std::string TensorKey::Name() const {
  if (role == TensorRole::kInput) {
    return fmt::format("{}:input:{}", node, slot);
  }
  return slot == 0 ? node : fmt::format("{}:{}", node, slot);
}

}  // namespace nodewise
