#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/tensors/tensor_key.h"
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
  absl::Status Take(const TensorItem& item) override;

  // In the order in which they came. Valid until the next Take().
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

}  // namespace nodewise
