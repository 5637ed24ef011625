// The readers of a network, and the edits of its links, types and names. Each
// edit checks its arguments, takes its steps with a NetworkEditor, which takes
// them back unless they are kept, and infers again all that depends on them.

#include <algorithm>
#include <map>
#include <set>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Candidates are sorted, so that of two names that are as near always the same
// one is suggested: the index has no order. This takes long in a large network,
// which is why HasValue() exists.
template <typename Id>
absl::StatusOr<Id> FindByName(
    const char* what, std::string_view name,
    const std::unordered_map<std::string, Id>& names) {
  const auto found = names.find(std::string(name));
  if (found != names.end()) return found->second;
  std::vector<std::string> candidates;
  candidates.reserve(names.size());
  for (const auto& [candidate, id] : names) candidates.push_back(candidate);
  std::ranges::sort(candidates);
  return NotFound("{} {}: the network has none of that name{}", what,
                  Shortened(name), DidYouMean(name, candidates));
}

template <typename Item, typename Id>
absl::StatusOr<const Item*> FindByNumber(const NetworkData& data, Id id,
                                         const char* items) {
  const Item* const item = Find(data, id);
  if (item != nullptr) return item;
  return Invalid("{}: {}, expected one of its {}", PlaceOf(data),
                 TitleOf(data, id), items);
}

template <typename Names>
absl::Status CheckName(const char* what, const std::string& name,
                       const Names& names) {
  if (name.empty()) return Invalid("{}: has no name, expected one", what);
  if (!names.contains(name)) return absl::OkStatus();
  return Invalid("{} {}: the name is taken, expected another", what,
                 Shortened(name));
}

// `names` is the network's index of such items.
template <typename Item, typename Names>
absl::Status RenameItem(const char* what, std::string name, Network* network,
                        Item* item, Names* names) {
  if (item->name == name) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(CheckName(what, name, *names));
  NetworkEditor edit(network);
  names->erase(item->name);
  item->name = std::move(name);
  names->emplace(item->name, item->id);
  edit.Keep();
  return absl::OkStatus();
}

using Sizes = std::map<std::string, int64_t, std::less<>>;

struct Moved {
  Use use;
  ValueId from;
  ValueId to;
};

bool BindShape(const Sizes& sizes, Shape* shape) {
  bool bound = false;
  for (Dim& dim : *shape) {
    if (dim.is_known() || dim.name().empty()) continue;
    const auto size = sizes.find(dim.name());
    if (size == sizes.end()) continue;
    dim = Dim(size->second);
    bound = true;
  }
  return bound;
}

// A body is shared and cannot be changed, so the attribute gets a changed copy
// of it. A name that only some bodies have is not an error.
absl::StatusOr<bool> BindBody(const Sizes& sizes, Subgraph* graph) {
  bool bound = false;
  Network body = *graph->body;
  for (const auto& [name, size] : sizes) {
    const absl::Status status = body.BindDim(name, size);
    if (absl::IsNotFound(status)) continue;
    NODEWISE_RETURN_IF_ERROR(status);
    bound = true;
  }
  graph->body = ShareNetwork(std::move(body));
  return bound;
}

// An operator that is opaque states the types of its results as texts, in
// which the names of sides stand like everywhere else.
absl::StatusOr<bool> BindTypes(const Sizes& sizes,
                               std::vector<std::string>* texts) {
  bool bound = false;
  for (std::string& text : *texts) {
    NODEWISE_ASSIGN_OR_RETURN(TensorType type, ParseTensorType(text));
    if (!type.has_rank() || !BindShape(sizes, &*type.shape)) continue;
    text = ToString(type);
    bound = true;
  }
  return bound;
}

// The attributes in which names of sides may stand: bodies, and the types that
// an operator states of its results.
bool HasNames(const AttrField& field) {
  return field.is_graph || field.is_types;
}

