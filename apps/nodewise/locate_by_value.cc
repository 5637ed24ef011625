#include "apps/nodewise/locate_by_value.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/repro_by_value.h"
#include "apps/nodewise/value_report.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

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

absl::Status SetsMeanNothing() {
  return absl::InvalidArgumentError(
      "--sets: means nothing here, expected --reference MODEL.onnx or another "
      "build, and a TARGET whose nodes do not say what they compute");
}

namespace {

// Returns how many operations with weights, which a compiler keeps, are named
// or lie in what is named, without a change that explains it; and how many
// there are.
std::pair<size_t, size_t> WrongWeights(const Network& network,
                                       const ValueLocateResult& result) {
  constexpr int64_t kFewestNumbers = 16;
  std::set<OperationId> wrong;
  for (const ValueCulprit& culprit : result.culprits) {
    if (!culprit.explanations.empty()) continue;
    wrong.insert(culprit.region.begin(), culprit.region.end());
  }
  std::pair<size_t, size_t> counts;
  for (const OperationId id : network.order()) {
    const std::vector<ValueId>& inputs = network.operation(id).inputs;
    const bool has_weights =
        std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) {
          return input != kNoValue &&
                 network.value(input).kind == NetworkValue::Kind::kConstant &&
                 CountOf(network.value(input).data) >= kFewestNumbers;
        });
    if (!has_weights) continue;
    ++counts.second;
    if (wrong.count(id) > 0) ++counts.first;
  }
  return counts;
}

// Returns whether the model is likely to be another one than the network was
// compiled from: no node is right and nobody can say of a wrong one what it
// should have made, or most weights seem to be others.
bool IsUnlike(const GraphIndex& index, const Network& network,
              const ValueLocateResult& result) {
  constexpr size_t kFewest = 3;
  if (result.culprits.empty()) return false;
  const auto [wrong, all] = WrongWeights(network, result);
  if (wrong >= kFewest && 2 * wrong > all) return true;
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

bool SaysNothing(const Session& loaded) {
  const std::vector<GraphNode>& nodes = loaded.target->graph().nodes;
  return std::none_of(nodes.begin(), nodes.end(), &SaysItsRegion);
}

absl::Status LocateByValueIn(const Session& loaded, const std::string& model,
                             const ModelOptions& options,
                             const SetsOfInputs& sets, const std::string& repro,
                             Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            LoadModelOf(loaded, model, options, outcome));
  if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  ShowPairs(source, outcome);
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
  const bool is_unlike =
      IsUnlike(loaded.target->index(), *source.network, result);
  // Then one question says more than a list.
  if (is_unlike) words.most_shown = 3;
  ShowValueResult(loaded.target->index(), *source.network, result, words,
                  outcome);
  if (is_unlike) {
    const auto [wrong, all] = WrongWeights(*source.network, result);
    outcome->notes.push_back(fmt::format(
        "is {} the model of this network, with the weights that it was "
        "compiled "
        "with? {}",
        model,
        wrong > 0 ? fmt::format("{} of {} with weights make something else",
                                wrong, CountOf(all, "operation"))
                  : "no node makes a tensor of it"));
  }
  if (repro.empty()) return absl::OkStatus();
  return WriteValueRepros(loaded, *source.network, pairs, result, repro,
                          outcome);
}

}  // namespace nodewise
