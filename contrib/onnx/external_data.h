#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "contrib/onnx/onnx_types.h"
#include "nodewise/support/file.h"

namespace nodewise {

// Returns the file that a tensor's data is in, below the model's folder; none
// if it is in the model, or is said to be where it must not be.
std::optional<std::string> ExternalLocation(const proto::Tensor& tensor);

// The tensors of one model: those with their data in the model, and those with
// it in files of the model's folder, which are mapped once; no file outside the
// folder is read.
class TensorReader {
 public:
  // `owner` keeps the messages alive, for tensors that borrow from them. With
  // an empty folder there may be no such files.
  TensorReader(std::shared_ptr<void> owner, std::string folder)
      : owner_(std::move(owner)), folder_(std::move(folder)) {}

  // Fails with kUnimplemented for types that are refused, kNotFound for a file
  // that is missing, kDataLoss for data that does not fit.
  absl::StatusOr<NDArray> Read(const proto::Tensor& tensor);

 private:
  absl::StatusOr<NDArray> ReadExternal(const proto::Tensor& tensor);
  // Returns the file at this place below the folder.
  absl::StatusOr<std::shared_ptr<const MappedFile>> Open(
      const std::string& location);

  std::shared_ptr<void> owner_;
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace nodewise
