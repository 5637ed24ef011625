#include <algorithm>
#include <map>
#include <set>

#include "contrib/ir/inference.h"
#include "contrib/ir/network_editor.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

using Sizes = std::map<std::string, int64_t, std::less<>>;

// A use that another value takes over.
struct Moved {
  Use use;
  ValueId from;
  ValueId to;
};

// Replaces names by numbers; false if none of them occurs.
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

bool HasNames(const AttrField& field) {
  return field.is_graph || field.is_types;
}

// Returns the attributes with the names bound in their bodies and types; empty
// ones if none of these has one of the names.
absl::StatusOr<OpAttrs> BindAttrs(const OpAttrs& attrs, const Sizes& sizes) {
  bool bound = false;
  std::vector<NamedAttr> named = NamedAttrsOf(attrs);
  for (NamedAttr& attr : named) {
    const auto field = std::find_if(
        attrs.def().fields.begin(), attrs.def().fields.end(),
        [&](const AttrField& each) { return each.name == attr.name; });
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
    for (const Use& use : network.value(id).uses) starts->push_back(use.user);
  }
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    const auto fields = operation.def().fields;
    if (std::none_of(fields.begin(), fields.end(), &HasNames)) continue;
    auto attrs = BindAttrs(operation.attrs, sizes);
    if (!attrs.ok()) return At(PlaceOf(operation), attrs.status());
    if (!attrs->defined()) continue;
    bound = true;
    edit->SetAttrs(id, *std::move(attrs));
    starts->push_back(id);
  }
  return bound;
}

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
  const TensorType given = TensorType::Of(data);
  NODEWISE_RETURN_IF_ERROR(Unite(given, type).status());
  Sizes sizes;
  if (!type.has_rank()) return sizes;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    if (dim.is_known() || dim.name().empty()) continue;
    const int64_t size = (*given.shape)[i].size();
    const auto [place, is_new] = sizes.emplace(dim.name(), size);
    if (is_new || place->second == size) continue;
    return absl::InvalidArgumentError(
        fmt::format("{} makes {} both {} and {}, expected one size",
                    ToString(given), dim.name(), place->second, size));
  }
  return sizes;
}

absl::Status CheckIsInput(const Network& network, ValueId id) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(network, id, "input"));
  if (network.value(id).kind == NetworkValue::Kind::kInput) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: is not an input of the network, expected one",
                  TitleOf(network.data(), id)));
}

bool IsBarrier(const Network& network, ValueId id) {
  return network.value(id).kind == NetworkValue::Kind::kBarrier;
}

// Fails unless from[i] may be replaced by to[i], for all i.
absl::Status CheckPairs(const Network& network, absl::Span<const ValueId> from,
                        absl::Span<const ValueId> to) {
  if (from.size() != to.size()) {
    return absl::InvalidArgumentError(
        fmt::format("network {}: {} values are to be replaced by {}, "
                    "expected as many",
                    Shortened(network.name()), from.size(), to.size()));
  }
  std::set<uint32_t> seen;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto check = network.Has(from[i]) && IsBarrier(network, from[i])
                           ? &CheckBarrier
                           : &CheckTensor;
    NODEWISE_RETURN_IF_ERROR(
        check(network, from[i], fmt::format("value {} to replace", i)));
    NODEWISE_RETURN_IF_ERROR(
        check(network, to[i], fmt::format("replacement {}", i)));
    if (seen.insert(Index(from[i])).second) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: is to be replaced twice, expected once",
                    TitleOf(network.data(), from[i])));
  }
  return absl::OkStatus();
}

uint32_t FirstUser(absl::Span<const uint32_t> positions,
                   const std::vector<Moved>& moved) {
  uint32_t first = UINT32_MAX;
  for (const Moved& each : moved) {
    first = std::min(first, positions[Index(each.use.user)]);
  }
  return first;
}

// The uses of `from` that `to` takes over.
std::vector<Moved> MovedUses(const Network& network,
                             absl::Span<const uint32_t> positions,
                             absl::Span<const ValueId> from,
                             absl::Span<const ValueId> to) {
  std::vector<Moved> moved;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[i]) continue;
    const std::vector<Use>& uses = network.value(from[i]).uses;
    // From the last to the first, which suits DropUse.
    for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
      moved.push_back({*use, from[i], to[i]});
    }
  }
  const std::vector<bool> makers =
      MakersOf(network, to, positions, FirstUser(positions, moved));
  std::erase_if(
      moved, [&](const Moved& each) { return makers[Index(each.use.user)]; });
  return moved;
}

}  // namespace

