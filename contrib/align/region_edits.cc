#include "contrib/align/region_edits.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "contrib/align/operation_edits.h"
#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// For one culprit: more would take longer than a person waits.
constexpr size_t kMostEdits = 300;
constexpr size_t kMostPerOperation = 100;

class EditSearch {
 public:
  explicit EditSearch(const RegionQuestion& question)
      : question_(question), network_(question.walk.reference().network()) {}

  absl::StatusOr<RegionAnswer> Run() {
    for (const OperationId id : question_.region) {
      const Operation& operation = network_.operation(id);
      if (operation.outputs.size() != 1) continue;
      FollowedReference reference = question_.walk.reference();
      NODEWISE_ASSIGN_OR_RETURN(const bool is_known,
                                ReadInputs(operation, &reference));
      if (!is_known) continue;
      size_t tried = 0;
      VisitEdits(network_, operation, question_.operators,
                 [&](const OperationEdit& edit) {
                   if (answer_.tried == kMostEdits) answer_.gave_up = true;
                   if (answer_.gave_up || tried == kMostPerOperation) {
                     return false;
                   }
                   ++tried;
                   ++answer_.tried;
                   Try(operation, edit, reference);
                   return true;
                 });
      TryNumbers(operation, reference);
    }
    std::stable_sort(answer_.edits.begin(), answer_.edits.end(),
                     [](const FittingEdit& a, const FittingEdit& b) {
                       return a.distance < b.distance;
                     });
    return std::move(answer_);
  }

 private:
  // Returns false if something that it reads cannot be computed.
  absl::StatusOr<bool> ReadInputs(const Operation& operation,
                                  FollowedReference* reference) {
    inputs_.clear();
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

  // What the operation makes with the edit, by set of inputs; none if it cannot
  // be, or is of another type.
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

  bool HasTypeOf(const NDArray& tensor) const {
    return tensor.defined() && tensor.dtype() == made_->facts.dtype &&
           tensor.shape() == absl::MakeConstSpan(made_->facts.shape);
  }

  void Try(const Operation& operation, const OperationEdit& edit,
           const FollowedReference& reference) {
    auto made = Compute(edit);
    if (made.has_value()) {
      Judge(operation, edit.what, *std::move(made), reference);
    }
  }

  void Judge(const Operation& operation, const std::string& what,
             std::vector<NDArray> made, const FollowedReference& reference) {
    FollowedReference edited = reference;
    edited.Pin(operation.outputs[0], std::move(made));
    const auto value = edited.ValueOf(question_.expected);
    if (!value.ok()) return;
    const double distance =
        question_.found.DistanceIn(question_.layout, (*value)->tensors);
    if (distance <=
        CleanDistance((*value)->facts.dtype, question_.found.facts().dtype)) {
      answer_.edits.push_back({operation.id, what, distance});
    }
  }

  // Constants that it reads: left out of the sum, negative, or with their
  // elements in another order.
  void TryNumbers(const Operation& operation,
                  const FollowedReference& reference) {
    std::vector<size_t> slots(operation.inputs.size());
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = i;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i] == nullptr ||
          network_.value(operation.inputs[i]).kind !=
              NetworkValue::Kind::kConstant ||
          !IsFloat(inputs_[i]->facts.dtype)) {
        continue;
      }
      const auto kept = inputs_[i];
      for (const auto& [change, what] : kChanges) {
        auto changed = std::make_shared<FollowedReference::Value>(*kept);
        const auto tensor = kept->tensors[0].CopyToHost();
        if (!tensor.ok()) continue;
        change(*tensor);
        for (NDArray& one : changed->tensors) one = *tensor;
        inputs_[i] = changed;
        ++answer_.tried;
        Try(operation,
            {fmt::format("{} {}", network_.value(operation.inputs[i]).name,
                         what),
             operation.attrs, slots},
            reference);
      }
      inputs_[i] = kept;
    }
  }

  template <typename Change>
  static void ChangeFloats(const NDArray& tensor, const Change& change) {
    (void)WithFloat(tensor.dtype(), [&](auto zero) {
      using T = decltype(zero);
      change(tensor.As<T>(), tensor.As<T>() + CountOf(tensor));
      return absl::OkStatus();
    });
  }
  static void SetZero(const NDArray& tensor) {
    ChangeFloats(tensor, [](auto* begin, auto* end) {
      std::fill(begin, end, std::decay_t<decltype(*begin)>{});
    });
  }
  static void RollForward(const NDArray& tensor) {
    ChangeFloats(tensor, [](auto* begin, auto* end) {
      if (begin != end) std::rotate(begin, end - 1, end);
    });
  }
  static void RollBackward(const NDArray& tensor) {
    ChangeFloats(tensor, [](auto* begin, auto* end) {
      if (begin != end) std::rotate(begin, begin + 1, end);
    });
  }
  static void Reverse(const NDArray& tensor) {
    ChangeFloats(tensor,
                 [](auto* begin, auto* end) { std::reverse(begin, end); });
  }

  struct Change {
    void (*change)(const NDArray& tensor);
    const char* what;
  };
  static constexpr Change kChanges[] = {
      {&SetZero, "taken for zeros"},
      {&RollForward, "moved on by one element"},
      {&RollBackward, "moved back by one element"},
      {&Reverse, "read backwards"},
  };

  const RegionQuestion& question_;
  const Network& network_;
  RegionAnswer answer_;
  std::vector<std::shared_ptr<const FollowedReference::Value>> inputs_;
  std::shared_ptr<const FollowedReference::Value> made_;
};

}  // namespace

absl::StatusOr<RegionAnswer> FindEdits(const RegionQuestion& question) {
  return EditSearch(question).Run();
}

}  // namespace nodewise
