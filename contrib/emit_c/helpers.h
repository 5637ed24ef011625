#pragma once

#include <string>
#include <string_view>

namespace nodewise::emit_c {

// What stands at the beginning of every file: the packed functions' types, and
// the check of their arguments.
std::string_view Prologue();

// Returns the definitions of those functions nw_... that the code calls.
std::string HelpersOf(std::string_view code);

}  // namespace nodewise::emit_c
