#include "runtime/debug/recorder.h"

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status Recorder::Open() {
  const StoragePlan& storage = executor_.plan();
  // TVM names the folder after the first device, where most of a graph lives.
  const DLDevice device =
      storage.slots.empty() ? kCpu : executor_.TensorOf(EntryId{0}).device;
  NODEWISE_ASSIGN_OR_RETURN(
      writer_, DumpWriter::Create(executor_.graph(), *plan_, options_, device));
  return absl::OkStatus();
}

absl::Status Recorder::BeforePass() {
  const Graph& graph = executor_.graph();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind != GraphNode::Kind::kInput) continue;
    for (const DLTensor* output : executor_.OutputsOf(NodeId{n})) {
      writer_->Input(NodeId{n}, *output);
    }
  }
  return absl::OkStatus();
}

absl::Status Recorder::BeforeNode(NodeId node) {
  writer_->WillRun(node, executor_.InputsOf(node), is_alone_);
  return absl::OkStatus();
}

absl::Status Recorder::AfterNode(NodeId node, NodeTime time) {
  writer_->DidRun(node, executor_.OutputsOf(node), time);
  return absl::OkStatus();
}

}  // namespace nodewise
