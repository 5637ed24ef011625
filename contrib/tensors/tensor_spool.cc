#include "nodewise/tensors/tensor_spool.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "contrib/tensors/spool_file.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSpool>> TensorSpool::Create() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::NotFoundError(
        fmt::format("temporary files: {}, expected a folder for them (set "
                    "TMPDIR)",
                    error.message()));
  }
  NODEWISE_ASSIGN_OR_RETURN(SpoolFile file,
                            SpoolFile::Create(folder / "nodewise_tensors"));
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
  NODEWISE_ASSIGN_OR_RETURN(const auto mapped,
                            MapAll(kept.offset + kept.bytes));
  return NDArray::Map(mapped->bytes().subspan(kept.offset, kept.bytes),
                      kept.shape, kept.dtype, mapped);
}

absl::StatusOr<std::shared_ptr<const MappedFile>> TensorSpool::MapAll(
    size_t bytes) const {
  if (mapped_ != nullptr && mapped_->bytes().size() >= bytes) return mapped_;
  NODEWISE_ASSIGN_OR_RETURN(MappedFile file, file_->Map());
  if (file.bytes().size() < bytes) {
    return absl::DataLossError(
        fmt::format("temporary file: has {} bytes, expected {} at least",
                    file.bytes().size(), bytes));
  }
  mapped_ = std::make_shared<const MappedFile>(std::move(file));
  return mapped_;
}

}  // namespace nodewise
