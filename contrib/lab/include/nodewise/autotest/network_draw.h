#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/candidate.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What networks are drawn from.
struct NetworkScope {
  std::vector<const OperatorDef*> rows;
  // Versions of the standard operators, the simplest first.
  std::vector<int> opsets;
};

// Returns all opsets with these rows, which must outlive the scope.
NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows);

// Leaves out operators of which the candidate refuses some first draws, and
// opsets in which it refuses a Relu, since it would refuse a whole network
// because of one of these. One seed always asks the same. If `with` is
// kBackward, networks are to be differentiated, and the candidate is asked
// about the gradients of those operators that have one.
NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows,
                     Candidate& candidate, uint64_t seed,
                     AutotestWith with = AutotestWith::kForward);

// Draws a whole network: 1 to 8 operations or patterns of these operators,
// which read what the others make, and the operations that make tensors fit.
// Most have known sizes everywhere.
absl::StatusOr<OperatorCase> DrawNetwork(const NetworkScope& scope,
                                         Choices* choices);

// Random networks for RunAutotest().
std::unique_ptr<CaseSource> NetworkSource(NetworkScope scope);

// Connected parts of real models, of up to 8 operations, with other sizes,
// operations exchanged, inserted, left out and done twice, other attributes and
// more outputs. Models take turns, and are counted under their names. Null if
// no model has an operation.
std::unique_ptr<CaseSource> MutationSource(
    std::vector<std::shared_ptr<const Network>> models);

// Reads an ONNX model, or all in a folder and those in it, in the order of
// their paths; each network is called as its file. Models of a folder that
// cannot be imported are left out; fails, giving the first reason, if there is
// no other.
absl::StatusOr<std::vector<std::shared_ptr<const Network>>> LoadModelsOf(
    const std::string& path);

}  // namespace nodewise
