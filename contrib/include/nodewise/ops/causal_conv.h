#pragma once

// A convolution over time that keeps the places before it as a state.

namespace nodewise::ops {

// The function after the convolution: none, or x * sigmoid(x), which has two
// names.
enum class CausalActivation { kNone, kSilu, kSwish };

// Convolves each channel with a kernel of its own that sees no later places;
// what precedes the first place is a state, and the last places are the next
// state.
struct CausalConvWithState {
  CausalActivation activation = CausalActivation::kNone;
};

}  // namespace nodewise::ops
