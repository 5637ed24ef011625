#pragma once

// Operators that run bodies. Each class is its operator's primary attributes.
// Outer values that a body uses come as inputs after those that the operator
// defines, body by body in the order of the attributes.

#include <cstdint>
#include <vector>

#include "nodewise/op/attribute_types.h"
#include "nodewise/op/op_def.h"

namespace nodewise::ops {

// The outputs of one of two bodies, chosen by a condition.
struct If {
  Subgraph else_branch;  // Required.
  Subgraph then_branch;  // Required.
};

// Runs a body again and again. Inputs: the trip count, the condition, N values
// that are carried on, captures. The body takes the number of the trip, the
// condition and the N values; it makes the condition, the N values, and
// elements of scan outputs.
struct Loop {
  Subgraph body;  // Required.
};

// Runs the body for each index along one side of the scanned inputs, passes
// states from step to step and stacks what the steps give.
struct Scan {
  Subgraph body;                      // Required.
  Required<int64_t> num_scan_inputs;  // The last inputs; others are states.
  // By scanned input or stacked output. Empty: 0.
  std::vector<int64_t> scan_input_axes;
  std::vector<int64_t> scan_input_directions;  // 1: backwards.
  std::vector<int64_t> scan_output_axes;
  std::vector<int64_t> scan_output_directions;
};

// Runs the body for each step of each sequence of a batch, side 0 being the
// batch and side 1 the sequence, which may be shorter than the side.
struct Scan8 {
  Subgraph body;                    // Required.
  std::vector<int64_t> directions;  // By scanned input; 1: backwards. Empty: 0.
  Required<int64_t> num_scan_inputs;  // The last inputs; others are states.
};

}  // namespace nodewise::ops
