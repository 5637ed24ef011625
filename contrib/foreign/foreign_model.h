#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/foreign/foreign_protocol.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// A model for a foreign runtime: a network with more outputs than it had, and
// with inputs in place of what is patched.
class ForeignModel {
 public:
  // Takes the place of values by patches. Fails with kNotFound for a patch that
  // names nothing, and with kInvalidArgument for one that does not fit, is for
  // a constant or is given twice.
  static absl::StatusOr<ForeignModel> Create(
      const Network& network, const std::vector<TensorPatch>& patches);

  // The values that are patched, as what they are now. Among them may be
  // inputs and outputs of the network.
  const std::vector<NamedTensor>& patched() const { return patched_; }
  const NDArray* FindPatched(const std::string& value) const;
  // The inputs that the model has, of these and the patched ones.
  std::vector<NamedTensor> InputsOf(absl::Span<const NamedTensor> given) const;

  // Returns what can be asked for of these values, in their order, each once:
  // not what is an input, or patched.
  std::vector<AskedTensor> Ask(absl::Span<const std::string> values) const;
  // Returns the bytes of a model with these outputs. Fails as ExportOnnx().
  absl::StatusOr<std::string> Write(absl::Span<const AskedTensor> outputs);

 private:
  explicit ForeignModel(const Network& network) : network_(network) {}
  absl::Status Apply(const TensorPatch& patch);

  Network network_;
  std::vector<NamedTensor> patched_;
};

}  // namespace nodewise
