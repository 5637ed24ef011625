#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/process_state.h"
#include "runtime/memcheck/guarded_memory.h"

namespace nodewise {

// How a network is run with its memory guarded.
struct GuardedRunSettings {
  size_t red_zone = 256;
  uint8_t zone_byte = 0xa7;    // What red zones hold.
  uint8_t poison_byte = 0xff;  // What dead slots hold: NaN in every float type.
  std::optional<StoragePlan> plan;
  // SanitizeOptions::found.
  std::function<void(const Finding&)> found = nullptr;
};

// A finding and the parts of its message, which is made when the bytes are all
// known: wrote 64 bytes "past its output 0" (first at byte 4096).
struct SeenFinding {
  Finding finding;
  TrappedAccess access = TrappedAccess::kWrite;
  std::string touched;  // Empty if finding.found says it all.
  Extent bytes;

  NodeId node() const { return finding.node()->node; }
  bool IsSameAs(const SeenFinding& other) const;
  // Merges the same finding of another run.
  void Widen(const SeenFinding& other);
  Finding Finish() const;
};

struct GuardedRunResult {
  std::vector<SeenFinding> findings;  // In the order of the run.
  bool had_more_findings = false;
  size_t nodes = 0;
  // HashBytes() of a function's output right after its node ran; 0
  // for inputs, free __nop and tensors that are not in host memory.
  ByEntry<uint64_t> hashes;
  std::vector<NamedTensor> outputs;
  ByEntry<EntryPlace> places;   // At the node that makes it.
  ByEntry<uint32_t> output_of;  // Which of that node's outputs it is.
  StoragePlan private_plan;
};

// Runs an executor that is made for this run and destroyed after it.
// REQUIRES: no other such run is going on in the process.
absl::StatusOr<GuardedRunResult> RunGuarded(const ExecutorMaker& make,
                                            const GuardedRunSettings& settings);

// Slots that are blocks of guarded memory, with their numbers.
using BlockOfSlot = std::unordered_map<uint32_t, size_t>;

// What happened to one block while a node ran: inside the entry that it holds
// and on both sides of it.
struct BlockDamage {
  Extent before;
  Extent inside;
  Extent behind;

  void Add(int64_t first, int64_t last, int64_t size) {
    before.Add(first, std::min<int64_t>(last, -1));
    inside.Add(std::max<int64_t>(first, 0), std::min(last, size - 1));
    behind.Add(std::max(first, size), last);
  }
};

// Watches one run of an executor whose slots are guarded.
class MemoryObserver : public NodeObserver {
 public:
  MemoryObserver(RunView run, GuardedMemory& memory,
                 const BlockOfSlot& block_of_slot,
                 std::function<void(const Finding&)> found,
                 GuardedRunResult* result);

  absl::Status BeforePass(const RunView& run) override;
  absl::Status BeforeNode(const NodeRun& node) override;
  absl::Status AfterNode(const NodeRun& node) override;
  // Opens everything and looks at the graph's outputs.
  void AfterPass(const RunView& run, const absl::Status& status) override;

 private:
  static constexpr EntryId kNoEntry{UINT32_MAX};

  // How the running node uses a block: as which of its inputs or outputs, the
  // largest one if there are several.
  struct Role {
    EntryId entry = kNoEntry;
    bool is_output = false;
    uint32_t number = 0;
    bool is_input_too = false;
  };
  struct ForeignInput {
    EntryId entry;
    uint32_t number;
    uint64_t hash;
  };

  bool IsInput(EntryId entry) const;
  std::string EntryName(EntryId entry) const;
  int32_t StorageOf(EntryId base) const;
  // Returns the block that a base entry is in, or null.
  const size_t* BlockOf(EntryId base) const;

  void FindRoles(NodeId node);
  void CheckOwners(NodeId node);
  void CheckSizes(NodeId node);
  void CheckInputsKept(NodeId node);
  void HashForeignInputs(NodeId node);
  void CheckForeignInputs(NodeId node);
  void OpenArguments();
  void CollectDamage(NodeId node);
  void CheckMapped(NodeId node);
  void CheckLeftThreads();
  void CheckArguments(NodeId node);
  void CheckProcess(NodeId node);
  void ReportDamage(NodeId node, size_t block, TrappedAccess access,
                    const BlockDamage& damage);
  void ReportBeside(SeenFinding seen, const std::string& whose,
                    bool is_argument, const BlockDamage& damage);
  void TakeOutputs(NodeId node);
  void PoisonDead(NodeId node);
  void CloseBlocks();
  FindingPlace PlaceAt(NodeId node, EntryId entry) const;
  void Report(SeenFinding seen);
  void Report(const FindingKind& kind, NodeId node, EntryId entry,
              std::string found, std::vector<FindingNumber> numbers);

  const RunView run_;
  const GraphIndex& index_;
  const Graph& graph_;
  const StoragePlan& plan_;
  GuardedMemory& memory_;
  const std::function<void(const Finding&)> found_;
  GuardedRunResult* result_;
  std::vector<size_t> block_of_slot_;  // SIZE_MAX: none.
  std::vector<EntryId> owner_;         // By block: the base entry in it.
  std::map<size_t, Role> roles_;       // By block, of the running node.
  std::vector<ForeignInput> foreign_inputs_;
  // The arguments of the running node.
  std::optional<ArgumentRecord> arguments_;
  std::optional<ProcessState> process_;  // Before the running node.
};

}  // namespace nodewise
