#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

class SpoolFile;

// Puts aside all tensors that a run makes, on the disk, so that they can be
// looked at again in any order: a run may make more than memory holds. What
// lasts anyway, inputs and parameters, is shared instead. What nodes read is
// left out, since some node or input made it. Not thread-safe.
class TensorSpool : public TensorSink {
 public:
  struct Kept {
    TensorKey key;
    std::vector<int64_t> shape;
    DLDataType dtype{};
    TensorStats stats;
    bool is_network_input = false;

   private:
    friend class TensorSpool;
    NDArray shared;     // Undefined for what is in the file.
    size_t offset = 0;  // In the file.
    size_t bytes = 0;
  };

  // The file has no name, lies in the folder for temporary files, and is gone
  // with the process. Fails as creating a file does.
  static absl::StatusOr<std::unique_ptr<TensorSpool>> Create();
  ~TensorSpool() override;

  // Fails with kDataLoss if a tensor of that key is there already, and as
  // writing a file does. Items without a tensor are passed over.
  absl::Status Consume(const TensorItem& item) override;

  // In the order in which they came. Valid until the next Consume().
  const std::vector<Kept>& kept() const { return kept_; }
  // Returns the place in kept(), or fails with kNotFound.
  absl::StatusOr<size_t> Find(const TensorKey& key) const;
  // Returns the tensor, compact and in host memory, which must not be written
  // to. It is read from the disk as it is accessed, and stays in memory no
  // longer than it is referenced. Fails as mapping a file does. REQUIRES: place
  // < kept().size().
  absl::StatusOr<NDArray> Load(size_t place) const;

 private:
  explicit TensorSpool(std::unique_ptr<SpoolFile> file);

  const std::unique_ptr<SpoolFile> file_;
  size_t written_ = 0;
  std::vector<Kept> kept_;
  std::unordered_map<TensorKey, size_t> places_;
};

class SpoolFile;
class TensorStore;

// A tensor in a store. What it takes there is free again when it and what was
// loaded of it are gone.
class StoredTensor : public std::enable_shared_from_this<StoredTensor> {
 public:
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;
  ~StoredTensor();

  // Returns the tensor, compact and in host memory, which must not be written
  // to. Fails as mapping a file does.
  absl::StatusOr<NDArray> Load();

 private:
  friend class TensorStore;
  StoredTensor(std::shared_ptr<TensorStore> store, NDArray tensor);

  const std::shared_ptr<TensorStore> store_;
  NDArray tensor_;                         // Undefined while it is on the disk.
  std::list<StoredTensor*>::iterator at_;  // In the store, if it is not.
  size_t bytes_ = 0;
  std::vector<int64_t> shape_;
  DLDataType dtype_{};
  size_t offset_ = 0;  // In the file.
};

// Keeps tensors until they are no longer needed: in memory those that were put
// in or loaded last, as far as they fit into so many bytes, and the others on
// the disk, in a file without a name in the folder for temporary files. Where
// there is no room, they stay in memory. Not thread-safe.
class TensorStore : public std::enable_shared_from_this<TensorStore> {
 public:
  static std::shared_ptr<TensorStore> Create(size_t most_bytes_in_memory);
  ~TensorStore();

  // REQUIRES: a compact tensor in host memory that is no longer written to.
  std::shared_ptr<StoredTensor> Put(NDArray tensor);

  size_t bytes_in_memory() const { return bytes_in_memory_; }
  // The size of the file, parts of which may be free.
  size_t bytes_on_disk() const { return file_bytes_; }

 private:
  friend class StoredTensor;
  struct FreeRoom {
    size_t offset = 0;
    size_t bytes = 0;
  };

  explicit TensorStore(size_t most_bytes);

  void Evict();
  absl::Status Write(StoredTensor* tensor);
  absl::StatusOr<NDArray> Map(StoredTensor* tensor) const;
  void Remove(StoredTensor* tensor);

  const size_t most_bytes_;
  size_t bytes_in_memory_ = 0;
  std::list<StoredTensor*> in_memory_;  // The one used last at the end.
  bool has_room_on_disk_ = true;
  std::unique_ptr<SpoolFile> file_;  // Null until it is needed.
  size_t file_bytes_ = 0;
  std::vector<FreeRoom> free_;
};

}  // namespace nodewise
