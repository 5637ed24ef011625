// A rewriter looks names up in sets of its own: a pass makes many operations,
// and each would else search for a free name from the beginning.

#include "contrib/passes/network_rewriter.h"

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {

NetworkRewriter::NetworkRewriter(Network& network) : network_(network) {
  for (const auto& value : network.data().values) {
    if (value.has_value()) value_names_.insert(value->name);
  }
  for (const OperationId id : network.order()) {
    operation_names_.insert(network.operation(id).name);
  }
}

std::string NetworkRewriter::FreeName(std::string_view wanted, Names* taken) {
  std::string name(wanted);
  for (int i = 2; !taken->insert(name).second; ++i) {
    name = fmt::format("{}_{}", wanted, i);
  }
  return name;
}

absl::StatusOr<const OperatorDef*> NetworkRewriter::RowOf(
    const void* type) const {
  const OperatorDef* const newest = AllOperators().FindType(type);
  const int opset = network_.opset(newest->domain);
  const OperatorDef* const held =
      AllOperators().Find(newest->domain, newest->name, opset);
  if (held != nullptr && held->type == type) return held;
  return InvalidArgument("opset {} of the network has no {}", opset,
                         newest->name);
}

absl::StatusOr<ValueId> NetworkRewriter::Add(OpAttrs attrs,
                                             std::vector<ValueId> inputs,
                                             OperationId before,
                                             std::string_view name) {
  NewOperation wanted{.attrs = std::move(attrs),
                      .inputs = std::move(inputs),
                      .name = FreeName(name, &operation_names_),
                      .outputs = {FreeName(name, &value_names_)},
                      .before = before};
  // A new operation with the name of an old one does its work, and any other
  // one does a part of the work of the operation that it stands before, so it
  // gets the origin of that one.
  const OperationId replaced =
      network_.HasOperation(name) ? *network_.FindOperation(name) : before;
  if (replaced != kNoOperation) {
    wanted.origin = network_.operation(replaced).origin;
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            network_.AddOperation(std::move(wanted)));
  added_.push_back(id);
  return network_.operation(id).outputs[0];
}

absl::StatusOr<ValueId> NetworkRewriter::AddConstant(std::string_view name,
                                                     NDArray data) {
  return network_.AddConstant(FreeName(name, &value_names_), std::move(data));
}

// Renaming comes last, since the old names are free only when their owners are
// gone.
absl::Status NetworkRewriter::Replace(const Replacement& replacement) {
  NODEWISE_RETURN_IF_ERROR(
      network_.ReplaceUses({replacement.old}, {replacement.made}));
  added_.clear();
  const std::string value_name = network_.value(replacement.old).name;
  const std::string name = network_.operation(replacement.named_like).name;
  const OperationId named = replacement.named != kNoOperation
                                ? replacement.named
                                : network_.value(replacement.made).producer;
  NODEWISE_RETURN_IF_ERROR(Remove(replacement.removed, replacement.inputs));
  NODEWISE_RETURN_IF_ERROR(network_.Rename(replacement.made, value_name));
  return network_.Rename(named, name);
}

absl::Status NetworkRewriter::RedirectUses(
    ValueId value, ValueId old, absl::Span<const OperationId> removed,
    absl::Span<const OperationId> inputs) {
  NODEWISE_RETURN_IF_ERROR(network_.ReplaceUses({old}, {value}));
  return Remove(removed, inputs);
}

absl::Status NetworkRewriter::Remove(absl::Span<const OperationId> removed,
                                     absl::Span<const OperationId> inputs) {
  for (const OperationId id : removed) {
    NODEWISE_RETURN_IF_ERROR(network_.Remove(id));
  }
  for (const OperationId id : inputs) {
    // Something else may need it, and it may be listed twice.
    if (network_.Has(id)) network_.Remove(id).IgnoreError();
  }
  return absl::OkStatus();
}

// From the last to the first: later ones read earlier ones.
void NetworkRewriter::RollBack() {
  for (auto id = added_.rbegin(); id != added_.rend(); ++id) {
    network_.Remove(*id).IgnoreError();
  }
  added_.clear();
}

absl::Status NetworkRewriter::EnsureOpset(std::string_view domain) {
  if (network_.opset(domain) > 0) return absl::OkStatus();
  return network_.SetOpset(domain, 1);
}

// A second reader would lose its input in a merge, and an output of the
// network its value.
absl::StatusOr<OperationId> OnlyReader(const Network& network, ValueId id) {
  const std::vector<Use>& uses = network.value(id).uses;
  if (network.IsOutput(id)) {
    return Refuse("its result is an output of the network");
  }
  if (uses.size() != 1) {
    return Refuse("its result is read in {} places, expected one", uses.size());
  }
  if (uses[0].slot == 0) return uses[0].user;
  const Operation& user = network.operation(uses[0].user);
  return Refuse("its result is input {} of operation {}, expected input 0",
                uses[0].slot, Shortened(user.name));
}

absl::Status CheckNoBarriers(const Network& network,
                             const Operation& operation) {
  if (operation.after.empty() &&
      network.value(operation.barrier).uses.empty()) {
    return absl::OkStatus();
  }
  return Refuse("operation {} waits for others, or others for it",
                Shortened(operation.name));
}

}  // namespace nodewise
