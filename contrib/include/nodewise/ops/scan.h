#pragma once

// A body that runs along a side of its inputs. Each class is its operator's
// primary attributes.

#include <cstdint>
#include <vector>

#include "nodewise/op/attribute_types.h"
#include "nodewise/op/op_def.h"

namespace nodewise::ops {

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
