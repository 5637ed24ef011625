#pragma once

#include <string>
#include <string_view>

namespace nodewise::emit_c {

// The beginning of every file: the packed functions' types.
std::string_view Prologue();
// The check of their arguments, which every function calls. A file without
// functions must not have it: compilers warn of what is never called.
std::string_view ArgumentCheck();

// Returns the definitions of those functions nw_... that the code calls.
std::string HelpersOf(std::string_view code);

}  // namespace nodewise::emit_c