absl::Status Network::ReplaceInput(OperationId id, uint32_t slot,
                                   ValueId value) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, id));
  const Operation& user = operation(id);
  if (slot > user.inputs.size() && slot >= user.def().inputs.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: the operation has {} inputs, expected one of them or the next",
        PlaceOfInput(user, slot), user.inputs.size()));
  }
  if (value != kNoValue) {
    NODEWISE_RETURN_IF_ERROR(
        CheckTensor(*this, value, PlaceOfInput(user, slot)));
  }
  NetworkEditor edit(this);
  edit.SetSlot(id, slot, value);
  if (value != kNoValue && this->value(value).producer != kNoOperation) {
    NODEWISE_RETURN_IF_ERROR(
        edit.MoveBehind(this->value(value).producer, {id}));
  }
  NODEWISE_RETURN_IF_ERROR(edit.Infer({id}).status());
  edit.Keep();
  return absl::OkStatus();
}

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
    const auto place = std::find(from.begin(), from.end(), data_.outputs[i]);
    if (place == from.end()) continue;
    edit.SetNetworkOutput(i, to[static_cast<size_t>(place - from.begin())]);
  }
  NODEWISE_RETURN_IF_ERROR(edit.Infer(starts).status());
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::RunAfter(OperationId first, OperationId second) {
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, first));
  NODEWISE_RETURN_IF_ERROR(CheckExists(*this, second));
  const ValueId barrier = operation(first).barrier;
  const std::vector<ValueId>& after = operation(second).after;
  if (std::find(after.begin(), after.end(), barrier) != after.end()) {
    return absl::OkStatus();
  }
  NetworkEditor edit(this);
  edit.AddBarrier(second, barrier);
  NODEWISE_RETURN_IF_ERROR(edit.MoveBehind(first, {second}));
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::SetInputType(ValueId id, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckIsInput(*this, id));
  NODEWISE_RETURN_IF_ERROR(At(TitleOf(data_, id), CheckType(type)));
  NetworkEditor edit(this);
  edit.SetInfo(id, std::move(type));
  std::vector<OperationId> users;
  for (const Use& use : value(id).uses) users.push_back(use.user);
  NODEWISE_RETURN_IF_ERROR(edit.Infer(users).status());
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::SetFoundType(ValueId id, TensorType type) {
  NODEWISE_RETURN_IF_ERROR(CheckTensor(*this, id, "found type"));
  const NetworkValue& made = value(id);
  if (made.kind != NetworkValue::Kind::kOutput) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is not made by an operation, expected what is, to "
                    "find its type by a run",
                    TitleOf(data_, id)));
  }
  NODEWISE_RETURN_IF_ERROR(At(TitleOf(data_, id), CheckType(type)));
  NODEWISE_RETURN_IF_ERROR(
      At(TitleOf(data_, id), Unite(made.type, type).status()));
  const OperationId producer = made.producer;
  NetworkEditor edit(this);
  edit.SetFound(id, std::move(type));
  NODEWISE_RETURN_IF_ERROR(edit.Infer({producer}).status());
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::BindDim(std::string_view name, int64_t size) {
  if (size < 0) {
    return absl::InvalidArgumentError(
        fmt::format("dimension {}: is to be {}, expected 0 or more",
                    Shortened(name), size));
  }
  NetworkEditor edit(this);
  std::vector<OperationId> starts;
  const Sizes sizes = {{std::string(name), size}};
  NODEWISE_ASSIGN_OR_RETURN(const bool bound,
                            BindNames(*this, sizes, &edit, &starts));
  if (!bound) {
    return absl::NotFoundError(
        fmt::format("dimension {}: no input of the network has it{}",
                    Shortened(name), DidYouMean(name, DimNames(*this))));
  }
  const auto inferred = edit.Infer(starts);
  if (!inferred.ok()) {
    return At(fmt::format("dimension {} of size {}", Shortened(name), size),
              inferred.status());
  }
  edit.Keep();
  return absl::OkStatus();
}

absl::Status Network::Freeze(ValueId input, NDArray data) {
  NODEWISE_RETURN_IF_ERROR(CheckIsInput(*this, input));
  const std::string place = TitleOf(data_, input);
  if (!data.defined()) {
    return absl::InvalidArgumentError(place + ": no data to freeze it to");
  }
  NODEWISE_RETURN_IF_ERROR(At(place, CheckType(TensorType::Of(*data))));
  auto sizes = SizesIn(value(input).type, *data);
  if (!sizes.ok()) return At(place, sizes.status());
  auto host = ConstantData(std::move(data));
  if (!host.ok()) return At(place, host.status());
  NetworkEditor edit(this);
  edit.MakeConstant(input, *std::move(host));
  std::vector<OperationId> starts;
  for (const Use& use : value(input).uses) starts.push_back(use.user);
  NODEWISE_RETURN_IF_ERROR(BindNames(*this, *sizes, &edit, &starts).status());
  NODEWISE_RETURN_IF_ERROR(edit.Infer(starts).status());
  edit.Keep();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Network::InferAgain() {
  NetworkEditor edit(this);
  NODEWISE_ASSIGN_OR_RETURN(const size_t changed, edit.Infer(data_.order));
  if (changed > 0) edit.Keep();
  return changed;
}

}  // namespace nodewise
