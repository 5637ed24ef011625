#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// The process's functions by name: those that this build brings, and those
// that host programs add. Every function may be called from any thread.

// kAlreadyExists if the name is taken and `replace` is false.
absl::Status RegisterFunction(std::string_view name, PackedFunc function,
                              bool replace = false);
// The function, or null.
PackedFunc FindFunction(std::string_view name);
// kNotFound if there is none.
absl::Status RemoveFunction(std::string_view name);
// All names, sorted.
std::vector<std::string> FunctionNames();

// A row of the table of functions that this build brings.
struct FunctionRow {
  const char* name;
  absl::StatusOr<Value> (*body)(PackedArgs args);
};

// The tables, gathered in builtin/function_list.cc. The registry fills itself
// from them at first use: a static object could be dropped by the linker.
absl::Span<const absl::Span<const FunctionRow>> BuiltInFunctions();

}  // namespace nodewise
