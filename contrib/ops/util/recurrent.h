#pragma once

// What LSTM, GRU and RNN share; only for their files.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"

namespace nodewise {

enum class Direction { kForward, kReverse, kBidirectional };
template <>
struct Words<Direction> {
  static constexpr std::pair<Direction, std::string_view> kAll[] = {
      {Direction::kForward, "forward"},
      {Direction::kReverse, "reverse"},
      {Direction::kBidirectional, "bidirectional"}};
};

// One activation with its parameters; the input is clipped first.
struct Activation {
  double (*function)(double x, double alpha, double beta) = nullptr;
  double alpha = 0;
  double beta = 0;
  double clip = 0;  // 0: not clipped.
  // Small results may be differences of larger numbers.
  bool cancels = false;

  double operator()(double x) const {
    if (clip > 0) x = x < -clip ? -clip : x > clip ? clip : x;
    return function(x, alpha, beta);
  }
};

// What one direction calculates with, as doubles.
struct CellWeights {
  int64_t hidden = 0;
  int64_t gates = 0;              // Times hidden: columns.
  std::vector<double> recurrent;  // By hidden element, then column.
  std::vector<double> bias;       // The recurrence's, by column.
  std::vector<double> peepholes;  // Three times hidden, or none.
  const Activation* activations = nullptr;

  int64_t columns() const { return gates * hidden; }
};

// A number, and how far a kernel's may be off (recurrent_error.h).
struct RoughNumber {
  double value = 0;
  double proved = 0;
  double expected = 0;
};
// One step of one sequence: changes h and c in place. `inputs` has what the
// input and its bias contribute, by column; `scratch` has the same length.
template <typename Number, typename Input>
using CellStep =
    absl::FunctionRef<void(const CellWeights& weights, const Input* inputs,
                           Number* h, Number* c, Number* scratch)>;
struct CellSteps {
  CellStep<double, double> numbers;
  CellStep<RoughNumber, SumOfTerms> errors;
};

struct RecurrentBase {
  std::vector<float> activation_alpha;
  std::vector<float> activation_beta;
  std::vector<std::string> activations;
  float clip = 0;
  Direction direction = Direction::kForward;
  int64_t hidden_size = 0;  // 0: taken from the weights.
  bool layout = false;      // True: the batch comes first.

  int64_t num_directions() const {
    return direction == Direction::kBidirectional ? 2 : 1;
  }
  absl::Status CheckShapes(const Inputs& in, int64_t gates,
                           absl::Span<const char* const> defaults) const;
  OutputInfos InferShapes(const Inputs& in, size_t num_outputs) const;
  absl::Status Run(EvalArgs& args, int64_t gates,
                   absl::Span<const char* const> defaults,
                   const CellSteps& steps) const;
  double FlopsOf(const Inputs& in) const;

 private:
  Dim Hidden(const Inputs& in) const;
  // Returns the activations of all directions, one after the other.
  absl::StatusOr<std::vector<Activation>> ActivationsOf(
      absl::Span<const char* const> defaults) const;
};

absl::StatusOr<Activation> ActivationNamed(std::string_view name);
// Return whether the activation takes this parameter from its list.
bool TakesAlpha(std::string_view name);
bool TakesBeta(std::string_view name);

}  // namespace nodewise
