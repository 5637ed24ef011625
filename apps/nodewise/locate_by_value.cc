#include "apps/nodewise/locate_by_value.h"

#include <algorithm>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/repro_by_value.h"
#include "apps/nodewise/value_report.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

void AddSpecialInputs(OptionList* options, bool* has_special) {
  options->AddFlag("--special-inputs",
                   "beside a model by its values: one more set of inputs, "
                   "with NaN and infinities in some places",
                   has_special);
}

absl::Status SpecialInputsMeanNothing() {
  return absl::InvalidArgumentError(
      "--special-inputs: means nothing here, expected --reference MODEL.onnx "
      "and a TARGET whose nodes do not say what they compute");
}

namespace {

// Returns whether nothing at all goes together: no node is right, and nobody
// can say of a wrong one what it should have made.
bool IsUnlike(const GraphIndex& index, const ValueLocateResult& result) {
  if (result.culprits.empty()) return false;
  for (const ValueCulprit& culprit : result.culprits) {
    if (culprit.share_explained > 0 || !culprit.explanations.empty()) {
      return false;
    }
  }
  for (uint32_t e = 0; e < result.entries.size(); ++e) {
    const NodeId node = index.NodeOf(EntryId{e});
    if (index.graph().IsFunction(node) &&
        result.entries[e].state == EntryState::kHealthy) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool SaysNothing(const LoadedTarget& loaded) {
  const std::vector<GraphNode>& nodes = loaded.target->graph().nodes;
  return std::none_of(nodes.begin(), nodes.end(), &SaysItsRegion);
}

absl::Status LocateByValueIn(const LoadedTarget& loaded,
                             const std::string& model,
                             const ModelOptions& options,
                             const SetsOfInputs& sets, const std::string& repro,
                             Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            LoadModelOf(loaded, model, options, outcome));
  if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  ShowOpaque(source.opaque, outcome);
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<RecordedPair> pairs,
                            RecordBoth(loaded, source, sets));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueLocateResult result,
      LocateInRecorded(loaded.target->index(), *source.network, pairs,
                       source.opaque.open));
  outcome->json.Add("model", model);
  ReportWords words;
  for (size_t set = 0; set < pairs.size(); ++set) {
    words.sets.push_back(NameOfSet(sets, set));
  }
  ShowValueResult(loaded.target->index(), *source.network, result, words,
                  outcome);
  if (IsUnlike(loaded.target->index(), result)) {
    outcome->notes.push_back(fmt::format(
        "no node makes a tensor of {}: is it the model of this network, with "
        "the weights that it was compiled with?",
        model));
  }
  if (repro.empty()) return absl::OkStatus();
  return WriteValueRepros(loaded, *source.network, pairs, result, repro,
                          outcome);
}

}  // namespace nodewise
