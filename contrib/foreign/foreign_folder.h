#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/onnx/user_model.h"
#include "nodewise/support/temporary.h"

namespace nodewise {

// A TemporaryFolder with a folder "outputs" in it for another program's answer.
// What that program wrote is read as hostile: by the folders' own descriptors,
// so that nothing can be put in their places, without following links, and
// regular files only. Move-only.
class ForeignFolder {
 public:
  static absl::StatusOr<ForeignFolder> Create();
  ForeignFolder(ForeignFolder&& other) noexcept;
  ForeignFolder& operator=(ForeignFolder&&) = delete;
  ~ForeignFolder();

  const std::string& path() const { return folder_.path(); }
  std::string outputs_path() const { return path() + "/outputs"; }

  // Writes a new file and returns its path.
  absl::StatusOr<std::string> Write(const std::string& name, const void* data,
                                    size_t size) const;

  // Writes a model and, beside it, what the model that it was made of has
  // beside it, and returns its path.
  absl::StatusOr<std::string> WriteModel(const std::string& bytes,
                                         const UserModel* file) const;

  // Returns what stands in a file. Fails with kNotFound or kDataLoss, with the
  // name of the file, if it is not there, no regular file, or has more bytes.
  absl::StatusOr<std::string> Read(const std::string& name,
                                   size_t most_bytes) const;
  // Returns the tensor of this shape and type in a file in "outputs", which
  // must have exactly its size. Fails as Read(). REQUIRES: TensorBytes() of
  // both succeeds.
  absl::StatusOr<NDArray> ReadOutput(const std::string& name,
                                     absl::Span<const int64_t> shape,
                                     DLDataType dtype) const;

 private:
  explicit ForeignFolder(TemporaryFolder folder) : folder_(std::move(folder)) {}

  TemporaryFolder folder_;
  int opened_ = -1;  // Descriptors of both.
  int outputs_ = -1;
};

}  // namespace nodewise
