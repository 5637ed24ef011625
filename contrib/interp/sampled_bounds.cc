// Bounds by trial: the network runs several times, each time with every result
// moved as far as its operation may be off, and the distances that come out
// make the bound.

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include "nodewise/interp/interpreter.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Runs, of which the first two move all to one side.
constexpr int kSamples = 16;
// The bound is this part of the sum of the distances that were seen: about ten
// times a usual one. One large distance is missed by chance now and then, many
// are not.
constexpr double kFactor = 0.75;

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

// The numbers of all float inputs, and zero. What an operation makes of these
// alone it has only moved or chosen, and not rounded.
class NumbersRead {
 public:
  explicit NumbersRead(const Tensors& inputs) {
    for (const NDArray& input : inputs) {
      if (!input.defined() || !IsFloat(input.dtype())) continue;
      const std::vector<double> numbers = ToDoubles(input);
      all_.insert(all_.end(), numbers.begin(), numbers.end());
    }
  }

  // A few are looked for first: most operations make other numbers, and to look
  // for all takes longer than to compute them.
  bool HaveAll(const std::vector<double>& numbers) const {
    constexpr size_t kFirst = 4;
    for (size_t i = 0; i < kFirst && i < numbers.size(); ++i) {
      const double x = numbers[i * numbers.size() / kFirst];
      if (!IsFree(x) && std::ranges::find(all_, x) == all_.end()) {
        return false;
      }
    }
    const std::unordered_set<double> known(all_.begin(), all_.end());
    return std::ranges::all_of(
        numbers, [&](double x) { return IsFree(x) || known.contains(x); });
  }

 private:
  static bool IsFree(double x) { return x == 0 || std::isnan(x); }

  std::vector<double> all_;
};

// Evaluates as the reference, and moves what comes out.
class MovingEvaluator : public Evaluator {
 public:
  explicit MovingEvaluator(int sample)
      : sample_(sample), random_(static_cast<uint64_t>(sample), "moved") {}

  bool knows_all() const { return knows_all_; }

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    EvalArgs::Options with = options;
    with.with_bounds = true;
    // The operation may write over its inputs.
    const NumbersRead read(call.inputs);
    NODEWISE_ASSIGN_OR_RETURN(
        Evaluated made, ReferenceEvaluator().Evaluate(std::move(call), with));
    for (size_t i = 0; i < made.outputs.size(); ++i) {
      NDArray& tensor = made.outputs[i];
      if (!tensor.defined() || i >= made.bounds.size()) continue;
      const std::vector<double>& bounds = made.bounds[i].proved;
      if (IsFloat(tensor.dtype())) {
        NODEWISE_RETURN_IF_ERROR(Move(bounds, read, &tensor));
      } else if (IsInteger(tensor.dtype())) {
        NODEWISE_RETURN_IF_ERROR(MoveWhole(bounds, &tensor));
      }
    }
    return made;
  }

 private:
  absl::Status Move(const std::vector<double>& bounds, const NumbersRead& read,
                    NDArray* tensor) const {
    std::vector<double> numbers = ToDoubles(*tensor);
    if (bounds.size() != numbers.size()) {
      knows_all_ = knows_all_ && numbers.empty();
      return absl::OkStatus();
    }
    if (read.HaveAll(numbers)) return absl::OkStatus();
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!std::isfinite(numbers[i])) continue;
      if (!std::isfinite(bounds[i])) {
        knows_all_ = false;
        continue;
      }
      // A step to the neighbour at least, or a rounding would undo it. Kernels
      // of several operations need not round what is correctly rounded here.
      const double step =
          std::max(bounds[i], 2 * HalfUlp(tensor->dtype(), numbers[i]));
      numbers[i] += Sign() * step;
    }
    return Store(numbers, tensor);
  }

  // Integers may be off where floats are rounded to them.
  absl::Status MoveWhole(const std::vector<double>& bounds,
                         NDArray* tensor) const {
    const bool is_exact =
        std::ranges::none_of(bounds, [](double x) { return !(x < 1); });
    if (is_exact) return absl::OkStatus();
    std::vector<double> numbers = ToDoubles(*tensor);
    for (size_t i = 0; i < std::min(numbers.size(), bounds.size()); ++i) {
      if (std::isfinite(bounds[i])) {
        numbers[i] += Sign() * std::floor(bounds[i]);
      } else {
        knows_all_ = false;
      }
    }
    return Store(numbers, tensor);
  }

  // The tensor may share memory with an input.
  static absl::Status Store(const std::vector<double>& numbers,
                            NDArray* tensor) {
    NODEWISE_ASSIGN_OR_RETURN(
        *tensor, FromDoubles(numbers, tensor->shape(), tensor->dtype()));
    return absl::OkStatus();
  }

  // Errors that all go one way add up; those of random sides mostly cancel.
  // Kernels do either.
  double Sign() const {
    if (sample_ < 2) return sample_ == 0 ? 1 : -1;
    return random_.Next() % 2 == 0 ? 1 : -1;
  }

  const int sample_;
  mutable RandomSource random_;
  mutable bool knows_all_ = true;
};

}  // namespace

// The distances of all samples add up; one that is not known makes the sum
// NaN, which stays.
absl::StatusOr<std::vector<Bounds>> SampledBounds(
    const Network& network, const std::vector<NDArray>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> right,
                            Interpret(network, inputs));
  std::vector<Bounds> bounds(right.size());
  for (size_t i = 0; i < right.size(); ++i) {
    bounds[i].proved.resize(static_cast<size_t>(CountOf(right[i])));
  }
  for (int sample = 0; sample < kSamples; ++sample) {
    const MovingEvaluator evaluator(sample);
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> moved,
                              Interpreter(network, evaluator).Run(inputs));
    for (size_t i = 0; i < right.size(); ++i) {
      if (!IsFloat(right[i].dtype())) continue;
      const std::vector<double> a = ToDoubles(right[i]);
      const std::vector<double> b = ToDoubles(moved[i]);
      for (size_t k = 0; k < bounds[i].proved.size(); ++k) {
        double& bound = bounds[i].proved[k];
        const bool is_known = evaluator.knows_all() && k < b.size();
        const double apart = is_known ? std::fabs(b[k] - a[k]) : kNotKnown;
        bound += std::isfinite(apart) ? kFactor * apart : kNotKnown;
      }
    }
  }
  for (Bounds& each : bounds) each.expected = each.proved;
  return bounds;
}

}  // namespace nodewise
