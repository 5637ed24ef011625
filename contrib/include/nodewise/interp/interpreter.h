#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
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

// The reference evaluator as a target of networks, called
// "reference". It lives as long as the program.
const Target& ReferenceTarget();

// An operation that has run. Valid during the call that it is given to; tensors
// may be kept by copying the NDArray, and must not be written to.
struct OperationRun {
  const Operation& operation;
  Evaluated result;  // Outputs that were not wanted are undefined.
  NodeTime time;
};

// How a network is run: one operation after the other in their order. Tensors
// are let go after their last use.
struct InterpretOptions {
  bool with_bounds = false;
  // Values that get these contents in place of those their operations compute;
  // an operation whose outputs are all here is not evaluated. REQUIRES: they
  // are outputs of operations of this network, not of bodies, and the tensors
  // are compact, in host memory and of their types.
  std::map<ValueId, NDArray> replaced;
  // Called after each operation; returns true if it is to be the last one. Then
  // outputs of the network that have not been made are undefined. An error
  // ends the run and is returned as it is. Operations in bodies of control flow
  // are not reported.
  std::function<absl::StatusOr<bool>(const OperationRun& run)> observe;
};

// A network prepared to be run many times: it keeps what need not be worked out
// again for each operation, which would take longer than many small operations
// do. Any thread may run it, and several may at once.
class Interpreter {
 public:
  // REQUIRES: the network outlives this and is not edited; the evaluator
  // outlives this.
  explicit Interpreter(const Network& network,
                       const Evaluator& evaluator = ReferenceEvaluator());
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Takes one tensor for each input of the network, of the input's type; fails
  // with kInvalidArgument, naming input, found and expected. Returns the
  // outputs in their order. An error of an operator names the operation; if
  // there is no memory for an output whose size is known beforehand, nothing is
  // run.
  absl::StatusOr<std::vector<NDArray>> Run(
      std::vector<NDArray> inputs, const InterpretOptions& options = {}) const;

 private:
  struct Plan;
  class Running;
  // As Run(), but outputs may share memory with constants.
  absl::StatusOr<std::vector<NDArray>> RunShared(
      std::vector<NDArray> inputs, const InterpretOptions& options) const;

  const Network& network_;
  const Evaluator& evaluator_;
  const std::unique_ptr<const Plan> plan_;
};

// Runs the network once with the reference evaluation of its operators.
absl::StatusOr<std::vector<NDArray>> Interpret(
    const Network& network, std::vector<NDArray> inputs,
    const InterpretOptions& options = {});

// Makes this process keep memory that it frees, up to 256 MiB, where the C
// library allows it (glibc does). Otherwise memory goes back to the system with
// one operation's tensors and is requested, and cleared, again for the next
// one's: a tenth of a transformer's time. Only programs should call this, since
// the setting is theirs.
void KeepFreedMemory();

}  // namespace nodewise
