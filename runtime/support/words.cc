#include "nodewise/support/words.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

std::string CountOf(uint64_t count, std::string_view noun) {
  std::string digits = fmt::format("{}", count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string AddressText(uint64_t address) {
  return address == 0 ? "0" : fmt::format("{:#x}", address);
}

std::string SignalText(int signal_number) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
      {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},
      {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
      {SIGSYS, "SIGSYS"},   {SIGTERM, "SIGTERM"},
      {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
      {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},
      {SIGQUIT, "SIGQUIT"}, {SIGKILL, "SIGKILL (out of memory?)"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal_number) return name;
  }
  return fmt::format("signal {}", signal_number);
}

std::string ShellLine(const std::vector<std::string>& arguments) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
      "_-+=./:,@%";
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() &&
        argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

std::string ListOf(const std::vector<std::string>& names, size_t most) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    list.append(i == 0 ? "" : ", ").append(Shortened(names[i]));
  }
  return names.size() > most ? list + ", ..." : list;
}

std::pair<std::string, std::string> TellApart(double a, double b) {
  constexpr int kFewest = 6;
  constexpr int kMost = std::numeric_limits<double>::max_digits10;
  std::pair<std::string, std::string> texts;
  for (int digits = kFewest; digits <= kMost; ++digits) {
    texts = {fmt::format("{:.{}g}", a, digits),
             fmt::format("{:.{}g}", b, digits)};
    if (texts.first != texts.second) break;
  }
  return texts;
}

}  // namespace nodewise
