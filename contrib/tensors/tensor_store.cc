#include "nodewise/tensors/tensor_store.h"

#include <algorithm>
#include <utility>

#include "contrib/tensors/spool_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// A smaller tensor is not worth a page of the disk.
constexpr size_t kLeastBytes = 4096;

size_t InPages(size_t bytes) {
  return (bytes + kLeastBytes - 1) / kLeastBytes * kLeastBytes;
}

}  // namespace

StoredTensor::StoredTensor(std::shared_ptr<TensorStore> store, NDArray tensor)
    : store_(std::move(store)),
      tensor_(std::move(tensor)),
      bytes_(tensor_.bytes()),
      shape_(tensor_.shape().begin(), tensor_.shape().end()),
      dtype_(tensor_.dtype()) {}

StoredTensor::~StoredTensor() { store_->Remove(this); }

absl::StatusOr<NDArray> StoredTensor::Load() {
  if (!tensor_.defined()) return store_->Map(this);
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

std::shared_ptr<StoredTensor> TensorStore::Put(NDArray tensor) {
  std::shared_ptr<StoredTensor> stored(
      new StoredTensor(shared_from_this(), std::move(tensor)));
  if (stored->bytes_ < kLeastBytes) return stored;
  stored->at_ = in_memory_.insert(in_memory_.end(), stored.get());
  bytes_in_memory_ += stored->bytes_;
  Evict();
  return stored;
}

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
  const auto free = std::find_if(
      free_.begin(), free_.end(),
      [bytes](const FreeRoom& room) { return room.bytes == bytes; });
  const size_t offset = free == free_.end() ? file_bytes_ : free->offset;
  NODEWISE_RETURN_IF_ERROR(
      file_->WriteAt(offset, tensor->tensor_.data(), tensor->bytes_));
  if (free == free_.end()) {
    file_bytes_ += bytes;
  } else {
    free_.erase(free);
  }
  tensor->offset_ = offset;
  return absl::OkStatus();
}

absl::StatusOr<NDArray> TensorStore::Map(StoredTensor* tensor) const {
  // Its room in the file must not be used again as long as it is mapped.
  return file_->Load(tensor->offset_, tensor->bytes_, tensor->shape_,
                     tensor->dtype_, tensor->shared_from_this());
}

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
