// One of two models by itself. A quantiser puts operations between the ones
// that compute, which leave the tensor what it is and only change its form; so
// a value and the forms that were made of it one after the other are one chain,
// and pairs are of chains. Numbers go from one model to the other by what they
// stand for: integers become floats by the scale that some operation knows, and
// integers again by the other model's.

#include "contrib/two_models/model_side.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

// An operation whose output is its first input in another form.
bool OnlyChangesForm(const Network& network, const Operation& operation) {
  const std::string_view kind = operation.kind();
  if (kind == "QuantizeLinear" || kind == "DequantizeLinear" ||
      kind == "FakeQuantize" || kind == "Identity") {
    return true;
  }
  return kind == "Cast" &&
         IsFloat(network.value(operation.inputs[0]).type.dtype) &&
         IsFloat(network.value(operation.outputs[0]).type.dtype);
}

// Operators of these kinds hand integers on, so that the integers stand for the
// same floats after them.
bool ForwardsIntegers(std::string_view kind) {
  return OnlyMovesNumbers(kind) || kind == "MaxPool" || kind == "Gather" ||
         kind == "Split";
}

std::optional<double> OneNumber(const Network& network, ValueId id) {
  if (id == kNoValue) return std::nullopt;
  const NetworkValue& value = network.value(id);
  if (value.kind != NetworkValue::Kind::kConstant || CountOf(value.data) != 1) {
    return std::nullopt;
  }
  return ToDoubles(value.data)[0];
}

// Operators of quantised numbers have each tensor's scale and zero point as the
// next two inputs behind it.
std::optional<Layout::Quantisation> ScaleAt(const Network& network,
                                            const Operation& operation,
                                            size_t slot) {
  if (operation.inputs.size() <= slot) return std::nullopt;
  const auto scale = OneNumber(network, operation.inputs[slot]);
  if (!scale.has_value()) return std::nullopt;
  const auto zero = operation.inputs.size() > slot + 1
                        ? OneNumber(network, operation.inputs[slot + 1])
                        : 0.0;
  return Layout::Quantisation{*scale, zero.value_or(0), -kNoEnd, kNoEnd};
}

// Integers are rounded to the nearest step and clipped where the type ends, as
// QuantizeLinear does it.
absl::StatusOr<NDArray> FromNumbers(
    std::vector<double> numbers,
    const std::optional<Layout::Quantisation>& quantisation,
    const NDArray& like) {
  if (quantisation.has_value()) {
    for (double& number : numbers) {
      number = number / quantisation->scale + quantisation->zero_point;
    }
  }
  if (IsInteger(like.dtype())) {
    for (double& number : numbers) number = std::nearbyint(number);
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                            NDArray::Empty(like.shape(), like.dtype(), kCpu));
  StoreDoubles(numbers.data(), 0, CountOf(tensor), tensor);
  return tensor;
}

// A layout leads from elements of the target's tensor to places in the
// reference's, so that the way decides which of both is looked up.
std::vector<double> Reordered(const Layout& layout, bool to_reference,
                              std::vector<double> numbers) {
  if (layout.is_same_order()) return numbers;
  const std::vector<int64_t> places = PlacesOf(layout);
  std::vector<double> placed(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto place = static_cast<size_t>(places[i]);
    (to_reference ? placed[place] : placed[i]) =
        numbers[to_reference ? i : place];
  }
  return placed;
}

}  // namespace

bool OnlyMovesNumbers(std::string_view kind) {
  constexpr std::array<std::string_view, 10> kMoves = {
      {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity",
       "Slice", "DepthToSpace", "SpaceToDepth", "Expand"}};
  return std::ranges::find(kMoves, kind) != kMoves.end();
}

// QLinearConv, QLinearMatMul and the others of onnxruntime.
bool IsOfIntegers(std::string_view kind) {
  return kind.substr(0, 7) == "QLinear";
}

std::vector<NDArray> ConstantsOf(const Network& network,
                                 const Operation& operation) {
  std::vector<NDArray> constants;
  for (const ValueId input : operation.inputs) {
    if (input == kNoValue) continue;
    const NetworkValue& value = network.value(input);
    if (value.kind == NetworkValue::Kind::kConstant) {
      constants.push_back(value.data);
    }
  }
  return constants;
}

ModelSide::ModelSide(const Network& network)
    : network_(network), values_(network.data().values.size()) {
  const auto begin = [this](ValueId id, bool varies, size_t position) {
    values_[Index(id)] = {varies, id, 0, position, id, false};
    values_[Index(id)].is_coarse = IsCoarse(id);
  };
  for (const ValueId id : network.inputs()) begin(id, true, 0);
  size_t position = 0;
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    ++position;
    takes_integers_ = takes_integers_ || IsOfIntegers(operation.kind());
    const bool varies = std::ranges::any_of(
        operation.inputs, [this](ValueId input) { return Varies(input); });
    for (const ValueId output : operation.outputs) {
      if (output != kNoValue) begin(output, varies, position);
    }
    if (operation.inputs.empty()) continue;
    const ValueId input = operation.inputs[0];
    if (!Varies(input)) continue;
    const ValueId output = operation.outputs[0];
    if (output == kNoValue || !OnlyChangesForm(network, operation)) continue;
    ValueFacts& made = values_[Index(output)];
    made.first = MadeOf(input);
    made.length = values_[Index(input)].length + 1;
    ValueFacts& first = values_[Index(made.first)];
    first.is_coarse = first.is_coarse || IsCoarse(output);
    // Several operations may read a tensor in forms of their own; the form that
    // most was done to stands for all.
    if (made.length > values_[Index(first.last)].length) first.last = output;
  }
}

