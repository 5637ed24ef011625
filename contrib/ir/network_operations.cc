#include <algorithm>
#include <unordered_set>
#include <utility>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Higher numbers are not used; the highest ones mean "none".
constexpr size_t kMostItems = size_t{1} << 31;

absl::Status CheckRoom(const NetworkData& data, size_t more) {
  if (data.values.size() + more < kMostItems &&
      data.operations.size() + 1 < kMostItems) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      fmt::format("network {}: has no numbers left, expected fewer than "
                  "{} values",
                  Shortened(data.name), kMostItems));
}

absl::Status CheckKind(const Network& network, const Operation& operation) {
  if (!operation.attrs.defined()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has no operator, expected one of the operator set",
                    PlaceOf(operation)));
  }
  const OperatorDef& def = operation.def();
  if (network.opset(def.domain) == 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: the network has no opset of domain \"{}\", expected one for {} "
        "(SetOpset)",
        PlaceOf(operation), def.domain, def.name));
  }
  NODEWISE_RETURN_IF_ERROR(CheckHoldsIn(operation, network.opset(def.domain)));
  NODEWISE_RETURN_IF_ERROR(CheckBodiesHold(
      operation,
      [&](std::string_view domain) { return network.opset(domain); }));
  const absl::Status complete = CheckRequired(operation.attrs);
  if (!complete.ok()) return At(PlaceOf(operation), complete);
  size_t captures = 0;
  for (const NamedBody& body : BodiesOf(operation.attrs)) {
    captures += body.graph.captures;
    if (body.graph.body != nullptr) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: attribute {} has no graph", PlaceOf(operation), body.attribute));
  }
  if (captures <= operation.inputs.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: its bodies capture {} values, expected at most its {} inputs",
      PlaceOf(operation), captures, operation.inputs.size()));
}

absl::Status CheckLinks(const Network& network, const Operation& operation) {
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] == kNoValue) continue;
    // The text of the place is made only if it is needed.
    const NetworkValue* const input = Find(network.data(), operation.inputs[i]);
    if (input != nullptr && input->kind != NetworkValue::Kind::kBarrier) {
      continue;
    }
    return CheckTensor(network, operation.inputs[i],
                       PlaceOfInput(operation, i));
  }
  for (size_t i = 0; i < operation.after.size(); ++i) {
    const ValueId barrier = operation.after[i];
    const std::string place =
        fmt::format("{}: barrier {}", PlaceOf(operation), i);
    NODEWISE_RETURN_IF_ERROR(CheckBarrier(network, barrier, place));
    const auto first =
        std::find(operation.after.begin(), operation.after.end(), barrier);
    if (first == operation.after.begin() + static_cast<ptrdiff_t>(i)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: is {} again, expected it once", place,
                    TitleOf(network.data(), barrier)));
  }
  return absl::OkStatus();
}

// Returns the names of the outputs, made up where none are given.
absl::StatusOr<std::vector<std::string>> OutputNames(
    const std::unordered_map<std::string, ValueId>& taken,
    const Operation& operation, std::vector<std::string> names) {
  std::unordered_set<std::string> own;
  const auto is_taken = [&](const std::string& name) {
    return own.count(name) > 0 || taken.count(name) > 0;
  };
  if (names.empty()) {
    for (size_t i = 0; i < operation.def().min_outputs(); ++i) {
      names.push_back(FreeName(
          i == 0 ? operation.name : fmt::format("{}_{}", operation.name, i),
          is_taken));
      own.insert(names.back());
    }
    return names;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    if (is_taken(names[i])) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the name {} is taken, expected another",
                      PlaceOfOutput(operation, i), Shortened(names[i])));
    }
    own.insert(names[i]);
  }
  return names;
}

}  // namespace