// Returns the attributes with the names bound in their bodies and types; empty
// ones if none of these has one of the names.
absl::StatusOr<OpAttrs> BindAttrs(const OpAttrs& attrs, const Sizes& sizes) {
  bool bound = false;
  std::vector<NamedAttr> named = NamedAttrsOf(attrs);
  for (NamedAttr& attr : named) {
    const auto* const field =
        std::ranges::find(attrs.def().fields, attr.name, &AttrField::name);
    if (!HasNames(*field)) continue;
    auto* const graph = std::get_if<Subgraph>(&attr.value);
    auto* const texts = std::get_if<std::vector<std::string>>(&attr.value);
    const auto now =
        graph != nullptr ? BindBody(sizes, graph) : BindTypes(sizes, texts);
    if (!now.ok()) {
      return At(fmt::format("attribute {}", attr.name), now.status());
    }
    bound = bound || *now;
  }
  if (!bound) return OpAttrs();
  return MakeAttrs(attrs.def(), named);
}

// Returns the operations to infer again when the value changes.
std::vector<OperationId> UsersOf(const NetworkValue& value) {
  std::vector<OperationId> users;
  for (const Use& use : value.uses) users.push_back(use.user);
  return users;
}

// Binds names in the inputs, bodies and stated types, and adds what has to be
// inferred again to `starts`. Returns false if the names do not occur.
absl::StatusOr<bool> BindNames(const Network& network, const Sizes& sizes,
                               NetworkEditor* edit,
                               std::vector<OperationId>* starts) {
  bool bound = false;
  for (const ValueId id : network.inputs()) {
    OutputInfo info(network.value(id).type);
    if (!info.type.has_rank() || !BindShape(sizes, &*info.type.shape)) continue;
    bound = true;
    edit->SetInfo(id, std::move(info));
    const std::vector<OperationId> users = UsersOf(network.value(id));
    starts->insert(starts->end(), users.begin(), users.end());
  }
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const auto fields = operation.def().fields;
    if (std::ranges::none_of(fields, &HasNames)) continue;
    auto attrs = BindAttrs(operation.attrs, sizes);
    if (!attrs.ok()) return At(PlaceOf(operation), attrs.status());
    if (!attrs->defined()) continue;
    bound = true;
    edit->SetAttrs(id, *std::move(attrs));
    starts->push_back(id);
  }
  return bound;
}

// For the hint alone; sides in bodies are bound, too, but named by the inputs
// of the whole.
std::vector<std::string> DimNames(const Network& network) {
  std::set<std::string> names;
  for (const ValueId id : network.inputs()) {
    if (!network.value(id).type.has_rank()) continue;
    for (const Dim& dim : *network.value(id).type.shape) {
      if (!dim.name().empty()) names.insert(dim.name());
    }
  }
  return {names.begin(), names.end()};
}

// Returns the sizes that the names in a type have in data of that type.
absl::StatusOr<Sizes> SizesIn(const TensorType& type, const DLTensor& data) {
  const TensorType given = TensorType::From(data);
  NODEWISE_RETURN_IF_ERROR(Unite(given, type).status());
  Sizes sizes;
  if (!type.has_rank()) return sizes;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    if (dim.is_known() || dim.name().empty()) continue;
    const int64_t size = (*given.shape)[i].size();
    const auto [place, is_new] = sizes.emplace(dim.name(), size);
    if (is_new || place->second == size) continue;
    return Invalid("{} makes {} both {} and {}, expected one size",
                   ToString(given), dim.name(), place->second, size);
  }
  return sizes;
}

absl::Status CheckPairs(const Network& network, absl::Span<const ValueId> from,
                        absl::Span<const ValueId> to) {
  if (from.size() != to.size()) {
    return Invalid("{}: {} values are to be replaced by {}, expected as many",
                   PlaceOf(network.data()), from.size(), to.size());
  }
  std::set<uint32_t> seen;
  for (size_t i = 0; i < from.size(); ++i) {
    const NetworkValue* const replaced = Find(network.data(), from[i]);
    const bool is_barrier =
        replaced != nullptr && replaced->kind == NetworkValue::Kind::kBarrier;
    const auto check = is_barrier ? &CheckBarrier : &CheckTensor;
    NODEWISE_RETURN_IF_ERROR(
        check(network, from[i], fmt::format("value {} to replace", i)));
    NODEWISE_RETURN_IF_ERROR(
        check(network, to[i], fmt::format("replacement {}", i)));
    if (seen.insert(Index(from[i])).second) continue;
    return Invalid("{}: is to be replaced twice, expected once",
                   TitleOf(network.data(), from[i]));
  }
  return absl::OkStatus();
}

