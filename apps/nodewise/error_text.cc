#include "apps/nodewise/error_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Words that begin a part of a place: "lib.so: byte 24: tensor shape needs".
constexpr std::array<std::string_view, 15> kPlaceWords = {
    "byte ",           "tensor ",    "input ",    "output ",      "node ",
    "parameter ",      "params",     "member ",   "storage ",     "graph JSON",
    "__tvm_dev_mblob", "__tvm_ffi_", "function ", "instruction ", "module "};

constexpr std::string_view kDidYouMean = "; did you mean ";
constexpr std::string_view kExpected = ", expected ";

bool IsPlace(std::string_view part) {
  // A sentence may begin with such a word too, but not one so short.
  if (std::count(part.begin(), part.end(), ' ') > 2) return false;
  if (part.substr(0, 1) == "/") return true;
  return std::any_of(kPlaceWords.begin(), kPlaceWords.end(),
                     [&](std::string_view word) {
                       return part.substr(0, word.size()) == word;
                     });
}

// How much of the message is its place, without the colon; 0 if it has none.
size_t PlaceLength(std::string_view message) {
  size_t end = message.find(": ");
  if (end == std::string_view::npos) return 0;
  while (true) {
    const size_t next = message.find(": ", end + 2);
    if (next == std::string_view::npos) return end;
    if (!IsPlace(message.substr(end + 2, next - end - 2))) return end;
    end = next;
  }
}

// Cuts "(hint)" or "; did you mean X?" off the end. A shape such as "(1, 64)"
// is no hint: it has no letters.
std::string CutHint(std::string_view* text) {
  if (const size_t at = text->rfind(kDidYouMean);
      at != std::string_view::npos) {
    std::string hint(text->substr(at + 2));
    text->remove_suffix(text->size() - at);
    return hint;
  }
  if (text->empty() || text->back() != ')') return "";
  size_t open = text->size();
  for (int depth = 0; open > 0;) {
    --open;
    depth += (*text)[open] == ')' ? 1 : (*text)[open] == '(' ? -1 : 0;
    if (depth == 0) break;
  }
  const std::string_view hint = text->substr(open + 1, text->size() - open - 2);
  if (open == 0 || (*text)[open] != '(' || (*text)[open - 1] != ' ' ||
      std::none_of(hint.begin(), hint.end(),
                   [](unsigned char c) { return std::isalpha(c) != 0; })) {
    return "";
  }
  std::string result(hint);
  text->remove_suffix(text->size() - open + 1);
  return result;
}

}  // namespace

Fault FaultOf(const absl::Status& status) {
  std::string_view text = MessageOf(status);
  Fault fault;
  const size_t place = PlaceLength(text);
  fault.file = text.substr(0, place);
  if (place > 0) text.remove_prefix(place + 2);
  fault.hint = CutHint(&text);
  const size_t expected = text.rfind(kExpected);
  fault.found = text.substr(0, expected);
  if (expected != std::string_view::npos) {
    fault.expected = text.substr(expected + kExpected.size());
  }
  return fault;
}

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
