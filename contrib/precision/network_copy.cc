#include "contrib/precision/network_copy.h"

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

NetworkCopy::NetworkCopy(const Network& old) : old_(&old) {
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
  NODEWISE_RETURN_IF_ERROR(copy.made_.SetTarget(old.target()));
  for (const ValueId id : old.inputs()) {
    const NetworkValue& input = old.value(id);
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                              copy.made_.AddInput(input.name, input.type));
    copy.Set(id, made);
  }
  return copy;
}

absl::StatusOr<ValueId> NetworkCopy::Of(ValueId old) {
  if (old == kNoValue) return kNoValue;
  const auto found = stands_for_.find(old);
  if (found != stands_for_.end()) return found->second;
  const NetworkValue& value = old_->value(old);
  NODEWISE_CHECK(value.kind == NetworkValue::Kind::kConstant);
  NODEWISE_ASSIGN_OR_RETURN(const ValueId made,
                            made_.AddConstant(value.name, value.data));
  Set(old, made);
  return made;
}

absl::StatusOr<std::vector<ValueId>> NetworkCopy::AddLike(
    const Operation& old, std::vector<ValueId> inputs,
    const std::vector<std::string>& suffixes) {
  return AddAs(old, old.attrs, std::move(inputs), suffixes);
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
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made, Of(barrier));
    wanted.after.push_back(made);
  }
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            made_.AddOperation(std::move(wanted)));
  const Operation& made = made_.operation(id);
  Set(old.barrier, made.barrier);
  return made.outputs;
}

absl::StatusOr<const OperatorDef*> NetworkCopy::RowOf(const void* type) const {
  const OperatorDef* const newest = AllOperators().FindType(type);
  const int opset = made_.opset(newest->domain);
  const OperatorDef* const held =
      AllOperators().Find(newest->domain, newest->name, opset);
  if (held != nullptr && held->type == type) return held;
  return absl::InvalidArgumentError(
      fmt::format("opset {} of the network has no {}", opset, newest->name));
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
    NODEWISE_ASSIGN_OR_RETURN(const ValueId made, Of(id));
    outputs.push_back(made);
  }
  NODEWISE_RETURN_IF_ERROR(made_.SetOutputs(std::move(outputs)));
  // Without outputs everything would be unused.
  if (!old_->outputs().empty()) made_.RemoveUnused();
  return std::move(made_);
}

}  // namespace nodewise
