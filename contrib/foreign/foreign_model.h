#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/foreign/foreign_protocol.h"
#include "nodewise/ir/network.h"
#include "nodewise/onnx/user_model.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A model for a foreign runtime: a network with more outputs than it had, and
// with inputs in place of what is patched. It is the file that the network was
// read from, with no more changed than that, as far as the file has the values;
// else it is written from the network.
class ForeignModel {
 public:
  // Takes the place of values by patches. `file` may be null, and must outlive
  // the object. Fails with kNotFound for a patch that names nothing, and with
  // kInvalidArgument for one that does not fit, is for a constant or is given
  // twice.
  static absl::StatusOr<ForeignModel> Create(
      const Network& network, const UserModel* file,
      const std::vector<TensorPatch>& patches);

  // Returns the file that the model is, or null for one that is written anew.
  const UserModel* file() const { return file_; }

  // The values that are patched, as what they are now. Among them may be
  // inputs and outputs of the network.
  const std::vector<NamedTensor>& patched() const { return patched_; }
  const NDArray* FindPatched(const std::string& value) const;
  // The inputs that the model has, of these and the patched ones.
  std::vector<NamedTensor> InputsOf(absl::Span<const NamedTensor> given) const;

  // Returns what can be asked for of these values, in their order, each once:
  // not what is an input, or patched, or not in the file.
  std::vector<AskedTensor> Ask(absl::Span<const std::string> values) const;
  // Returns the bytes of a model with these outputs, and of the file with its
  // own, too. Fails as ExportOnnx() and UserModel::With().
  absl::StatusOr<std::string> Write(absl::Span<const AskedTensor> outputs);
  // Returns the bytes of a model that ends at these outputs. Fails as
  // ExportOnnx() and UserModel::EndingAt().
  absl::StatusOr<std::string> WriteEndingAt(
      absl::Span<const AskedTensor> outputs) const;

 private:
  ForeignModel(const Network& network, const UserModel* file)
      : network_(network), file_(file) {}
  absl::Status Apply(const TensorPatch& patch);
  static absl::Status SetOutputs(absl::Span<const AskedTensor> outputs,
                                 Network* network);

  Network network_;
  const UserModel* file_;
  std::vector<NamedTensor> patched_;
  std::vector<UserModel::Value> given_;  // Patched values that operations make.
};

}  // namespace nodewise
