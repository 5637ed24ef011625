#pragma once

#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What operators are told of values, and what they say. Values that do not
// exist are given, with nothing known of them. Valid until the data changes.
std::vector<InputInfo> InputInfosOf(const NetworkData& data,
                                    absl::Span<const ValueId> inputs);

// kInvalidArgument, without the place, for what no tensor can be.
absl::Status CheckType(const TensorType& type);

// Whether the operation has as many inputs and outputs as its operator wants,
// and those that it must have. kInvalidArgument, with the place.
absl::Status CheckArity(const Operation& operation);

// The operator's own restrictions. The place is in front of its error.
// REQUIRES: CheckArity().
absl::Status CheckRestrictions(const NetworkData& data,
                               const Operation& operation);

// One for each output. What the operator got wrong itself is kInternal.
// REQUIRES: CheckArity().
absl::StatusOr<OutputInfos> InferOutputs(const NetworkData& data,
                                         const Operation& operation);

// The three above, one after the other.
absl::StatusOr<OutputInfos> CheckAndInfer(const NetworkData& data,
                                          const Operation& operation);

// The bodies among the attributes, with the names of these.
struct NamedBody {
  std::string_view attribute;
  Subgraph graph;
};
std::vector<NamedBody> BodiesOf(const OpAttrs& attrs);
// Whether one of them is among these.
bool HasBodyAmong(const OpAttrs& attrs,
                  const std::unordered_set<const Network*>& bodies);

}  // namespace nodewise
