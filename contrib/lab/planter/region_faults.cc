// Faults in what a node's region computes: an attribute in it is another one,
// or one of its operations is calculated in another arithmetic.

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_join.h"
#include "contrib/lab/planter/region_trial.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// For a fault in an attribute the node's own kernel is bound for the changed
// region, so that its rounding stays and the difference is that of the
// attribute alone.

using Ints = std::vector<int64_t>;

// An attribute with another value, or a constant in the region that plays the
// part of one (axes and pads are inputs since opset 13).
struct OtherValue {
  std::string from, to;  // In words.
  AttrValue value;
};
// Returns the values that an attribute might have had by mistake. `rank` is
// that of the operation's first input, 0 if it is not known.
using OtherValuesOf = std::vector<OtherValue> (*)(std::string_view name,
                                                  const AttrValue& value,
                                                  int rank,
                                                  RandomSource& random);

std::string InWords(const Ints& list) {
  return "[" + absl::StrJoin(list, ", ") + "]";
}

OtherValue OtherList(const Ints& from, Ints to) {
  return {InWords(from), InWords(to), AttrValue(std::move(to))};
}

OtherValue ChangedInt(int64_t from, int64_t to) {
  return {fmt::format("{}", from), fmt::format("{}", to), AttrValue(to)};
}

// One element of padding stands at the other end, so that sizes stay.
std::vector<OtherValue> OtherPadding(std::string_view name,
                                     const AttrValue& value, int,
                                     RandomSource&) {
  std::vector<OtherValue> others;
  if (const auto* const word = std::get_if<std::string>(&value)) {
    if (name != "auto_pad") return {};
    for (const char* other : {"SAME_UPPER", "SAME_LOWER"}) {
      if (word->starts_with("SAME") && *word != other) {
        others.push_back({*word, other, AttrValue(std::string(other))});
      }
    }
  }
  const auto* const pads = std::get_if<Ints>(&value);
  if (pads == nullptr || name != "pads" || pads->size() % 2 != 0) return others;
  const size_t sides = pads->size() / 2;
  for (size_t i = 0; i < pads->size(); ++i) {
    const size_t other_end = (i + sides) % pads->size();
    if ((*pads)[i] <= 0) continue;
    Ints moved = *pads;
    --moved[i];
    ++moved[other_end];
    others.push_back(OtherList(*pads, std::move(moved)));
  }
  return others;
}

std::vector<OtherValue> OtherOrder(std::string_view name,
                                   const AttrValue& value, int rank,
                                   RandomSource&) {
  std::vector<OtherValue> others;
  if (const auto* const axis = std::get_if<int64_t>(&value)) {
    if (name != "axis") return {};
    const int64_t now = *axis < 0 ? *axis + rank : *axis;
    for (int64_t other = 0; other < rank; ++other) {
      if (other != now) others.push_back(ChangedInt(*axis, other));
    }
  }
  const auto* const list = std::get_if<Ints>(&value);
  if (list == nullptr) return others;
  for (size_t i = 0; i < list->size(); ++i) {
    if (name == "axes" || name == "axis") {
      for (int64_t axis = 0; axis < rank; ++axis) {
        Ints other = *list;
        other[i] = axis;
        if (other != *list) others.push_back(OtherList(*list, other));
      }
    }
    for (size_t j = 0; name == "perm" && j < i; ++j) {
      Ints other = *list;
      std::swap(other[i], other[j]);
      others.push_back(OtherList(*list, other));
    }
  }
  return others;
}

std::vector<OtherValue> OtherNumber(std::string_view, const AttrValue& value,
                                    int, RandomSource& random) {
  if (const auto* const number = std::get_if<float>(&value)) {
    if (*number == 0 || !std::isfinite(*number)) return {};
    // An epsilon must change by a lot to be seen beside a variance.
    const std::vector<float> factors = std::fabs(*number) < 0.01F
                                           ? std::vector<float>{100, 1000}
                                           : std::vector<float>{0.5F, 1.5F, 10};
    const float other = *number * OneOf(factors, random);
    return {{fmt::format("{:.4g}", *number), fmt::format("{:.4g}", other),
             AttrValue(other)}};
  }
  const auto* const flag = std::get_if<int64_t>(&value);
  if (flag == nullptr || (*flag != 0 && *flag != 1)) return {};
  return {ChangedInt(*flag, 1 - *flag)};
}

