#include "nodewise/tensors/tensor_store.h"

#include <algorithm>
#include <utility>

#include "contrib/tensors/spool_file.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Operators read whole vectors, none of which is longer.
constexpr size_t kVectorBytes = 64;
// A smaller tensor is not worth a page of the disk.
constexpr size_t kLeastBytes = 4096;

size_t InPages(size_t bytes) {
  return (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSpool>> TensorSpool::Create() {
  NODEWISE_ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::CreateTemporary());
  return std::unique_ptr<TensorSpool>(
      new TensorSpool(std::make_unique<SpoolFile>(std::move(file))));
}

TensorSpool::TensorSpool(std::unique_ptr<SpoolFile> file)
    : file_(std::move(file)) {}

TensorSpool::~TensorSpool() = default;

// Inputs and parameters lie in memory for the whole run anyway, and are shared
// with it. All others lie where later nodes write over them, so that they are
// written out now.
absl::Status TensorSpool::Consume(const TensorItem& item) {
  if (item.tensor == nullptr || item.key.role == TensorRole::kInput) {
    return absl::OkStatus();
  }
  const bool is_shared = item.is_network_input && item.lasting.defined();
  NDArray tensor =
      is_shared ? item.lasting : NDArray::Borrow(*item.tensor, nullptr);
  NODEWISE_RETURN_IF_ERROR(MakeReadable(&tensor));
  if (!places_.emplace(item.key, kept_.size()).second) {
    return DataLoss("{}: came twice, expected each tensor once",
                    item.key.Name());
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
    static constexpr char kPadding[kVectorBytes] = {};
    const size_t padding = -written_ % kVectorBytes;
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
  return NotFound("{}: no such tensor was put aside", key.Name());
}

absl::StatusOr<NDArray> TensorSpool::Load(size_t place) const {
  NODEWISE_CHECK(place < kept_.size());
  const Kept& kept = kept_[place];
  if (kept.shared.defined()) return kept.shared;
  // Nothing can be mapped that has no bytes.
  if (kept.bytes == 0) return NDArray::Empty(kept.shape, kept.dtype, kCpu);
  return file_->Load(kept.offset, kept.bytes, kept.shape, kept.dtype, nullptr);
}

StoredTensor::StoredTensor(std::shared_ptr<TensorStore> store, NDArray tensor)
    : store_(std::move(store)),
      tensor_(std::move(tensor)),
      bytes_(tensor_.bytes()),
      shape_(tensor_.shape().begin(), tensor_.shape().end()),
      dtype_(tensor_.dtype()) {}

StoredTensor::~StoredTensor() { store_->Remove(this); }

absl::StatusOr<NDArray> StoredTensor::Load() {
  if (!tensor_.defined()) return store_->Map(this);
  // The tensor moves to the end of the list, as the one that was used last.
  // Small tensors are not in the list.
  if (bytes_ >= kLeastBytes) {
    std::list<StoredTensor*>& all = store_->in_memory_;
    all.splice(all.end(), all, at_);
  }
  return tensor_;
}

std::shared_ptr<TensorStore> TensorStore::Create(size_t most_bytes_in_memory) {
  return std::shared_ptr<TensorStore>(new TensorStore(most_bytes_in_memory));
}

TensorStore::TensorStore(size_t most_bytes) : most_bytes_(most_bytes) {}

TensorStore::~TensorStore() = default;

// A tensor that is smaller than a page stays in memory and is not counted.
std::shared_ptr<StoredTensor> TensorStore::Put(NDArray tensor) {
  std::shared_ptr<StoredTensor> stored(
      new StoredTensor(shared_from_this(), std::move(tensor)));
  if (stored->bytes_ < kLeastBytes) return stored;
  stored->at_ = in_memory_.insert(in_memory_.end(), stored.get());
  bytes_in_memory_ += stored->bytes_;
  Evict();
  return stored;
}

// The tensor that has not been used for the longest time goes first. After the
// disk has refused one, no other is tried: it would fail as well, for each
// tensor again.
void TensorStore::Evict() {
  while (bytes_in_memory_ > most_bytes_ && has_room_on_disk_) {
    StoredTensor* const oldest = in_memory_.front();
    if (!Write(oldest).ok()) {
      has_room_on_disk_ = false;
      return;
    }
    in_memory_.pop_front();
    bytes_in_memory_ -= oldest->bytes_;
    oldest->tensor_ = NDArray();
  }
}

absl::Status TensorStore::Write(StoredTensor* tensor) {
  if (file_ == nullptr) {
    NODEWISE_ASSIGN_OR_RETURN(SpoolFile file, SpoolFile::CreateTemporary());
    file_ = std::make_unique<SpoolFile>(std::move(file));
  }
  // Networks have few sizes of tensors, so room of the same size is often free.
  const size_t bytes = InPages(tensor->bytes_);
  const auto free = std::ranges::find(free_, bytes, &FreeRoom::bytes);
  const size_t offset = free == free_.end() ? file_bytes_ : free->offset;
  NODEWISE_RETURN_IF_ERROR(
      file_->WriteAt(offset, tensor->tensor_.data(), tensor->bytes_));
  if (free == free_.end()) {
    // The file grows by whole pages, so that all room in it begins at one.
    file_bytes_ += bytes;
  } else {
    free_.erase(free);
  }
  tensor->offset_ = offset;
  return absl::OkStatus();
}

absl::StatusOr<NDArray> TensorStore::Map(StoredTensor* tensor) const {
  // The room of a tensor in the file must not be used again as long as it is
  // mapped.
  return file_->Load(tensor->offset_, tensor->bytes_, tensor->shape_,
                     tensor->dtype_, tensor->shared_from_this());
}

// A tensor that is on the disk leaves its room there to the next one of its
// size; one in memory leaves the list.
void TensorStore::Remove(StoredTensor* tensor) {
  if (tensor->bytes_ < kLeastBytes) return;
  if (!tensor->tensor_.defined()) {
    free_.push_back({tensor->offset_, InPages(tensor->bytes_)});
    return;
  }
  in_memory_.erase(tensor->at_);
  bytes_in_memory_ -= tensor->bytes_;
}

}  // namespace nodewise
