#include "nodewise/ir/target.h"

#include <unordered_set>
#include <utility>

#include "contrib/ir/inference.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

Support SupportOf(const Target& target, const OpAttrs& attrs,
                  const Inputs& inputs, absl::Span<const OutputInfo> outputs) {
  Support support;
  const OperatorDef& def = attrs.def();
  if (def.support != nullptr) {
    support = def.support(attrs.get(), target.traits, inputs);
  }
  if (!support.can || target.ask == nullptr) return support;
  Support more = target.ask(attrs, inputs, outputs);
  if (!more.can) return more;
  for (std::string& penalty : more.penalties) {
    support.penalties.push_back(std::move(penalty));
  }
  return support;
}

OutputInfos OutputInfosOf(const NetworkData& data, const Operation& operation) {
  OutputInfos infos(operation.outputs.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const NetworkValue* const value = Find(data, operation.outputs[i]);
    if (value == nullptr) continue;
    infos[i].type = value->type;
    infos[i].elements = value->elements;
  }
  return infos;
}

namespace {

// `seen` are the bodies that have been asked about: operations may share them.
absl::Status CheckOnce(const Target& target, const NetworkData& data,
                       const Operation& operation,
                       absl::Span<const OutputInfo> outputs,
                       std::unordered_set<const Network*>* seen) {
  const std::vector<InputInfo> inputs = InputInfosOf(data, operation.inputs);
  const Support support =
      SupportOf(target, operation.attrs, Inputs(inputs), outputs);
  if (!support.can) {
    return absl::FailedPreconditionError(
        fmt::format("{}: target {} cannot run {}: {}", PlaceOf(operation),
                    target.traits.name, operation.kind(), support.why_not));
  }
  for (const NamedBody& body : BodiesOf(operation.attrs)) {
    const Network* const network = body.graph.body.get();
    if (network == nullptr || !seen->insert(network).second) continue;
    const NetworkData& inner = body.graph.body->data();
    for (const OperationId id : inner.order) {
      const Operation& each = *inner.operations[Index(id)];
      NODEWISE_RETURN_IF_ERROR(
          At(fmt::format("{}: {}", PlaceOf(operation), body.attribute),
             CheckOnce(target, inner, each, OutputInfosOf(inner, each), seen)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOnTarget(const Target& target, const NetworkData& data,
                           const Operation& operation,
                           absl::Span<const OutputInfo> outputs) {
  std::unordered_set<const Network*> seen;
  return CheckOnce(target, data, operation, outputs, &seen);
}

absl::Status Network::SetTarget(const Target* target) {
  for (const OperationId id : data_.order) {
    if (target == nullptr) break;
    const Operation& each = operation(id);
    NODEWISE_RETURN_IF_ERROR(
        CheckOnTarget(*target, data_, each, OutputInfosOf(data_, each)));
  }
  target_ = target;
  return absl::OkStatus();
}

Support Network::SupportBy(const Target& target, OperationId id,
                           CodePlace caller) const {
  const Operation& asked = operation(id, caller);
  const std::vector<InputInfo> inputs = InputsOf(id);
  return SupportOf(target, asked.attrs, Inputs(inputs),
                   OutputInfosOf(data_, asked));
}

}  // namespace nodewise
