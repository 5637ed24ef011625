#include "contrib/ir/places.h"

#include <algorithm>

#include "nodewise/ir/verifier.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

// kNoValue and kNoOperation are beyond every list.
template <typename Item, typename Id>
const Item* FindItem(const std::vector<std::optional<Item>>& items, Id id) {
  if (Index(id) >= items.size() || !items[Index(id)]) return nullptr;
  return &*items[Index(id)];
}

// "operation Conv_3: input 1 (W)". All that a variadic parameter takes has its
// formal name.
template <auto kParams>
std::string PlaceOfSlot(const Operation& operation, const char* what,
                        size_t slot) {
  std::string text = fmt::format("{}: {} {}", PlaceOf(operation), what, slot);
  const OperatorDef* const def = operation.attrs.FindDef();
  if (def == nullptr || (def->*kParams).empty()) return text;
  const auto& params = def->*kParams;
  const size_t last = params.size() - 1;
  const Param& param = params[std::min(slot, last)];
  const bool is_named = slot <= last || param.kind == Param::Kind::kVariadic;
  if (is_named && !param.name.empty()) text += fmt::format(" ({})", param.name);
  return text;
}

}  // namespace

const NetworkValue* Find(const NetworkData& data, ValueId id) {
  return FindItem(data.values, id);
}
const Operation* Find(const NetworkData& data, OperationId id) {
  return FindItem(data.operations, id);
}

bool IsAnyMarked(absl::Span<const ValueId> ids,
                 const std::vector<bool>& is_marked) {
  return std::ranges::any_of(ids, [&](ValueId id) {
    return Index(id) < is_marked.size() && is_marked[Index(id)];
  });
}

std::string NameOf(const Operation& operation) {
  return operation.name.empty() ? fmt::format("#{}", Index(operation.id))
                                : std::string(Shortened(operation.name));
}
std::string NameOf(const NetworkValue& value) {
  return value.name.empty() ? fmt::format("%{}", Index(value.id))
                            : std::string(Shortened(value.name));
}

std::string PlaceOf(const Operation& operation) {
  return "operation " + NameOf(operation);
}

std::string PlaceOfInput(const Operation& operation, size_t slot) {
  return PlaceOfSlot<&OperatorDef::inputs>(operation, "input", slot);
}

std::string PlaceOfOutput(const Operation& operation, size_t slot) {
  return PlaceOfSlot<&OperatorDef::outputs>(operation, "output", slot);
}

std::string PlaceOf(const NetworkData& data, const NetworkValue& value) {
  // A barrier has no name of its own, and a number says nothing to a reader.
  const Operation* const producer = Find(data, value.producer);
  if (value.name.empty() && value.kind == NetworkValue::Kind::kBarrier &&
      producer != nullptr) {
    return "the barrier of " + PlaceOf(*producer);
  }
  return "value " + NameOf(value);
}

std::string PlaceOf(const NetworkData& data) {
  return fmt::format("network {}", Shortened(data.name));
}

// Messages about broken links use these: of an item that does not exist, only
// the number is known.
std::string TitleOf(const NetworkData& data, ValueId id) {
  if (id == kNoValue) return "no value";
  const NetworkValue* const value = Find(data, id);
  if (value != nullptr) return PlaceOf(data, *value);
  return fmt::format("value %{}, which does not exist", Index(id));
}

std::string TitleOf(const NetworkData& data, OperationId id) {
  if (id == kNoOperation) return "no operation";
  const Operation* const operation = Find(data, id);
  if (operation != nullptr) return PlaceOf(*operation);
  return fmt::format("operation #{}, which does not exist", Index(id));
}

std::string PathText(const NetworkData& data,
                     absl::Span<const OperationId> path) {
  std::vector<std::string> names;
  names.reserve(path.size());
  for (const OperationId id : path) {
    const Operation* const operation = Find(data, id);
    names.push_back(operation == nullptr ? fmt::format("#{}", Index(id))
                                         : NameOf(*operation));
  }
  return PathText(names);
}

}  // namespace nodewise
