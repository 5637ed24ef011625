// Searches between two dumps of one graph: nothing runs.

#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/model_order.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

absl::StatusOr<std::unique_ptr<TensorSource>> OpenInModelOrder(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(auto source, OpenTensorSource(path));
  return InModelOrder(std::move(source));
}

void TakeDifference(const DumpDifference& where, Answer* answer) {
  const GraphIndex& index = *where.index;
  for (uint32_t n = 0; n < index.graph().nodes.size(); ++n) {
    const NodeId node{n};
    const bool begins = where.nodes[node] == DumpedNode::kBegins;
    const std::string kind(KindOf(where.nodes[node]));
    const std::string reason(begins ? ReasonFor(where, node) : "");
    if (begins) {
      NamedCulprit culprit;
      culprit.kind = kind;
      culprit.finding =
          MakeFinding(verdict_kinds::kDiffers, PlaceOf(index, node), reason);
      answer->culprits.push_back(std::move(culprit));
    }
    if (!begins && !index.graph().IsFunction(node)) continue;
    answer->verdicts.push_back({index.KeyOf(node), node, kind, reason, begins});
  }
}

}  // namespace

absl::Status SearchBetweenDumps(const Question& question, Answer* answer) {
  const std::string& right = question.reference.spec.path;
  const std::string& target = question.target.dump;
  NODEWISE_ASSIGN_OR_RETURN(const auto expected, OpenInModelOrder(right));
  NODEWISE_ASSIGN_OR_RETURN(const auto actual, OpenInModelOrder(target));
  SourceOptions options;
  options.compare.rule = {Rule::Kind::kBounds};
  options.compare.describe = true;
  NODEWISE_ASSIGN_OR_RETURN(Comparison comparison,
                            CompareSources(*expected, *actual, options));
  NODEWISE_ASSIGN_OR_RETURN(DumpDifference where,
                            WhereDumpsDiffer(right, target, comparison));
  for (TensorSource* source : {expected.get(), actual.get()}) {
    const absl::Status complete = source->CheckComplete();
    if (!complete.ok()) answer->AddDoubt(complete);
  }
  TakeDifference(where, answer);
  const bool differs = !where.NodesThat(DumpedNode::kBegins).empty() ||
                       !where.NodesThat(DumpedNode::kUnclear).empty() ||
                       !where.NodesThat(DumpedNode::kFollows).empty();
  if (differs) answer->state = Answer::State::kWrong;
  answer->evidence.reference = right;
  answer->evidence.index = where.index;
  answer->evidence.dumps = {std::move(comparison), std::move(where)};
  return absl::OkStatus();
}

}  // namespace nodewise
