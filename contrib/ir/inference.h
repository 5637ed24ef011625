#pragma once

#include <unordered_set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns what operators are told about values. Values that do not exist count
// as given, with nothing known about them. Valid until the data changes.
std::vector<InputInfo> InputInfosOf(const NetworkData& data,
                                    absl::Span<const ValueId> inputs);

// Fails with kInvalidArgument, without the place, for a type that no tensor can
// have.
absl::Status CheckType(const TensorType& type);

// Fails with kInvalidArgument, naming the place, unless the operation has as
// many inputs and outputs as its operator wants, and all required ones.
absl::Status CheckArity(const Operation& operation);

// Fails with kInvalidArgument, naming the place, unless the operator's row
// holds in this version of its domain.
absl::Status CheckHoldsIn(const Operation& operation, int opset);
// Fails likewise unless everything in the operation's bodies, however deep,
// holds in the version of its domain, too: a model has one for all of it. Fails
// also if bodies are nested deeper than an import makes them.
absl::Status CheckBodiesHold(
    const Operation& operation,
    absl::FunctionRef<int(std::string_view domain)> opset_of);
// The newest version of the domain that is known; INT_MAX for those of others.
int NewestOpsetOf(std::string_view domain);

// Checks the operator's own restrictions. The place precedes its error.
// REQUIRES: CheckArity().
absl::Status CheckRestrictions(const NetworkData& data,
                               const Operation& operation);

// Returns one result for each output. A mistake of the operator's class is
// kInternal. REQUIRES: CheckArity().
absl::StatusOr<OutputInfos> InferOutputs(const NetworkData& data,
                                         const Operation& operation);

// Runs the three above, one after the other.
absl::StatusOr<OutputInfos> CheckAndInfer(const NetworkData& data,
                                          const Operation& operation);

// Fails with kFailedPrecondition, naming the place and the reason, unless the
// target can run the operation, which makes these outputs, and those in its
// bodies.
absl::Status CheckOnTarget(const Target& target, const NetworkData& data,
                           const Operation& operation,
                           absl::Span<const OutputInfo> outputs);
// Returns what is known about the outputs of an operation of the data.
OutputInfos OutputInfosOf(const NetworkData& data, const Operation& operation);

// A body among the attributes, with the attribute's name.
struct NamedBody {
  std::string_view attribute;
  Subgraph graph;
};
std::vector<NamedBody> BodiesOf(const OpAttrs& attrs);
// Returns whether an attribute has one of these bodies.
bool HasBodyAmong(const OpAttrs& attrs,
                  const std::unordered_set<const Network*>& bodies);

}  // namespace nodewise
