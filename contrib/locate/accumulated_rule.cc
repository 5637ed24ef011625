#include "contrib/locate/accumulated_rule.h"

namespace nodewise {

Tolerance AccumulatedTolerance(const Graph& graph) {
  Tolerance widest;
  for (const GraphEntry& entry : graph.entries) {
    const Tolerance one = ToleranceOf({Rule::Kind::kByType}, entry.dtype);
    if (one.relative > widest.relative) widest = one;
  }
  return widest;
}

CompareOptions AccumulatedOptions(Tolerance tolerance, DLDataType dtype) {
  CompareOptions options;
  const bool is_exact = ToleranceOf({Rule::Kind::kByType}, dtype).relative == 0;
  if (!is_exact) options.rule = {Rule::Kind::kTolerance, tolerance};
  return options;
}

}  // namespace nodewise
