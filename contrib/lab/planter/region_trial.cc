#include "contrib/lab/planter/region_trial.h"

#include <algorithm>
#include <cmath>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool IsNumber(const NDArray& tensor) {
  return tensor.defined() && IsNumeric(tensor.dtype());
}

double LargestNumber(const Numbers& numbers) {
  double largest = 0;
  for (const double number : numbers) {
    largest = std::max(largest, std::fabs(number));
  }
  return largest;
}

Numbers Less(const Numbers& a, const Numbers& b) {
  Numbers result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

// Returns whether the numbers are equal but for what rounding may have done.
// Returns false if one is NaN.
bool AreNear(const Numbers& a, const Numbers& b, double tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= tolerance)) return false;
  }
  return true;
}

// Output 0 with the input, and its difference from output 0 without it.
struct Change {
  Numbers with;
  Numbers difference;
};

// Output 0 with other numbers in the place of an input; empty if it cannot be
// computed.
Numbers OutputWith(const Operation& operation, Tensors inputs, size_t slot,
                   const Numbers& numbers) {
  auto tensor = WithNumbers(inputs[slot], numbers);
  if (!tensor.ok()) return {};
  inputs[slot] = *std::move(tensor);
  return FirstOutput(operation, std::move(inputs));
}

}  // namespace

Numbers FirstOutput(const Operation& operation, Tensors inputs) {
  absl::InlinedVector<bool, 4> wanted;
  for (const ValueId output : operation.outputs) {
    wanted.push_back(output != kNoValue);
  }
  const auto made =
      Evaluate(operation.attrs, std::move(inputs), absl::MakeSpan(wanted));
  if (!made.ok() || made->outputs.empty() || !IsNumber(made->outputs[0])) {
    return {};
  }
  return ToDoubles(made->outputs[0]);
}

absl::StatusOr<NDArray> WithNumbers(const NDArray& like,
                                    const Numbers& numbers) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray made,
                            NDArray::Empty(like.shape(), like.dtype(), kCpu));
  StoreDoubles(numbers.data(), 0, static_cast<int64_t>(numbers.size()), made);
  return made;
}

absl::StatusOr<RegionTrial> RegionTrial::Create(const FaultPlace& place,
                                                OperationId operation) {
  const Network& network = place.region->network;
  for (const AttrField& field : network.operation(operation).def().fields) {
    if (field.is_graph) return NotPlantable("its operation has bodies");
  }
  Tensors kept;
  const ChangedEvaluator keeper(
      operation,
      [&](const OperationCall& call, const EvalArgs::Options& options) {
        kept = call.inputs;
        return ReferenceEvaluator().Evaluate(call, options);
      });
  NODEWISE_RETURN_IF_ERROR(
      Interpreter(network, keeper).Run(place.sound.inputs).status());
  return RegionTrial(network.operation(operation), std::move(kept));
}

bool RegionTrial::Adds(uint32_t slot) const {
  if (slot >= inputs_.size() || !IsNumber(inputs_[slot])) return false;
  const auto other = static_cast<size_t>(slot == 0);
  if (other >= inputs_.size() || !IsNumber(inputs_[other])) return false;
  const auto change_with = [&](const Tensors& inputs) {
    Change change{FirstOutput(operation_, inputs), {}};
    const Numbers zeros(static_cast<size_t>(CountOf(inputs[slot])), 0.0);
    const Numbers base = OutputWith(operation_, inputs, slot, zeros);
    if (base.size() == change.with.size()) {
      change.difference = Less(change.with, base);
    }
    return change;
  };
  // Another x: the numbers of another input in the opposite order.
  Tensors turned = inputs_;
  Numbers numbers = ToDoubles(inputs_[other]);
  std::reverse(numbers.begin(), numbers.end());
  auto backwards = WithNumbers(inputs_[other], numbers);
  if (!backwards.ok()) return false;
  turned[other] = *std::move(backwards);
  const Change first = change_with(inputs_), second = change_with(turned);
  if (first.difference.empty() ||
      first.difference.size() != second.difference.size()) {
    return false;
  }
  // The two differences are of sums that were rounded, those of integers to
  // whole numbers.
  const bool is_integer = IsInteger(inputs_[slot].dtype());
  const double tolerance =
      1e-4 * LargestNumber(first.with) + (is_integer ? 1 : 0);
  // Where something else is only put beside the input (a concatenation, a
  // choice), it changes nothing at the places of the input. Half of the places
  // are enough, since elements may be the same in the opposite order.
  size_t changed = 0, mixed = 0;
  for (size_t i = 0; i < first.difference.size(); ++i) {
    if (first.difference[i] == 0) continue;
    ++changed;
    if (first.with[i] != second.with[i]) ++mixed;
  }
  return changed > 0 && 2 * mixed >= changed &&
         AreNear(first.difference, second.difference, tolerance);
}

bool RegionTrial::IsSumOver(uint32_t slot) const {
  if (slot >= inputs_.size() || !inputs_[slot].defined() ||
      !IsFloat(inputs_[slot].dtype())) {
    return false;
  }
  const Numbers whole = ToDoubles(inputs_[slot]);
  // Two parts that are nothing but every second element, then nothing at all.
  Numbers results[3];
  for (size_t part = 0; part < 3; ++part) {
    Numbers numbers = whole;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (part == 2 || i % 2 != part) numbers[i] = 0;
    }
    results[part] = OutputWith(operation_, inputs_, slot, numbers);
  }
  const Numbers all = FirstOutput(operation_, inputs_);
  for (const Numbers& result : results) {
    if (all.empty() || result.size() != all.size()) return false;
  }
  // f(x) - f(even part) = f(odd part) - f(0). It is a wide tolerance, since
  // outputs may be short floats; what is not a sum is off by far more.
  const double tolerance = 1e-2 * LargestNumber(all);
  return tolerance > 0 && AreNear(Less(all, results[0]),
                                  Less(results[1], results[2]), tolerance);
}

}  // namespace nodewise
