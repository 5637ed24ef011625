#pragma once

#include <string>
#include <string_view>

#include "nodewise/support/fault.h"

namespace nodewise {

// The fault as a line of text, or as several if a message in it has several.
std::string LineOf(const Fault& fault);

// The text with control characters as \xNN, since names in a file may hold
// what a terminal obeys, or what looks like another line.
std::string Printable(std::string_view text);

// "69,356 bytes", "1 node".
std::string CountOf(uint64_t count, std::string_view noun);

}  // namespace nodewise
