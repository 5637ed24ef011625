#include "contrib/ir/places.h"

#include "fmt/format.h"
#include "nodewise/ir/cycles.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

template <typename Item, typename Id>
const Item* FindItem(const std::vector<std::optional<Item>>& items, Id id) {
  if (Index(id) >= items.size()) return nullptr;
  const std::optional<Item>& item = items[Index(id)];
  return item.has_value() ? &*item : nullptr;
}

// The formal name of input or output `slot`, or "".
template <size_t kMost>
std::string_view FormalName(const RowList<Param, kMost>& params, size_t slot) {
  if (slot < params.size()) return params[slot].name;
  if (params.empty()) return "";
  const Param& last = params[params.size() - 1];
  return last.kind == Param::Kind::kVariadic ? last.name : "";
}

std::string SlotText(const char* what, size_t slot, std::string_view formal) {
  std::string text = fmt::format(": {} {}", what, slot);
  if (!formal.empty()) text += fmt::format(" ({})", formal);
  return text;
}

}  // namespace

const NetworkValue* Find(const NetworkData& data, ValueId id) {
  return FindItem(data.values, id);
}

const Operation* Find(const NetworkData& data, OperationId id) {
  return FindItem(data.operations, id);
}

std::string NameOf(const Operation& operation) {
  if (operation.name.empty()) {
    return fmt::format("#{}", Index(operation.id));
  }
  return std::string(Shortened(operation.name));
}

std::string NameOf(const NetworkValue& value) {
  if (value.name.empty()) return fmt::format("%{}", Index(value.id));
  return std::string(Shortened(value.name));
}

std::string PlaceOf(const Operation& operation) {
  return "operation " + NameOf(operation);
}

std::string PlaceOfInput(const Operation& operation, size_t slot) {
  const std::string_view formal =
      operation.attrs.defined() ? FormalName(operation.def().inputs, slot) : "";
  return PlaceOf(operation) + SlotText("input", slot, formal);
}

std::string PlaceOfOutput(const Operation& operation, size_t slot) {
  const std::string_view formal =
      operation.attrs.defined() ? FormalName(operation.def().outputs, slot)
                                : "";
  return PlaceOf(operation) + SlotText("output", slot, formal);
}

std::string PlaceOf(const NetworkData& data, const NetworkValue& value) {
  if (!value.name.empty()) {
    return fmt::format("value {}", Shortened(value.name));
  }
  const Operation* const producer = Find(data, value.producer);
  if (value.kind == NetworkValue::Kind::kBarrier && producer != nullptr) {
    return "the barrier of " + PlaceOf(*producer);
  }
  return fmt::format("value %{}", Index(value.id));
}

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
