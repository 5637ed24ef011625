#include "contrib/precision/network_copy.h"

#include "fmt/format.h"
#include "nodewise/support/status.h"

namespace nodewise {

NetworkCopy::NetworkCopy(const Network& old) : old_(&old) {
  // Names of values that have not been made yet must not be taken by new ones.
  for (const auto& value : old.data().values) {
    if (value.has_value()) names_.insert(value->name);
  }
  for (const OperationId id : old.order()) {
    names_.insert(old.operation(id).name);
  }
  outputs_.insert(old.outputs().begin(), old.outputs().end());
}

absl::StatusOr<NetworkCopy> NetworkCopy::Begin(const Network& old, int opset) {
  NetworkCopy copy(old);
  NetworkData empty;
  empty.name = old.name();
  empty.opsets = old.data().opsets;
  NODEWISE_ASSIGN_OR_RETURN(copy.made_, Network::FromData(std::move(empty)));
  if (opset != 0) {
    NODEWISE_RETURN_IF_ERROR(copy.made_.SetOpset("", opset));
  }
  // From now on each operation is checked against the target when it is added.
  NODEWISE_RETURN_IF_ERROR(copy.made_.SetTarget(old.target()));
  for (const ValueId id : old.inputs()) {
    const NetworkValue& input = old.value(id);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                              copy.made_.AddInput(input.name, input.type));
    copy.Set(id, made);
  }
  return copy;
}

absl::StatusOr<ValueId> NetworkCopy::ValueFor(ValueId old) {
  if (old == kNoValue) return kNoValue;
  const auto found = stands_for_.find(old);
  if (found != stands_for_.end()) return found->second;
  const NetworkValue& value = old_->value(old);
  // Operations are copied in their order, so all else has been set by now.
  // Constants are copied when they are first read: those that nothing reads any
  // more are left behind.
  NODEWISE_CHECK(value.kind == NetworkValue::Kind::kConstant);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            made_.AddConstant(value.name, value.data));
  Set(old, made);
  return made;
}

absl::StatusOr<std::vector<ValueId>> NetworkCopy::AddAs(
    const Operation& old, OpAttrs attrs, std::vector<ValueId> inputs,
    const std::vector<std::string>& suffixes) {
  NewOperation wanted;
  wanted.attrs = std::move(attrs);
  wanted.inputs = std::move(inputs);
  wanted.name = old.name;
  wanted.origin = old.origin;
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    const ValueId output = old.outputs[i];
    std::string name = output == kNoValue ? "" : NameOf(output);
    if (!name.empty() && !suffixes[i].empty()) {
      name = FreeName(name + suffixes[i]);
    }
    wanted.outputs.push_back(std::move(name));
  }
  for (const ValueId barrier : old.after) {
    NODEWISE_ASSIGN_OR_RETURN(wanted.after.emplace_back(), ValueFor(barrier));
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            made_.AddOperation(std::move(wanted)));
  const Operation& made = made_.operation(id);
  Set(old.barrier, made.barrier);
  return made.outputs;
}

absl::StatusOr<const OperatorDef*> NetworkCopy::RowOf(const void* type) const {
  // The class belongs to one version of the operator; the network may be in an
  // opset that has another.
  const OperatorDef* const newest = AllOperators().FindType(type);
  const int opset = made_.opset(newest->domain);
  const OperatorDef* const held =
      AllOperators().Find(newest->domain, newest->name, opset);
  if (held != nullptr && held->type == type) return held;
  return InvalidArgument("opset {} of the network has no {}", opset,
                         newest->name);
}

absl::StatusOr<ValueId> NetworkCopy::AddNew(OpAttrs attrs,
                                            std::vector<ValueId> inputs,
                                            const std::string& name,
                                            const std::string& output) {
  NewOperation wanted;
  // An operation that only converts a value has the origin of the one that made
  // it.
  if (!inputs.empty() && inputs[0] != kNoValue) {
    const OperationId maker = made_.value(inputs[0]).producer;
    if (maker != kNoOperation) wanted.origin = made_.operation(maker).origin;
  }
  wanted.attrs = std::move(attrs);
  wanted.inputs = std::move(inputs);
  wanted.name = FreeName(name);
  wanted.outputs = {output.empty() ? wanted.name : output};
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            made_.AddOperation(std::move(wanted)));
  return made_.operation(id).outputs[0];
}

absl::StatusOr<ValueId> NetworkCopy::AddConstant(const std::string& name,
                                                 NDArray data) {
  return made_.AddConstant(FreeName(name), std::move(data));
}

std::string NetworkCopy::FreeName(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !names_.insert(name).second; ++i) {
    name = fmt::format("{}_{}", wanted, i);
  }
  return name;
}

absl::StatusOr<Network> NetworkCopy::Finish() {
  std::vector<ValueId> outputs;
  for (const ValueId id : old_->outputs()) {
    NODEWISE_ASSIGN_OR_RETURN(outputs.emplace_back(), ValueFor(id));
  }
  NODEWISE_RETURN_IF_ERROR(made_.SetOutputs(std::move(outputs)));
  // Without outputs everything would be unused.
  if (!old_->outputs().empty()) made_.RemoveUnused();
  return std::move(made_);
}

}  // namespace nodewise
