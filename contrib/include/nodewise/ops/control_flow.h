#pragma once

// Operators that run bodies. Each class is its operator's primary attributes.
// Outer values that a body uses come as inputs after those that the operator
// defines, body by body in the order of the attributes.

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

}  // namespace nodewise::ops
