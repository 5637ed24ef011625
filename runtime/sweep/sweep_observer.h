#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nodewise/graph/by_node.h"
#include "nodewise/sweep/sweep.h"

namespace nodewise {

// One run of a sweep. The others are compared with the first.
struct SweepRun {
  int threads = 1;
  int layout = 0;
  int repeat = 0;
};

// Looks at every tensor whenever it should be what it was: when it is given,
// made or read, once more after a node that read it, and at the end. In the
// first run it keeps what it sees, in the others it compares. A tensor that is
// no longer the same as when it was last looked at has been written to in
// between: there a difference begins, as it does where a node makes another
// output from the same inputs.
class SweepObserver : public NodeObserver {
 public:
  // The next pass that it watches is this run.
  void Begin(const SweepRun& run);
  absl::Status BeforePass(const RunView& run) override;
  absl::Status BeforeNode(const NodeRun& node) override;
  absl::Status AfterNode(const NodeRun& node) override;
  void AfterPass(const RunView& run, const absl::Status& status) override;
  // Adds what all the runs have shown.
  void Finish(SweepReport* report);

 private:
  // When a tensor is looked at. In the order of the findings.
  enum class Moment { kGiven, kRead, kMade, kLeft, kEnd };
  // A moment that occurs in every run: a node, and which of its tensors.
  using Place = std::tuple<NodeId, Moment, uint32_t>;

  struct Entry {
    bool is_same = true;  // As in the first run, when last looked at.
    Place last;           // Where it was last looked at.
  };

  // Returns whether the entry is as it was at this place in the first run.
  bool Look(const Place& place, EntryId id, const DLTensor& tensor);
  // Makes a finding if the entry has changed and was the same before.
  void LookForChange(const Place& place, EntryId id, const DLTensor& tensor);
  // Returns whether all are as in the first run. A change is a finding if
  // `finds_changes`.
  bool LookAtInputs(const NodeRun& node, Moment moment, bool finds_changes);
  bool LookAtOutputs(const NodeRun& node);
  void LookAtOutput(NodeId node, uint32_t output, const DLTensor& tensor);
  static const FindingKind& KindOf(Moment moment);
  // Adds a finding without its message; returns null if this place has one
  // already.
  Finding* NewFinding(const Place& place, EntryId id);
  // Returns what differs between which runs. `last` is where the tensor was
  // last the same.
  std::string MessageFor(const Place& place, const Place& last) const;
  std::string NameOf(NodeId node) const;
  // Returns the run that this one is compared with where they differ.
  SweepRun OtherRun() const;
  void Measure(const DLTensor& tensor, const std::vector<uint8_t>& expected,
               uint32_t output, Finding* finding) const;

  std::optional<RunView> run_;  // The last one that was watched.
  SweepRun first_;
  SweepRun now_;
  bool is_first_ = true;
  // Whether the running node's inputs are as in the first run.
  bool has_same_inputs_ = true;
  ByEntry<Entry> entries_;  // The state in this run.
  // In the first run: a hash of each tensor, and what nodes made.
  std::map<Place, uint64_t> hashes_;
  std::map<Place, std::vector<uint8_t>> made_;
  std::map<Place, Finding> findings_;
  std::map<NodeId, Finding> float_findings_;
  std::set<NodeId> inheriting_;
};

}  // namespace nodewise
