#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Return what is stored under a number, valid or not; null if nothing.
const NetworkValue* Find(const NetworkData& data, ValueId id);
const Operation* Find(const NetworkData& data, OperationId id);

// Call f(id, item) for each that there is, by number. The number that an item
// of a damaged network holds may be another.
template <typename F>
void ForEachValue(const NetworkData& data, F f) {
  for (uint32_t i = 0; i < data.values.size(); ++i) {
    if (data.values[i].has_value()) f(ValueId{i}, *data.values[i]);
  }
}
template <typename F>
void ForEachOperation(const NetworkData& data, F f) {
  for (uint32_t i = 0; i < data.operations.size(); ++i) {
    if (data.operations[i].has_value()) f(OperationId{i}, *data.operations[i]);
  }
}
// Calls f(value, slot) for what the operation reads, and with kBarrierSlot for
// what it waits for.
template <typename F>
void ForEachUse(const Operation& operation, F f) {
  for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
    if (operation.inputs[slot] != kNoValue) f(operation.inputs[slot], slot);
  }
  for (const ValueId barrier : operation.after) f(barrier, kBarrierSlot);
}
// Returns whether one of the values has a mark; those beyond the marks have
// none, and neither has kNoValue.
bool IsAnyMarked(absl::Span<const ValueId> ids,
                 const std::vector<bool>& is_marked);

// How messages name a place: "operation Conv_3", "operation Conv_3: input 1
// (W)", "value w", "the barrier of operation Conv_3". Names come from files, so
// they are shortened.
std::string PlaceOf(const Operation& operation);
std::string PlaceOfInput(const Operation& operation, size_t slot);
std::string PlaceOfOutput(const Operation& operation, size_t slot);
std::string PlaceOf(const NetworkData& data, const NetworkValue& value);
std::string PlaceOf(const NetworkData& data);  // "network n"

// Return the name, shortened, or "#3" or "%7" for what has none.
std::string NameOf(const Operation& operation);
std::string NameOf(const NetworkValue& value);

// "value w", "value 7, which does not exist", ...
std::string TitleOf(const NetworkData& data, ValueId id);
std::string TitleOf(const NetworkData& data, OperationId id);

// Lists operations: "a -> b -> a", cut in the middle if there are very many.
std::string PathText(const NetworkData& data,
                     absl::Span<const OperationId> path);

// Returns kInvalidArgument with this message.
template <typename... Args>
absl::Status Invalid(fmt::format_string<const Args&...> format,
                     const Args&... args) {
  return InvalidArgument(format, args...);
}

}  // namespace nodewise
