// Cuts a part out of a network. A walk forward finds what is made from the cut
// values, or from constants alone, and one backward what of that the ends
// need. Then the part is built by the same calls that any program makes, which
// check it.

#include <algorithm>
#include <vector>

#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

class Extraction {
 public:
  Extraction(const Network& network, absl::Span<const ValueId> from,
             absl::Span<const ValueId> to)
      : network_(network),
        from_(from),
        to_(to),
        is_cut_(network.data().values.size(), false),
        is_inside_(network.data().operations.size(), false),
        is_read_(network.data().values.size(), false),
        copy_of_(network.data().values.size(), kNoValue),
        part_(network.name()) {}

  absl::StatusOr<Network> Run() {
    NODEWISE_RETURN_IF_ERROR(CheckArguments());
    for (const ValueId id : from_) is_cut_[Index(id)] = true;
    FindOperations();
    NODEWISE_RETURN_IF_ERROR(CheckAllRead());
    NODEWISE_RETURN_IF_ERROR(Build());
    return std::move(part_);
  }

 private:
  absl::Status CheckArguments() const {
    for (const ValueId id : from_) {
      NODEWISE_RETURN_IF_ERROR(CheckTensor(network_, id, "start of the part"));
    }
    for (const ValueId id : to_) {
      NODEWISE_RETURN_IF_ERROR(CheckTensor(network_, id, "end of the part"));
    }
    if (!to_.empty()) return absl::OkStatus();
    return Invalid("{}: a part without any end, expected at least one value",
                   PlaceOf(network_.data()));
  }

  void FindOperations() {
    std::vector<bool> is_made = is_cut_;
    std::vector<bool> has_input = is_cut_;
    for (const ValueId id : network_.inputs()) has_input[Index(id)] = true;
    for (const OperationId id : network_.order()) {
      const Operation& operation = network_.operation(id);
      const bool made = IsAnyMarked(operation.inputs, is_made);
      const bool input = IsAnyMarked(operation.inputs, has_input);
      is_inside_[Index(id)] = from_.empty() || made || !input;
      for (const ValueId output : operation.outputs) {
        if (output == kNoValue || is_cut_[Index(output)]) continue;
        is_made[Index(output)] = made;
        has_input[Index(output)] = input;
      }
    }
    KeepNeeded();
  }

  // Backward from the ends; what is cut off is not asked for its makers.
  void KeepNeeded() {
    for (const ValueId id : to_) is_read_[Index(id)] = true;
    const auto order = network_.order();
    for (size_t i = order.size(); i-- > 0;) {
      const Operation& operation = network_.operation(order[i]);
      const bool needed =
          std::ranges::any_of(operation.outputs, [&](ValueId id) {
            return id != kNoValue && is_read_[Index(id)] && !is_cut_[Index(id)];
          });
      if (!needed) is_inside_[Index(order[i])] = false;
      if (!is_inside_[Index(order[i])]) continue;
      for (const ValueId id : operation.inputs) {
        if (id != kNoValue) is_read_[Index(id)] = true;
      }
    }
  }

  // A value that no end depends on would become an input that changes nothing,
  // which is more likely a mistake of the caller.
  absl::Status CheckAllRead() const {
    for (const ValueId id : from_) {
      if (is_read_[Index(id)]) continue;
      return Invalid(
          "{}: no end of the part depends on it, expected one that does",
          TitleOf(network_.data(), id));
    }
    return absl::OkStatus();
  }

  // The inputs come first in the order that callers expect, those of `from`,
  // then those of the network; everything else that is read from outside
  // follows by number. Opsets come before operations, which must hold in them.
  absl::Status Build() {
    for (const auto& [domain, version] : network_.data().opsets) {
      NODEWISE_RETURN_IF_ERROR(part_.SetOpset(domain, version));
    }
    for (const ValueId id : from_) NODEWISE_RETURN_IF_ERROR(AddInput(id));
    for (const ValueId id : network_.inputs()) {
      if (is_read_[Index(id)]) {
        NODEWISE_RETURN_IF_ERROR(AddInput(id));
      }
    }
    for (uint32_t i = 0; i < is_read_.size(); ++i) {
      if (is_read_[i]) {
        NODEWISE_RETURN_IF_ERROR(AddSource(ValueId{i}));
      }
    }
    for (const OperationId id : network_.order()) {
      if (is_inside_[Index(id)]) {
        NODEWISE_RETURN_IF_ERROR(AddOperation(id));
      }
    }
    std::vector<ValueId> outputs;
    for (const ValueId id : to_) outputs.push_back(copy_of_[Index(id)]);
    return part_.SetOutputs(std::move(outputs));
  }

  absl::Status AddInput(ValueId id) {
    if (copy_of_[Index(id)] != kNoValue) return absl::OkStatus();
    const NetworkValue& value = network_.value(id);
    NODEWISE_ASSIGN_OR_RETURN(copy_of_[Index(id)],
                              part_.AddInput(value.name, value.type));
    return absl::OkStatus();
  }

  absl::Status AddSource(ValueId id) {
    const NetworkValue& value = network_.value(id);
    if (copy_of_[Index(id)] != kNoValue) return absl::OkStatus();
    if (value.kind == NetworkValue::Kind::kConstant) {
      NODEWISE_ASSIGN_OR_RETURN(copy_of_[Index(id)],
                                part_.AddConstant(value.name, value.data));
      return absl::OkStatus();
    }
    if (is_inside_[Index(value.producer)]) return absl::OkStatus();
    return AddInput(id);
  }

  absl::Status AddOperation(OperationId id) {
    const Operation& operation = network_.operation(id);
    NewOperation added{.attrs = operation.attrs,
                       .name = operation.name,
                       .origin = operation.origin};
    for (const ValueId input : operation.inputs) {
      added.inputs.push_back(input == kNoValue ? kNoValue
                                               : copy_of_[Index(input)]);
    }
    for (const ValueId output : operation.outputs) {
      added.outputs.push_back(OutputName(output));
    }
    for (const ValueId barrier : operation.after) {
      if (copy_of_[Index(barrier)] == kNoValue) continue;
      added.after.push_back(copy_of_[Index(barrier)]);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId copy,
                              part_.AddOperation(std::move(added)));
    const Operation& made = part_.operation(copy);
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const ValueId output = operation.outputs[i];
      if (output == kNoValue || is_cut_[Index(output)]) continue;
      copy_of_[Index(output)] = made.outputs[i];
    }
    copy_of_[Index(operation.barrier)] = made.barrier;
    return absl::OkStatus();
  }

  // An output that is cut off is an input already, so the operation that makes
  // it gets another value.
  std::string OutputName(ValueId output) const {
    if (output == kNoValue) return "";
    const std::string& name = network_.value(output).name;
    if (!is_cut_[Index(output)]) return name;
    return FreeName(name + "_cut", [&](const std::string& other) {
      return network_.HasValue(other);
    });
  }

  const Network& network_;
  absl::Span<const ValueId> from_;
  absl::Span<const ValueId> to_;
  std::vector<bool> is_cut_;      // By value: one of `from`.
  std::vector<bool> is_inside_;   // By operation: belongs to the part.
  std::vector<bool> is_read_;     // By value: by the part, or its end.
  std::vector<ValueId> copy_of_;  // By value, in the part.
  Network part_;
};

}  // namespace

absl::StatusOr<Network> ExtractNetwork(const Network& network,
                                       absl::Span<const ValueId> from,
                                       absl::Span<const ValueId> to) {
  return Extraction(network, from, to).Run();
}

}  // namespace nodewise
