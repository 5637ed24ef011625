#include "apps/nodewise/locate_by_value.h"

#include <algorithm>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/repro_by_value.h"
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
                             const std::string& repro, Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            LoadModelOf(loaded, model, options, outcome));
  if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<RecordedPair> pairs,
                            RecordBoth(loaded, source, kInputSets, seed));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueLocateResult result,
      LocateInRecorded(loaded.target->index(), *source.network, pairs));
  outcome->json.Add("model", model);
  ShowValueResult(loaded.target->index(), *source.network, result,
                  ReportWords(), outcome);
  if (repro.empty()) return absl::OkStatus();
  return WriteValueRepros(loaded, *source.network, pairs[0], result, repro,
                          outcome);
}

}  // namespace nodewise
