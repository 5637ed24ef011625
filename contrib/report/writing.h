#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/compare/metrics.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/json_writer.h"

namespace nodewise {

// How the functions of this folder write text and documents. A report has
// hundreds of members; written one call each they would hide what is written.

// A member that is left out where its value is empty.
template <typename Value>
struct IfAny {
  const Value& value;
};
template <typename Value>
IfAny(const Value&) -> IfAny<Value>;

// A member that is left out unless a condition holds.
template <typename Value>
std::optional<Value> OptionalIf(bool holds, const Value& value) {
  return holds ? std::optional<Value>(value) : std::nullopt;
}

// Adds one member. An integer of any size is one; nothing is added for an
// optional without a value.
template <typename Value>
void AddMember(JsonWriter* json, std::string_view key, const Value& value) {
  json->Add(key, value);
}
template <std::integral Value>
void AddMember(JsonWriter* json, std::string_view key, const Value& value) {
  if constexpr (std::is_same_v<Value, bool>) {
    json->Add(key, value);
  } else if constexpr (std::is_signed_v<Value>) {
    json->Add(key, static_cast<int64_t>(value));
  } else {
    json->Add(key, static_cast<uint64_t>(value));
  }
}
template <typename Value>
void AddMember(JsonWriter* json, std::string_view key,
               const std::optional<Value>& value) {
  if (value.has_value()) AddMember(json, key, *value);
}
template <typename Value>
void AddMember(JsonWriter* json, std::string_view key,
               const IfAny<Value>& value) {
  if (!value.value.empty()) AddMember(json, key, value.value);
}

// Returns the document of a Report or an Inspection, or a writer itself, so
// that all that follows takes any of them.
template <typename Owner>
JsonWriter* JsonOf(Owner* owner) {
  if constexpr (std::is_same_v<Owner, JsonWriter>) {
    return owner;
  } else {
    return &owner->json;
  }
}

// Adds members in their order: keys, each followed by its value.
template <typename Owner, typename Value, typename... Rest>
void AddMembers(Owner* owner, std::string_view key, const Value& value,
                const Rest&... rest) {
  AddMember(JsonOf(owner), key, value);
  if constexpr (sizeof...(rest) > 0) AddMembers(owner, rest...);
}

// Adds an object of such members. In an array its key is {}.
template <typename Owner, typename... Members>
void AddObject(Owner* owner, std::string_view key, const Members&... members) {
  JsonOf(owner)->BeginObject(key);
  AddMembers(owner, members...);
  JsonOf(owner)->EndObject();
}

// Documents have the numbers themselves, and not the few digits that tell them
// apart in text.
inline void AddElement(JsonWriter* json, std::string_view key,
                       const ElementDifference& element) {
  AddObject(json, key, "element", element.element, "expected", element.expected,
            "actual", element.actual, "error", element.error);
}

// Adds an array with an object for each item, whose members `add_members` adds.
template <typename Owner, typename Items, typename Function>
void AddObjects(Owner* owner, std::string_view key, const Items& items,
                Function add_members) {
  JsonWriter* const json = JsonOf(owner);
  json->BeginArray(key);
  for (const auto& item : items) {
    json->BeginObject();
    add_members(item);
    json->EndObject();
  }
  json->EndArray();
}

// Adds formatted text to what has some: a Report or an Inspection.
template <typename Owner, typename... Values>
void AddText(Owner* owner, fmt::format_string<Values...> format,
             Values&&... values) {
  owner->text += fmt::format(format, std::forward<Values>(values)...);
}

// Adds a line "  title  value" with a formatted value.
template <typename... Values>
void AddFact(Inspection* inspection, const std::string& title,
             fmt::format_string<Values...> format, Values&&... values) {
  AddLine(title, fmt::format(format, std::forward<Values>(values)...),
          inspection);
}

inline void AddNotes(const std::vector<std::string>& notes, Report* report) {
  report->notes.insert(report->notes.end(), notes.begin(), notes.end());
}

// An error in the few digits in which two of them are compared.
inline std::string ShortError(double error) {
  return fmt::format("{:.2g}", error);
}

inline std::vector<std::string> KeysOf(const GraphIndex& index,
                                       const std::vector<NodeId>& nodes) {
  std::vector<std::string> keys;
  for (const NodeId node : nodes) keys.push_back(index.KeyOf(node));
  return keys;
}

}  // namespace nodewise
