#include "contrib/locate/stray_writes.h"

#include <algorithm>

#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A longer text is cut. The limit also holds what a child that was overwritten
// can make this process allocate.
constexpr uint32_t kMostTextBytes = 1 << 16;

// Goes out of the child before the text of a finding.
struct Head {
  uint32_t node = 0;
  uint32_t is_side_effect = 0;
  uint32_t bytes = 0;
};

// A plan that lets nodes write over each other is found without this run, and
// what a node reads too much does no harm by itself.
bool IsHarmfulWrite(const Finding& finding) {
  using namespace memory_kinds;
  return (finding.kind == kOverrun || finding.kind == kInputWritten ||
          finding.kind == kStrayWrite || finding.kind == kTensorChanged ||
          finding.kind == kProcessChanged) &&
         finding.node() != nullptr;
}

absl::Status Send(const Finding& finding, PipeWriter* writer) {
  const std::string text = finding.found.substr(0, kMostTextBytes);
  const Head head{Index(finding.node()->node),
                  finding.kind == memory_kinds::kProcessChanged ? 1U : 0U,
                  static_cast<uint32_t>(text.size())};
  NODEWISE_RETURN_IF_ERROR(writer->Write(&head, sizeof(head)));
  return writer->Write(text.data(), text.size());
}

// Runs in the child.
absl::Status SanitizeAndSend(const GraphTarget& target,
                             absl::Span<const RunInput> inputs,
                             PipeWriter* writer) {
  SanitizeOptions options;
  // These two runs find what IsHarmfulWrite() leaves out: plans that let nodes
  // write over each other, and reads of what no node has written.
  options.compare_private = false;
  options.compare_poison = false;
  // Each finding is sent at once, since another node may end the run.
  absl::Status sent;
  options.found = [&](const Finding& finding) {
    if (IsHarmfulWrite(finding)) sent.Update(Send(finding, writer));
  };
  NODEWISE_RETURN_IF_ERROR(
      Sanitize(MakerOfDebugExecutors(target, inputs), options).status());
  return sent;
}

void AddNewFailure(NodeFailure failure, std::vector<NodeFailure>* found) {
  const bool is_known = std::ranges::find(*found, failure.node,
                                          &NodeFailure::node) != found->end();
  if (!is_known) found->push_back(std::move(failure));
}

absl::Status Receive(const GraphTarget& target, PipeReader& reader,
                     std::vector<NodeFailure>* found) {
  Head head;
  NODEWISE_RETURN_IF_ERROR(reader.Read(&head, sizeof(head)));
  if (head.bytes > kMostTextBytes || head.node >= target.graph().nodes.size()) {
    return DataLoss("the child of a guarded run: sent no finding");
  }
  NodeFailure failure;
  failure.kind = head.is_side_effect != 0 ? NodeFailure::Kind::kSideEffect
                                          : NodeFailure::Kind::kStrayWrite;
  failure.node = target.index().KeyOf(NodeId{head.node});
  failure.what.resize(head.bytes);
  NODEWISE_RETURN_IF_ERROR(reader.Read(failure.what.data(), head.bytes));
  AddNewFailure(std::move(failure), found);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StrayWriteSearch>> StrayWriteSearch::Start(
    const GraphTarget& target, absl::Span<const NamedTensor> inputs,
    int64_t limit_ms) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> tensors,
                            MatchInputs(target.inputs(), inputs));
  std::vector<RunInput> given;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined()) given.push_back({i, "", std::move(tensors[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(auto child, PipedRun::Start(
                                            [&](PipeWriter& writer) {
                                              return SanitizeAndSend(
                                                  target, given, &writer);
                                            },
                                            limit_ms));
  return std::unique_ptr<StrayWriteSearch>(
      new StrayWriteSearch(target, std::move(child), limit_ms));
}

absl::StatusOr<std::vector<NodeFailure>> StrayWriteSearch::Finish() {
  std::vector<NodeFailure> found;
  const auto end = child_->Finish(
      [&](PipeReader& reader) { return Receive(target_, reader, &found); });
  NODEWISE_RETURN_IF_ERROR(end.status());
  // A thread that a node has left behind may end the child long after the node
  // has returned: that is not the fault of another node.
  const bool is_left_thread = end->is_left_thread && end->left_by.has_value() &&
                              *end->left_by < target_.graph().nodes.size();
  if (!is_left_thread) return found;
  NodeFailure failure;
  failure.kind = end->kind == ChildEnd::Kind::kSignal
                     ? NodeFailure::Kind::kCrash
                     : NodeFailure::Kind::kExit;
  failure.node = target_.index().KeyOf(NodeId{*end->left_by});
  failure.what = "left a thread behind, which " + end->ToString(limit_ms_);
  AddNewFailure(std::move(failure), &found);
  return found;
}

}  // namespace nodewise