// The uses of `from` that `to` takes over.
// The makers of `to` keep reading `from`: that is how something is put
// behind a value, which reads the value itself.
std::vector<Moved> MovedUses(const Network& network,
                             absl::Span<const uint32_t> positions,
                             absl::Span<const ValueId> from,
                             absl::Span<const ValueId> to) {
  std::vector<Moved> moved;
  uint32_t first = UINT32_MAX;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    const std::vector<Use>& uses = network.value(from[i]).uses;
    // From the last to the first, since DropUse() searches from the end.
    for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
      moved.push_back({*use, from[i], to[i]});
      first = std::min(first, positions[Index(use->user)]);
    }
  }
  const std::vector<bool> makers = MakersOf(network, to, positions, first);
  std::erase_if(
      moved, [&](const Moved& each) { return makers[Index(each.use.user)]; });
  return moved;
}

}  // namespace

SharedNetwork ShareNetwork(Network network) {
  return SharedNetwork(std::make_shared<const Network>(std::move(network)));
}

// Who made the tensor may still write to it, unless it is read-only or held
// here alone; then the types and elements that were inferred from it would be
// wrong.
absl::StatusOr<NDArray> ConstantData(NDArray data) {
  const bool is_on_host = DeviceTypeOf(data.device()) == kDLCPU;
  const bool is_ours = data.is_read_only() || data.is_held_once();
  if (!is_on_host || !is_ours || !IsCompact(*data)) {
    NODEWISE_ASSIGN_OR_RETURN(data, data.CopyToHost());
  }
  data.MakeReadOnly();
  return data;
}

Network::Network(std::string name) : version_(NetworkEditor::NextVersion()) {
  data_.name = std::move(name);
}

// The data is checked as a whole, and only then are constants made read-only:
// a copy of what will be refused would be for nothing.
absl::StatusOr<Network> Network::FromData(NetworkData data) {
  const auto findings = Verify(data);
  NODEWISE_RETURN_IF_ERROR(ToStatus(findings));
  for (auto& value : data.values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(value->data,
                              ConstantData(std::move(value->data)));
  }
  Network network;
  network.data_ = std::move(data);
  NetworkEditor::MakeIndex(&network);
  return network;
}

Network::Network(Network&& other) noexcept : Network() {
  *this = std::move(other);
}

// Each of the two gets a version that the other must not have: a side table of
// the network that was moved from would otherwise take the empty network for
// its own.
Network& Network::operator=(Network&& other) noexcept {
  if (this == &other) return *this;
  data_ = std::exchange(other.data_, NetworkData());
  value_names_ = std::exchange(other.value_names_, {});
  operation_names_ = std::exchange(other.operation_names_, {});
  positions_ = std::exchange(other.positions_, {});
  target_ = std::exchange(other.target_, nullptr);
  keeps_elements_ = std::exchange(other.keeps_elements_, true);
  version_ = std::exchange(other.version_, NetworkEditor::NextVersion());
  return *this;
}

// Out of line, so that the readers in the header stay short. The message is
// that of the twins that return a status.
void Network::NoSuch(ValueId id, CodePlace caller) const {
  CheckFailed(caller.file, caller.line,
              std::string(FindValue(id).status().message()).c_str());
}

void Network::NoSuch(OperationId id, CodePlace caller) const {
  CheckFailed(caller.file, caller.line,
              std::string(FindOperation(id).status().message()).c_str());
}

absl::StatusOr<const NetworkValue*> Network::FindValue(ValueId id) const {
  return FindByNumber<NetworkValue>(data_, id, "values");
}

