#include "contrib/ops/util/norm_channels.h"

#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

int64_t ChannelsOf(absl::Span<const int64_t> shape) {
  return shape.size() < 2 ? 1 : shape[1];
}
int64_t SpatialOf(absl::Span<const int64_t> shape) {
  return shape.size() < 2 ? 1 : Product(shape.subspan(2));
}
Dim ChannelDim(const TensorType& type) {
  if (!type.has_rank()) return Dim();
  return type.rank() < 2 ? Dim(1) : (*type.shape)[1];
}

absl::Status RequireList(const Inputs& in, size_t i, const Dim& count) {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, i), RequireRank(in, i, 1)));
  if (!in.has(i) || !in.type(i).has_rank()) return absl::OkStatus();
  const Dim& found = (*in.type(i).shape)[0];
  if (!found.is_known() || !count.is_known() || found == count) {
    return absl::OkStatus();
  }
  return InputError(i, fmt::format("has {} numbers, expected {}", found.size(),
                                   count.size()));
}

}  // namespace nodewise
