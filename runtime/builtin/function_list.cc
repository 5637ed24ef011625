#include "nodewise/runtime/registry.h"
#include "runtime/builtin/function_tables.h"

namespace nodewise {

absl::Span<const absl::Span<const FunctionRow>> BuiltInFunctions() {
  static const absl::Span<const FunctionRow> tables[] = {
      ContainerFunctions(),
      RuntimeFunctions(),
      SortFunctions(),
  };
  return tables;
}

}  // namespace nodewise