absl::StatusOr<OperationId> Network::AddOperation(NewOperation wanted) {
  Operation operation;
  operation.id = OperationId{static_cast<uint32_t>(data_.operations.size())};
  operation.attrs = std::move(wanted.attrs);
  operation.inputs = std::move(wanted.inputs);
  operation.after = std::move(wanted.after);
  operation.name = std::move(wanted.name);
  operation.origin = std::move(wanted.origin);
  const auto is_taken = [&](const std::string& name) {
    return operation_names_.count(name) > 0;
  };
  if (is_taken(operation.name)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: the name is taken, expected another", PlaceOf(operation)));
  }
  NODEWISE_RETURN_IF_ERROR(CheckKind(*this, operation));
  if (operation.name.empty()) {
    operation.name = FreeName(
        fmt::format("{}_{}", operation.kind(), Index(operation.id)), is_taken);
  }
  NODEWISE_RETURN_IF_ERROR(CheckLinks(*this, operation));
  NODEWISE_RETURN_IF_ERROR(CheckPlaceInOrder(operation, wanted.before));
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<std::string> names,
      OutputNames(value_names_, operation, std::move(wanted.outputs)));
  for (const std::string& name : names) {
    // The real numbers follow; which outputs are wanted must be known before.
    operation.outputs.push_back(name.empty() ? kNoValue : ValueId{0});
  }
  NODEWISE_ASSIGN_OR_RETURN(OutputInfos infos, CheckAndInfer(data_, operation));
  if (target_ != nullptr) {
    NODEWISE_RETURN_IF_ERROR(CheckOnTarget(*target_, data_, operation, infos));
  }
  for (OutputInfo& info : infos) {
    if (!keeps_elements_) info.elements.reset();
  }
  return NetworkEditor::AddOperation(this, std::move(operation),
                                     std::move(names), std::move(infos),
                                     wanted.before);
}

absl::Status Network::CheckPlaceInOrder(const Operation& operation,
                                        OperationId before) const {
  if (before == kNoOperation) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, before));
  for (const auto* ids : {&operation.inputs, &operation.after}) {
    for (const ValueId id : *ids) {
      if (id == kNoValue) continue;
      const OperationId maker = value(id).producer;
      if (maker == kNoOperation ||
          positions_[Index(maker)] < positions_[Index(before)]) {
        continue;
      }
      return absl::InvalidArgumentError(fmt::format(
          "{}: cannot run before {}, since it reads {} of {}, which does not",
          PlaceOf(operation), PlaceOf(this->operation(before)),
          TitleOf(data_, id), PlaceOf(this->operation(maker))));
    }
  }
  return absl::OkStatus();
}

absl::Status Network::Remove(OperationId id) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, id));
  const Operation& removed = operation(id);
  std::vector<ValueId> made = removed.outputs;
  made.push_back(removed.barrier);
  for (const ValueId output : made) {
    if (output == kNoValue) continue;
    NODEWISE_RETURN_IF_ERROR(CheckUnused(output, PlaceOf(removed)));
  }
  NetworkEditor::RemoveOperation(this, id);
  return absl::OkStatus();
}

absl::Status Network::RemoveInput(ValueId id) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(*this, id, "input to remove"));
  if (value(id).kind != NetworkValue::Kind::kInput) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is not an input of the network, expected one",
                    TitleOf(data_, id)));
  }
  NODEWISE_RETURN_IF_ERROR(CheckUnused(id, TitleOf(data_, id)));
  NetworkEditor::RemoveValue(this, id);
  return absl::OkStatus();
}

absl::Status Network::CheckUnused(ValueId id, std::string_view place) const {
  std::string reader;
  if (!value(id).uses.empty()) {
    reader = PlaceOf(operation(value(id).uses[0].user));
  } else if (std::find(data_.outputs.begin(), data_.outputs.end(), id) !=
             data_.outputs.end()) {
    reader = "the network as an output";
  } else {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("{}: {} is read by {}, expected no reader (replace the "
                  "uses first)",
                  place, TitleOf(data_, id), reader));
}

size_t Network::RemoveUnused() {
  std::vector<bool> unused = MakersOf(*this, data_.outputs, positions_, 0);
  unused.flip();
  size_t count = 0;
  for (size_t i = 0; i < unused.size(); ++i) {
    unused[i] = unused[i] && data_.operations[i].has_value();
    count += unused[i] ? 1 : 0;
  }
  if (count > 0) NetworkEditor::RemoveOperations(this, unused);
  std::unordered_set<uint32_t> outputs;
  for (const ValueId id : data_.outputs) outputs.insert(Index(id));
  for (uint32_t i = 0; i < data_.values.size(); ++i) {
    const auto& value = data_.values[i];
    if (value.has_value() && value->kind == NetworkValue::Kind::kConstant &&
        value->uses.empty() && outputs.count(i) == 0) {
      NetworkEditor::RemoveValue(this, ValueId{i});
    }
  }
  return count;
}

// --- What has been checked.

ValueId NetworkEditor::PushValue(Network* network, NetworkValue value) {
  value.id = ValueId{static_cast<uint32_t>(network->data_.values.size())};
  if (value.kind != NetworkValue::Kind::kBarrier) {
    network->value_names_.emplace(value.name, value.id);
  }
  network->data_.values.emplace_back(std::move(value));
  return network->data_.values.back()->id;
}

