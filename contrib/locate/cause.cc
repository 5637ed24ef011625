#include "nodewise/locate/cause.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "contrib/locate/partial_graph.h"
#include "contrib/locate/saturated_run.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/machine.h"

// The ways to compute are tried from the most particular to the vaguest one:
// what a processor is known to do, one step of an integer, a shorter type, one
// mistake in an operation, and last only how the errors lie. Each must be
// nearer to what was found than the definition is, by a factor that says how
// much of the error such a way may leave. Nearness is the norm of the
// difference over all elements, so that a single element that fits by chance
// explains nothing.

namespace nodewise {
namespace {

// A way to compute explains what was found if it is nearer to that by this
// factor than the definition. Rounding to a shorter type leaves what is added
// up in another order; a mistake leaves next to nothing.
constexpr double kNearerByRounding = 3;
constexpr double kNearerByMistake = 20;
// One that rounds twice must be nearer than those that round once.
constexpr double kNearerByBoth = 2;
// Which input alone is kept in a shorter type, as weights often are.
constexpr const char* kPlaces[] = {"first inputs", "second inputs",
                                   "third inputs"};
// A person waits.
constexpr int64_t kMostNanoseconds = 2'000'000'000;
// A mistake leaves next to nothing, so that of so many changes none fits by
// chance.
constexpr size_t kMostEdits = 150;

// The significant bits of shorter types, with the names of these.
struct ShortType {
  int bits;
  const char* name;
};
constexpr ShortType kShortTypes[] = {
    {8, "bfloat16"}, {11, "float16 or TF32"}, {24, "float32"}};

// Rounds to nearest, ties to even: half of what is cut off is added to the bits
// before they are cut, less one where the last bit that stays is even. A carry
// into the exponent is what rounding up to the next power of two is.
template <typename Float, typename Word>
Float RoundToBits(Float value, int bits) {
  if (!std::isfinite(value)) return value;
  const int cut = std::numeric_limits<Float>::digits - bits;
  const Word word = std::bit_cast<Word>(value);
  const Word is_odd = word >> cut & 1;
  const Word half = (Word{1} << (cut - 1)) - 1 + is_odd;
  return std::bit_cast<Float>((word + half) >> cut << cut);
}

template <typename Float, typename Word>
void RoundAll(const NDArray& tensor, int bits) {
  auto* const data = tensor.As<Float>();
  std::transform(data, data + CountOf(tensor), data, [bits](Float value) {
    return RoundToBits<Float, Word>(value, bits);
  });
}

bool IsFloat32(const NDArray& tensor) {
  return tensor.defined() && tensor.dtype() == kFloat32;
}
bool IsFloat64(const NDArray& tensor) {
  return tensor.defined() && tensor.dtype() == DLDataType{kDLFloat, 64, 1};
}

// Returns the tensor itself unless its type is longer and there is memory.
NDArray Rounded(const NDArray& tensor, int bits) {
  const bool is_long = IsFloat64(tensor);
  if (!is_long &&
      !(IsFloat32(tensor) && bits < std::numeric_limits<float>::digits)) {
    return tensor;
  }
  auto copy = tensor.CopyToHost();
  if (!copy.ok()) return tensor;
  if (is_long) {
    RoundAll<double, uint64_t>(*copy, bits);
  } else {
    RoundAll<float, uint32_t>(*copy, bits);
  }
  return *std::move(copy);
}

// Returns how a type is called here: types of equal bits are told apart by the
// numbers that they reach, which are seldom there.
std::string NameOfShort(const std::string& type) {
  for (const ShortType& each : kShortTypes) {
    if (std::string_view(each.name).starts_with(type)) return each.name;
  }
  return type;
}

struct CauseSearch {
  const WrongNode& node;
  const OpSet& operators;
  const NDArray& found = node.found[node.output];
  // How far the definition's result is from what was found.
  const double own_distance = node.worst.metrics.difference_norm;
  const int64_t end_ns = ClockNanoseconds() + kMostNanoseconds;

