#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "contrib/lab/planter/spoiling.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// Computes one operation of a network in another way, and all others as the
// reference does.
using ChangedOperation = std::function<absl::StatusOr<Evaluated>(
    const OperationCall& call, const EvalArgs::Options& options)>;
class ChangedEvaluator : public Evaluator {
 public:
  ChangedEvaluator(OperationId operation, ChangedOperation change)
      : operation_(operation), change_(std::move(change)) {}

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    if (call.operation.id == operation_) return change_(call, options);
    return ReferenceEvaluator().Evaluate(std::move(call), options);
  }

 private:
  const OperationId operation_;
  const ChangedOperation change_;
};

// Evaluates one operation of a node's region with other inputs than it has, to
// find out what kind of function it is.
class RegionTrial {
 public:
  // Runs the region once to know what the operation reads. REQUIRES: the region
  // is known, and the place outlives the trial.
  static absl::StatusOr<RegionTrial> Create(const FaultPlace& place,
                                            OperationId operation);

  const Tensors& inputs() const { return inputs_; }
  // Returns whether the input is added: what it changes in output 0 does not
  // depend on what the others hold.
  bool Adds(uint32_t slot) const;
  // Returns whether output 0 is a sum of what parts of this input give, and of
  // something that does not depend on it.
  bool IsSumOver(uint32_t slot) const;

 private:
  RegionTrial(const Operation& operation, Tensors inputs)
      : operation_(operation), inputs_(std::move(inputs)) {}

  const Operation& operation_;
  Tensors inputs_;
};

// Returns output 0 of an operation, as numbers; empty if it cannot be computed.
Numbers FirstOutput(const Operation& operation, Tensors inputs);
// Returns a tensor of the same type with other numbers.
absl::StatusOr<NDArray> WithNumbers(const NDArray& like,
                                    const Numbers& numbers);

}  // namespace nodewise
