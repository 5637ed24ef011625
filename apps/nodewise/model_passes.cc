#include "apps/nodewise/model_passes.h"

#include <algorithm>
#include <utility>

#include "apps/nodewise/error_text.h"
#include "fmt/format.h"
#include "nodewise/passes/pass_list.h"
#include "nodewise/support/status_macros.h"
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

absl::StatusOr<PassesReport> RunModelPasses(const std::string& list,
                                            Network* network) {
  auto rows = ParsePassList(list);
  if (!rows.ok()) return At("--passes", rows.status());
  PassesReport report;
  for (const PassRow* const row : *rows) {
    QuantizationReport told;
    told.verb = "";
    const Pass pass = row->make(&told);
    NODEWISE_ASSIGN_OR_RETURN(auto left, RunPasses({&pass, 1}, {}, *network));
    const bool tells = !told.verb.empty();
    report.ran.push_back(
        {pass.name, tells ? told.ToString() : "", network->order().size()});
    for (PassFinding& each : left) {
      report.left.push_back(std::move(each.finding));
    }
  }
  return report;
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
