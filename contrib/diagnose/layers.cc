#include "nodewise/diagnose/layers.h"

#include <memory>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr char kLayerReference[] = "Interpreter";

std::unique_ptr<LayerComparator> ComparatorFor(const LayerQuestion& question) {
  std::unique_ptr<LayerComparator> comparator;
  if (question.is_recursive) {
    comparator = std::make_unique<RecursiveLayerComparator>(
        question.mod, kLayerReference, question.candidate, question.rule);
  } else {
    comparator = std::make_unique<IntermediateLayerComparator>(
        question.mod, kLayerReference, question.candidate, question.rule);
  }
  comparator->set_all_alone(question.all_alone);
  comparator->set_observer(question.observer);
  if (question.node_limit_ms.has_value()) {
    comparator->set_node_limit_ms(*question.node_limit_ms);
  }
  return comparator;
}

}  // namespace

absl::Status CompareLayers(const LayerQuestion& question,
                           const std::vector<NamedTensor>& inputs,
                           Answer* answer) {
  const auto comparator = ComparatorFor(question);
  NODEWISE_RETURN_IF_ERROR(comparator->verify(inputs).status());
  answer->evidence.cost = comparator->cost();
  TakeLocated(LocatedLayers(question.mod, *comparator), /*judged_all=*/true,
              answer);
  return absl::OkStatus();
}

absl::StatusOr<Answer> DiagnoseLayers(const LayerQuestion& question,
                                      const std::vector<NamedTensor>& inputs) {
  Answer answer;
  answer.search = Search::kLayers;
  answer.did =
      question.is_recursive
          ? "for each layer what leads to it was run on both backends"
          : "the network was run once on both backends, and each layer that "
            "differs alone";
  answer.target.name = question.mod.name;
  NODEWISE_RETURN_IF_ERROR(CompareLayers(question, inputs, &answer));
  return answer;
}

}  // namespace nodewise
