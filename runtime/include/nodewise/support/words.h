#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nodewise {

// The text with control characters as \xNN, since names in a file may hold
// what a terminal obeys, or what looks like another line.
std::string Printable(std::string_view text);

// "69,356 bytes", "1 node".
std::string CountOf(uint64_t count, std::string_view noun);

// "a, b, c" for a message: of more than `most` names the first and "...". Long
// names are shortened.
std::string ListOf(const std::vector<std::string>& names, size_t most = 20);

}  // namespace nodewise