  std::optional<Cause> Run() {
    if (node.worst.metrics.non_finite() > 0) return Infinity();
    if (!(own_distance > 0)) return std::nullopt;
    if (auto cause = Saturation()) return cause;
    if (auto cause = Step()) return cause;
    if (auto cause = Precision()) return cause;
    if (auto cause = OperatorMistake()) return cause;
    return Pattern();
  }

  bool HasTime() const { return ClockNanoseconds() < end_ns; }

  // How far what a way to compute makes is from what was found; infinite if it
  // makes something of another type.
  double DistanceOf(const NDArray& made) const {
    if (!made.defined() || made.dtype() != found.dtype() ||
        made.shape() != found.shape()) {
      return INFINITY;
    }
    const auto metrics = MeasureDifference(*made, *found);
    if (!metrics.ok() || metrics->non_finite() > 0) return INFINITY;
    return metrics->difference_norm;
  }

  // An infinity that was read explains the one that was made, and says nothing
  // of the node.
  std::optional<Cause> Infinity() const {
    const ElementDifference& first = node.worst.metrics.first_non_finite;
    for (const NDArray& input : node.inputs) {
      if (input.defined() && !IsFinite(input)) return std::nullopt;
    }
    if (std::isfinite(first.actual)) return std::nullopt;
    return Cause{Cause::Kind::kInfinity,
                 fmt::format("finite inputs become {}",
                             std::isnan(first.actual) ? "NaN" : "infinity")};
  }

  static bool IsFinite(const NDArray& tensor) {
    if (!IsFloat32(tensor)) return true;
    const auto* const data = tensor.As<float>();
    return std::all_of(data, data + CountOf(tensor),
                       [](float value) { return std::isfinite(value); });
  }

  std::optional<Cause> Saturation() const {
    const NDArray made = RunSaturated(node, operators);
    if (!(DistanceOf(made) * kNearerByRounding < own_distance)) {
      return std::nullopt;
    }
    return Cause{Cause::Kind::kSaturation,
                 "8-bit products saturate on this processor"};
  }

  // Only short integers stand for numbers that were rounded: a longer one that
  // is one off is a mistake as any other.
  std::optional<Cause> Step() const {
    const Metrics& metrics = node.worst.metrics;
    const uint8_t code = found.dtype().code;
    const bool is_short = found.dtype().bits > 1 && found.dtype().bits <= 8;
    const bool is_step = (code == kDLInt || code == kDLUInt) && is_short &&
                         metrics.largest_error.error == 1;
    if (!is_step) return std::nullopt;
    return Cause{Cause::Kind::kStep,
                 fmt::format("results are one step off in {} of {} elements",
                             metrics.different, metrics.elements)};
  }

  NDArray Compute(std::vector<NDArray> inputs) const {
    auto made = Interpret(node.region, std::move(inputs));
    return made.ok() ? (*made)[node.output] : NDArray();
  }

  // Returns an undefined tensor where rounding this input alone is the same as
  // rounding all of them, or where time is up.
  NDArray ComputeWithRounded(size_t input, int bits) const {
    const size_t count = node.inputs.size();
    if (count < 2 || input >= count || !HasTime()) return NDArray();
    std::vector<NDArray> inputs(node.inputs.begin(), node.inputs.end());
    inputs[input] = Rounded(inputs[input], bits);
    return Compute(std::move(inputs));
  }

