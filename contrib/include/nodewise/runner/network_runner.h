#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_file.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {

// Gives a network the sizes that the inputs at hand have. Sizes that do not fit
// stay as they are: the code that collects the inputs reports them.
void BindSizes(absl::Span<const VmInputType> given, Network* network);
void BindSizes(absl::Span<const NamedTensor> given, Network* network);

// Returns whether an operation of the network makes something of which the type
// cannot be inferred, with all its sizes.
bool HasOpenSizes(const Network& network);

// Returns the inputs of a network in their order. Fails with kInvalidArgument
// for one that was not given.
absl::StatusOr<std::vector<NDArray>> InputsInOrder(
    const Network& network, absl::Span<const NamedTensor> given);

// Gives a network the sizes that only its data decides (those of a NonZero,
// say), by one run of the reference with these inputs, as far as they are
// needed: Network::SetFoundType(). Fails as Interpreter::Run() does.
absl::Status FindSizes(absl::Span<const NamedTensor> inputs, Network* network);

// Makes a runner that walks over a network, computing its operations with an
// evaluator, which must outlive it. `kind` and `target` make its name:
// "interpreter model.onnx". The network must not change any more. It has all
// capabilities but what nodes read.
std::unique_ptr<Runner> MakeNetworkRunner(
    const std::string& kind, const std::string& target,
    std::shared_ptr<const Network> network,
    const Evaluator& evaluator = ReferenceEvaluator());

}  // namespace nodewise
