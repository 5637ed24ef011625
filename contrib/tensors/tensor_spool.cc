#include "nodewise/tensors/tensor_spool.h"

#include <utility>

#include "contrib/tensors/spool_file.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSpool>> TensorSpool::Create() {
  NODEWISE_ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::CreateTemporary());
  return std::unique_ptr<TensorSpool>(
      new TensorSpool(std::make_unique<SpoolFile>(std::move(file))));
}

TensorSpool::TensorSpool(std::unique_ptr<SpoolFile> file)
    : file_(std::move(file)) {}

TensorSpool::~TensorSpool() = default;

absl::Status TensorSpool::Take(const TensorItem& item) {
  if (item.tensor == nullptr || item.key.role == TensorRole::kInput) {
    return absl::OkStatus();
  }
  const bool is_at_hand =
      item.tensor->device.device_type == kDLCPU && IsCompact(*item.tensor);
  NDArray tensor = NDArray::Borrow(*item.tensor, nullptr);
  const bool is_shared = item.is_network_input && item.lasting.defined();
  if (is_shared || !is_at_hand) {
    NODEWISE_ASSIGN_OR_RETURN(tensor, item.Keep());
  }
  if (!places_.emplace(item.key, kept_.size()).second) {
    return absl::DataLossError(fmt::format(
        "{}: came twice, expected each tensor once", item.key.Name()));
  }
  Kept kept;
  kept.key = item.key;
  kept.shape.assign(tensor.shape().begin(), tensor.shape().end());
  kept.dtype = tensor.dtype();
  kept.stats = item.stats != nullptr ? *item.stats : StatsOf(*tensor);
  kept.is_network_input = item.is_network_input;
  kept.bytes = tensor.bytes();
  if (is_shared) {
    kept.shared = std::move(tensor);
  } else {
    // Operators read whole vectors.
    static constexpr char kPadding[kAlignment] = {};
    const size_t padding = (kAlignment - written_ % kAlignment) % kAlignment;
    NODEWISE_RETURN_IF_ERROR(file_->Write(kPadding, padding));
    kept.offset = written_ + padding;
    NODEWISE_RETURN_IF_ERROR(file_->Write(tensor.data(), kept.bytes));
    written_ = kept.offset + kept.bytes;
  }
  kept_.push_back(std::move(kept));
  return absl::OkStatus();
}

absl::StatusOr<size_t> TensorSpool::Find(const TensorKey& key) const {
  const auto found = places_.find(key);
  if (found != places_.end()) return found->second;
  return absl::NotFoundError(
      fmt::format("{}: no such tensor was put aside", key.Name()));
}

absl::StatusOr<NDArray> TensorSpool::Load(size_t place) const {
  NODEWISE_CHECK(place < kept_.size());
  const Kept& kept = kept_[place];
  if (kept.shared.defined()) return kept.shared;
  if (kept.bytes == 0) return NDArray::Empty(kept.shape, kept.dtype, kCpu);
  return file_->Load(kept.offset, kept.bytes, kept.shape, kept.dtype, nullptr);
}

}  // namespace nodewise
