#include "nodewise/tensors/tensor_sink.h"

#include "fmt/format.h"

namespace nodewise {

absl::StatusOr<NDArray> TensorItem::Keep() const {
  if (lasting.defined()) return lasting;
  if (tensor != nullptr) return NDArray::Borrow(*tensor, nullptr).CopyToHost();
  return absl::NotFoundError(fmt::format("{}: tensor {} is not there: {}",
                                         key.source, key.Name(), why_absent));
}

}  // namespace nodewise
