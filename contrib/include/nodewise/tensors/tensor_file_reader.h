#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// An open file of tensors (tensor_file.h), from which they are read one at a
// time. It keeps the file mapped.
class TensorFileReader {
 public:
  // Recognises the format. Fails as ReadTensorFile does; the tensors of .npz
  // and .npy files are checked when they are read.
  static absl::StatusOr<std::unique_ptr<TensorFileReader>> Open(
      const std::string& path);

  virtual ~TensorFileReader() = default;
  // The names as the file has them, in its order.
  virtual const std::vector<std::string>& names() const = 0;
  // Returns a tensor that stays valid without the reader. REQUIRES: `index` is
  // below names().size().
  virtual absl::StatusOr<NDArray> Read(size_t index) = 0;
};

}  // namespace nodewise
