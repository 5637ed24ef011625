#pragma once

// Recurrent layers. Each class is its operator's primary attributes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise::ops {

enum class Direction { kForward, kReverse, kBidirectional };
// What the three have in common.
struct RecurrentAttributes {
  // The parameters of those activations that have one, in order. Where the list
  // ends, the defaults hold.
  std::vector<float> activation_alpha;
  std::vector<float> activation_beta;
  // The names, direction by direction. Empty: the operator's usual ones.
  std::vector<std::string> activations;
  float clip = 0;  // Limit of an activation's input. 0: none.
  Direction direction = Direction::kForward;
  int64_t hidden_size = 0;  // 0: taken from the weights.
  bool layout = false;      // True: the batch comes first.
};

// One activation of a cell, and the parameters that hold for it.
struct CellActivation {
  std::string_view name;  // As the standard writes it: "HardSigmoid".
  double alpha = 0;
  double beta = 0;
};
// Returns those of all directions, one direction after the other; `usual` are
// the names that hold if the attributes have none. Fails with kInvalidArgument
// if there are too few, or if one is not known.
absl::StatusOr<std::vector<CellActivation>> ActivationsOf(
    const RecurrentAttributes& attributes, absl::Span<const char* const> usual);

// The usual activations of one direction.
inline constexpr const char* kLstmActivations[] = {"Sigmoid", "Tanh", "Tanh"};
inline constexpr const char* kGruActivations[] = {"Sigmoid", "Tanh"};
inline constexpr const char* kRnnActivations[] = {"Tanh"};

// c = f * c + i * g and h = o * tanh(c), where the gates i, o, f and g are
// activations of weighted sums of the step's input and h.
struct LSTM : RecurrentAttributes {
  bool input_forget = false;  // True: f = 1 - i.
};
// LSTM in opsets 1 to 6, where an attribute says whether the first output is
// wanted, which also shows by whether it is there.
struct LSTM1 : LSTM {
  bool output_sequence = false;
};

// onnxruntime's LSTM of weights in 8 bits, which come with scales and zero
// points and are laid out by input, then column. The sums are taken of the
// inputs, all of them together, and at each step of the states h of all
// sequences, rounded to 8 bits as DynamicQuantizeLinear does. onnxruntime with
// several threads rounds the sequences of each by themselves, which the bounds
// allow.
struct DynamicQuantizeLSTM : LSTM {};

// h = (1 - z) * g + z * h, where the gates z and r are activations of weighted
// sums of the step's input and h, and g is one of the input and r * h.
struct GRU : RecurrentAttributes {
  // True: r is multiplied with the weighted sum of h, not with h.
  bool linear_before_reset = false;
};
// GRU in opsets 1 to 6, where an attribute says whether the first output is
// wanted, which also shows by whether it is there.
struct GRU1 : GRU {
  bool output_sequence = false;
};

// h = an activation of a weighted sum of the step's input and h.
struct RNN : RecurrentAttributes {};
// RNN in opsets 1 to 6, where an attribute says whether the first output is
// wanted, which also shows by whether it is there.
struct RNN1 : RNN {
  bool output_sequence = false;
};

}  // namespace nodewise::ops
