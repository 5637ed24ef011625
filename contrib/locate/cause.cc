#include "nodewise/locate/cause.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "contrib/locate/saturation.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/machine.h"

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
constexpr size_t kMostEdits = 150;

// The significant bits of shorter types, with the names of these.
struct ShortType {
  int bits;
  const char* name;
};
constexpr ShortType kShortTypes[] = {
    {8, "bfloat16"}, {11, "float16 or TF32"}, {24, "float32"}};

// Rounds to nearest, ties to even.
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
  auto* const data = static_cast<Float*>(tensor.data());
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    data[i] = RoundToBits<Float, Word>(data[i], bits);
  }
}

bool IsFloat32(const NDArray& tensor) {
  return tensor.defined() && tensor.dtype() == DLDataType{kDLFloat, 32, 1};
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

class CauseSearch {
 public:
  CauseSearch(const WrongNode& node, const OpSet& operators)
      : node_(node),
        operators_(operators),
        found_(node.found[node.output]),
        distance_(node.worst.metrics.difference_norm),
        end_ns_(ClockNanoseconds() + kMostNanoseconds) {}

  std::optional<Cause> Run() {
    if (node_.worst.metrics.non_finite() > 0) return Infinity();
    if (!(distance_ > 0)) return std::nullopt;
    if (auto cause = Saturation()) return cause;
    if (auto cause = Step()) return cause;
    if (auto cause = Precision()) return cause;
    if (auto cause = Mistake()) return cause;
    return Pattern();
  }

 private:
  bool HasTime() const { return ClockNanoseconds() < end_ns_; }

  // How far what a way to compute makes is from what was found; infinite if it
  // makes something of another type.
  double DistanceOf(const NDArray& made) const {
    if (!made.defined() || made.dtype() != found_.dtype() ||
        made.shape() != found_.shape()) {
      return INFINITY;
    }
    const auto metrics = MeasureDifference(*made, *found_);
    if (!metrics.ok() || metrics->non_finite() > 0) return INFINITY;
    return metrics->difference_norm;
  }

  std::optional<Cause> Infinity() const {
    const ElementDifference& first = node_.worst.metrics.first_non_finite;
    for (const NDArray& input : node_.inputs) {
      if (input.defined() && !IsFinite(input)) return std::nullopt;
    }
    if (std::isfinite(first.actual)) return std::nullopt;
    return Cause{Cause::Kind::kInfinity,
                 fmt::format("finite inputs become {}",
                             std::isnan(first.actual) ? "NaN" : "infinity")};
  }

  static bool IsFinite(const NDArray& tensor) {
    if (!IsFloat32(tensor)) return true;
    const auto* const data = static_cast<const float*>(tensor.data());
    return std::all_of(data, data + CountOf(tensor),
                       [](float value) { return std::isfinite(value); });
  }

  std::optional<Cause> Saturation() const {
    const NDArray made = SaturatedResult(node_, operators_);
    if (!(DistanceOf(made) * kNearerByRounding < distance_)) {
      return std::nullopt;
    }
    return Cause{Cause::Kind::kSaturation,
                 "8-bit products saturate on this processor"};
  }

  std::optional<Cause> Step() const {
    const Metrics& metrics = node_.worst.metrics;
    const uint8_t code = found_.dtype().code;
    const bool is_short = found_.dtype().bits > 1 && found_.dtype().bits <= 8;
    const bool is_step = (code == kDLInt || code == kDLUInt) && is_short &&
                         metrics.largest_error.error == 1;
    if (!is_step) return std::nullopt;
    return Cause{Cause::Kind::kStep,
                 fmt::format("results are one step off in {} of {} elements",
                             metrics.different, metrics.elements)};
  }

  NDArray Compute(std::vector<NDArray> inputs) const {
    auto made = Interpret(node_.region, std::move(inputs));
    return made.ok() ? (*made)[node_.output] : NDArray();
  }

  // Undefined where that is what rounding all inputs makes, or took too long.
  NDArray ComputeWithRounded(size_t input, int bits) const {
    const size_t count = node_.inputs.size();
    if (count < 2 || input >= count || !HasTime()) return NDArray();
    std::vector<NDArray> inputs(node_.inputs.begin(), node_.inputs.end());
    inputs[input] = Rounded(inputs[input], bits);
    return Compute(std::move(inputs));
  }

  std::optional<Cause> Precision() const {
    if (!IsFloat32(found_) && !IsFloat64(found_)) return std::nullopt;
    std::optional<Cause> best;
    double nearest = distance_ / kNearerByRounding;
    const auto take = [&](double distance, double factor, const char* what,
                          const char* type) {
      if (!(distance * factor < nearest)) return;
      nearest = distance;
      best = {Cause::Kind::kPrecision,
              fmt::format("{} are rounded to {}", what, type), type};
    };
    for (const auto& [bits, name] : kShortTypes) {
      const bool is_own =
          IsFloat32(found_) && bits == std::numeric_limits<float>::digits;
      if (!HasTime() || is_own) break;
      std::vector<NDArray> inputs;
      for (const NDArray& input : node_.inputs) {
        inputs.push_back(Rounded(input, bits));
      }
      const NDArray made = Compute(std::move(inputs));
      if (!made.defined()) continue;
      take(DistanceOf(made), 1, "inputs", name);
      take(DistanceOf(Rounded(node_.expected[node_.output], bits)), 1,
           "results", name);
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

  // Only of a region of one operation: who changes several may explain all.
  std::optional<Cause> Mistake() const {
    const Network& region = node_.region;
    if (region.order().size() != 1) return std::nullopt;
    const Operation& operation = region.operation(region.order()[0]);
    if (operation.outputs.size() != 1) return std::nullopt;
    Tensors inputs;
    for (const ValueId id : operation.inputs) inputs.push_back(Given(id));
    std::optional<Cause> cause;
    size_t tried = 0;
    VisitEdits(region, operation, operators_, [&](const OperationEdit& edit) {
      if (tried++ == kMostEdits || !HasTime()) return false;
      const double distance = DistanceOf(Edited(edit, inputs));
      if (!(distance * kNearerByMistake < distance_)) return true;
      cause = {Cause::Kind::kMistake, "numbers fit one change: " + edit.what};
      return false;
    });
    return cause;
  }

  NDArray Given(ValueId id) const {
    if (id == kNoValue) return NDArray();
    const absl::Span<const ValueId> inputs = node_.region.inputs();
    const auto input = std::find(inputs.begin(), inputs.end(), id);
    if (input == inputs.end()) return node_.region.value(id).data;
    return node_.inputs[static_cast<size_t>(input - inputs.begin())];
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

  std::optional<Cause> Pattern() const {
    const DifferenceDetails details = DescribeDifference(
        *node_.expected[node_.output], *found_, node_.worst.metrics,
        ToleranceOf({Rule::Kind::kByType}, found_.dtype()));
    if (details.patterns.empty()) return std::nullopt;
    // Such a pattern says that something else was computed than the definition
    // says.
    const FailurePattern& pattern = details.patterns[0];
    if (pattern.shape == FailureShape::kPrecisionLost) {
      const std::string type = NameOfShort(pattern.type);
      return Cause{Cause::Kind::kPrecision, "results are rounded to " + type,
                   type};
    }
    return Cause{Cause::Kind::kPattern,
                 "errors have a pattern: " + details.patterns[0].words};
  }

  const WrongNode& node_;
  const OpSet& operators_;
  const NDArray& found_;
  const double distance_;  // From the definition's result.
  const int64_t end_ns_;
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
  return CauseSearch(node, operators).Run();
}

}  // namespace nodewise
