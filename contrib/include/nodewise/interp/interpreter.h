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
  // in bodies of control flow are not told of.
  std::function<absl::Status(const Operation& operation,
                             const Evaluated& result)>
      observe;
};

// A network prepared to be run many times: what need not be found out again for
// each operation, which takes longer than many small operations do. Any thread
// may run it, also several at once.
class Interpreter {
 public:
  // REQUIRES: the network outlives this and is not edited.
  explicit Interpreter(const Network& network);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // `inputs` by input of the network; they must be of its types
  // (kInvalidArgument, naming input, found, expected). Returns the outputs in
  // their order. An error of an operator names the operation; if there can be
  // no memory for an output whose size is known before, nothing is run.
  absl::StatusOr<std::vector<NDArray>> Run(
      std::vector<NDArray> inputs, const InterpretOptions& options = {}) const;

 private:
  struct Plan;
  class Running;
  const Network& network_;
  const std::unique_ptr<const Plan> plan_;
};

// Runs it once.
absl::StatusOr<std::vector<NDArray>> Interpret(
    const Network& network, std::vector<NDArray> inputs,
    const InterpretOptions& options = {});

// Has this process keep memory that it frees, up to 256 MiB, where the C
// library can be told (glibc's). Else it goes back to the system with one
// operation's tensors and is asked for, and cleared, again with the next's: a
// tenth of a transformer's time. For programs to call, since it is theirs.
void KeepFreedMemory();

}  // namespace nodewise
