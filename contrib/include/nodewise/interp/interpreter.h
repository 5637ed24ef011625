#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/interp/evaluator.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

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