bool ModelSide::VariesIn(OperationId id) const {
  const std::vector<ValueId>& outputs = network_.operation(id).outputs;
  return std::ranges::any_of(outputs,
                             [this](ValueId output) { return Varies(output); });
}

std::vector<ValueId> ModelSide::MadeValues() const {
  std::vector<ValueId> made;
  for (const OperationId id : network_.order()) {
    for (const ValueId output : network_.operation(id).outputs) {
      if (Varies(output) && IsMade(output)) made.push_back(output);
    }
  }
  return made;
}

ValueChain ModelSide::ChainOf(ValueId id) const {
  const ValueId first = MadeOf(id);
  return {first, values_[Index(first)].last};
}

bool ModelSide::IsCoarse(ValueId id) const {
  const ValueId first = MadeOf(id);
  if (first != kNoValue && values_[Index(first)].is_coarse) return true;
  const DLDataType dtype = network_.value(id).type.dtype;
  return (IsFloat(dtype) && dtype.bits < 32) ||
         (IsInteger(dtype) && dtype.bits <= 16);
}

std::optional<Layout::Quantisation> ModelSide::QuantisationOf(
    ValueId id) const {
  if (!IsInteger(network_.value(id).type.dtype)) return std::nullopt;
  const auto known = known_.find(id);
  if (known != known_.end()) return known->second;
  return known_[id] = FindQuantisation(id);
}

std::optional<Layout::Quantisation> ModelSide::FindQuantisation(
    ValueId id) const {
  const NetworkValue& value = network_.value(id);
  if (value.kind == NetworkValue::Kind::kOutput) {
    const Operation& maker = network_.operation(value.producer);
    if (maker.kind() == "QuantizeLinear") return ScaleAt(network_, maker, 1);
  }
  // Otherwise what reads the numbers knows, if they have only been moved.
  std::vector<ValueId> waiting = {id};
  for (size_t i = 0; i < waiting.size(); ++i) {
    for (const Use& use : network_.value(waiting[i]).uses) {
      if (use.slot == kBarrierSlot) continue;
      const Operation& user = network_.operation(use.user);
      if (user.kind() == "DequantizeLinear" || IsOfIntegers(user.kind())) {
        const auto found = ScaleAt(network_, user, use.slot + 1);
        if (found.has_value()) return found;
      } else if (use.slot == 0 && ForwardsIntegers(user.kind())) {
        for (const ValueId output : user.outputs) {
          if (output != kNoValue) waiting.push_back(output);
        }
      }
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<NDArray>> InFormOf(WhichModel which,
                                              const ValuePair& pair,
                                              const ModelSide& reference,
                                              const ModelSide& target,
                                              absl::Span<const NDArray> read,
                                              absl::Span<const NDArray> like) {
  const bool to_reference = which == WhichModel::kReference;
  const ModelSide& from = to_reference ? target : reference;
  const ValueId from_id = to_reference ? pair.target.read : pair.reference.read;
  const auto quantisation = to_reference
                                ? reference.QuantisationOf(pair.reference.made)
                                : target.QuantisationOf(pair.target.made);
  const bool are_plain = pair.layout.is_same_order() &&
                         !quantisation.has_value() &&
                         !from.QuantisationOf(from_id).has_value();
  std::vector<NDArray> carried;
  for (size_t set = 0; set < read.size(); ++set) {
    // Most pairs lie alike, and are of one type: then nothing is copied.
    auto tensor =
        are_plain && read[set].dtype() == like[set].dtype()
            ? read[set].View(like[set].shape(), like[set].dtype())
            : FromNumbers(Reordered(pair.layout, to_reference,
                                    NumbersOfValue(from, from_id, read[set])),
                          quantisation, like[set]);
    if (!tensor.ok()) return tensor.status();
    carried.push_back(*std::move(tensor));
  }
  return carried;
}

std::vector<double> NumbersOfValue(const ModelSide& side, ValueId id,
                                   const NDArray& tensor) {
  std::vector<double> numbers = ToDoubles(tensor);
  const auto quantisation = side.QuantisationOf(id);
  if (!quantisation.has_value()) return numbers;
  for (double& number : numbers) number = quantisation->Number(number);
  return numbers;
}

double RelativeDistance(absl::Span<const double> expected,
                        absl::Span<const double> found) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = expected[i];
    const double b = found[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) size += a * a;
      continue;
    }
    // A number is near to no infinity, and to no NaN.
    if (!std::isfinite(a) || !std::isfinite(b)) return kNoEnd;
    difference += (a - b) * (a - b);
    size += a * a;
  }
  if (difference == 0) return 0;
  return size == 0 ? 1 : std::sqrt(difference / size);
}

}  // namespace nodewise
