#include "nodewise/session/passes_report.h"

#include <utility>

#include "nodewise/passes/pass_list.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<PassesReport> RunPassList(const std::string& list,
                                         Network* network) {
  NODEWISE_ASSIGN_OR_RETURN(const auto rows, ParsePassList(list));
  PassesReport report;
  for (const PassRow* const row : rows) {
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

}  // namespace nodewise
