#include "apps/nodewise/locate_layers.h"

#include <algorithm>

#include "apps/nodewise/progress.h"
#include "fmt/format.h"
#include "nodewise/locate/layer_comparator.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr double kBytesPerMiB = 1 << 20;

class LayerProgress : public LayerObserver {
 public:
  explicit LayerProgress(const Graph& graph) : progress_("locate") {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      total_ += IsLayer(graph, NodeId{n}) ? 1 : 0;
    }
  }
  absl::Status Ends(const LayerResult&) override {
    progress_.Update(++done_, total_);
    return absl::OkStatus();
  }

 private:
  Progress progress_;
  size_t done_ = 0;
  size_t total_ = 0;
};

}  // namespace

absl::StatusOr<LocateResult> LocateRecursively(const Session& loaded,
                                               int64_t node_limit_ms,
                                               Outcome* outcome) {
  const GraphTarget& target = *loaded.target;
  const Artefact& artefact = target.artefact();
  const LayerModule mod{target.name(), artefact.graph, artefact.params,
                        NameInputs(target.inputs(), loaded.inputs)};
  RecursiveLayerComparator comparator(
      mod, "Interpreter", LayerBackend(target.name(), artefact.library),
      Rule());
  LayerProgress progress(mod.graph);
  comparator.set_observer(&progress);
  comparator.set_node_limit_ms(node_limit_ms);
  NODEWISE_RETURN_IF_ERROR(comparator.verify().status());
  const LayerCost& cost = comparator.cost();
  outcome->text += fmt::format(
      "took {:.2f} s and at most {:.1f} MiB of memory (VmHWM less what was "
      "resident before; the largest set of tensors alive at once has {:.1f} "
      "MiB)\n",
      cost.seconds, static_cast<double>(cost.peak_bytes) / kBytesPerMiB,
      static_cast<double>(cost.live_bytes) / kBytesPerMiB);
  outcome->json.Add("seconds", cost.seconds);
  outcome->json.Add("peak_bytes", cost.peak_bytes);
  outcome->json.Add("live_bytes", cost.live_bytes);
  return LocatedLayers(mod, comparator);
}

}  // namespace nodewise
