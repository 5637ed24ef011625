// Which small change of one operation makes the network make what the node has
// made. A change is tried on the numbers that the node has read: the operation
// is computed with it, what follows is computed by the reference as far as the
// tensor in question, and the change fits if that is as near to the node's
// numbers as a right one would be, with all sets of inputs. Numbers (of an
// attribute, a constant or the whole result) are fitted first, by Gauss and
// Newton; then the changes of a list are tried, which stand before them in the
// result.

#include "contrib/align/region_edits.h"

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "contrib/align/network_walk.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using SharedValue = std::shared_ptr<const FollowedReference::Value>;
// The results of an operation by set of inputs; none if they cannot be
// computed.
using Results = std::optional<std::vector<NDArray>>;

struct EditSearch {
  const RegionQuestion& question;
  const Network& network;
  EditBudget& total;
  EditBudget budget;  // The part of `total` that is for one operation.
  std::vector<FittingEdit> edits = {};

  double DistanceOf(const SharedValue& value) const {
    return question.found.DistanceIn(question.layout, value->tensors);
  }
};

struct EditProgress {
  OperationId operation = kNoOperation;
  size_t edits = 0;  // The number of edits that VisitEdits() has offered.
  bool is_done = false;
};

// The operation that is changed, what it reads, and what it makes unchanged.
struct ChangedOperation {
  EditSearch& search;
  const Operation& operation;
  FollowedReference reference;
  std::vector<SharedValue> inputs = {};  // By slot; null for what is not given.
  SharedValue made = nullptr;
};

// Returns false if something that it reads cannot be computed, or it makes
// several tensors.
bool ReadInputs(ChangedOperation* changed) {
  const Operation& operation = changed->operation;
  if (operation.outputs.size() != 1) return false;
  for (const ValueId input : operation.inputs) {
    changed->inputs.push_back(nullptr);
    if (input == kNoValue) continue;
    const auto value = changed->reference.ValueOf(input);
    if (!value.ok()) return false;
    changed->inputs.back() = *value;
  }
  const auto made = changed->reference.ValueOf(operation.outputs[0]);
  if (made.ok()) changed->made = *made;
  return made.ok();
}

// Returns the results with the edit, if they are of the right type. A tensor of
// the wrong size may have got it by any change of size.
Results Compute(const ChangedOperation& changed, const OperationEdit& edit) {
  const TensorFacts& facts = changed.made->facts;
  std::vector<NDArray> made;
  for (size_t set = 0; set < changed.made->tensors.size(); ++set) {
    Tensors inputs;
    for (const size_t slot : edit.slots) {
      const bool is_given =
          slot != OperationEdit::kDropped && changed.inputs[slot] != nullptr;
      inputs.push_back(is_given ? changed.inputs[slot]->tensors[set]
                                : NDArray());
    }
    if (edit.is_skipped) {
      made.push_back(inputs[0]);
      continue;
    }
    const auto result = Evaluate(edit.attrs, std::move(inputs), {true});
    if (!result.ok()) return std::nullopt;
    const NDArray& tensor = result->outputs[0];
    if (!tensor.defined() || tensor.dtype() != facts.dtype ||
        (changed.search.question.layout.other_shape.empty() &&
         tensor.shape() != absl::MakeConstSpan(facts.shape))) {
      return std::nullopt;
    }
    made.push_back(tensor);
  }
  return made;
}

// Returns what becomes of the tensor in question if the operation makes this;
// null if it cannot be computed or has another shape.
SharedValue Outcome(const ChangedOperation& changed, Results made) {
  if (!made.has_value()) return nullptr;
  FollowedReference edited = changed.reference;
  edited.Pin(changed.operation.outputs[0], *std::move(made));
  const auto value = edited.ValueOf(changed.search.question.expected);
  const std::vector<int64_t>& shape =
      changed.search.question.layout.other_shape;
  const bool is_made =
      value.ok() && (shape.empty() || shape == (*value)->facts.shape);
  return is_made ? *value : nullptr;
}

void Try(const ChangedOperation& changed, const OperationEdit& edit) {
  const SharedValue value = Outcome(changed, Compute(changed, edit));
  if (value == nullptr) return;
  const double distance = changed.search.DistanceOf(value);
  if (!(distance <= changed.search.question.clean)) return;
  changed.search.edits.push_back(
      {changed.operation.id, edit.what, distance, FittingEdit::Kind::kChange,
       Contains(edit.slots, OperationEdit::kDropped)});
}

Results ComputeWith(ChangedOperation& changed, size_t slot, SharedValue other) {
  std::swap(changed.inputs[slot], other);
  Results made = Compute(
      changed, {"", changed.operation.attrs, AllSlots(changed.operation)});
  std::swap(changed.inputs[slot], other);
  return made;
}

