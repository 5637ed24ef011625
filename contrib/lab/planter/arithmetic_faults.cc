// Faults in how numbers are calculated. One operation of the node's region is
// computed in another way, all others as the reference does.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "contrib/lab/planter/region_trial.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/half.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// So many partial sums are added up in float16.
constexpr int kParts = 16;

using ChangedOperation = std::function<absl::StatusOr<Evaluated>(
    const OperationCall& call, const EvalArgs::Options& options)>;

class ChangedEvaluator : public Evaluator {
 public:
  ChangedEvaluator(OperationId operation, ChangedOperation change)
      : operation_(operation), change_(std::move(change)) {}

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    if (call.operation.id == operation_) return change_(call, options);
    return ReferenceEvaluator().Evaluate(std::move(call), options);
  }

 private:
  const OperationId operation_;
  const ChangedOperation change_;
};

// A region and what computes it.
struct ChangedRegion {
  ChangedRegion(const Region& source, OperationId operation,
                ChangedOperation change)
      : region(source),
        evaluator(operation, std::move(change)),
        interpreter(region.network, evaluator) {}

  const Region region;
  const ChangedEvaluator evaluator;
  const Interpreter interpreter;
};

Spoiling WithOperation(std::string what, const Region& region,
                       OperationId operation, ChangedOperation change) {
  Spoiling made;
  made.what = std::move(what);
  const auto changed =
      std::make_shared<const ChangedRegion>(region, operation, change);
  made.bind = [changed](Library&, const KernelRequest& request) {
    return absl::StatusOr<PackedFunc>(NodeFunction(
        request.num_outputs, [changed](const NodeCall& call) -> absl::Status {
          NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> results,
                                    changed->interpreter.Run(call.inputs));
          for (size_t i = 0; i < results.size(); ++i) {
            CopyBytes(results[i], call.outputs[i]);
          }
          return absl::OkStatus();
        }));
  };
  return made;
}

absl::StatusOr<Evaluated> EvaluateWith(const OperationCall& call, size_t slot,
                                       NDArray input,
                                       const EvalArgs::Options& options) {
  OperationCall other = call;
  other.inputs[slot] = std::move(input);
  return ReferenceEvaluator().Evaluate(std::move(other), options);
}

// Returns output 0 of the call with these numbers in the place of an input.
absl::StatusOr<std::vector<double>> NumbersWith(
    const OperationCall& call, size_t slot, const std::vector<double>& numbers,
    const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray input,
                            WithNumbers(call.inputs[slot], numbers));
  NODEWISE_ASSIGN_OR_RETURN(
      const Evaluated made,
      EvaluateWith(call, slot, std::move(input), options));
  return ToDoubles(made.outputs[0]);
}

// Puts numbers in the place of output 0 of what is computed soundly.
absl::StatusOr<Evaluated> WithResult(const OperationCall& call,
                                     const std::vector<double>& numbers,
                                     const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluated made,
                            ReferenceEvaluator().Evaluate(call, options));
  NODEWISE_ASSIGN_OR_RETURN(made.outputs[0],
                            WithNumbers(made.outputs[0], numbers));
  return made;
}

double ToFloat16(double value) { return HalfToFloat(DoubleToHalf(value)); }

// The terms of the sums fall into parts by chance, as the seed says.
absl::StatusOr<Evaluated> AddedInFloat16(const OperationCall& call, size_t slot,
                                         uint64_t seed,
                                         const EvalArgs::Options& options) {
  const std::vector<double> whole = ToDoubles(call.inputs[slot]);
  const std::vector<double> none(whole.size(), 0.0);
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> base,
                            NumbersWith(call, slot, none, options));
  RandomSource random(seed, "float16-sums");
  std::vector<int64_t> part_of(whole.size());
  for (int64_t& part : part_of) part = random.Between(0, kParts - 1);
  std::vector<double> sums(base.size(), 0.0);
  for (int64_t part = 0; part < kParts; ++part) {
    std::vector<double> terms = none;
    for (size_t i = 0; i < whole.size(); ++i) {
      if (part_of[i] == part) terms[i] = whole[i];
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> partial,
                              NumbersWith(call, slot, terms, options));
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = ToFloat16(sums[i] + ToFloat16(partial[i] - base[i]));
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += base[i];
  return WithResult(call, sums, options);
}

// A function of one number, between points that are `step` apart.
absl::StatusOr<Evaluated> Interpolated(const OperationCall& call, double step,
                                       const EvalArgs::Options& options) {
  const std::vector<double> x = ToDoubles(call.inputs[0]);
  std::vector<double> below(x.size()), above(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    below[i] = std::floor(x[i] / step) * step;
    above[i] = below[i] + step;
  }
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> low,
                            NumbersWith(call, 0, below, options));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> high,
                            NumbersWith(call, 0, above, options));
  NODEWISE_ASSIGN_OR_RETURN(std::vector<double> y,
                            NumbersWith(call, 0, x, options));
  for (size_t i = 0; i < x.size(); ++i) {
    const double share = (x[i] - below[i]) / step;
    const double between = low[i] + share * (high[i] - low[i]);
    if (std::isfinite(between)) y[i] = between;
  }
  return WithResult(call, y, options);
}

