#pragma once

// Lists of attributes that operators, or versions of one, have in common.

#include <algorithm>
#include <array>

#include "nodewise/op/op_row.h"

namespace nodewise {

// Returns the attributes of all lists, one list after the other.
template <size_t... kCounts>
constexpr auto JoinedFields(const std::array<AttrField, kCounts>&... lists) {
  std::array<AttrField, (kCounts + ...)> all{};
  auto to = all.begin();
  ((to = std::copy(lists.begin(), lists.end(), to)), ...);
  return all;
}
// Returns the attributes of all lists by their names. Networks are printed in
// the order of the list, which has been that of the alphabet from the start.
template <size_t... kCounts>
constexpr auto SortedFields(const std::array<AttrField, kCounts>&... lists) {
  auto all = JoinedFields(lists...);
  std::sort(all.begin(), all.end(), [](const AttrField& a, const AttrField& b) {
    return a.name < b.name;
  });
  return all;
}

}  // namespace nodewise
