#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nodewise {

// Returns the text with control characters as \xNN, since names in a file may
// hold terminal escapes, or what looks like another line.
std::string Printable(std::string_view text);

// Returns "69,356 bytes", "1 node".
std::string CountOf(uint64_t count, std::string_view noun);

// Returns "0x7fff0010", and "0" for the null address.
std::string AddressText(uint64_t address);

// Returns "SIGSEGV", "SIGKILL (out of memory?)", "signal 40".
std::string SignalText(int signal_number);

// Returns the arguments as a line for a shell.
std::string ShellLine(const std::vector<std::string>& arguments);

// Returns "a, b, c" for a message; after the first `most` names comes "...".
// Long names are shortened.
std::string ListOf(const std::vector<std::string>& names, size_t most = 20);

}  // namespace nodewise
