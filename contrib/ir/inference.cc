// Asks an operator about an operation in its place: how many inputs and
// outputs it takes, what it restricts, what its outputs are, and whether a
// target can run it. Networks ask at every edit, and the verifier asks again.

#include "contrib/ir/inference.h"

#include <algorithm>
#include <climits>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// In training the statistics are those of the whole input.
bool ComputesStatistics(const Operation& operation) {
  if (operation.kind() != "BatchNormalization") return false;
  for (const NamedAttr& attr : NamedAttrsOf(operation.attrs)) {
    const auto* const flag = std::get_if<int64_t>(&attr.value);
    if (attr.name == "training_mode") return flag == nullptr || *flag != 0;
  }
  return false;
}

// Checks that the bodies can read what they capture: the operation's last
// inputs, in the order of the bodies. A body that has fewer inputs than it is
// said to capture cannot be compared, and ends the check.
absl::Status CheckCaptures(const NetworkData& data,
                           const Operation& operation) {
  const std::vector<NamedBody> bodies = BodiesOf(operation.attrs);
  size_t captures = 0;
  for (const NamedBody& body : bodies) captures += body.graph.captures;
  if (captures > operation.inputs.size()) return absl::OkStatus();
  size_t slot = operation.inputs.size() - captures;
  for (const auto& [attribute, graph] : bodies) {
    if (graph.captures == 0) continue;
    if (graph.body == nullptr || graph.body->inputs().size() < graph.captures) {
      return absl::OkStatus();
    }
    const NetworkData& inner = graph.body->data();
    for (const ValueId id : graph.body->inputs().last(graph.captures)) {
      const NetworkValue* const wanted = Find(inner, id);
      const NetworkValue* const given = Find(data, operation.inputs[slot]);
      if (wanted != nullptr && given != nullptr &&
          !AreCompatible(given->type, wanted->type)) {
        return Invalid("{}: is {}, expected {}, as {} of {} is",
                       PlaceOfInput(operation, slot), ToString(given->type),
                       ToString(wanted->type), TitleOf(inner, id), attribute);
      }
      ++slot;
    }
  }
  return absl::OkStatus();
}

// Adds the type that a run found, where inference does not know it. A type that
// inference knows counts: an edit may have changed what the run was made with.
void Complete(const NetworkData& data, ValueId output, OutputInfo* info) {
  const NetworkValue* const value = Find(data, output);
  if (value == nullptr || !value->found.has_value()) return;
  auto both = Unite(info->type, *value->found);
  if (both.ok()) info->type = *std::move(both);
}

// `seen` are the bodies that have been asked about: operations may share them.
absl::Status CheckOnce(const Target& target, const NetworkData& data,
                       const Operation& operation,
                       absl::Span<const OutputInfo> outputs,
                       std::unordered_set<const Network*>* seen) {
  const std::vector<InputInfo> inputs = InputInfosOf(data, operation.inputs);
  const Support support =
      SupportOf(target, operation.attrs, Inputs(inputs), outputs);
  if (!support.can) {
    return FailedPrecondition("{}: target {} cannot run {}: {}",
                              PlaceOf(operation), target.traits.name,
                              operation.kind(), support.why_not);
  }
  for (const NamedBody& body : BodiesOf(operation.attrs)) {
    const Network* const network = body.graph.body.get();
    if (network == nullptr || !seen->insert(network).second) continue;
    const NetworkData& inner = network->data();
    for (const OperationId id : inner.order) {
      const Operation& each = *Find(inner, id);
      NODEWISE_RETURN_IF_ERROR(
          At(fmt::format("{}: {}", PlaceOf(operation), body.attribute),
             CheckOnce(target, inner, each, OutputInfosOf(inner, each), seen)));
    }
  }
  return absl::OkStatus();
}

// As many as an import makes. Walks over bodies are recursive, and so is what
// frees them.
constexpr int kMostBodyDepth = 64;

