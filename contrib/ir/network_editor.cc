// How networks are edited: adding and removing operations, and the steps of
// other edits, which network.cc puts together.
//
// Every step changes both ends of a link and leaves behind a function that
// takes it back. An edit that finds a fault returns its error, and the
// destructor of its editor runs these functions from the last to the first, so
// that the network is as it was. Nothing is checked in the steps: callers
// check what they are given before, and inference and the search for cycles
// find afterwards what only shows then.

#include "contrib/ir/network_editor.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "contrib/ir/inference.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

bool IsBarrier(const NetworkValue& value) {
  return value.kind == NetworkValue::Kind::kBarrier;
}

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
  std::ranges::reverse(path);
  const OperationId first = path.front();
  path.push_back(first);
  return Invalid("{}: would depend on itself: {}, expected no cycle",
                 TitleOf(data, first), PathText(data, path));
}

// Higher numbers are not used; the highest ones mean "none".
constexpr size_t kMostItems = size_t{1} << 31;

// Numbers are never used again, so that a network that is edited very often
// may run out of them.
absl::Status CheckRoom(const NetworkData& data, size_t more) {
  if (data.values.size() + more < kMostItems &&
      data.operations.size() + 1 < kMostItems) {
    return absl::OkStatus();
  }
  return ResourceExhausted(
      "{}: has no numbers left, expected fewer than {} values", PlaceOf(data),
      kMostItems);
}

// Checks what an operation is by itself: its operator, the opset, its
// attributes, and that its bodies are there and capture no more than it reads.
absl::Status CheckKind(const Network& network, const Operation& operation) {
  if (!operation.attrs.defined()) {
    return Invalid("{}: has no operator, expected one of the operator set",
                   PlaceOf(operation));
  }
  const OperatorDef& def = operation.def();
  if (network.opset(def.domain) == 0) {
    return Invalid(
        "{}: the network has no opset of domain \"{}\", expected one for {} "
        "(SetOpset)",
        PlaceOf(operation), def.domain, def.name);
  }
  NODEWISE_RETURN_IF_ERROR(CheckHoldsIn(operation, network.opset(def.domain)));
  NODEWISE_RETURN_IF_ERROR(CheckBodiesHold(
      operation,
      [&](std::string_view domain) { return network.opset(domain); }));
  NODEWISE_RETURN_IF_ERROR(
      At(PlaceOf(operation), CheckRequired(operation.attrs)));
  size_t captures = 0;
  for (const NamedBody& body : BodiesOf(operation.attrs)) {
    captures += body.graph.captures;
    if (body.graph.body != nullptr) continue;
    return Invalid("{}: attribute {} has no graph", PlaceOf(operation),
                   body.attribute);
  }
  if (captures <= operation.inputs.size()) return absl::OkStatus();
  return Invalid(
      "{}: its bodies capture {} values, expected at most its {} inputs",
      PlaceOf(operation), captures, operation.inputs.size());
}

// Checks that what it reads are tensors, and what it waits for are different
// barriers. Inference may follow the links after that.
absl::Status CheckLinks(const Network& network, const Operation& operation) {
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    if (operation.inputs[i] == kNoValue) continue;
    // The text of the place is made only if it is needed.
    const NetworkValue* const input = Find(network.data(), operation.inputs[i]);
    if (input != nullptr && !IsBarrier(*input)) continue;
    return CheckTensor(network, operation.inputs[i],
                       PlaceOfInput(operation, i));
  }
  for (size_t i = 0; i < operation.after.size(); ++i) {
    const ValueId barrier = operation.after[i];
    const std::string place =
        fmt::format("{}: barrier {}", PlaceOf(operation), i);
    NODEWISE_RETURN_IF_ERROR(CheckBarrier(network, barrier, place));
    const auto first = std::ranges::find(operation.after, barrier);
    if (first == operation.after.begin() + static_cast<ptrdiff_t>(i)) continue;
    return Invalid("{}: is {} again, expected it once", place,
                   TitleOf(network.data(), barrier));
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
      return Invalid("{}: the name {} is taken, expected another",
                     PlaceOfOutput(operation, i), Shortened(names[i]));
    }
    own.insert(names[i]);
  }
  return names;
}

}  // namespace

// Backwards, since each function knows only the state that its own step has
// left behind.
NetworkEditor::~NetworkEditor() {
  for (; !undo_.empty(); undo_.pop_back()) undo_.back()();
}

void NetworkEditor::Keep() {
  undo_.clear();
  network_.version_ = NextVersion();
}

// One counter for all networks of the process: a side table of one network
// cannot be taken for that of another. Atomic, since different networks may be
// edited in different threads.
uint64_t NetworkEditor::NextVersion() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

