#include "contrib/ir/inference.h"

#include <algorithm>
#include <climits>
#include <unordered_set>
#include <utility>

#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// As many as an import makes. Walks over bodies are recursive, and so is what
// frees them.
constexpr int kMostBodyDepth = 64;

std::string Several(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

absl::Status CheckCount(const Operation& operation, const char* what,
                        size_t count, size_t fewest, size_t most) {
  if (count >= fewest && count <= most) return absl::OkStatus();
  std::string wanted = Several(fewest, what);
  if (most == SIZE_MAX) {
    wanted += " or more";
  } else if (most != fewest) {
    wanted = fmt::format("{} to {}", fewest, Several(most, what));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: has {}, expected {} (of {})", PlaceOf(operation),
                  Several(count, what), wanted, operation.kind()));
}

template <size_t kMost>
bool IsRequired(const RowList<Param, kMost>& params, size_t slot) {
  return slot < params.size() && params[slot].kind == Param::Kind::kRequired;
}

// Only an input with a name of its own can be left out: of a variadic one, and
// of what bodies capture, the others would take its place, unless the operator
// looks at places.
bool MustBeGiven(const OperatorDef& def, size_t slot) {
  if (def.may_skip_inputs) return false;
  if (slot >= def.inputs.size()) return true;
  return def.inputs[slot].kind != Param::Kind::kOptional;
}

// Calls `visit` with the attributes of each operation that holds.
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
  return absl::InternalError(fmt::format("{}: Infer of {} says {}",
                                         PlaceOfOutput(operation, slot),
                                         operation.kind(), problem));
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

absl::Status CheckType(const TensorType& type) {
  if (type.has_dtype()) {
    NODEWISE_RETURN_IF_ERROR(CheckDType(type.dtype));
  }
  if (!type.has_rank()) return absl::OkStatus();
  for (const Dim& dim : *type.shape) {
    if (dim.is_known() && dim.size() < 0) {
      return absl::InvalidArgumentError(
          fmt::format("type {} has a negative side", ToString(type)));
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
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} as it is here holds {}, the opset of domain \"{}\" is {} "
      "(SetOpset)",
      PlaceOf(operation), def.name,
      def.until == INT_MAX
          ? fmt::format("from opset {} on", def.since)
          : fmt::format("in opsets {} to {}", def.since, def.until - 1),
      def.domain, opset));
}

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
      return absl::InvalidArgumentError(fmt::format(
          "{}: has bodies in bodies that are more than {} deep, expected less",
          PlaceOf(operation), kMostBodyDepth));
    }
    for (const SharedNetwork& body : std::exchange(bodies, {})) {
      const absl::Status holds = CheckAllHold(body->data(), opset_of, add);
      if (!holds.ok()) return At(PlaceOf(operation) + ": in a body", holds);
    }
  }
  return absl::OkStatus();
}

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
      return absl::InvalidArgumentError(fmt::format(
          "{}: is not given, expected a tensor", PlaceOfInput(operation, i)));
    }
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    if (operation.outputs[i] == kNoValue && IsRequired(def.outputs, i)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: is not wanted, expected a name (it cannot be "
                      "left out)",
                      PlaceOfOutput(operation, i)));
    }
  }
  return absl::OkStatus();
}

// Checks that the bodies can read what they capture: the operation's last
// inputs, in the order of the bodies.
absl::Status CheckCaptures(const NetworkData& data,
                           const Operation& operation) {
  const std::vector<NamedBody> bodies = BodiesOf(operation.attrs);
  size_t captures = 0;
  for (const NamedBody& body : bodies) captures += body.graph.captures;
  if (captures == 0 || captures > operation.inputs.size()) {
    return absl::OkStatus();
  }
  size_t slot = operation.inputs.size() - captures;
  for (const NamedBody& body : bodies) {
    const auto inner = body.graph.body == nullptr ? absl::Span<const ValueId>()
                                                  : body.graph.body->inputs();
    if (inner.size() < body.graph.captures) return absl::OkStatus();
    for (const ValueId id : inner.last(body.graph.captures)) {
      const NetworkValue* const wanted = Find(body.graph.body->data(), id);
      const NetworkValue* const given = Find(data, operation.inputs[slot]);
      if (wanted != nullptr && given != nullptr &&
          !AreCompatible(given->type, wanted->type)) {
        return absl::InvalidArgumentError(
            fmt::format("{}: is {}, expected {}, as {} of {} is",
                        PlaceOfInput(operation, slot), ToString(given->type),
                        ToString(wanted->type),
                        TitleOf(body.graph.body->data(), id), body.attribute));
      }
      ++slot;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRestrictions(const NetworkData& data,
                               const Operation& operation) {
  NODEWISE_RETURN_IF_ERROR(CheckCaptures(data, operation));
  const auto infos = InputInfosOf(data, operation.inputs);
  const absl::Status status =
      operation.def().check(operation.attrs.get(), Inputs(infos));
  return At(PlaceOf(operation), status);
}

// Adds the type that a run found, where inference does not know it. A type that
// inference knows counts: an edit may have changed what the run was made with.
void Complete(const NetworkData& data, ValueId output, OutputInfo* info) {
  const NetworkValue* const value = Find(data, output);
  if (value == nullptr || !value->found.has_value()) return;
  auto both = Unite(info->type, *value->found);
  if (both.ok()) info->type = *std::move(both);
}

absl::StatusOr<OutputInfos> InferOutputs(const NetworkData& data,
                                         const Operation& operation) {
  const auto inputs = InputInfosOf(data, operation.inputs);
  auto infos = operation.def().infer(operation.attrs.get(), Inputs(inputs),
                                     operation.outputs.size());
  if (!infos.ok()) return At(PlaceOf(operation), infos.status());
  if (infos->size() != operation.outputs.size()) {
    return absl::InternalError(fmt::format(
        "{}: Infer of {} speaks of {}, expected {}", PlaceOf(operation),
        operation.kind(), Several(infos->size(), "output"),
        operation.outputs.size()));
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

absl::StatusOr<OutputInfos> CheckAndInfer(const NetworkData& data,
                                          const Operation& operation) {
  NODEWISE_RETURN_IF_ERROR(CheckArity(operation));
  NODEWISE_RETURN_IF_ERROR(CheckRestrictions(data, operation));
  return InferOutputs(data, operation);
}

std::vector<NamedBody> BodiesOf(const OpAttrs& attrs) {
  std::vector<NamedBody> bodies;
  for (const AttrField& field : attrs.def().fields) {
    if (!field.is_graph) continue;
    const auto value = field.get(attrs.get());
    if (!value.has_value()) continue;
    const Subgraph* const graph = std::get_if<Subgraph>(&*value);
    if (graph != nullptr) bodies.push_back({field.name, *graph});
  }
  return bodies;
}

bool HasBodyAmong(const OpAttrs& attrs,
                  const std::unordered_set<const Network*>& bodies) {
  const std::vector<NamedBody> own = BodiesOf(attrs);
  return std::any_of(own.begin(), own.end(), [&](const NamedBody& body) {
    return bodies.count(body.graph.body.get()) > 0;
  });
}

}  // namespace nodewise