// Probabilities of numbers whose exp is interpolated: exp(x) becomes
// exp(x) * ((1 - s) + s exp(step)) / exp(s step), where s is the share of the
// step that x is above a point, and that is the exp of another x.
absl::StatusOr<Evaluated> WithInterpolatedExp(
    const OperationCall& call, double step, const EvalArgs::Options& options) {
  std::vector<double> x = ToDoubles(call.inputs[0]);
  for (double& value : x) {
    if (!std::isfinite(value)) continue;
    const double share = value / step - std::floor(value / step);
    value += std::log1p(share * std::expm1(step)) - share * step;
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray input, WithNumbers(call.inputs[0], x));
  return EvaluateWith(call, 0, std::move(input), options);
}

bool MakesProbabilities(const OpAttrs& attrs) {
  return attrs.As<ops::Softmax>() != nullptr ||
         attrs.As<ops::Softmax1>() != nullptr ||
         attrs.As<ops::LogSoftmax>() != nullptr ||
         attrs.As<ops::LogSoftmax1>() != nullptr;
}

bool IsInexactFunction(const Operation& operation) {
  return operation.inputs.size() == 1 && IsElementwise(operation) &&
         operation.def().bound.kind != ErrorBound::Kind::kExact;
}

bool IsFloatInput(const Network& network, const Operation& operation,
                  size_t slot) {
  return slot < operation.inputs.size() && operation.inputs[slot] != kNoValue &&
         IsFloat(network.value(operation.inputs[slot]).type.dtype);
}

// x - almost half a step towards 0, so that rounding it truncates x.
absl::StatusOr<Evaluated> TruncatedSteps(const OperationCall& call,
                                         const EvalArgs::Options& options) {
  const double scale = ToDoubles(call.inputs[1])[0];
  std::vector<double> x = ToDoubles(call.inputs[0]);
  for (double& value : x) value -= std::copysign(0.499 * scale, value);
  NODEWISE_ASSIGN_OR_RETURN(NDArray input, WithNumbers(call.inputs[0], x));
  return EvaluateWith(call, 0, std::move(input), options);
}

void AddTruncatedSteps(const Region& region, Spoilings* made) {
  for (const OperationId id : SourceOperations(region)) {
    const Operation& operation = region.network.operation(id);
    if (operation.attrs.As<ops::QuantizeLinear>() == nullptr ||
        !(region.network.value(operation.inputs[1]).type.shape == Shape())) {
      continue;
    }
    made->push_back(WithOperation(
        fmt::format("{} truncates instead of rounding", operation.name), region,
        id, &TruncatedSteps));
  }
}

// Keeps so many bits of a number, the first one included.
double Truncated(double value, int bits) {
  int exponent = 0;
  const double part = std::frexp(value, &exponent);
  return std::isfinite(value)
             ? std::ldexp(std::trunc(std::ldexp(part, bits)), exponent - bits)
             : value;
}

// How many bits are left of a type when it is stored as a shorter one.
int KeptBits(DLDataType dtype, RandomSource& random) {
  if (dtype == kBfloat16) return 5;
  if (dtype == kFloat16) return 8;
  return random.Between(0, 1) == 0 ? 8 : 11;
}

}  // namespace

absl::StatusOr<Spoilings> Float16Sums(const FaultPlace& place,
                                      RandomSource& random) {
  if (place.region == nullptr) return Lacks(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    if (operation.def().bound.kind != ErrorBound::Kind::kSum ||
        IsElementwise(operation) || !IsFloatInput(network, operation, 0)) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const RegionTrial trial,
                              RegionTrial::Of(place, id));
    if (!trial.IsSumOver(0)) continue;
    const uint64_t seed = random.Next();
    made.push_back(WithOperation(
        fmt::format("{} adds up in float16", operation.name), *place.region, id,
        [seed](const OperationCall& call, const EvalArgs::Options& options) {
          return AddedInFloat16(call, 0, seed, options);
        }));
  }
  if (made.empty()) return Lacks("it computes no sums of floats");
  return made;
}

absl::StatusOr<Spoilings> TruncatedResults(const FaultPlace& place,
                                           RandomSource& random) {
  Spoilings made;
  if (place.region != nullptr) AddTruncatedSteps(*place.region, &made);
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const DLDataType dtype = place.sound.outputs[slot].dtype();
    if (!IsFloat(dtype)) continue;
    const int bits = KeptBits(dtype, random);
    made.push_back(AfterTheCall(
        fmt::format("output {} is truncated to {} bits", slot, bits),
        [slot, bits](const NodeCall& call) {
          const NDArray& output = call.outputs[slot];
          std::vector<double> values = ToDoubles(output);
          for (double& value : values) value = Truncated(value, bits);
          StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()),
                       output);
          return absl::OkStatus();
        }));
  }
  if (made.empty()) return Lacks("it rounds nothing");
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> ApproximatedFunction(const FaultPlace& place,
                                               RandomSource& random) {
  if (place.region == nullptr) return Lacks(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    if (!IsFloatInput(network, operation, 0)) continue;
    const bool is_function = IsInexactFunction(operation);
    if (!is_function && !MakesProbabilities(operation.attrs)) continue;
    const double step = std::ldexp(1, -static_cast<int>(random.Between(0, 2)));
    made.push_back(WithOperation(
        fmt::format("{} is interpolated between points that are {} apart",
                    operation.name, step),
        *place.region, id,
        [=](const OperationCall& call, const EvalArgs::Options& options) {
          return is_function ? Interpolated(call, step, options)
                             : WithInterpolatedExp(call, step, options);
        }));
  }
  if (made.empty()) return Lacks("it computes no function such as exp or erf");
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