SharedNetwork NetworkEditor::Unverified(NetworkData data) {
  Network network;
  network.data_ = std::move(data);
  return ShareNetwork(std::move(network));
}

// Barriers have no names, so they are in no index.
void NetworkEditor::MakeIndex(Network* network) {
  const NetworkData& data = network->data_;
  network->value_names_.clear();
  network->operation_names_.clear();
  network->positions_.assign(data.operations.size(), UINT32_MAX);
  ForEachValue(data, [&](ValueId id, const NetworkValue& value) {
    if (!IsBarrier(value)) network->value_names_.emplace(value.name, id);
  });
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

// The last use moves into the gap: uses have no order that means anything, and
// a constant that hundreds of operations read would make every other way slow.
// The use is found from the end.
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

// The slot may be one beyond the last: an optional input that was not given
// before. Taking that back shortens the list again, after the old value is
// back in it.
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
  const auto place = std::ranges::find(after, from);
  // The user may wait for the other barrier already.
  if (std::ranges::find(after, to) != after.end()) {
    after.erase(place);
  } else {
    *place = to;
    AddUse(to, {user, kBarrierSlot});
  }
  DropUse(from, {user, kBarrierSlot});
}

void NetworkEditor::SetNetworkOutput(size_t i, ValueId value) {
  Set(data().outputs[i], value);
}

// Type and elements change together: what is downstream reads both.
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
  Set(value(id).found, std::optional(std::move(type)));
}

void NetworkEditor::SetAttrs(OperationId id, OpAttrs attrs) {
  Set(operation(id).attrs, std::move(attrs));
}

// The value keeps its number, its name and its uses, so that nothing that
// reads it has to change.
void NetworkEditor::MakeConstant(ValueId input, NDArray tensor) {
  std::vector<ValueId>& inputs = data().inputs;
  undo_.push_back([this, input, old = inputs] {
    data().inputs = old;
    value(input).kind = NetworkValue::Kind::kInput;
    value(input).data = NDArray();
  });
  inputs.erase(std::ranges::find(inputs, input));
  OutputInfo info(TensorType::From(*tensor));
  info.elements = ElementsOf(tensor);
  value(input).kind = NetworkValue::Kind::kConstant;
  value(input).data = std::move(tensor);
  SetInfo(input, std::move(info));
}

// After the swaps `part` holds the old order, which is what taking it back
// needs.
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

// One walk over the part of the order between the first that moves and `last`.
// What depends on one that moves has to move, too; since makers precede users,
// all of them are known when the walk comes to a user. `via` remembers through
// which maker, and so has the path if `last` itself would have to move: then
// there is a cycle. Those that stay keep their order, and then come those that
// move, in theirs.
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

// A value that comes out as it was ends the walk there. Types and elements are
// compared, since the elements of a shape may change where its type does not.
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

// A set of positions serves as the queue: an operation that several changed
// values lead to is inferred once, after all of them.
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

absl::Status NetworkEditor::InferAndKeep(
    const std::vector<OperationId>& starts) {
  NODEWISE_RETURN_IF_ERROR(Infer(starts).status());
  Keep();
  return absl::OkStatus();
}

// Nothing before position `first` can depend on what is looked for, which
// keeps an edit near the end of a long network cheap.
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
  return Invalid("network {}: has no {}", network.name(),
                 TitleOf(network.data(), id));
}

absl::Status CheckTensor(const Network& network, ValueId id,
                         std::string_view place) {
  if (network.Has(id) && !IsBarrier(network.value(id))) return absl::OkStatus();
  return Invalid("{}: is {}, expected a tensor of the network", place,
                 TitleOf(network.data(), id));
}

absl::Status CheckBarrier(const Network& network, ValueId id,
                          std::string_view place) {
  if (network.Has(id) && IsBarrier(network.value(id))) return absl::OkStatus();
  return Invalid("{}: is {}, expected a barrier of the network", place,
                 TitleOf(network.data(), id));
}

absl::Status CheckInput(const Network& network, ValueId id,
                        std::string_view place) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(network, id, place));
  if (network.value(id).kind == NetworkValue::Kind::kInput) {
    return absl::OkStatus();
  }
  return Invalid("{}: is not an input of the network, expected one",
                 TitleOf(network.data(), id));
}

// All checks come before the first change: what follows them cannot fail but
// for a lack of numbers. The names are made up last, since an operator that is
// missing has none to make them of.
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
    return Invalid("{}: the name is taken, expected another",
                   PlaceOf(operation));
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

