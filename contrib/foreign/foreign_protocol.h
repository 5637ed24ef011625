#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/onnx/user_model.h"
#include "nodewise/support/file.h"
#include "nodewise/support/temporary.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// A TemporaryFolder with a folder "outputs" in it for another program's answer.
// What that program wrote is read as hostile: by the folders' own descriptors,
// so that nothing can be put in their places, without following links, and
// regular files only. Move-only.
class ForeignFolder {
 public:
  static absl::StatusOr<ForeignFolder> Create();

  const std::string& path() const { return folder_.path(); }
  std::string outputs_path() const { return path() + "/outputs"; }

  // Writes a new file and returns its path.
  absl::StatusOr<std::string> Write(const std::string& name,
                                    std::string_view data) const;

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
  OpenDescriptor opened_, outputs_;  // The descriptors of both.
};

// What nodewise and another program that runs models say to each other, in
// files (docs/formats/foreign_runner.md).

// A tensor that is asked for, and what is known of it.
struct AskedTensor {
  std::string name;
  TensorType type;
};

struct ForeignRequest {
  std::string model;  // The path of the model.
  absl::Span<const NamedTensor> inputs;
  absl::Span<const AskedTensor> asked;
  uint64_t repeats = 1;
};

// Writes the request and its inputs, and returns the path of the request.
absl::StatusOr<std::string> WriteRequest(const ForeignRequest& request,
                                         const ForeignFolder& folder);

// What the answer says of a tensor that was asked for. Its type fits what was
// known; nothing is known yet of its file.
struct AnsweredTensor {
  std::string file;  // In the folder of outputs; empty: there is no tensor.
  std::string why_absent;
  DLDataType dtype{};
  std::vector<int64_t> shape;
  // How its type is not the one that was expected; empty if it is. And whether
  // only sides of 1 are more or fewer, or whole numbers of another type.
  std::string misfit;
  bool differs_in_form = false;
};

struct ForeignAnswer {
  std::string runtime;  // The name by which it calls itself; may be empty.
  // It can be asked to run several cases in one start.
  bool takes_cases = false;
  std::vector<AnsweredTensor> tensors;  // By what was asked for.
  std::vector<int64_t> durations_ns;    // By repeat, or empty.
};

// Reads and checks the answer. Fails with kDataLoss for one that is missing,
// garbled, or does not fit the request, and says where in it.
absl::StatusOr<ForeignAnswer> ReadAnswer(const ForeignFolder& folder,
                                         const ForeignRequest& request,
                                         uint64_t most_bytes);

// Writes one request for all these, each to be run once, as WriteRequest().
absl::StatusOr<std::string> WriteCases(absl::Span<const ForeignRequest> cases,
                                       const ForeignFolder& folder);

// What the answer says of a case: the tensors that were asked for, or why there
// are none. kUnavailable: the program refuses it; kDataLoss: what is said does
// not fit the case.
using AnsweredCase = absl::StatusOr<std::vector<AnsweredTensor>>;

// Reads and checks the answer, as ReadAnswer(). A fault in one case is reported
// for that case alone.
absl::StatusOr<std::vector<AnsweredCase>> ReadCases(
    const ForeignFolder& folder, absl::Span<const ForeignRequest> cases,
    uint64_t most_bytes);

}  // namespace nodewise
