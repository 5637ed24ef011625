#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nodewise/sweep/sweep.h"

namespace nodewise {

// One run of a sweep. The first is what the others are held against.
struct SweepRun {
  int threads = 1;
  int layout = 0;
  int repeat = 0;
};

// Looks at every tensor whenever it should be what it was: given, made, read,
// once more after a node that read it, and at the end. In the first run it
// keeps what it sees, in the others it compares. A tensor that was the same
// when it was last looked at and no longer is has been written to in between:
// there a difference begins, as where a node makes another of the same inputs.
class SweepWatcher : public NodeObserver {
 public:
  void Begin(const DebugExecutor* executor, const SweepRun& run);
  absl::Status BeforePass() override;
  absl::Status BeforeNode(NodeId node) override;
  absl::Status AfterNode(NodeId node, NodeTime time) override;
  // The run has come to its end.
  void End();
  void Finish(SweepReport* report);

 private:
  using Moment = SweepFinding::Moment;
  // A moment that comes in every run: a node, and which of its tensors.
  using Place = std::tuple<NodeId, Moment, uint32_t>;

  struct Entry {
    bool is_same = true;  // As in the first run, when last looked at.
    Place last;           // Where that was.
  };

  // Whether the entry is as it was at this place in the first run.
  bool Look(const Place& place, EntryId id, const DLTensor& tensor);
  // A finding if it was the same before.
  void LookForChange(const Place& place, EntryId id, const DLTensor& tensor);
  // True if all are as in the first run. A change is a finding if
  // `finds_changes`.
  bool LookAtInputs(NodeId node, Moment moment, bool finds_changes);
  bool LookAtOutputs(NodeId node);
  void LookAtOutput(NodeId node, uint32_t output, const DLTensor& tensor);
  // Null if this place has one already.
  SweepFinding* NewFinding(const Place& place);
  // What differs was the same at `last`.
  std::string TextOf(const SweepFinding& finding, const Place& last) const;
  std::string NameOf(NodeId node) const;
  void Measure(const DLTensor& tensor, const std::vector<uint8_t>& expected,
               SweepFinding* finding) const;

  const DebugExecutor* executor_ = nullptr;
  SweepRun first_;
  SweepRun now_;
  bool is_first_ = true;
  bool has_same_inputs_ = true;  // Of the node that runs.
  std::vector<Entry> entries_;   // In this run.
  // In the first run: a hash of each tensor, and what nodes made.
  std::map<Place, uint64_t> hashes_;
  std::map<Place, std::vector<uint8_t>> made_;
  std::map<Place, SweepFinding> findings_;
  std::set<NodeId> inheriting_;
};

}  // namespace nodewise
