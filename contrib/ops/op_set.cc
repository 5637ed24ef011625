#include <algorithm>
#include <tuple>
#include <vector>

#include "contrib/ops/op_families.h"
#include "nodewise/ops/ops.h"

namespace nodewise {
namespace {

constexpr absl::Span<const OperatorDef> (*kFamilies[])() = {
    &UnaryOperators,        &ArithmeticOperators,  &LogicOperators,
    &CastOperators,         &MatmulOperators,      &EinsumOperators,
    &DetOperators,          &ConvOperators,        &PoolOperators,
    &RoiOperators,          &NormOperators,        &LayerNormOperators,
    &SoftmaxOperators,      &ReduceOperators,      &AxisOperators,
    &LayoutOperators,       &PadOperators,         &IndexingOperators,
    &ConstantOperators,     &SelectionOperators,   &ResizeOperators,
    &SamplingOperators,     &QuantizeOperators,    &RecurrentOperators,
    &ControlFlowOperators,  &AttentionOperators,   &LinearAttentionOperators,
    &CausalConvOperators,   &SignalOperators,      &OpaqueOperators,
    &TreeEnsembleOperators, &RandomOperators,      &DropoutOperators,
    &EncoderOperators,      &LinearModelOperators,
};

// Returns the rows of all families. Each ends where the next row of the same
// operator begins, so that the tables need to say only in which opset a row
// begins to hold.
std::vector<OperatorDef> AllRows() {
  std::vector<OperatorDef> rows;
  for (const auto family : kFamilies) {
    const auto part = family();
    rows.insert(rows.end(), part.begin(), part.end());
  }
  for (size_t i = 0; i < rows.size(); ++i) rows[i].place = static_cast<int>(i);
  std::ranges::sort(rows, {}, [](const OperatorDef& row) {
    return std::tuple(row.domain, row.name, row.since);
  });
  for (size_t i = 1; i < rows.size(); ++i) {
    OperatorDef& before = rows[i - 1];
    if (before.domain == rows[i].domain && before.name == rows[i].name) {
      before.until = rows[i].since;
    }
  }
  return rows;
}

}  // namespace

const OpSet& AllOperators() {
  // The set refers to the rows, so both live as long as the process.
  static const auto* const rows = new std::vector<OperatorDef>(AllRows());
  static const OpSet* const set = [] {
    auto* const made = new OpSet;
    made->Add(*rows);
    return made;
  }();
  return *set;
}

}  // namespace nodewise
