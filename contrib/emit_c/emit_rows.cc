#include <unordered_map>

#include "contrib/emit_c/rows.h"
#include "nodewise/emit_c/emit_c.h"

namespace nodewise {
namespace emit_c {

std::vector<absl::Span<const Row>> AllRows() {
  return {UnaryRows(),     BinaryRows(),    ProductRows(),   WindowRows(),
          ReductionRows(), NormRows(),      MoveRows(),      PickRows(),
          ScatterRows(),   TransformRows(), QuantizedRows(), ResizeRows(),
          RecurrentRows(), BodyRows()};
}

const Row* FindRow(const void* type) {
  static const auto* const by_type = [] {
    auto* const rows = new std::unordered_map<const void*, const Row*>();
    for (const auto family : AllRows()) {
      for (const Row& row : family) rows->emplace(row.type, &row);
    }
    return rows;
  }();
  const auto found = by_type->find(type);
  return found == by_type->end() ? nullptr : found->second;
}

}  // namespace emit_c

std::vector<std::string_view> EmittedOperators() {
  std::vector<std::string_view> names;
  for (const auto family : emit_c::AllRows()) {
    for (const emit_c::Row& row : family) {
      if (names.empty() || names.back() != row.name) names.push_back(row.name);
    }
  }
  return names;
}

}  // namespace nodewise