absl::StatusOr<const Operation*> Network::FindOperation(OperationId id) const {
  return FindByNumber<Operation>(data_, id, "operations");
}

bool Network::Has(ValueId id) const { return Find(data_, id) != nullptr; }
bool Network::Has(OperationId id) const { return Find(data_, id) != nullptr; }

bool Network::IsOutput(ValueId id) const {
  return std::ranges::find(data_.outputs, id) != data_.outputs.end();
}

int Network::opset(std::string_view domain) const {
  for (const auto& [name, version] : data_.opsets) {
    if (name == domain) return version;
  }
  return 0;
}

absl::StatusOr<ValueId> Network::FindValue(std::string_view name) const {
  return FindByName("value", name, value_names_);
}

absl::StatusOr<OperationId> Network::FindOperation(
    std::string_view name) const {
  return FindByName("operation", name, operation_names_);
}

bool Network::HasValue(std::string_view name) const {
  return value_names_.contains(std::string(name));
}

bool Network::HasOperation(std::string_view name) const {
  return operation_names_.contains(std::string(name));
}

std::vector<InputInfo> Network::InputsOf(OperationId id,
                                         CodePlace caller) const {
  return InputInfosOf(data_, operation(id, caller).inputs);
}

absl::StatusOr<std::vector<InputInfo>> Network::FindInputsOf(
    OperationId id) const {
  NODEWISE_ASSIGN_OR_RETURN(const Operation* const operation,
                            FindOperation(id));
  return InputInfosOf(data_, operation->inputs);
}

// A class may have several rows, for opsets in which its attributes are the
// same. Where the opset's row is of another class, the newest row of the class
// asked for lets AddOperation() name the opsets that it holds in.
const OperatorDef* Network::RowOf(const OpSet& ops, const void* type) const {
  const OperatorDef* const newest = ops.FindType(type);
  if (newest == nullptr) return nullptr;
  const OperatorDef* const held =
      ops.Find(newest->domain, newest->name, opset(newest->domain));
  return held != nullptr && held->type == type ? held : newest;
}

// All operations, those in bodies too, must hold in the new version: an
// exported model has one version of a domain for all of it.
absl::Status Network::SetOpset(std::string_view domain, int version) {
  const std::string where =
      fmt::format("opset {} of domain \"{}\"", version, Shortened(domain));
  const int newest = NewestOpsetOf(domain);
  if (version < 1 || version > newest) {
    return newest == INT_MAX ? Invalid("{}: expected 1 or more", where)
                             : Invalid("{}: expected 1 to {}", where, newest);
  }
  if (domain == "ai.onnx") {
    return Invalid("{}: expected it as domain \"\"", where);
  }
  const auto opset_of = [&](std::string_view name) {
    return name == domain ? version : opset(name);
  };
  for (const OperationId id : data_.order) {
    const Operation& each = operation(id);
    const absl::Status holds = CheckHoldsIn(each, opset_of(each.def().domain));
    NODEWISE_RETURN_IF_ERROR(At(where, holds));
    NODEWISE_RETURN_IF_ERROR(At(where, CheckBodiesHold(each, opset_of)));
  }
  NetworkEditor edit(this);
  auto& opsets = data_.opsets;
  const auto place = std::ranges::find_if(
      opsets, [&](const auto& opset) { return opset.first == domain; });
  if (place != opsets.end()) {
    place->second = version;
  } else {
    opsets.emplace_back(domain, version);
  }
  edit.Keep();
  return absl::OkStatus();
}

// An input has no producer, so that nothing else needs a check.
absl::StatusOr<ValueId> Network::AddInput(std::string name, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckName("input", name, value_names_));
  NODEWISE_RETURN_IF_ERROR(
      At(fmt::format("input {}", Shortened(name)), CheckType(type)));
  return NetworkEditor::AddValue(
      this, {.name = std::move(name), .type = std::move(type)});
}