std::string PluralOf(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "has 1 input, expected 2 to 3 inputs (of Conv)"; for variadic ones "2 or
// more".
absl::Status CheckCount(const Operation& operation, const char* what,
                        size_t count, size_t fewest, size_t most) {
  if (count >= fewest && count <= most) return absl::OkStatus();
  std::string wanted = PluralOf(fewest, what);
  if (most == SIZE_MAX) {
    wanted += " or more";
  } else if (most != fewest) {
    wanted = fmt::format("{} to {}", fewest, PluralOf(most, what));
  }
  return Invalid("{}: has {}, expected {} (of {})", PlaceOf(operation),
                 PluralOf(count, what), wanted, operation.kind());
}

// Only an input with a name of its own can be left out: of a variadic one, and
// of what bodies capture, the others would take its place, unless the operator
// looks at places.
bool MustBeGiven(const OperatorDef& def, size_t slot) {
  return !def.may_skip_inputs &&
         (slot >= def.inputs.size() ||
          def.inputs[slot].kind != Param::Kind::kOptional);
}

absl::Status CheckAllHold(
    const NetworkData& body,
    absl::FunctionRef<int(std::string_view domain)> opset_of,
    absl::FunctionRef<void(const OpAttrs& attrs)> visit) {
  for (const OperationId id : body.order) {
    const Operation* const inner = Find(body, id);
    if (inner == nullptr || !inner->attrs.defined()) continue;
    NODEWISE_RETURN_IF_ERROR(
        CheckHoldsIn(*inner, opset_of(inner->def().domain)));
    visit(inner->attrs);
  }
  return absl::OkStatus();
}

absl::Status Wrong(const Operation& operation, size_t slot,
                   std::string_view problem) {
  return Internal("{}: Infer of {} says {}", PlaceOfOutput(operation, slot),
                  operation.kind(), problem);
}

// Returns whether these elements are kept for an output of the type. Known
// elements are only a help, so too many or too few of them do not make a
// network invalid: they count as not known.
bool AreKept(const Shape& elements, const TensorType& type) {
  if (elements.size() > kMostElements) return false;
  if (!type.has_rank()) return true;
  const Shape& shape = *type.shape;
  if (shape.size() > 1) return false;
  return !type.is_static() ||
         elements.size() ==
             static_cast<size_t>(shape.empty() ? 1 : shape[0].size());
}

}  // namespace

bool IsElementwise(const Operation& operation) {
  return operation.def().traits.is_elementwise &&
         operation.outputs.size() == 1 && !ComputesStatistics(operation);
}

// The infos point into the data, so that nothing is copied; most operators
// look at few of them.
std::vector<InputInfo> InputInfosOf(const NetworkData& data,
                                    absl::Span<const ValueId> inputs) {
  std::vector<InputInfo> infos(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == kNoValue) continue;
    infos[i].is_given = true;
    const NetworkValue* const value = Find(data, inputs[i]);
    if (value == nullptr) continue;
    infos[i].type = value->type;
    if (value->kind == NetworkValue::Kind::kConstant && value->data.defined()) {
      infos[i].constant = &value->data;
    }
    if (value->elements.has_value()) infos[i].elements = &*value->elements;
  }
  return infos;
}

// A type of which nothing is known passes: what depends on it is not known,
// either.
absl::Status CheckType(const TensorType& type) {
  if (type.has_dtype()) {
    NODEWISE_RETURN_IF_ERROR(CheckDType(type.dtype));
  }
  if (!type.has_rank()) return absl::OkStatus();
  for (const Dim& dim : *type.shape) {
    if (dim.is_known() && dim.size() < 0) {
      return Invalid("type {} has a negative side", ToString(type));
    }
  }
  return absl::OkStatus();
}

int NewestOpsetOf(std::string_view domain) {
  return domain.empty() ? kNewestOpset : INT_MAX;
}

absl::Status CheckHoldsIn(const Operation& operation, int opset) {
  const OperatorDef& def = operation.def();
  if (opset >= def.since && opset < def.until) return absl::OkStatus();
  return Invalid(
      "{}: {} as it is here holds {}, the opset of domain \"{}\" is {} "
      "(SetOpset)",
      PlaceOf(operation), def.name,
      def.until == INT_MAX
          ? fmt::format("from opset {} on", def.since)
          : fmt::format("in opsets {} to {}", def.since, def.until - 1),
      def.domain, opset);
}

// Level by level and not by recursion, since a crafted network may nest bodies
// without end. A body that several operations share is looked at once.
absl::Status CheckBodiesHold(
    const Operation& operation,
    absl::FunctionRef<int(std::string_view domain)> opset_of) {
  std::unordered_set<const Network*> seen;
  std::vector<SharedNetwork> bodies;
  const auto add = [&](const OpAttrs& attrs) {
    for (const NamedBody& each : BodiesOf(attrs)) {
      if (each.graph.body == nullptr) continue;
      if (seen.insert(each.graph.body.get()).second) {
        bodies.push_back(each.graph.body);
      }
    }
  };
  add(operation.attrs);
  for (int depth = 1; !bodies.empty(); ++depth) {
    if (depth > kMostBodyDepth) {
      return Invalid(
          "{}: has bodies in bodies that are more than {} deep, expected less",
          PlaceOf(operation), kMostBodyDepth);
    }
    for (const SharedNetwork& body : std::exchange(bodies, {})) {
      const absl::Status holds = CheckAllHold(body->data(), opset_of, add);
      if (!holds.ok()) return At(PlaceOf(operation) + ": in a body", holds);
    }
  }
  return absl::OkStatus();
}

