#include "apps/nodewise/error_text.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nodewise/support/words.h"

namespace nodewise {

std::string LineOf(const Fault& fault) {
  // The message of a failed function may have several lines.
  std::vector<std::string> lines = absl::StrSplit(fault.ToString(), '\n');
  for (std::string& line : lines) line = Printable(line);
  const std::string text = absl::StrJoin(lines, "\n");
  return fault.Where().empty() ? text.substr(2) : text;
}

}  // namespace nodewise
