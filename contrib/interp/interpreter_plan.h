#pragma once

#include <vector>

#include "absl/container/inlined_vector.h"
#include "nodewise/interp/interpreter.h"

namespace nodewise {

// The parts of a run that are worked out once, before the network is run many
// times.
struct Interpreter::Plan {
  struct Step {
    const Operation* operation;
    // Everything that a run could find out is known: all types with all sizes,
    // and the numbers that shapes are made of. So operators have been checked
    // and their outputs inferred, provided that inputs are of their types.
    bool is_static;
    // The inputs are of their types for every input of the network.
    bool is_sure;
    // One for each output.
    std::vector<const TensorType*> types;
    absl::InlinedVector<bool, 4> wanted;
    // For each input: nothing reads it afterwards.
    absl::InlinedVector<bool, 4> is_last_use;
  };

  explicit Plan(const Network& network);

  std::vector<Step> steps;
  std::vector<bool> is_read;       // By value.
  std::vector<NDArray> constants;  // By value.
  absl::Status status;             // What failed while preparing, if anything.

 private:
  Step StepOf(const Network& network, const Operation& operation) const;
  void FindLastUses(const Network& network);

  std::vector<bool> is_sure_;  // By value: it has its type, which is static.
};

}  // namespace nodewise
