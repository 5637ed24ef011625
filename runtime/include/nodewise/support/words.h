#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// Returns both numbers in as few digits as tell them apart, and no fewer than
// six: "1.00001" and "1.00002". NaN and infinity as such.
std::pair<std::string, std::string> TellApart(double a, double b);

}  // namespace nodewise
