#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nodewise/func/packed_func.h"

namespace nodewise {

// The process's functions by name: those of this build, and those that host
// programs add. Any thread may call these.

// Fails with kAlreadyExists if the name is taken and `replace` is false.
absl::Status RegisterFunction(std::string_view name, PackedFunc function,
                              bool replace = false);
// Returns the function, or null.
PackedFunc FindFunction(std::string_view name);
// Fails with kNotFound if there is none.
absl::Status RemoveFunction(std::string_view name);
// Returns all names, sorted.
std::vector<std::string> FunctionNames();

// A row in the table of the functions of this build.
struct FunctionRow {
  const char* name;
  absl::StatusOr<Value> (*body)(PackedArgs args);
};

// The tables, gathered in builtin/function_list.cc. The registry fills itself
// from them at first use: a static object could be dropped by the linker.
absl::Span<const absl::Span<const FunctionRow>> BuiltInFunctions();

}  // namespace nodewise