// Small integers are kept as elements, too, for the shapes that are made of
// them.
absl::StatusOr<ValueId> Network::AddConstant(
    std::string name, NDArray data, std::vector<std::string> folded_from) {
  if (name.empty()) {
    name = FreeName(
        fmt::format("constant_{}", data_.values.size()),
        [&](const std::string& n) { return value_names_.count(n) > 0; });
  }
  NODEWISE_RETURN_IF_ERROR(CheckName("constant", name, value_names_));
  const std::string place = fmt::format("constant {}", Shortened(name));
  if (!data.defined()) return Invalid("{}: has no data", place);
  NetworkValue value{.kind = NetworkValue::Kind::kConstant,
                     .type = TensorType::From(*data)};
  NODEWISE_RETURN_IF_ERROR(At(place, CheckType(value.type)));
  auto host = ConstantData(std::move(data));
  if (!host.ok()) return At(place, host.status());
  value.name = std::move(name);
  value.elements = ElementsOf(*host);
  value.data = *std::move(host);
  value.folded_from = std::move(folded_from);
  return NetworkEditor::AddValue(this, std::move(value));
}

// Outputs may repeat, and may be inputs or constants; barriers have no data
// that could come out.
absl::Status Network::SetOutputs(std::vector<ValueId> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(CheckTensor(
        *this, outputs[i], fmt::format("{}: output {}", PlaceOf(data_), i)));
  }
  NetworkEditor edit(this);
  data_.outputs = std::move(outputs);
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::Rename(ValueId id, std::string name) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(*this, id, "value to rename"));
  return RenameItem("value", std::move(name), this, &*data_.values[Index(id)],
                    &value_names_);
}

absl::Status Network::Rename(OperationId id, std::string name) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, id));
  return RenameItem("operation", std::move(name), this,
                    &*data_.operations[Index(id)], &operation_names_);
}

// A reader moves behind what it now reads before it is inferred: inference
// goes by the order.
absl::Status Network::ReplaceInput(OperationId id, uint32_t slot,
                                   ValueId value) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, id));
  const Operation& user = operation(id);
  if (slot > user.inputs.size() && slot >= user.def().inputs.size()) {
    return Invalid(
        "{}: the operation has {} inputs, expected one of them or the next",
        PlaceOfInput(user, slot), user.inputs.size());
  }
  if (value != kNoValue) {
    NODEWISE_RETURN_IF_ERROR(
        CheckTensor(*this, value, PlaceOfInput(user, slot)));
  }
  NetworkEditor edit(this);
  edit.SetSlot(id, slot, value);
  const Operation* const maker = value == kNoValue ? nullptr : MakerOf(value);
  if (maker != nullptr) {
    NODEWISE_RETURN_IF_ERROR(edit.MoveBehind(maker->id, {id}));
  }
  return edit.InferAndKeep({id});
}

// All readers of one maker move at once, so that they keep their order among
// themselves, and each part of the network is inferred once, at the end.
absl::Status Network::ReplaceUses(absl::Span<const ValueId> from,
                                  absl::Span<const ValueId> to) {
  NODEWISE_RETURN_IF_ERROR(CheckPairs(*this, from, to));
  const std::vector<Moved> moved = MovedUses(*this, positions_, from, to);
  NetworkEditor edit(this);
  std::map<OperationId, std::vector<OperationId>> users_of;
  std::vector<OperationId> starts;
  for (const Moved& each : moved) {
    if (each.use.slot == kBarrierSlot) {
      edit.ReplaceBarrier(each.use.user, each.from, each.to);
    } else {
      edit.SetSlot(each.use.user, each.use.slot, each.to);
      starts.push_back(each.use.user);
    }
    const OperationId maker = value(each.to).producer;
    if (maker != kNoOperation) users_of[maker].push_back(each.use.user);
  }
  for (const auto& [maker, users] : users_of) {
    NODEWISE_RETURN_IF_ERROR(edit.MoveBehind(maker, users));
  }
  for (size_t i = 0; i < data_.outputs.size(); ++i) {
    const auto place = std::ranges::find(from, data_.outputs[i]);
    if (place == from.end()) continue;
    edit.SetNetworkOutput(i, to[static_cast<size_t>(place - from.begin())]);
  }
  return edit.InferAndKeep(starts);
}

