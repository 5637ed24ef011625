#include "contrib/ir/network_editor.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_map>

#include "contrib/ir/inference.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Calls `visit` with the producer of each value that the operation reads or
// waits for.
template <typename Visit>
void ForEachMaker(const Network& network, const Operation& operation,
                  Visit visit) {
  for (const auto* ids : {&operation.inputs, &operation.after}) {
    for (const ValueId id : *ids) {
      if (id == kNoValue) continue;
      const OperationId maker = network.value(id).producer;
      if (maker != kNoOperation) visit(maker);
    }
  }
}

// The cycle that ends with `last` reading what `via` leads to.
absl::Status Cycle(const NetworkData& data, OperationId last,
                   const std::unordered_map<uint32_t, OperationId>& via) {
  std::vector<OperationId> path = {last};
  for (auto step = via.find(Index(last)); step != via.end();
       step = via.find(Index(path.back()))) {
    path.push_back(step->second);
  }
  std::reverse(path.begin(), path.end());
  const OperationId first = path.front();
  path.push_back(first);
  return absl::InvalidArgumentError(
      fmt::format("{}: would depend on itself: {}, expected no cycle",
                  TitleOf(data, first), PathText(data, path)));
}

}  // namespace

NetworkEditor::~NetworkEditor() {
  for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
}

void NetworkEditor::Keep() {
  undo_.clear();
  network_.version_ = NextVersion();
}

uint64_t NetworkEditor::NextVersion() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

SharedNetwork NetworkEditor::Unverified(NetworkData data) {
  Network network;
  network.data_ = std::move(data);
  return ShareNetwork(std::move(network));
}

void NetworkEditor::MakeIndex(Network* network) {
  const NetworkData& data = network->data_;
  network->value_names_.clear();
  network->operation_names_.clear();
  network->positions_.assign(data.operations.size(), UINT32_MAX);
  for (const auto& value : data.values) {
    if (value.has_value() && value->kind != NetworkValue::Kind::kBarrier) {
      network->value_names_.emplace(value->name, value->id);
    }
  }
  for (uint32_t i = 0; i < data.order.size(); ++i) {
    const Operation& operation = network->operation(data.order[i]);
    network->operation_names_.emplace(operation.name, operation.id);
    network->positions_[Index(operation.id)] = i;
  }
}

void NetworkEditor::AddUse(ValueId id, Use use) {
  if (id == kNoValue) return;
  value(id).uses.push_back(use);
  undo_.push_back([this, id] { value(id).uses.pop_back(); });
}

void NetworkEditor::DropUse(ValueId id, Use use) {
  if (id == kNoValue) return;
  std::vector<Use>& uses = value(id).uses;
  // Callers that drop many uses go from the last to the first.
  size_t i = uses.size();
  while (i > 0 && !(uses[i - 1] == use)) --i;
  NODEWISE_CHECK(i > 0);
  uses[i - 1] = uses.back();
  uses.pop_back();
  undo_.push_back([this, id, i, use] {
    std::vector<Use>& all = value(id).uses;
    all.push_back(use);
    std::swap(all[i - 1], all.back());
  });
}

void NetworkEditor::SetSlot(OperationId user, uint32_t slot, ValueId value) {
  std::vector<ValueId>& inputs = operation(user).inputs;
  const size_t size = inputs.size();
  if (slot >= size) {
    inputs.resize(slot + 1, kNoValue);
    undo_.push_back(
        [this, user, size] { operation(user).inputs.resize(size, kNoValue); });
  }
  const ValueId old = std::exchange(inputs[slot], value);
  undo_.push_back(
      [this, user, slot, old] { operation(user).inputs[slot] = old; });
  DropUse(old, {user, slot});
  AddUse(value, {user, slot});
}

void NetworkEditor::AddBarrier(OperationId user, ValueId barrier) {
  operation(user).after.push_back(barrier);
  undo_.push_back([this, user] { operation(user).after.pop_back(); });
  AddUse(barrier, {user, kBarrierSlot});
}

void NetworkEditor::ReplaceBarrier(OperationId user, ValueId from, ValueId to) {
  std::vector<ValueId>& after = operation(user).after;
  undo_.push_back([this, user, old = after] { operation(user).after = old; });
  // The user may wait for the other barrier already.
  const bool is_there =
      std::find(after.begin(), after.end(), to) != after.end();
  const auto place = std::find(after.begin(), after.end(), from);
  if (is_there) {
    after.erase(place);
  } else {
    *place = to;
    AddUse(to, {user, kBarrierSlot});
  }
  DropUse(from, {user, kBarrierSlot});
}

void NetworkEditor::SetNetworkOutput(size_t i, ValueId value) {
  const ValueId old = std::exchange(data().outputs[i], value);
  undo_.push_back([this, i, old] { data().outputs[i] = old; });
}

void NetworkEditor::SetInfo(ValueId id, OutputInfo info) {
  NetworkValue& changed = value(id);
  undo_.push_back([this, id, type = changed.type, elements = changed.elements] {
    value(id).type = type;
    value(id).elements = elements;
  });
  changed.type = std::move(info.type);
  changed.elements = std::move(info.elements);
}

void NetworkEditor::SetFound(ValueId id, TensorType type) {
  undo_.push_back([this, id, old = value(id).found] { value(id).found = old; });
  value(id).found = std::move(type);
}

void NetworkEditor::SetAttrs(OperationId id, OpAttrs attrs) {
  undo_.push_back(
      [this, id, old = operation(id).attrs] { operation(id).attrs = old; });
  operation(id).attrs = std::move(attrs);
}