  // Rounding what is read, what is made, or both tells apart a kernel that
  // computes in a shorter type, one that only stores it, and one that does all
  // in it. The longer types come last and win only if they are nearer still.
  std::optional<Cause> Precision() const {
    if (!IsFloat32(found) && !IsFloat64(found)) return std::nullopt;
    std::optional<Cause> best;
    double nearest = own_distance / kNearerByRounding;
    const auto take = [&](double distance, double factor, const char* what,
                          const char* type) {
      if (!(distance * factor < nearest)) return;
      nearest = distance;
      best = {Cause::Kind::kPrecision,
              fmt::format("{} are rounded to {}", what, type), type};
    };
    for (const auto& [bits, name] : kShortTypes) {
      const bool is_own =
          IsFloat32(found) && bits == std::numeric_limits<float>::digits;
      if (!HasTime() || is_own) break;
      std::vector<NDArray> inputs;
      for (const NDArray& input : node.inputs) {
        inputs.push_back(Rounded(input, bits));
      }
      const NDArray made = Compute(std::move(inputs));
      if (!made.defined()) continue;
      take(DistanceOf(made), 1, "inputs", name);
      take(DistanceOf(Rounded(node.expected[node.output], bits)), 1, "results",
           name);
      take(DistanceOf(Rounded(made, bits)), kNearerByBoth, "inputs and results",
           name);
      // All inputs explain as much where the others are short already.
      for (size_t i = 0; i < std::size(kPlaces); ++i) {
        take(DistanceOf(ComputeWithRounded(i, bits)), kNearerByBoth, kPlaces[i],
             name);
      }
    }
    return best;
  }

  // Mistakes are looked for in regions of one operation alone: changes of
  // several operations may explain anything.
  std::optional<Cause> OperatorMistake() const {
    // The edits are of one operation, and are computed without the others.
    const Network& region = node.region;
    if (region.order().size() != 1) return std::nullopt;
    const Operation& operation = region.operation(region.order()[0]);
    if (operation.outputs.size() != 1) return std::nullopt;
    Tensors inputs;
    for (const ValueId id : operation.inputs) {
      inputs.push_back(GivenFor(id, region, node.inputs));
    }
    std::optional<Cause> cause;
    size_t tried = 0;
    VisitEdits(region, operation, operators, [&](const OperationEdit& edit) {
      if (tried++ == kMostEdits || !HasTime()) return false;
      const double distance = DistanceOf(Edited(edit, inputs));
      if (!(distance * kNearerByMistake < own_distance)) return true;
      cause = {Cause::Kind::kMistake, "numbers fit one change: " + edit.what};
      return false;
    });
    return cause;
  }

  static NDArray Edited(const OperationEdit& edit, const Tensors& given) {
    Tensors inputs;
    for (const size_t slot : edit.slots) {
      inputs.push_back(slot == OperationEdit::kDropped ? NDArray()
                                                       : given[slot]);
    }
    if (edit.is_skipped) return inputs[0];
    const auto made = Evaluate(edit.attrs, std::move(inputs), {true});
    return made.ok() ? made->outputs[0] : NDArray();
  }

  // Nothing that was computed fits. How the wrong elements lie is at least a
  // hint for a person.
  std::optional<Cause> Pattern() const {
    const DifferenceDetails details = DescribeDifference(
        *node.expected[node.output], *found, node.worst.metrics,
        ToleranceOf({Rule::Kind::kByType}, found.dtype()));
    if (details.patterns.empty()) return std::nullopt;
    const FailurePattern& pattern = details.patterns[0];
    if (pattern.shape == FailureShape::kPrecisionLost) {
      const std::string type = NameOfShort(pattern.type);
      return Cause{Cause::Kind::kPrecision, "results are rounded to " + type,
                   type};
    }
    return Cause{Cause::Kind::kPattern,
                 "errors have a pattern: " + pattern.words};
  }
};

}  // namespace

std::optional<Cause> CauseOf(const WrongNode& node, const OpSet& operators) {
  const bool has_pair =
      node.output < node.found.size() && node.output < node.expected.size() &&
      node.found[node.output].defined() && node.expected[node.output].defined();
  if (!has_pair ||
      node.found[node.output].dtype() != node.expected[node.output].dtype()) {
    return std::nullopt;
  }
  return CauseSearch{node, operators}.Run();
}

}  // namespace nodewise
