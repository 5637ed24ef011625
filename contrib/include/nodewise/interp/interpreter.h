#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/evaluate.h"

namespace nodewise {

// How a network is run with the reference evaluation of its operators, one
// after the other in their order. Tensors are let go after their last use.
struct InterpretOptions {
  bool with_bounds = false;
  // Called after each operation with its outputs (undefined ones were not
  // wanted) and, with_bounds, their bounds. An error ends the run. Operations
  // in bodies of control flow are not reported.
  std::function<absl::Status(const Operation& operation,
                             const Evaluated& result)>
      observe;
};

// A network prepared to be run many times: it keeps what need not be worked out
// again for each operation, which would take longer than many small operations
// do. Any thread may run it, and several may at once.
class Interpreter {
 public:
  // REQUIRES: the network outlives this and is not edited.
  explicit Interpreter(const Network& network);
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
  const Network& network_;
  const std::unique_ptr<const Plan> plan_;
};

// Runs the network once.
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
