#include "contrib/align/error_ledger.h"

#include <algorithm>
#include <optional>

#include "contrib/align/recorded_tensor.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// How far the entry is from the tensor of the network's own run.
absl::StatusOr<double> PassedOn(const WalkScene& scene, EntryId entry,
                                const LocatedEntry& located) {
  // Where nothing before it is wrong, this is known already.
  for (const EntryMatch& match :
       scene.alignment.entries[Index(entry)].matches) {
    const bool is_whole =
        !match.has_unknown_order && !match.without_input.has_value();
    if (is_whole && match.value == located.tensors[0].value)
      return match.distance;
  }
  const TensorKey key{scene.index.KeyOf(scene.index.NodeOf(entry)),
                      scene.index.OutputOf(entry)};
  const auto compiled =
      RecordedTensor::Find(SpoolsOf(scene.pairs, &RecordedPair::compiled), key);
  const auto source = RecordedTensor::Find(
      SpoolsOf(scene.pairs, &RecordedPair::network),
      {scene.network.value(located.tensors[0].value).name});
  if (!compiled.has_value() || !source.has_value()) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> found, compiled->Load());
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> expected,
                            source->Load());
  return TensorMatcher(compiled->facts(), found)
      .DistanceIn(located.tensors[0].layout, expected);
}

}  // namespace

absl::Status FillLedger(const WalkScene& scene,
                        std::vector<LocatedEntry>* entries) {
  const Graph& graph = scene.index.graph();
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    LocatedEntry& entry = (*entries)[e];
    const NodeId node = scene.index.NodeOf(EntryId{e});
    if (entry.state == EntryState::kConstant || !graph.IsFunction(node)) {
      continue;
    }
    for (const EntryRef& ref : graph.node(node).inputs) {
      const LocatedEntry& read = (*entries)[Index(graph.EntryOf(ref))];
      entry.received = std::max(entry.received, read.passed_on);
    }
    // An entry without a tensor of the network passes on what it has received:
    // nothing more is known about it.
    entry.passed_on = entry.received;
    if (entry.tensors.empty()) continue;
    NODEWISE_ASSIGN_OR_RETURN(entry.passed_on,
                              PassedOn(scene, EntryId{e}, entry));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