void TryConstants(ChangedOperation& changed) {
  for (size_t i = 0; i < changed.inputs.size(); ++i) {
    if (changed.inputs[i] == nullptr) continue;
    const NetworkValue& value =
        changed.search.network.value(changed.operation.inputs[i]);
    if (value.kind != NetworkValue::Kind::kConstant) continue;
    const SharedValue kept = changed.inputs[i];
    VisitConstantEdits(
        kept->tensors[0], [&](const NDArray& tensor, const std::string& what) {
          if (!changed.search.budget.TrySpend()) return false;
          auto other = std::make_shared<FollowedReference::Value>(*kept);
          for (NDArray& one : other->tensors) one = tensor;
          changed.inputs[i] = other;
          Try(changed, {fmt::format("{} {}", value.name, what),
                        changed.operation.attrs, AllSlots(changed.operation)});
          changed.inputs[i] = kept;
          return true;
        });
  }
}

// The number with as few digits as explain as much: what people write is
// round, and what is fitted is so but for rounding.
double WithFewDigits(const EditSearch& search, double number,
                     absl::FunctionRef<SharedValue(double)> outcome_of) {
  if (number == 0) return number;
  const double size = std::floor(std::log10(std::fabs(number)));
  for (const int digits : {1, 2, 3, 4}) {
    const double unit = std::pow(10, size - digits + 1);
    const double round = std::round(number / unit) * unit;
    if (std::fabs(round - number) > kRoundNumberNear * std::fabs(number)) {
      continue;
    }
    const SharedValue made = outcome_of(round);
    if (made != nullptr && search.DistanceOf(made) <= search.question.clean) {
      return round;
    }
  }
  return number;
}

// Gauss and Newton, from a number on: what is wanted changes nearly linearly
// with it, or not at all. `format` takes the number, and `make` makes the
// operation's results with it. Returns whether one fits.
bool Fit(const ChangedOperation& changed, double from,
         const std::string& format, absl::FunctionRef<Results(double)> make,
         FittingEdit::Kind kind = FittingEdit::Kind::kNumber) {
  const RegionQuestion& question = changed.search.question;
  if (!changed.search.budget.TrySpend()) return false;
  const auto outcome_of = [&](double number) -> SharedValue {
    if (!changed.search.budget.HasTime()) return nullptr;
    return Outcome(changed, make(number));
  };
  double number = from;
  for (int step = 0; step < kMostFitSteps; ++step) {
    const double probe =
        number + (number == 0 ? kFitProbe : number * kFitProbe);
    const SharedValue here = outcome_of(number);
    const SharedValue there = outcome_of(probe);
    if (here == nullptr || there == nullptr) return false;
    const double distance = changed.search.DistanceOf(here);
    // The number of step 0 is only where the search begins.
    if (step > 0 && distance <= question.clean) {
      const double round = WithFewDigits(changed.search, number, outcome_of);
      changed.search.edits.push_back({changed.operation.id,
                                      fmt::format(fmt::runtime(format), round),
                                      distance, kind});
      return true;
    }
    const double move = question.found.StepTowards(
        question.layout, here->tensors, there->tensors);
    number += move * (probe - number);
    if (move == 0 || !std::isfinite(number)) return false;
  }
  return false;
}

// `attrs` may be of another operator than the operation's own, which `prefix`
// says then.
void FitAttributes(const ChangedOperation& changed, const OpAttrs& attrs,
                   const std::string& prefix) {
  for (const AttrField& field : attrs.def().fields) {
    if (field.is_tensor || field.is_graph) continue;
    const auto now = field.get(attrs.get());
    if (!now.has_value() || !std::holds_alternative<float>(*now)) continue;
    const float from = std::get<float>(*now);
    const std::string than =
        prefix.empty() ? fmt::format(" instead of {:.4g}", from) : "";
    Fit(changed, from, prefix + std::string(field.name) + " {:.4g}" + than,
        [&](double number) -> Results {
          std::vector<NamedAttr> others = NamedAttrsOf(attrs);
          std::erase_if(others, [&](const NamedAttr& attr) {
            return attr.name == field.name;
          });
          others.push_back(
              {std::string(field.name), static_cast<float>(number)});
          const auto made = MakeAttrs(attrs.def(), others);
          if (!made.ok()) return std::nullopt;
          return Compute(changed, {"", *made, AllSlots(changed.operation)});
        });
  }
}

std::vector<NDArray> Scaled(std::vector<NDArray> tensors, double factor) {
  for (NDArray& tensor : tensors) {
    const auto copy = tensor.CopyToHost();
    if (!copy.ok()) continue;
    (void)WithFloat(copy->dtype(), [&](auto zero) {
      using T = decltype(zero);
      MapSpan(copy->As<T>(), CountOf(*copy), copy->As<T>(),
              [factor](double x) { return x * factor; });
      return absl::OkStatus();
    });
    tensor = *copy;
  }
  return tensors;
}