int RankOfFirst(const Network& network, const Operation& operation) {
  if (operation.inputs.empty() || operation.inputs[0] == kNoValue) return 0;
  const TensorType& type = network.value(operation.inputs[0]).type;
  return type.has_rank() ? type.rank() : 0;
}

// Puts each of the other values into a copy of the region. The attribute's own
// type says what is tried: a list, a number, a word.
struct RegionChanger {
  const Region& region;
  const OtherValuesOf others;
  RandomSource& random;
  Spoilings made = {};

  void ChangeAttributes(const Operation& operation) {
    const std::vector<NamedAttr> attrs = NamedAttrsOf(operation.attrs);
    const int rank = RankOfFirst(region.network, operation);
    for (size_t i = 0; i < attrs.size(); ++i) {
      for (const OtherValue& other :
           others(attrs[i].name, attrs[i].value, rank, random)) {
        std::vector<NamedAttr> named = attrs;
        named[i].value = other.value;
        auto changed = MakeAttrs(operation.def(), named);
        if (!changed.ok()) continue;
        NetworkData data = region.network.data();
        data.operations[Index(operation.id)]->attrs = *std::move(changed);
        AddChanged(operation, attrs[i].name, other, std::move(data));
      }
    }
  }

  void ChangeConstants(const Operation& operation) {
    const int rank = RankOfFirst(region.network, operation);
    const auto& params = operation.def().inputs;
    for (size_t i = 1; i < operation.inputs.size() && i < params.size(); ++i) {
      if (operation.inputs[i] == kNoValue) continue;
      const NetworkValue& value = region.network.value(operation.inputs[i]);
      if (value.kind != NetworkValue::Kind::kConstant ||
          !(value.data.dtype() == kInt64)) {
        continue;
      }
      const auto* const first = value.data.As<int64_t>();
      const Ints list(first, first + CountOf(value.data));
      for (const OtherValue& other :
           others(params[i].name, AttrValue(list), rank, random)) {
        ChangeConstant(operation, value, params[i].name, other);
      }
    }
  }

  void ChangeConstant(const Operation& operation, const NetworkValue& value,
                      std::string_view name, const OtherValue& other) {
    auto tensor = NDArray::Empty(value.data.shape(), value.data.dtype(), kCpu);
    if (!tensor.ok()) return;
    const auto& list = std::get<Ints>(other.value);
    std::ranges::copy(list, tensor->As<int64_t>());
    NetworkData data = region.network.data();
    NetworkValue& changed = *data.values[Index(value.id)];
    changed.elements = ElementsOf(*tensor);
    changed.data = *std::move(tensor);
    AddChanged(operation, name, other, std::move(data));
  }

  // Leaves out what is not a valid network: types of outputs must stay what
  // they are.
  void AddChanged(const Operation& operation, std::string_view name,
                  const OtherValue& other, NetworkData data) {
    auto network = Network::FromData(std::move(data));
    if (!network.ok()) return;
    Region changed = region;
    changed.network = *std::move(network);
    made.push_back(WithRegion(fmt::format("{} of {} is {} instead of {}", name,
                                          operation.name, other.to, other.from),
                              changed));
  }
};

FoundWays OtherRegions(const FaultPlace& place, OtherValuesOf others,
                       const char* lacks, RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  if (!place.is_bound_by_attributes) {
    return NotPlantable(
        "its function is compiled: no attribute can be changed any more");
  }
  RegionChanger changer{*place.region, others, random};
  for (const OperationId id : SourceOperations(*place.region)) {
    changer.ChangeAttributes(place.region->network.operation(id));
    changer.ChangeConstants(place.region->network.operation(id));
  }
  return Found(std::move(changer.made), lacks, &random);
}

