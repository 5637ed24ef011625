// Keeps the part of a network that can be computed without its opaque
// operations. One walk in the order of the run marks what they make and all
// that depends on it; the rest stays, with outputs where it was read by what
// is gone.

#include "nodewise/passes/known_part.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostListed = 8;
// More operations are not visited to find reasons, which a damaged model could
// have without end.
constexpr size_t kMostVisited = 10'000'000;

// Adds the operators that make an operation opaque: its own, or those in its
// bodies.
void AddOperators(const OpAttrs& attrs, std::set<std::string>* names) {
  if (const auto* const opaque = attrs.As<ops::Opaque>()) {
    names->insert(NameOf(*opaque));
    return;
  }
  for (const AttrField& field : attrs.def().fields) {
    if (!field.is_graph) continue;
    const auto value = field.get(attrs.get());
    const auto* const graph =
        value.has_value() ? std::get_if<Subgraph>(&*value) : nullptr;
    if (graph == nullptr || graph->body == nullptr) continue;
    for (const OperationId id : graph->body->order()) {
      AddOperators(graph->body->operation(id).attrs, names);
    }
  }
}

bool IsOpaque(const Operation& operation) {
  std::set<std::string> names;
  AddOperators(operation.attrs, &names);
  return !names.empty();
}

class UnknownPart {
 public:
  explicit UnknownPart(const Network& network)
      : network_(network),
        is_unknown_(network.data().values.size(), false),
        is_gone_(network.data().operations.size(), false),
        is_first_(network.data().operations.size(), false) {
    for (const OperationId id : network.order()) {
      const Operation& operation = network.operation(id);
      const bool depends = Reads(operation);
      const bool is_opaque = IsOpaque(operation);
      if (!depends && !is_opaque) continue;
      is_gone_[Index(id)] = true;
      is_first_[Index(id)] = !depends;
      is_unknown_[Index(operation.barrier)] = true;
      for (const ValueId output : operation.outputs) {
        if (output != kNoValue) is_unknown_[Index(output)] = true;
      }
    }
  }

  bool Has(ValueId id) const { return is_unknown_[Index(id)]; }

  // Returns what remains and is read by what is gone, without constants:
  // inputs, and then the others in the order of the run.
  std::vector<ValueId> Open() const {
    std::vector<ValueId> open;
    const auto add = [&](ValueId id) {
      if (id != kNoValue && IsReadByRemoved(id)) open.push_back(id);
    };
    for (const ValueId input : network_.inputs()) add(input);
    for (const OperationId id : network_.order()) {
      if (is_gone_[Index(id)]) continue;
      for (const ValueId output : network_.operation(id).outputs) add(output);
    }
    return open;
  }

  // Returns the opaque operations at which the value's makers begin.
  // Walks back through what cannot be computed; where that begins, nothing
  // that an operation reads is unknown, so it is itself the reason.
  std::vector<std::string> OpaqueOrigins(ValueId value) {
    std::unordered_set<OperationId> seen;
    std::vector<OperationId> open = {network_.value(value).producer};
    while (!open.empty() && visited_ < kMostVisited) {
      const OperationId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      ++visited_;
      const Operation& operation = network_.operation(id);
      for (const auto* ids : {&operation.inputs, &operation.after}) {
        for (const ValueId input : *ids) {
          if (input == kNoValue || !Has(input)) continue;
          open.push_back(network_.value(input).producer);
        }
      }
    }
    std::vector<OperationId> first;
    for (const OperationId id : seen) {
      if (is_first_[Index(id)]) first.push_back(id);
    }
    std::ranges::sort(first);
    std::vector<std::string> names;
    names.reserve(first.size());
    for (const OperationId id : first) {
      names.push_back(network_.operation(id).name);
    }
    return names;
  }

 private:
  bool Reads(const Operation& operation) const {
    const auto is_unknown = [&](ValueId id) {
      return id != kNoValue && Has(id);
    };
    return std::ranges::any_of(operation.inputs, is_unknown) ||
           std::ranges::any_of(operation.after, is_unknown);
  }

  bool IsReadByRemoved(ValueId id) const {
    const std::vector<Use>& uses = network_.value(id).uses;
    return std::ranges::any_of(
        uses, [&](const Use& use) { return is_gone_[Index(use.user)]; });
  }

  const Network& network_;
  std::vector<bool> is_unknown_;  // By value.
  std::vector<bool> is_gone_;     // By operation.
  std::vector<bool> is_first_;    // By operation: depends on no other.
  size_t visited_ = 0;            // By OpaqueOrigins().
};

}  // namespace

std::vector<OperationId> OpaqueOperations(const Network& network) {
  std::vector<OperationId> found;
  for (const OperationId id : network.order()) {
    if (IsOpaque(network.operation(id))) found.push_back(id);
  }
  return found;
}

std::vector<OpaqueOperator> OpaqueOperators(const Network& network) {
  std::map<std::string, std::vector<std::string>> by_name;
  for (const OperationId id : OpaqueOperations(network)) {
    const Operation& operation = network.operation(id);
    std::set<std::string> names;
    AddOperators(operation.attrs, &names);
    for (const std::string& name : names) {
      by_name[name].push_back(operation.name);
    }
  }
  std::vector<OpaqueOperator> operators;
  for (auto& [name, operations] : by_name) {
    operators.push_back({name, std::move(operations)});
  }
  return operators;
}

std::string TextOf(const std::vector<OpaqueOperator>& operators) {
  std::string text;
  for (const OpaqueOperator& each : operators) {
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : ", ", Printable(each.name),
                    CountOf(each.operations.size(), "operation"));
  }
  return text;
}

// The copy keeps its inputs, and RemoveUnused() takes away all that the new
// outputs do not need, opaque operations too.
absl::StatusOr<KnownPart> KnownPartOf(const Network& network) {
  UnknownPart unknown(network);
  KnownPart part;
  part.network = network;
  std::vector<ValueId> outputs;
  const std::set<ValueId> all(network.outputs().begin(),
                              network.outputs().end());
  for (const ValueId id : network.outputs()) {
    if (unknown.Has(id)) {
      part.missing.push_back(
          {network.value(id).name, unknown.OpaqueOrigins(id)});
    } else {
      outputs.push_back(id);
    }
  }
  part.open = unknown.Open();
  for (const ValueId id : part.open) {
    if (network.value(id).kind == NetworkValue::Kind::kInput ||
        all.count(id) > 0) {
      continue;
    }
    outputs.push_back(id);
    part.ends.push_back(network.value(id).name);
  }
  if (outputs.empty()) {
    std::vector<std::string> names;
    for (const OperationId id : OpaqueOperations(network)) {
      names.push_back(network.operation(id).name);
    }
    return FailedPrecondition(
        "everything depends on opaque operations ({}), expected a program that "
        "runs them ({})",
        ListOf(names, kMostListed), NameOf(Way::kOpaqueProgram));
  }
  NODEWISE_RETURN_IF_ERROR(part.network.SetOutputs(std::move(outputs)));
  part.network.RemoveUnused();
  return part;
}

}  // namespace nodewise