// Counts first: the messages of the rest name slots, which must exist.
absl::Status CheckArity(const Operation& operation) {
  const OperatorDef& def = operation.def();
  NODEWISE_RETURN_IF_ERROR(CheckCount(operation, "input",
                                      operation.inputs.size(), def.min_inputs(),
                                      def.max_inputs()));
  NODEWISE_RETURN_IF_ERROR(CheckCount(operation, "output",
                                      operation.outputs.size(),
                                      def.min_outputs(), def.max_outputs()));
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] == kNoValue && MustBeGiven(def, i)) {
      return Invalid("{}: is not given, expected a tensor",
                     PlaceOfInput(operation, i));
    }
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    if (operation.outputs[i] == kNoValue && i < def.outputs.size() &&
        def.outputs[i].kind == Param::Kind::kRequired) {
      return Invalid(
          "{}: is not wanted, expected a name (it cannot be left out)",
          PlaceOfOutput(operation, i));
    }
  }
  return absl::OkStatus();
}

// Captured values are compared here and not by the operators, none of which
// looks into its bodies.
absl::Status CheckRestrictions(const NetworkData& data,
                               const Operation& operation) {
  NODEWISE_RETURN_IF_ERROR(CheckCaptures(data, operation));
  const auto infos = InputInfosOf(data, operation.inputs);
  const absl::Status status =
      operation.def().check(operation.attrs.get(), Inputs(infos));
  return At(PlaceOf(operation), status);
}

// The result is not trusted: an operator of a user's own may say something
// impossible of its outputs, which is a fault of its class and not of the
// network.
absl::StatusOr<OutputInfos> InferOutputs(const NetworkData& data,
                                         const Operation& operation) {
  const auto inputs = InputInfosOf(data, operation.inputs);
  auto infos = operation.def().infer(operation.attrs.get(), Inputs(inputs),
                                     operation.outputs.size());
  if (!infos.ok()) return At(PlaceOf(operation), infos.status());
  if (infos->size() != operation.outputs.size()) {
    return Internal("{}: Infer of {} speaks of {}, expected {}",
                    PlaceOf(operation), operation.kind(),
                    PluralOf(infos->size(), "output"),
                    operation.outputs.size());
  }
  for (size_t i = 0; i < infos->size(); ++i) {
    OutputInfo& info = (*infos)[i];
    const absl::Status status = CheckType(info.type);
    if (!status.ok()) return Wrong(operation, i, MessageOf(status));
    Complete(data, operation.outputs[i], &info);
    if (info.elements.has_value() && !AreKept(*info.elements, info.type)) {
      info.elements.reset();
    }
  }
  return infos;
}

// In this order: an operator's own checks read inputs that its arity promises,
// and inference relies on its checks.
absl::StatusOr<OutputInfos> CheckAndInfer(const NetworkData& data,
                                          const Operation& operation) {
  NODEWISE_RETURN_IF_ERROR(CheckArity(operation));
  NODEWISE_RETURN_IF_ERROR(CheckRestrictions(data, operation));
  return InferOutputs(data, operation);
}

// A graph attribute that is not required may be unset.
std::vector<NamedBody> BodiesOf(const OpAttrs& attrs) {
  std::vector<NamedBody> bodies;
  for (const AttrField& field : attrs.def().fields) {
    const auto value = field.is_graph ? field.get(attrs.get()) : std::nullopt;
    if (!value.has_value()) continue;
    const Subgraph* const graph = std::get_if<Subgraph>(&*value);
    if (graph != nullptr) bodies.push_back({field.name, *graph});
  }
  return bodies;
}

bool HasBodyAmong(const OpAttrs& attrs,
                  const std::unordered_set<const Network*>& bodies) {
  const std::vector<NamedBody> own = BodiesOf(attrs);
  return std::ranges::any_of(own, [&](const NamedBody& body) {
    return bodies.count(body.graph.body.get()) > 0;
  });
}

// The operator knows devices in general, the target itself; the target is
// asked second, and only about what the operator allows.
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

absl::Status CheckOnTarget(const Target& target, const NetworkData& data,
                           const Operation& operation,
                           absl::Span<const OutputInfo> outputs) {
  std::unordered_set<const Network*> seen;
  return CheckOnce(target, data, operation, outputs, &seen);
}

// The first operation that the target cannot run is the answer; Verify() lists
// them all.
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

// The operations in bodies are left out: those who ask go through them
// themselves.
Support Network::SupportBy(const Target& target, OperationId id,
                           CodePlace caller) const {
  const Operation& asked = operation(id, caller);
  const std::vector<InputInfo> inputs = InputsOf(id);
  return SupportOf(target, asked.attrs, Inputs(inputs),
                   OutputInfosOf(data_, asked));
}

}  // namespace nodewise