// For a fault in the arithmetic one operation is computed in another way, and
// all others of the region as the reference does: the rounding of the node's
// own kernel is lost, which the trial of the fault does not tell from its
// effect.

// So many partial sums are added up in float16. Each is rounded, and so is the
// sum after it; docs/planter.md names the number.
constexpr int kParts = 16;

// A region and what computes it, which refer to each other: the function of a
// node holds them for as long as it lives.
struct ChangedRegion {
  ChangedRegion(const Region& source, OperationId operation,
                ChangedOperation change)
      : region(source), evaluator(operation, std::move(change)) {}

  const Region region;
  const ChangedEvaluator evaluator;
  const Interpreter interpreter{region.network, evaluator};
};

Spoiling WithOperation(std::string what, const Region& region,
                       OperationId operation, ChangedOperation change) {
  const auto changed = std::make_shared<const ChangedRegion>(region, operation,
                                                             std::move(change));
  const NodeBody body = [changed](const NodeCall& call) -> absl::Status {
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> results,
                              changed->interpreter.Run(call.inputs));
    for (size_t i = 0; i < results.size(); ++i) {
      CopyBytes(results[i], call.outputs[i]);
    }
    return absl::OkStatus();
  };
  return {std::move(what), [body](Library&, const KernelRequest& request) {
            return NodeFunction(request.num_outputs, body);
          }};
}

absl::StatusOr<Evaluated> EvaluateWith(const OperationCall& call, size_t slot,
                                       const Numbers& numbers,
                                       const EvalArgs::Options& options) {
  OperationCall other = call;
  NODEWISE_ASSIGN_OR_RETURN(other.inputs[slot],
                            WithNumbers(call.inputs[slot], numbers));
  return ReferenceEvaluator().Evaluate(std::move(other), options);
}

absl::StatusOr<Numbers> NumbersWith(const OperationCall& call, size_t slot,
                                    const Numbers& numbers,
                                    const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(const Evaluated made,
                            EvaluateWith(call, slot, numbers, options));
  return ToDoubles(made.outputs[0]);
}

absl::StatusOr<Evaluated> WithResult(const OperationCall& call,
                                     const Numbers& numbers,
                                     const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluated made,
                            ReferenceEvaluator().Evaluate(call, options));
  NODEWISE_ASSIGN_OR_RETURN(made.outputs[0],
                            WithNumbers(made.outputs[0], numbers));
  return made;
}

double ToFloat16(double value) { return HalfToFloat(DoubleToHalf(value)); }

