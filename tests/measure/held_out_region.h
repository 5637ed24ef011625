#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "contrib/lab/planter/spoiling.h"
#include "nodewise/interp/interpreter.h"

namespace nodewise {

// Makes an evaluator for one run of a region, which may keep something of one
// operation for a later one.
using EvaluatorMaker = std::function<std::unique_ptr<Evaluator>()>;

// Computes one operation in another way.
using ChangedOperation = std::function<absl::StatusOr<Evaluated>(
    const OperationCall& call, const EvalArgs::Options& options)>;
// Returns a maker of evaluators that compute this operation so, and all others
// as the reference does.
EvaluatorMaker WithChanged(OperationId operation, ChangedOperation change);

// Evaluates the operation of a call with other inputs, which may have other
// types.
absl::StatusOr<Evaluated> EvaluateOn(const OperationCall& call, Tensors inputs,
                                     const EvalArgs::Options& options);

// Returns the fault that the node's region is computed by such evaluators. None
// where the reference makes the same bits of what the node read: the node's own
// kernel may round in another way, which is not a fault. REQUIRES: the region
// is known.
std::optional<Spoiling> WithEvaluator(std::string what, const FaultPlace& place,
                                      EvaluatorMaker make);

}  // namespace nodewise
