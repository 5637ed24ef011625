#include "nodewise/support/words.h"

#include <algorithm>

#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      printable += fmt::format("\\x{:02x}", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

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

std::string ListOf(const std::vector<std::string>& names, size_t most) {
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    list.append(i == 0 ? "" : ", ").append(Shortened(names[i]));
  }
  return names.size() > most ? list + ", ..." : list;
}

}  // namespace nodewise