// The terms of the sums fall into parts by chance, as the seed says. The
// operation itself adds up each part, with zeros in the place of all other
// terms; what it gives for zeros alone is what other inputs add, and is taken
// off. So nothing need be known of the operation but that it is a sum.
absl::StatusOr<Evaluated> AddedInFloat16(const OperationCall& call, size_t slot,
                                         uint64_t seed,
                                         const EvalArgs::Options& options) {
  const Numbers whole = ToDoubles(call.inputs[slot]);
  const Numbers none(whole.size(), 0.0);
  NODEWISE_ASSIGN_OR_RETURN(const Numbers base,
                            NumbersWith(call, slot, none, options));
  RandomSource random(seed, "float16-sums");
  std::vector<int64_t> part_of(whole.size());
  for (int64_t& part : part_of) part = random.Between(0, kParts - 1);
  Numbers sums(base.size(), 0.0);
  for (int64_t part = 0; part < kParts; ++part) {
    Numbers terms = none;
    for (size_t i = 0; i < whole.size(); ++i) {
      if (part_of[i] == part) terms[i] = whole[i];
    }
    NODEWISE_ASSIGN_OR_RETURN(const Numbers partial,
                              NumbersWith(call, slot, terms, options));
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = ToFloat16(sums[i] + ToFloat16(partial[i] - base[i]));
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += base[i];
  return WithResult(call, sums, options);
}

// A function of one number, between points that are `step` apart. Where one of
// the two points is outside of its domain, the right value stays.
absl::StatusOr<Evaluated> Interpolated(const OperationCall& call, double step,
                                       const EvalArgs::Options& options) {
  const Numbers x = ToDoubles(call.inputs[0]);
  Numbers below = x, above = x;
  for (double& value : below) value = std::floor(value / step) * step;
  for (size_t i = 0; i < x.size(); ++i) above[i] = below[i] + step;
  NODEWISE_ASSIGN_OR_RETURN(const Numbers low,
                            NumbersWith(call, 0, below, options));
  NODEWISE_ASSIGN_OR_RETURN(const Numbers high,
                            NumbersWith(call, 0, above, options));
  NODEWISE_ASSIGN_OR_RETURN(Numbers y, NumbersWith(call, 0, x, options));
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
  Numbers x = ToDoubles(call.inputs[0]);
  for (double& value : x) {
    if (!std::isfinite(value)) continue;
    const double share = value / step - std::floor(value / step);
    value += std::log1p(share * std::expm1(step)) - share * step;
  }
  return EvaluateWith(call, 0, x, options);
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
  // A single one: AddTruncatedSteps has seen to that.
  const double scale = ToDoubles(call.inputs[1])[0];
  Numbers x = ToDoubles(call.inputs[0]);
  for (double& value : x) value -= std::copysign(0.499 * scale, value);
  return EvaluateWith(call, 0, x, options);
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

// How many bits are left of a type when it is stored as a shorter one: 8 are
// those of bfloat16, and 11 those of float16.
int KeptBits(DLDataType dtype, RandomSource& random) {
  if (dtype == kBfloat16) return 5;
  if (dtype == kFloat16) return 8;
  return random.Between(0, 1) == 0 ? 8 : 11;
}

}  // namespace

FoundWays WrongOrder(const FaultPlace& place, RandomSource& random) {
  auto made = OtherRegions(place, &OtherOrder, "it has no axis", random);
  auto transposed = TransposedOutput(place, random);
  if (!made.ok() && !transposed.ok()) {
    return NotPlantable(fmt::format("{}, and {}", MessageOf(made.status()),
                                    MessageOf(transposed.status())));
  }
  Spoilings both = made.ok() ? *std::move(made) : Spoilings();
  if (transposed.ok()) {
    both.insert(both.end(), transposed->begin(), transposed->end());
  }
  Shuffle(&both, random);
  return both;
}

FoundWays WrongPadding(const FaultPlace& place, RandomSource& random) {
  return OtherRegions(place, &OtherPadding, "it has no padding", random);
}

FoundWays WrongAttribute(const FaultPlace& place, RandomSource& random) {
  return OtherRegions(place, &OtherNumber,
                      "it has no number or switch among its attributes that "
                      "could be another one",
                      random);
}

FoundWays Float16Sums(const FaultPlace& place, RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    if (operation.def().bound.kind != ErrorBound::Kind::kSum ||
        IsElementwise(operation) || !IsFloatInput(network, operation, 0)) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto trial, RegionTrial::Create(place, id));
    // A bound of a sum does not say that the first input is what is added up.
    if (!trial.IsSumOver(0)) continue;
    const uint64_t seed = random.Next();
    made.push_back(WithOperation(
        fmt::format("{} adds up in float16", operation.name), *place.region, id,
        [seed](const OperationCall& call, const EvalArgs::Options& options) {
          return AddedInFloat16(call, 0, seed, options);
        }));
  }
  return Found(std::move(made), "it computes no sums of floats");
}

FoundWays TruncatedResults(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  if (place.region != nullptr) AddTruncatedSteps(*place.region, &made);
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const DLDataType dtype = place.sound.outputs[slot].dtype();
    if (!IsFloat(dtype)) continue;
    const int bits = KeptBits(dtype, random);
    made.push_back(ChangedOutput(
        fmt::format("output {} is truncated to {} bits", slot, bits), slot,
        [bits](Numbers& numbers) {
          for (double& number : numbers) number = Truncated(number, bits);
        }));
  }
  return Found(std::move(made), "it rounds nothing", &random);
}

FoundWays ApproximatedFunction(const FaultPlace& place, RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
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
  return Found(std::move(made), "it computes no function such as exp or erf",
               &random);
}

}  // namespace nodewise
