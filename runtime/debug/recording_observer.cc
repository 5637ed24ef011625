#include "runtime/debug/recording_observer.h"

#include "nodewise/graph/finding.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status RecordingObserver::Open() {
  const StoragePlan& storage = run_.plan();
  // TVM names the folder after the first device, where most of a graph lives.
  const DLDevice device =
      storage.slots.empty() ? kCpu : run_.TensorOf(EntryId{0}).device;
  NODEWISE_ASSIGN_OR_RETURN(
      writer_, DumpWriter::Create(run_.graph(), *plan_, options_, device));
  return absl::OkStatus();
}

absl::Status RecordingObserver::BeforePass(const RunView& run) {
  const Graph& graph = run.graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind != GraphNode::Kind::kInput) continue;
    for (const DLTensor* output : run.OutputsOf(NodeId{n})) {
      writer_->Input(NodeId{n}, *output);
    }
  }
  return absl::OkStatus();
}

absl::Status RecordingObserver::BeforeNode(const NodeRun& node) {
  writer_->WillRun(node.node, node.inputs, is_alone_);
  return absl::OkStatus();
}

absl::Status RecordingObserver::AfterNode(const NodeRun& node) {
  if (node.floats != nullptr) {
    writer_->LeftFloatsChanged(*node.floats);
    NoteFloatFinding(
        FloatFinding(PlaceOf(node.run.index(), node.node), *node.floats));
  }
  writer_->DidRun(node.node, node.outputs, node.time);
  return absl::OkStatus();
}

}  // namespace nodewise
