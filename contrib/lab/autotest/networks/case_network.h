#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/configuration.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

using ValueIds = std::vector<ValueId>;
using OperationSet = std::set<OperationId>;

// Returns what an operation makes, but for outputs that are left out.
ValueIds OutputsOf(const Operation& operation);

// Returns what some operations of a network read and none of them makes, each
// once, but for constants.
ValueIds InputsFromOutside(const Network& network, const OperationSet& part);

// What a copy has in place of what a network has; what is missing stays as it
// is.
struct NetworkChanges {
  std::map<ValueId, TensorType> inputs;
  std::map<ValueId, NDArray> constants;
  std::function<absl::StatusOr<OpAttrs>(const OpAttrs& attrs)> attributes = {};
};

// Copies all of a network into another one, which has its opsets, with `prefix`
// before all names. Returns what has become of its outputs. Fails as the
// network's rules do.
absl::StatusOr<ValueIds> AddCopy(const Network& network,
                                 const std::string& prefix,
                                 const NetworkChanges& changes, Network* to);

// Returns an input of this type. Integers are places, most of the time, and
// therefore 0 or 1. REQUIRES: type.is_static().
CaseInput InputOfType(const TensorType& type);

// Removes inputs that nothing reads, and that are not outputs.
absl::Status RemoveUnusedInputs(Network* network);

// Makes a network that of a case.
void SetNetwork(Network network, OperatorCase* made);

// Returns the gradient of a network as a case. The configuration's inputs that
// are given and no constants are those of the network, in its order; those that
// are floats and need not be whole are differentiated. Fails as BackwardOf().
absl::StatusOr<OperatorCase> GradientCaseOf(Configuration configuration,
                                            Network forward);

// Returns the network whose operations a case is about: what is differentiated,
// or else what runs.
const Network& SubjectOf(const OperatorCase& made);

}  // namespace nodewise