void NetworkEditor::MakeConstant(ValueId input, NDArray tensor) {
  std::vector<ValueId>& inputs = data().inputs;
  undo_.push_back([this, input, old = inputs] {
    data().inputs = old;
    value(input).kind = NetworkValue::Kind::kInput;
    value(input).data = NDArray();
  });
  inputs.erase(std::find(inputs.begin(), inputs.end(), input));
  OutputInfo info(TensorType::Of(*tensor));
  info.elements = ElementsOf(tensor);
  value(input).kind = NetworkValue::Kind::kConstant;
  value(input).data = std::move(tensor);
  SetInfo(input, std::move(info));
}

void NetworkEditor::WriteOrder(uint32_t first, std::vector<OperationId> part) {
  for (uint32_t i = 0; i < part.size(); ++i) {
    std::swap(data().order[first + i], part[i]);
    network_.positions_[Index(data().order[first + i])] = first + i;
  }
  undo_.push_back([this, first, part = std::move(part)] {
    for (uint32_t i = 0; i < part.size(); ++i) {
      data().order[first + i] = part[i];
      network_.positions_[Index(part[i])] = first + i;
    }
  });
}

absl::Status NetworkEditor::MoveBehind(OperationId last,
                                       const std::vector<OperationId>& moved) {
  const uint32_t end = position(last);
  uint32_t first = end + 1;
  std::vector<bool> moves(data().operations.size(), false);
  for (const OperationId id : moved) {
    if (position(id) > end) continue;
    moves[Index(id)] = true;
    first = std::min(first, position(id));
  }
  if (first > end) return absl::OkStatus();
  std::vector<OperationId> staying;
  std::vector<OperationId> moving;
  std::unordered_map<uint32_t, OperationId> via;
  for (uint32_t i = first; i <= end; ++i) {
    const OperationId id = data().order[i];
    if (!moves[Index(id)]) {
      ForEachMaker(network_, operation(id), [&](OperationId maker) {
        if (!moves[Index(maker)] || moves[Index(id)]) return;
        moves[Index(id)] = true;
        via.emplace(Index(id), maker);
      });
    }
    (moves[Index(id)] ? moving : staying).push_back(id);
  }
  if (moves[Index(last)]) return Cycle(data(), last, via);
  staying.insert(staying.end(), moving.begin(), moving.end());
  WriteOrder(first, std::move(staying));
  return absl::OkStatus();
}

absl::Status NetworkEditor::InferOne(OperationId id,
                                     std::vector<ValueId>* changed) {
  const Operation& inferred = operation(id);
  NODEWISE_ASSIGN_OR_RETURN(OutputInfos infos, CheckAndInfer(data(), inferred));
  if (network_.target_ != nullptr) {
    NODEWISE_RETURN_IF_ERROR(
        CheckOnTarget(*network_.target_, data(), inferred, infos));
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    const ValueId output = inferred.outputs[i];
    if (output == kNoValue) continue;
    const NetworkValue& now = value(output);
    if (now.type == infos[i].type && now.elements == infos[i].elements) {
      continue;
    }
    SetInfo(output, std::move(infos[i]));
    changed->push_back(output);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> NetworkEditor::Infer(
    const std::vector<OperationId>& starts) {
  // In the order in which they run, so that each is inferred once.
  std::set<uint32_t> waiting;
  for (const OperationId id : starts) waiting.insert(position(id));
  size_t count = 0;
  std::vector<ValueId> changed;
  while (!waiting.empty()) {
    const OperationId id = data().order[*waiting.begin()];
    waiting.erase(waiting.begin());
    changed.clear();
    NODEWISE_RETURN_IF_ERROR(InferOne(id, &changed));
    count += changed.size();
    for (const ValueId output : changed) {
      for (const Use& use : value(output).uses) {
        if (use.slot != kBarrierSlot) waiting.insert(position(use.user));
      }
    }
  }
  return count;
}

std::vector<bool> MakersOf(const Network& network,
                           absl::Span<const ValueId> values,
                           absl::Span<const uint32_t> positions,
                           uint32_t first) {
  std::vector<bool> makers(network.data().operations.size(), false);
  std::vector<OperationId> open;
  const auto add = [&](OperationId id) {
    if (makers[Index(id)] || positions[Index(id)] < first) return;
    makers[Index(id)] = true;
    open.push_back(id);
  };
  for (const ValueId id : values) {
    const OperationId maker = network.value(id).producer;
    if (maker != kNoOperation) add(maker);
  }
  while (!open.empty()) {
    const OperationId id = open.back();
    open.pop_back();
    ForEachMaker(network, network.operation(id), add);
  }
  return makers;
}

absl::Status CheckExists(const Network& network, OperationId id) {
  if (network.Has(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "network {}: has no {}", network.name(), TitleOf(network.data(), id)));
}

absl::Status CheckTensor(const Network& network, ValueId id,
                         std::string_view place) {
  if (network.Has(id) &&
      network.value(id).kind != NetworkValue::Kind::kBarrier) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: is {}, expected a tensor of the network", place,
                  TitleOf(network.data(), id)));
}

absl::Status CheckBarrier(const Network& network, ValueId id,
                          std::string_view place) {
  if (network.Has(id) &&
      network.value(id).kind == NetworkValue::Kind::kBarrier) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: is {}, expected a barrier of the network", place,
                  TitleOf(network.data(), id)));
}

}  // namespace nodewise
