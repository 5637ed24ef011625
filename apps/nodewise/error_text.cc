#include "apps/nodewise/error_text.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace nodewise {
std::string LineOf(const Fault& fault) {
  // What a function that failed says may have several lines.
  std::vector<std::string> lines = absl::StrSplit(fault.ToString(), '\n');
  for (std::string& line : lines) line = Printable(line);
  const std::string text = absl::StrJoin(lines, "\n");
  return fault.Where().empty() ? text.substr(2) : text;
}

std::string Printable(std::string_view text) {
  std::string printable;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      printable += absl::StrFormat("\\x%02x", byte);
    } else {
      printable += c;
    }
  }
  return printable;
}

std::string CountOf(uint64_t count, std::string_view noun) {
  std::string digits = absl::StrFormat("%d", count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace nodewise