// A number alone is told as what it is, all others by their factor.
void FitConstant(ChangedOperation& changed, size_t slot) {
  const NetworkValue& value =
      changed.search.network.value(changed.operation.inputs[slot]);
  const NDArray& first = changed.inputs[slot]->tensors[0];
  const bool is_number = CountOf(first) == 1;
  const double alone = is_number && value.kind == NetworkValue::Kind::kConstant
                           ? ToDoubles(first)[0]
                           : 0;
  // Where to begin to look for a factor. A small number alone (an epsilon) may
  // be so small beside others that a little more of it changes nothing.
  const std::vector<double> factors =
      is_number ? std::vector<double>{1, 10, 100, 1e3, 1e4, 1e5}
                : std::vector<double>{1};
  const double unit = alone == 0 ? 1 : alone;
  const std::string format =
      alone == 0
          ? value.name + " times {:.6g}"
          : value.name + " {:.4g}" + fmt::format(" instead of {:.4g}", alone);
  for (const double factor : factors) {
    const bool fits = Fit(changed, factor * unit, format, [&](double number) {
      auto scaled =
          std::make_shared<FollowedReference::Value>(*changed.inputs[slot]);
      scaled->tensors = Scaled(std::move(scaled->tensors), number / unit);
      return ComputeWith(changed, slot, std::move(scaled));
    });
    if (fits) return;
  }
}

// Floats that no operation of the region makes.
bool IsExternalInput(const ChangedOperation& changed, size_t slot) {
  if (changed.inputs[slot] == nullptr ||
      !IsFloat(changed.inputs[slot]->facts.dtype)) {
    return false;
  }
  const NetworkValue& value =
      changed.search.network.value(changed.operation.inputs[slot]);
  return value.kind != NetworkValue::Kind::kOutput ||
         !Contains(changed.search.question.region, value.producer);
}

// Looks for the number with which the operation would make what was found: an
// attribute, a factor of a constant, or one of the whole result. A result
// that is wrong by one number is explained by some number; one that fits all
// elements with all sets of inputs does not do so by chance.
void FitNumbers(ChangedOperation& changed) {
  const Operation& operation = changed.operation;
  FitAttributes(changed, operation.attrs, "");
  for (const OpAttrs& other :
       OtherOperators(changed.search.network, operation,
                      changed.search.question.operators)) {
    FitAttributes(
        changed, other,
        fmt::format("{} instead of {}, ", other.def().name, operation.kind()));
  }
  for (size_t i = 0; i < changed.inputs.size(); ++i) {
    if (IsExternalInput(changed, i)) FitConstant(changed, i);
  }
  if (!IsFloat(changed.made->facts.dtype)) return;
  Fit(
      changed, 1, "its result times {:.6g}",
      [&](double factor) { return Scaled(changed.made->tensors, factor); },
      FittingEdit::Kind::kFactorOfResult);
}

void TryOperation(EditSearch& search, bool with_numbers,
                  EditProgress* progress) {
  ChangedOperation changed{search,
                           search.network.operation(progress->operation),
                           search.question.reference};
  progress->is_done = true;
  if (!ReadInputs(&changed)) return;
  if (with_numbers) {
    // Changes of constants, and numbers that are fitted, are few but take
    // several runs each: they get a part of the budget and leave the rest to
    // the list.
    EditBudget whole = search.budget;
    search.budget = whole.Part(2);
    TryConstants(changed);
    FitNumbers(changed);
    whole.Spend(search.budget);
    if (search.budget.gave_up()) search.total.GiveUp();
    search.budget = whole;
  }
  size_t number = 0;
  VisitEdits(search.network, changed.operation, search.question.operators,
             [&](const OperationEdit& edit) {
               if (number++ < progress->edits) return true;
               progress->is_done = search.budget.TrySpend();
               if (!progress->is_done) return false;
               ++progress->edits;
               Try(changed, edit);
               return true;
             });
}

}  // namespace

std::vector<FittingEdit> FindEdits(const RegionQuestion& question,
                                   EditBudget* budget) {
  EditSearch search{question, question.reference.network(), *budget, *budget};
  std::vector<EditProgress> all;
  for (const OperationId id : question.region) all.push_back({id});
  // The second round gives what the first has left to those that need more
  // than their part.
  for (const bool is_first : {true, false}) {
    auto waiting = static_cast<size_t>(
        std::ranges::count(all, false, &EditProgress::is_done));
    for (EditProgress& one : all) {
      if (one.is_done) continue;
      search.budget = budget->Part(waiting--);
      TryOperation(search, is_first, &one);
      budget->Spend(search.budget);
    }
  }
  if (!std::ranges::all_of(all, &EditProgress::is_done)) budget->GiveUp();
  std::ranges::stable_sort(search.edits, {}, [](const FittingEdit& edit) {
    return std::pair(edit.kind, edit.distance);
  });
  return std::move(search.edits);
}

}  // namespace nodewise
