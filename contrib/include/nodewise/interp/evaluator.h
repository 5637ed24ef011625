#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// One operation to compute, and what the run knows about it.
struct OperationCall {
  const Operation& operation;
  // Compact, aligned and in host memory; undefined for optional ones that are
  // not given. Those that nothing reads afterwards are held here alone, and may
  // be overwritten.
  Tensors inputs;
  absl::Span<const bool> wanted;  // By output.
  // By output, if all types were known beforehand: the operation has been
  // checked and inferred with inputs of these types. Otherwise empty.
  absl::Span<const TensorType* const> types;
};

// Computes operations for an Interpreter, which takes care of everything else:
// the order, how long tensors live, inputs, observing. Another way to compute
// (a library of fast kernels, say) is another evaluator. Any thread may call,
// and several may at once.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  // Returns the outputs, and with `options.with_bounds` the bounds of each.
  // Fails with kUnimplemented for an operation that it does not have.
  virtual absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const = 0;
};

// Returns the evaluator that computes by the definitions of the operators: with
// each operator's own row. It lives as long as the program.
const Evaluator& ReferenceEvaluator();

// Copies a tensor that operators could not read as it lies: they read compact,
// aligned tensors in host memory; those of mapped files may lie anywhere.
absl::Status MakeReadable(NDArray* tensor);

}  // namespace nodewise