// An operation that is added at the end needs no check, since all that it can
// read is before it.
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
      return Invalid(
          "{}: cannot run before {}, since it reads {} of {}, which does not",
          PlaceOf(operation), PlaceOf(this->operation(before)),
          TitleOf(data_, id), PlaceOf(this->operation(maker)));
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
  NODEWISE_RETURN_IF_ERROR(CheckInput(*this, id, "input to remove"));
  NODEWISE_RETURN_IF_ERROR(CheckUnused(id, TitleOf(data_, id)));
  NetworkEditor::RemoveValue(this, id);
  return absl::OkStatus();
}

// The first reader is enough for the message.
absl::Status Network::CheckUnused(ValueId id, std::string_view place) const {
  std::string reader;
  if (!value(id).uses.empty()) {
    reader = PlaceOf(operation(value(id).uses[0].user));
  } else if (IsOutput(id)) {
    reader = "the network as an output";
  } else {
    return absl::OkStatus();
  }
  return FailedPrecondition(
      "{}: {} is read by {}, expected no reader (replace the uses first)",
      place, TitleOf(data_, id), reader);
}

// Operations first: constants lose their readers with them.
size_t Network::RemoveUnused() {
  std::vector<bool> unused = MakersOf(*this, data_.outputs, positions_, 0);
  unused.flip();
  size_t count = 0;
  for (size_t i = 0; i < unused.size(); ++i) {
    unused[i] = unused[i] && data_.operations[i].has_value();
    count += unused[i] ? 1 : 0;
  }
  if (count > 0) NetworkEditor::RemoveOperations(this, unused);
  // A set, since there may be many constants and outputs.
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

// The index of names holds tensors alone.
ValueId NetworkEditor::PushValue(Network* network, NetworkValue value) {
  value.id = ValueId{static_cast<uint32_t>(network->data_.values.size())};
  if (!IsBarrier(value)) network->value_names_.emplace(value.name, value.id);
  network->data_.values.emplace_back(std::move(value));
  return network->data_.values.back()->id;
}

void NetworkEditor::EraseValue(Network* network, ValueId id) {
  auto& value = network->data_.values[Index(id)];
  if (!IsBarrier(*value)) network->value_names_.erase(value->name);
  value.reset();
}

void NetworkEditor::EraseOperation(Network* network, OperationId id) {
  std::optional<Operation>& operation = network->data_.operations[Index(id)];
  for (const ValueId output : operation->outputs) {
    if (output != kNoValue) EraseValue(network, output);
  }
  EraseValue(network, operation->barrier);
  network->operation_names_.erase(operation->name);
  operation.reset();
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

// The real numbers of outputs are known only now; until here the operation had
// placeholders for those that are wanted. Nothing here is taken back, so no
// step is recorded.
absl::StatusOr<OperationId> NetworkEditor::AddOperation(
    Network* network, Operation operation, std::vector<std::string> names,
    OutputInfos infos, OperationId before) {
  NetworkData& data = network->data_;
  NODEWISE_RETURN_IF_ERROR(CheckRoom(data, names.size() + 1));
  NetworkEditor edit(network);
  const OperationId id = operation.id;
  for (uint32_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    operation.outputs[i] =
        PushValue(network, {.kind = NetworkValue::Kind::kOutput,
                            .name = std::move(names[i]),
                            .type = std::move(infos[i].type),
                            .elements = std::move(infos[i].elements),
                            .producer = id,
                            .slot = i});
  }
  operation.barrier = PushValue(
      network, {.kind = NetworkValue::Kind::kBarrier, .producer = id});
  ForEachUse(operation, [&](ValueId read, uint32_t slot) {
    data.values[Index(read)]->uses.push_back({id, slot});
  });
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
    inputs.erase(std::ranges::find(inputs, id));
  }
  EraseValue(network, id);
  edit.Keep();
}

// Removes one operation: only what is near it changes, but for the positions of
// those that follow.
void NetworkEditor::RemoveOperation(Network* network, OperationId id) {
  NetworkEditor edit(network);
  NetworkData& data = network->data_;
  ForEachUse(edit.operation(id), [&](ValueId read, uint32_t slot) {
    edit.DropUse(read, {id, slot});
  });
  EraseOperation(network, id);
  const uint32_t place = edit.position(id);
  data.order.erase(data.order.begin() + place);
  FindPositions(network, place);
  edit.Keep();
}

// Removes many operations in one walk over all uses; a walk for each of them
// would take time with the square of their number.
void NetworkEditor::RemoveOperations(Network* network,
                                     const std::vector<bool>& removed) {
  NetworkEditor edit(network);
  NetworkData& data = network->data_;
  for (uint32_t i = 0; i < removed.size(); ++i) {
    if (removed[i]) EraseOperation(network, OperationId{i});
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
