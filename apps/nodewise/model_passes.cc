#include "apps/nodewise/model_passes.h"

#include <algorithm>
#include <utility>

#include "apps/nodewise/error_text.h"
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

std::string ShowPasses(const PassesReport& report, JsonWriter* json) {
  std::string text;
  json->BeginArray("passes");
  for (const PassesReport::Ran& ran : report.ran) {
    text += fmt::format("pass {}: {}\n{}", ran.pass,
                        CountOf(ran.operations, "operation"), ran.text);
    json->BeginObject();
    json->Add("pass", ran.pass);
    json->Add("operations", uint64_t{ran.operations});
    json->Add("report", ran.text);
    json->EndObject();
  }
  json->EndArray();
  for (const Finding& finding : report.left) {
    text += fmt::format("warning: {}\n", Printable(LineOf(finding)));
  }
  if (!report.left.empty()) AddFindings("warnings", report.left, json);
  return text;
}

}  // namespace nodewise