// Types do not depend on barriers, so nothing is inferred.
absl::Status Network::RunAfter(OperationId first, OperationId second) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, first));
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, second));
  const ValueId barrier = operation(first).barrier;
  const std::vector<ValueId>& after = operation(second).after;
  if (std::ranges::find(after, barrier) != after.end()) {
    return absl::OkStatus();
  }
  NetworkEditor edit(this);
  edit.AddBarrier(second, barrier);
  NODEWISE_RETURN_IF_ERROR(edit.MoveBehind(first, {second}));
  edit.Keep();
  return absl::OkStatus();
}

// What is known of the elements goes with the old type.
absl::Status Network::SetInputType(ValueId id, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckInput(*this, id, "input"));
  NODEWISE_RETURN_IF_ERROR(At(TitleOf(data_, id), CheckType(type)));
  NetworkEditor edit(this);
  edit.SetInfo(id, std::move(type));
  return edit.InferAndKeep(UsersOf(value(id)));
}

// The type that was found stays beside the one that is inferred: a later edit
// may make inference say more, or something else.
absl::Status Network::SetFoundType(ValueId id, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(*this, id, "found type"));
  const NetworkValue& made = value(id);
  if (made.kind != NetworkValue::Kind::kOutput) {
    return Invalid(
        "{}: is not made by an operation, expected what is, to find its type "
        "by a run",
        TitleOf(data_, id));
  }
  NODEWISE_RETURN_IF_ERROR(At(TitleOf(data_, id), CheckType(type)));
  NODEWISE_RETURN_IF_ERROR(
      At(TitleOf(data_, id), Unite(made.type, type).status()));
  const OperationId producer = made.producer;
  NetworkEditor edit(this);
  edit.SetFound(id, std::move(type));
  return edit.InferAndKeep({producer});
}

// One name means one number everywhere, so it is bound in all inputs, bodies
// and stated types in one edit; if inference fails with that size, none of
// them changes.
absl::Status Network::BindDim(std::string_view name, int64_t size) {
  if (size < 0) {
    return Invalid("dimension {}: is to be {}, expected 0 or more",
                   Shortened(name), size);
  }
  NetworkEditor edit(this);
  std::vector<OperationId> starts;
  const Sizes sizes = {{std::string(name), size}};
  NODEWISE_ASSIGN_OR_RETURN(const bool bound,
                            BindNames(*this, sizes, &edit, &starts));
  if (!bound) {
    return NotFound("dimension {}: no input of the network has it{}",
                    Shortened(name), DidYouMean(name, DimNames(*this)));
  }
  return At(fmt::format("dimension {} of size {}", Shortened(name), size),
            edit.InferAndKeep(starts));
}

// The data gives names their sizes: an input of type [batch, 3] that becomes
// data of two rows binds `batch` for the others.
absl::Status Network::Freeze(ValueId input, NDArray data) {
  NODEWISE_RETURN_IF_ERROR(CheckInput(*this, input, "input"));
  const std::string place = TitleOf(data_, input);
  if (!data.defined()) return Invalid("{}: no data to freeze it to", place);
  NODEWISE_RETURN_IF_ERROR(At(place, CheckType(TensorType::From(*data))));
  auto sizes = SizesIn(value(input).type, *data);
  if (!sizes.ok()) return At(place, sizes.status());
  auto host = ConstantData(std::move(data));
  if (!host.ok()) return At(place, host.status());
  NetworkEditor edit(this);
  edit.MakeConstant(input, *std::move(host));
  std::vector<OperationId> starts = UsersOf(value(input));
  NODEWISE_RETURN_IF_ERROR(BindNames(*this, *sizes, &edit, &starts).status());
  return edit.InferAndKeep(starts);
}

absl::StatusOr<size_t> Network::InferAgain() {
  NetworkEditor edit(this);
  NODEWISE_ASSIGN_OR_RETURN(const size_t changed, edit.Infer(data_.order));
  if (changed > 0) edit.Keep();
  return changed;
}

}  // namespace nodewise
