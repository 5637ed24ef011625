#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/recurrent.h"

namespace nodewise {

// What LSTM, GRU and RNN share; only for their files.

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
  // What a kernel's sums of rounded inputs may be off, by column, or none.
  std::vector<SumBound> input_errors;
  const Activation* activations = nullptr;

  int64_t columns() const { return gates * hidden; }
};

// A number, and how far a kernel's may be off (CellErrors in recurrent.cc).
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

// What one of the three operators is, by its attributes and cell.
struct RecurrentLayer {
  const ops::RecurrentAttributes& attributes;
  int64_t gates = 0;
  absl::Span<const char* const> usual_activations;
  // If given, the inputs are rounded to multiples of it, and the states are
  // rounded as DynamicQuantizeLinear does before each step.
  std::optional<double> input_step = std::nullopt;

  absl::Status Check(const Inputs& in) const;
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const;
  absl::Status Run(EvalArgs& args, const CellSteps& steps) const;
  static double Flops(const Inputs& in);

 private:
  int64_t num_directions() const {
    return attributes.direction == ops::Direction::kBidirectional ? 2 : 1;
  }
  Dim Hidden(const Inputs& in) const;
  Shape StateShape(const Dim& batch, const Dim& hidden) const;
  // Returns the activations of all directions, one after the other.
  absl::StatusOr<std::vector<Activation>> Activations() const;
};

// REQUIRES: ActivationsOf() has returned it.
Activation FunctionOf(const ops::CellActivation& activation);

}  // namespace nodewise
