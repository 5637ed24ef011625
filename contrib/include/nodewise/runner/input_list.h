#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_inputs.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The inputs of what is to be run, known before anything has been made to run
// it: they are checked here, so that nothing is made for inputs that would not
// fit. Inputs are numbered from 0. REQUIRES of all functions: input < size().
// Any thread may call.
class InputList {
 public:
  virtual ~InputList() = default;

  virtual size_t size() const = 0;
  // Several inputs may have one name.
  virtual std::string Name(size_t input) const = 0;
  // Returns the unique name that Find() accepts.
  virtual std::string Key(size_t input) const { return Name(input); }
  virtual TensorType Type(size_t input) const = 0;
  // Returns the type as messages show it: "float32 (1, 64)".
  virtual std::string TypeText(size_t input) const = 0;
  // True if a run cannot do without the input.
  virtual bool IsNeeded(size_t input) const = 0;
  // Fails with kNotFound, suggesting the nearest name, or with kInvalidArgument
  // if several inputs have that name.
  virtual absl::StatusOr<size_t> Find(const std::string& name) const = 0;
  virtual bool Fits(size_t input, const NDArray& tensor) const = 0;
  // Fails with kFailedPrecondition for an input that cannot be set.
  virtual absl::Status CheckSettable(size_t) const { return absl::OkStatus(); }
};

// Returns the inputs of a graph, whose parameters need not be given. `inputs`
// comes from InputsOf(graph), with its parameters marked. The graph must
// outlive the result.
std::unique_ptr<InputList> ListInputs(const Graph& graph,
                                      std::vector<GraphInput> inputs);
// Returns the inputs of a network, which must outlive the result.
std::unique_ptr<InputList> ListInputs(const Network& network);

// Returns the given tensors by input, undefined where none was given. Fails
// with the status of Find() or CheckSettable(), or with kInvalidArgument for an
// input that is given twice, does not fit or is missing.
absl::StatusOr<std::vector<NDArray>> MatchInputs(
    const InputList& list, absl::Span<const NamedTensor> given);

}  // namespace nodewise
