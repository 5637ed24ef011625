#include "apps/nodewise/model_passes.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/passes/pass_list.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"

namespace nodewise {

std::string PassHelp() {
  size_t width = 0;
  for (const PassRow& row : PassRows()) {
    width = std::max(width, row.name.size());
  }
  std::string text = "passes, in the order in which --passes names them:\n";
  for (const PassRow& row : PassRows()) {
    text += fmt::format("  {:<{}}  {}\n", row.name, width, row.what);
  }
  return text;
}

absl::Status CheckPasses(const std::string& list) {
  return list.empty() ? absl::OkStatus()
                      : At("--passes", ParsePassList(list).status());
}

}  // namespace nodewise
