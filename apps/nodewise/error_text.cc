#include "apps/nodewise/error_text.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nodewise/support/words.h"

namespace nodewise {

std::string LineOf(const Finding& finding) {
  // The message of a failed function may have several lines.
  std::vector<std::string> lines = absl::StrSplit(finding.ToString(), '\n');
  for (std::string& line : lines) line = Printable(line);
  // Nothing of a message may look like a line of ours.
  return absl::StrJoin(lines, "\n    ");
}

}  // namespace nodewise
