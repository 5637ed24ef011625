#include "apps/nodewise/locate_by_value.h"

#include <algorithm>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/value_report.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

bool SaysNothing(const LoadedTarget& loaded) {
  const std::vector<GraphNode>& nodes = loaded.target->graph().nodes;
  return std::none_of(nodes.begin(), nodes.end(), &SaysItsRegion);
}

absl::Status LocateByValueIn(const LoadedTarget& loaded,
                             const std::string& model,
                             const ModelOptions& options, uint64_t seed,
                             Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            LoadModelOf(loaded, model, options, outcome));
  if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(loaded, source, seed));
  outcome->json.Add("model", model);
  ShowValueResult(loaded.target->index(), *source.network, result,
                  ReportWords(), outcome);
  return absl::OkStatus();
}

}  // namespace nodewise