void NetworkEditor::EraseValue(Network* network, ValueId id) {
  auto& value = network->data_.values[Index(id)];
  if (value->kind != NetworkValue::Kind::kBarrier) {
    network->value_names_.erase(value->name);
  }
  value.reset();
}

void NetworkEditor::FindPositions(Network* network, uint32_t first) {
  const std::vector<OperationId>& order = network->data_.order;
  for (uint32_t i = first; i < order.size(); ++i) {
    network->positions_[Index(order[i])] = i;
  }
}

absl::StatusOr<ValueId> NetworkEditor::AddValue(Network* network,
                                                NetworkValue value) {
  NODEWISE_RETURN_IF_ERROR(CheckRoom(network->data_, 1));
  NetworkEditor edit(network);
  const bool is_input = value.kind == NetworkValue::Kind::kInput;
  const ValueId id = PushValue(network, std::move(value));
  if (is_input) network->data_.inputs.push_back(id);
  edit.Keep();
  return id;
}

absl::StatusOr<OperationId> NetworkEditor::AddOperation(
    Network* network, Operation operation, std::vector<std::string> names,
    OutputInfos infos, OperationId before) {
  NetworkData& data = network->data_;
  NODEWISE_RETURN_IF_ERROR(CheckRoom(data, names.size() + 1));
  NetworkEditor edit(network);
  const OperationId id = operation.id;
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    NetworkValue output;
    output.kind = NetworkValue::Kind::kOutput;
    output.name = std::move(names[i]);
    output.type = std::move(infos[i].type);
    output.elements = std::move(infos[i].elements);
    output.producer = id;
    output.slot = i;
    operation.outputs[i] = PushValue(network, std::move(output));
  }
  NetworkValue barrier;
  barrier.kind = NetworkValue::Kind::kBarrier;
  barrier.producer = id;
  operation.barrier = PushValue(network, std::move(barrier));
  for (uint32_t i = 0; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] == kNoValue) continue;
    data.values[Index(operation.inputs[i])]->uses.push_back({id, i});
  }
  for (const ValueId waited_for : operation.after) {
    data.values[Index(waited_for)]->uses.push_back({id, kBarrierSlot});
  }
  network->operation_names_.emplace(operation.name, id);
  data.operations.emplace_back(std::move(operation));
  const uint32_t place = before == kNoOperation
                             ? static_cast<uint32_t>(data.order.size())
                             : edit.position(before);
  data.order.insert(data.order.begin() + place, id);
  network->positions_.push_back(place);
  FindPositions(network, place);
  edit.Keep();
  return id;
}

void NetworkEditor::RemoveValue(Network* network, ValueId id) {
  NetworkEditor edit(network);
  std::vector<ValueId>& inputs = network->data_.inputs;
  if (network->value(id).kind == NetworkValue::Kind::kInput) {
    inputs.erase(std::find(inputs.begin(), inputs.end(), id));
  }
  EraseValue(network, id);
  edit.Keep();
}

void NetworkEditor::RemoveOperation(Network* network, OperationId id) {
  NetworkEditor edit(network);
  NetworkData& data = network->data_;
  const Operation& removed = edit.operation(id);
  for (uint32_t i = 0; i < removed.inputs.size(); ++i) {
    edit.DropUse(removed.inputs[i], {id, i});
  }
  for (const ValueId barrier : removed.after) {
    edit.DropUse(barrier, {id, kBarrierSlot});
  }
  for (const ValueId output : removed.outputs) {
    if (output != kNoValue) EraseValue(network, output);
  }
  EraseValue(network, removed.barrier);
  network->operation_names_.erase(removed.name);
  const uint32_t place = edit.position(id);
  data.order.erase(data.order.begin() + place);
  data.operations[Index(id)].reset();
  FindPositions(network, place);
  edit.Keep();
}

void NetworkEditor::RemoveOperations(Network* network,
                                     const std::vector<bool>& removed) {
  NetworkEditor edit(network);
  NetworkData& data = network->data_;
  for (uint32_t i = 0; i < removed.size(); ++i) {
    if (!removed[i]) continue;
    const Operation& operation = *data.operations[i];
    for (const ValueId output : operation.outputs) {
      if (output != kNoValue) EraseValue(network, output);
    }
    EraseValue(network, operation.barrier);
    network->operation_names_.erase(operation.name);
    data.operations[i].reset();
  }
  for (auto& value : data.values) {
    if (!value.has_value()) continue;
    std::erase_if(value->uses,
                  [&](const Use& use) { return removed[Index(use.user)]; });
  }
  std::erase_if(data.order, [&](OperationId id) { return removed[Index(id)]; });
  FindPositions(network, 0);
  edit.Keep();
}

}  // namespace nodewise
