#include "contrib/align/region_edits.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "contrib/align/constant_edits.h"
#include "fmt/format.h"
#include "nodewise/align/operation_edits.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class EditSearch {
 public:
  EditSearch(const RegionQuestion& question, EditBudget* budget)
      : question_(question),
        network_(question.walk.reference().network()),
        total_(*budget),
        budget_(*budget) {}

  absl::StatusOr<std::vector<FittingEdit>> Run() {
    std::vector<Progress> all;
    for (const OperationId id : question_.region) all.push_back({id});
    // The second round gives what the first has left to those that need more
    // than their part.
    for (const bool is_first : {true, false}) {
      size_t waiting = static_cast<size_t>(
          std::count_if(all.begin(), all.end(),
                        [](const Progress& one) { return !one.is_done; }));
      for (Progress& one : all) {
        if (one.is_done) continue;
        budget_ = total_.Part(waiting--);
        const absl::Status status = TryOperation(is_first, &one);
        total_.Spend(budget_);
        NODEWISE_RETURN_IF_ERROR(status);
      }
    }
    for (const Progress& one : all) {
      if (!one.is_done) total_.GiveUp();
    }
    std::stable_sort(edits_.begin(), edits_.end(),
                     [](const FittingEdit& a, const FittingEdit& b) {
                       return std::pair(a.kind, a.distance) <
                              std::pair(b.kind, b.distance);
                     });
    return std::move(edits_);
  }

 private:
  // How far an operation has been looked at.
  struct Progress {
    OperationId operation = kNoOperation;
    size_t edits = 0;  // The number of edits that VisitEdits() has offered.
    bool is_done = false;
  };

  absl::Status TryOperation(bool with_numbers, Progress* progress) {
    const Operation& operation = network_.operation(progress->operation);
    FollowedReference reference = question_.walk.reference();
    NODEWISE_ASSIGN_OR_RETURN(const bool is_known,
                              ReadInputs(operation, &reference));
    progress->is_done = true;
    if (!is_known) return absl::OkStatus();
    if (with_numbers) {
      // They are few, but take several runs each.
      const EditBudget whole = budget_;
      budget_ = whole.Part(2);
      TryNumbers(operation, reference);
      FitNumbers(operation, reference);
      const EditBudget used = budget_;
      budget_ = whole;
      budget_.Spend(used);
      if (used.gave_up()) total_.GiveUp();
    }
    size_t number = 0;
    VisitEdits(network_, operation, question_.operators,
               [&](const OperationEdit& edit) {
                 if (number++ < progress->edits) return true;
                 progress->is_done = budget_.Take();
                 if (!progress->is_done) return false;
                 ++progress->edits;
                 Try(operation, edit, reference);
                 return true;
               });
    return absl::OkStatus();
  }

  // Returns false if something that it reads cannot be computed, or it makes
  // several tensors.
  absl::StatusOr<bool> ReadInputs(const Operation& operation,
                                  FollowedReference* reference) {
    inputs_.clear();
    if (operation.outputs.size() != 1) return false;
    for (const ValueId input : operation.inputs) {
      if (input == kNoValue) {
        inputs_.push_back(nullptr);
        continue;
      }
      const auto value = reference->ValueOf(input);
      if (!value.ok()) return false;
      inputs_.push_back(*value);
    }
    const auto made = reference->ValueOf(operation.outputs[0]);
    if (!made.ok()) return false;
    made_ = *made;
    return true;
  }

  // The operation's results with the edit, by set of inputs; none if they
  // cannot be computed, or are of another type.
  std::optional<std::vector<NDArray>> Compute(const OperationEdit& edit) const {
    std::vector<NDArray> made;
    for (size_t set = 0; set < made_->tensors.size(); ++set) {
      Tensors inputs;
      for (const size_t slot : edit.slots) {
        const bool is_given =
            slot != OperationEdit::kDropped && inputs_[slot] != nullptr;
        inputs.push_back(is_given ? inputs_[slot]->tensors[set] : NDArray());
      }
      if (edit.is_skipped) {
        made.push_back(inputs[0]);
        continue;
      }
      const auto result = Evaluate(edit.attrs, std::move(inputs), {true});
      if (!result.ok() || !HasTypeOf(result->outputs[0])) return std::nullopt;
      made.push_back(result->outputs[0]);
    }
    return made;
  }

  // A tensor of the wrong size may have got it by any change of size.
  bool HasTypeOf(const NDArray& tensor) const {
    return tensor.defined() && tensor.dtype() == made_->facts.dtype &&
           (!question_.layout.other_shape.empty() ||
            tensor.shape() == absl::MakeConstSpan(made_->facts.shape));
  }

  bool HasExpectedShape(const TensorFacts& facts) const {
    return question_.layout.other_shape.empty() ||
           question_.layout.other_shape == facts.shape;
  }

  void Try(const Operation& operation, const OperationEdit& edit,
           const FollowedReference& reference) {
    auto made = Compute(edit);
    if (!made.has_value()) return;
    const size_t before = edits_.size();
    Judge(operation, edit.what, *std::move(made), reference);
    const bool is_dropped =
        std::find(edit.slots.begin(), edit.slots.end(),
                  OperationEdit::kDropped) != edit.slots.end();
    if (edits_.size() > before) edits_.back().is_input_dropped = is_dropped;
  }

  void Judge(const Operation& operation, const std::string& what,
             std::vector<NDArray> made, const FollowedReference& reference) {
    FollowedReference edited = reference;
    edited.Pin(operation.outputs[0], std::move(made));
    const auto value = edited.ValueOf(question_.expected);
    if (!value.ok() || !HasExpectedShape((*value)->facts)) return;
    const double distance =
        question_.found.DistanceIn(question_.layout, (*value)->tensors);
    if (distance <= question_.clean) {
      edits_.push_back(
          {operation.id, what, distance, FittingEdit::Kind::kChange});
    }
  }

  // Looks for the number with which the operation would make what was found: an
  // attribute, a factor of a constant, or one of the whole result. A result
  // that is wrong by one number is explained by some number; one that fits all
  // elements with all sets of inputs does not do so by chance.
  void FitNumbers(const Operation& operation,
                  const FollowedReference& reference) {
    std::vector<size_t> slots(operation.inputs.size());
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = i;
    FitAttributes(operation, operation.attrs, slots, "", reference);
    for (const OpAttrs& other :
         OtherOperators(network_, operation, question_.operators)) {
      FitAttributes(
          operation, other, slots,
          fmt::format("{} instead of {}, ", other.def().name, operation.kind()),
          reference);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!IsFromOutside(operation, i)) continue;
      const auto scaled_by =
          [&](double factor) -> std::optional<std::vector<NDArray>> {
        const auto kept = inputs_[i];
        auto scaled = std::make_shared<FollowedReference::Value>(*kept);
        for (NDArray& one : scaled->tensors) one = Scaled(one, factor);
        inputs_[i] = scaled;
        auto made = Compute({"", operation.attrs, slots});
        inputs_[i] = kept;
        return made;
      };
      FitConstant(operation, i, reference, scaled_by);
    }
    if (!IsFloat(made_->facts.dtype)) return;
    Fit(
        operation, reference, 1, "its result times {:.6g}",
        [&](double factor) -> std::optional<std::vector<NDArray>> {
          std::vector<NDArray> made;
          for (const NDArray& one : made_->tensors) {
            made.push_back(Scaled(one, factor));
          }
          return made;
        },
        FittingEdit::Kind::kFactorOfResult);
  }

  // A number alone is told as what it is, all others by their factor.
  template <typename ScaledBy>
  void FitConstant(const Operation& operation, size_t slot,
                   const FollowedReference& reference,
                   const ScaledBy& scaled_by) {
    const NetworkValue& value = network_.value(operation.inputs[slot]);
    const double alone = value.kind == NetworkValue::Kind::kConstant
                             ? NumberAlone(inputs_[slot]->tensors[0])
                             : 0;
    for (const double from : FactorsFor(inputs_[slot]->tensors[0])) {
      const bool fits =
          alone == 0
              ? Fit(operation, reference, from, value.name + " times {:.6g}",
                    scaled_by)
              : Fit(operation, reference, from * alone,
                    value.name + " {:.4g}" +
                        fmt::format(" instead of {:.4g}", alone),
                    [&](double number) { return scaled_by(number / alone); });
      if (fits) return;
    }
  }

  // Returns the number of a tensor that has only one; else 0.
  static double NumberAlone(const NDArray& tensor) {
    if (CountOf(tensor) != 1) return 0;
    return NumbersOf(tensor)[0];
  }

  // Where to begin to look for a factor. A small number alone (an epsilon) may
  // be so small beside others that a little more of it changes nothing.
  static std::vector<double> FactorsFor(const NDArray& tensor) {
    if (CountOf(tensor) != 1) return {1};
    return {1, 10, 100, 1e3, 1e4, 1e5};
  }

  // Floats that no operation of the region makes.
  bool IsFromOutside(const Operation& operation, size_t slot) const {
    if (inputs_[slot] == nullptr || !IsFloat(inputs_[slot]->facts.dtype)) {
      return false;
    }
    const NetworkValue& value = network_.value(operation.inputs[slot]);
    return value.kind != NetworkValue::Kind::kOutput ||
           std::find(question_.region.begin(), question_.region.end(),
                     value.producer) == question_.region.end();
  }

  void FitAttributes(const Operation& operation, const OpAttrs& attrs,
                     const std::vector<size_t>& slots,
                     const std::string& prefix,
                     const FollowedReference& reference) {
    for (const AttrField& field : attrs.def().fields) {
      if (field.is_tensor || field.is_graph) continue;
      const auto now = field.get(attrs.get());
      if (!now.has_value() || !std::holds_alternative<float>(*now)) continue;
      const float from = std::get<float>(*now);
      const std::string than =
          prefix.empty() ? fmt::format(" instead of {:.4g}", from) : "";
      Fit(operation, reference, from,
          prefix + std::string(field.name) + " {:.4g}" + than,
          [&](double number) -> std::optional<std::vector<NDArray>> {
            std::vector<NamedAttr> others = NamedAttrsOf(attrs);
            std::erase_if(others, [&](const NamedAttr& attr) {
              return attr.name == field.name;
            });
            others.push_back(
                {std::string(field.name), static_cast<float>(number)});
            const auto made = MakeAttrs(attrs.def(), others);
            if (!made.ok()) return std::nullopt;
            return Compute({"", *made, slots});
          });
    }
  }

  static NDArray Scaled(const NDArray& tensor, double factor) {
    const auto copy = tensor.CopyToHost();
    if (!copy.ok()) return tensor;
    (void)WithFloat(copy->dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const begin = copy->As<T>();
      std::transform(begin, begin + CountOf(*copy), begin, [factor](T x) {
        return FromDouble<T>(ToDouble(x) * factor);
      });
      return absl::OkStatus();
    });
    return *copy;
  }

  // The number with as few digits as explain as much: what people write is
  // round, and what is fitted is so but for rounding.
  template <typename OutcomeOf>
  double Rounded(double number, const OutcomeOf& outcome_of) {
    constexpr double kNear = 1e-3;
    if (number == 0) return number;
    const double size = std::floor(std::log10(std::fabs(number)));
    for (const int digits : {1, 2, 3, 4}) {
      const double unit = std::pow(10, size - digits + 1);
      const double round = std::round(number / unit) * unit;
      if (std::fabs(round - number) > kNear * std::fabs(number)) continue;
      const auto made = outcome_of(round);
      if (made != nullptr &&
          question_.found.DistanceIn(question_.layout, made->tensors) <=
              question_.clean) {
        return round;
      }
    }
    return number;
  }

  // Gauss and Newton, from a number on: what is wanted changes nearly linearly
  // with it, or not at all. `format` takes the number. Returns whether one
  // fits.
  template <typename Make>
  bool Fit(const Operation& operation, const FollowedReference& reference,
           double from, const std::string& format, const Make& make,
           FittingEdit::Kind kind = FittingEdit::Kind::kNumber) {
    constexpr int kMostSteps = 8;
    constexpr double kProbe = 1e-3;
    if (!budget_.Take()) return false;
    const auto outcome_of =
        [&](double number) -> std::shared_ptr<const FollowedReference::Value> {
      if (!budget_.HasTime()) return nullptr;
      auto made = make(number);
      if (!made.has_value()) return nullptr;
      FollowedReference edited = reference;
      edited.Pin(operation.outputs[0], *std::move(made));
      auto value = edited.ValueOf(question_.expected);
      const bool is_made = value.ok() && HasExpectedShape((*value)->facts);
      return is_made ? *value : nullptr;
    };
    double number = from;
    for (int step = 0; step < kMostSteps; ++step) {
      const double probe = number + (number == 0 ? kProbe : number * kProbe);
      const auto here = outcome_of(number);
      const auto there = outcome_of(probe);
      if (here == nullptr || there == nullptr) return false;
      const double distance =
          question_.found.DistanceIn(question_.layout, here->tensors);
      if (step > 0 && distance <= question_.clean) {
        const double round = Rounded(number, outcome_of);
        edits_.push_back({operation.id,
                          fmt::format(fmt::runtime(format), round), distance,
                          kind});
        return true;
      }
      const double move = question_.found.StepTowards(
          question_.layout, here->tensors, there->tensors);
      number += move * (probe - number);
      if (move == 0 || !std::isfinite(number)) return false;
    }
    return false;
  }

  // Constants that it reads, changed.
  void TryNumbers(const Operation& operation,
                  const FollowedReference& reference) {
    std::vector<size_t> slots(operation.inputs.size());
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = i;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i] == nullptr || network_.value(operation.inputs[i]).kind !=
                                       NetworkValue::Kind::kConstant) {
        continue;
      }
      const auto kept = inputs_[i];
      const std::string& name = network_.value(operation.inputs[i]).name;
      VisitConstantEdits(kept->tensors[0], [&](const NDArray& tensor,
                                               const std::string& what) {
        if (!budget_.Take()) return false;
        auto changed = std::make_shared<FollowedReference::Value>(*kept);
        for (NDArray& one : changed->tensors) one = tensor;
        inputs_[i] = changed;
        Try(operation,
            {fmt::format("{} {}", name, what), operation.attrs, slots},
            reference);
        inputs_[i] = kept;
        return true;
      });
    }
  }

  const RegionQuestion& question_;
  const Network& network_;
  EditBudget& total_;
  EditBudget budget_;  // The part of `total_` that is for one operation.
  std::vector<FittingEdit> edits_;
  std::vector<std::shared_ptr<const FollowedReference::Value>> inputs_;
  std::shared_ptr<const FollowedReference::Value> made_;
};

}  // namespace

EditBudget EditBudget::Part(size_t parts) const {
  EditBudget part = *this;
  part.tried_ = 0;
  part.gave_up_ = false;
  part.left_ = (left_ + parts - 1) / parts;
  part.time_ = time_.Part(parts);
  return part;
}

void EditBudget::Spend(const EditBudget& part) {
  left_ -= std::min(left_, part.tried_);
  tried_ += part.tried_;
}

bool EditBudget::Take() {
  if (left_ == 0) gave_up_ = true;
  if (left_ == 0 || !HasTime()) return false;
  --left_;
  ++tried_;
  return true;
}

bool EditBudget::HasTime() {
  if (!time_.IsOver()) return true;
  gave_up_ = true;
  return false;
}

absl::StatusOr<std::vector<FittingEdit>> FindEdits(
    const RegionQuestion& question, EditBudget* budget) {
  return EditSearch(question, budget).Run();
}

}  // namespace nodewise
