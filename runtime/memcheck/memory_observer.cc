#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/debug/run_observer.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/process/process_state.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "runtime/memcheck/guarded_run.h"

namespace nodewise {
namespace {

using Access = GuardedMemory::Access;

// No reader goes through more, and every node may have some.
constexpr size_t kMostFindings = 1000;

using BlockOfSlot = std::unordered_map<uint32_t, size_t>;

// The damage to one block while a node ran: inside the entry that it holds
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

// Watches one run of an executor whose slots are guarded. Before a node all
// blocks are closed but those of its arguments: inputs can be read, outputs
// written. Accesses to anything else are trapped, noted and let through, so
// that the run goes on as it would have. After the node it compares red zones
// and opened pages with what they held, turns the differences into findings,
// poisons what is dead now and closes everything again. It also knows which
// entry lies in each block, which shows where a plan lets one node overwrite
// what another still reads.
class MemoryObserver : public NodeObserver {
 public:
  MemoryObserver(RunView run, GuardedMemory& memory,
                 const BlockOfSlot& block_of_slot,
                 std::function<void(const Finding&)> found,
                 GuardedRunResult* result)
      : run_(run),
        index_(run.index()),
        graph_(run.graph()),
        plan_(run.plan()),
        memory_(memory),
        found_(std::move(found)),
        result_(result),
        block_of_slot_(plan_.slots.size(), SIZE_MAX),
        owner_(memory_.size(), kNoEntry) {
    for (const auto& [slot, block] : block_of_slot) {
      if (slot < block_of_slot_.size()) block_of_slot_[slot] = block;
    }
    result_->hashes = ByEntry<uint64_t>(graph_);
    result_->places = ByEntry<EntryPlace>(graph_);
    result_->output_of = ByEntry<uint32_t>(graph_);
    for (const EntryId entry : AllEntries(graph_)) {
      result_->places[entry] = PlaceOf(index_, index_.NodeOf(entry), entry);
      result_->output_of[entry] = index_.OutputOf(entry);
    }
  }

  // Inputs lie in their blocks from now on, and nothing may be touched until a
  // node is about to run.
  absl::Status BeforePass(const RunView&) override {
    for (const EntryId entry : AllEntries(graph_)) {
      if (!index_.IsBase(entry) || !IsInput(entry)) continue;
      const size_t* const block = BlockOf(entry);
      if (block != nullptr) owner_[*block] = entry;
    }
    for (const uint32_t node : graph_.arg_nodes) CheckSizes(NodeId{node});
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_.SetAccess(i, Access::kNone);
    }
    return absl::OkStatus();
  }

  // Watching begins last, when all that is done here is over.
  absl::Status BeforeNode(const NodeRun& node_run) override {
    const NodeId node = node_run.node;
    if (index_.IsFree(node)) return absl::OkStatus();
    FindRoles(node);
    CheckOwners(node);
    CheckSizes(node);
    CheckInputsKept(node);
    HashForeignInputs(node);
    OpenArguments();
    arguments_.emplace(node_run.inputs, node_run.outputs);
    if (!process_.has_value()) process_ = ProcessState::Capture();
    memory_.Watch(true);
    return absl::OkStatus();
  }

  // Watching ends first. The order of the checks is that of the findings of one
  // node.
  absl::Status AfterNode(const NodeRun& node_run) override {
    const NodeId node = node_run.node;
    if (index_.IsFree(node)) return absl::OkStatus();
    memory_.Watch(false);
    ++result_->nodes;
    // These checks come first: all that follows relies on the arguments, the
    // process and the mappings being as they were.
    memory_.census().Note(Index(node));
    NoteLeftThreads(memory_.census());
    CheckArguments(node);
    CheckProcess(node);
    CheckMapped(node);
    CollectDamage(node);
    CheckLeftThreads();
    if (node_run.floats != nullptr) {
      Report({FloatFinding(PlaceOf(index_, node), *node_run.floats)});
    }
    CheckForeignInputs(node);
    TakeOutputs(node);
    PoisonDead(node);
    CloseBlocks();
    return absl::OkStatus();
  }

  void AfterPass(const RunView&, const absl::Status& status) override {
    memory_.Watch(false);
    // Nothing is accessible yet, so that what threads left behind do shows.
    constexpr auto kTimeToShow = std::chrono::milliseconds(50);
    if (memory_.census().HasLeftThreads())
      std::this_thread::sleep_for(kTimeToShow);
    CheckLeftThreads();
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_.SetAccess(i, Access::kReadWrite);
    }
    if (!status.ok()) return;
    for (uint32_t h = 0; h < graph_.heads.size(); ++h) {
      const EntryId base = index_.BaseOf(graph_.EntryOf(graph_.heads[h]));
      const EntryId owner = OtherOwner(base);
      if (owner == kNoEntry) continue;
      const NodeId by = index_.NodeOf(owner);
      Report(memory_kinds::kOverwritten, by, base,
             fmt::format("overwrote {}, which is the graph's output {}; both "
                         "are in storage {}",
                         EntryName(base), h, StorageOf(base)),
             {{"overwriting_node", uint64_t{Index(by)}},
              {"graph_output", uint64_t{h}},
              {"storage", int64_t{StorageOf(base)}}});
    }
  }

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

  bool IsOnHost(EntryId entry) const {
    return DeviceTypeOf(run_.TensorOf(entry).device) == kDLCPU;
  }

  // Parameters are inputs here, too: the graph does not tell them apart.
  bool IsInput(EntryId entry) const {
    return !graph_.IsFunction(index_.NodeOf(entry));
  }

  std::string EntryName(EntryId entry) const {
    if (entry == kNoEntry) return "a tensor";
    return fmt::format("entry {} of node {}", index_.KeyOf(entry),
                       Index(index_.NodeOf(entry)));
  }

  // The number that the graph uses, which is the one that a reader finds in its
  // JSON.
  int32_t StorageOf(EntryId base) const {
    return plan_.slots[plan_.slot_of[Index(base)]].storage_id;
  }

  const size_t* BlockOf(EntryId base) const {
    const size_t& block = block_of_slot_[plan_.slot_of[Index(base)]];
    if (block == SIZE_MAX) return nullptr;
    // Memory of the caller or the library may be bound instead.
    const void* const data = DataOf(run_.TensorOf(base));
    return data == memory_.block(block).data ? &block : nullptr;
  }

  EntryId OtherOwner(EntryId base) const {
    const size_t* const block = BlockOf(base);
    if (block == nullptr || owner_[*block] == base) return kNoEntry;
    return owner_[*block];
  }

  uint64_t HashOf(EntryId entry) const {
    return HashBytes(DataOf(run_.TensorOf(entry)), index_.BytesOf(entry));
  }

  // A block that is input and output is one that the node works on in place,
  // and has the access of an output.
  void FindRoles(NodeId node) {
    roles_.clear();
    const auto add = [&](EntryId entry, bool is_output, uint32_t number) {
      const EntryId base = index_.BaseOf(entry);
      const size_t* const block = BlockOf(base);
      if (block == nullptr) return;
      const auto [place, is_new] =
          roles_.try_emplace(*block, Role{base, is_output, number, !is_output});
      Role& role = place->second;
      if (is_new) return;
      if (is_output && !role.is_output) {
        role = {role.entry, true, number, true};
      }
      if (index_.BytesOf(base) > index_.BytesOf(role.entry)) role.entry = base;
    };
    const auto& inputs = graph_.node(node).inputs;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      add(graph_.EntryOf(inputs[i]), false, i);
    }
    for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
      add(graph_.EntryOf(node, o), true, o);
    }
  }

  void CheckOwners(NodeId node) {
    std::vector<EntryId> seen;
    for (const EntryRef& ref : graph_.node(node).inputs) {
      const EntryId base = index_.BaseOf(graph_.EntryOf(ref));
      const EntryId owner = OtherOwner(base);
      if (owner == kNoEntry) continue;
      if (std::find(seen.begin(), seen.end(), base) != seen.end()) continue;
      seen.push_back(base);
      const uint32_t by = Index(index_.NodeOf(owner));
      Report(memory_kinds::kOverwritten, node, base,
             fmt::format(
                 "reads {}, which node {} overwrote; both are in storage {}",
                 EntryName(base), by, StorageOf(base)),
             {{"overwriting_node", uint64_t{by}},
              {"storage", int64_t{StorageOf(base)}}});
    }
  }

  // The blocks have the size of the slot, so a node that writes all of its
  // output runs into the red zone as well.
  void CheckSizes(NodeId node) {
    for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
      const EntryId entry = graph_.EntryOf(node, o);
      const uint64_t bytes = index_.BytesOf(entry);
      const StorageSlot& slot = plan_.slots[plan_.slot_of[Index(entry)]];
      if (bytes <= slot.bytes) continue;
      Report(memory_kinds::kUndersized, node, entry,
             fmt::format(
                 "makes its output {} of {} bytes in storage {}, which has {}",
                 o, bytes, slot.storage_id, slot.bytes),
             {{"bytes", bytes},
              {"output", uint64_t{o}},
              {"storage", int64_t{slot.storage_id}},
              {"storage_bytes", uint64_t{slot.bytes}}});
    }
  }

  // Reports inputs that the node overwrites: even if this run reads them no
  // more, the next run needs them.
  void CheckInputsKept(NodeId node) {
    for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
      const EntryId entry = graph_.EntryOf(node, o);
      const size_t* const block = BlockOf(entry);
      if (block == nullptr || owner_[*block] == kNoEntry) continue;
      const EntryId owner = owner_[*block];
      if (!IsInput(owner)) continue;
      if (index_.LifetimeOf(owner).last_read > Index(node)) continue;
      Report(memory_kinds::kOverwritten, node, owner,
             fmt::format(
                 "writes its output {} over the graph's input {}; both are in "
                 "storage {}, and a second run reads it",
                 o, index_.KeyOf(index_.NodeOf(owner)), StorageOf(owner)),
             {{"overwriting_node", uint64_t{Index(node)}},
              {"output", uint64_t{o}},
              {"storage", int64_t{StorageOf(owner)}}});
    }
  }

  // Memory of the caller or of the library cannot be closed, so writes to it
  // show only by its hash.
  void HashForeignInputs(NodeId node) {
    foreign_inputs_.clear();
    const auto& inputs = graph_.node(node).inputs;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      const EntryId base = index_.BaseOf(graph_.EntryOf(inputs[i]));
      if (BlockOf(base) != nullptr || !IsOnHost(base)) continue;
      foreign_inputs_.push_back({base, i, HashOf(base)});
    }
  }

  void CheckForeignInputs(NodeId node) {
    for (const ForeignInput& input : foreign_inputs_) {
      if (HashOf(input.entry) == input.hash) continue;
      Report(memory_kinds::kInputWritten, node, input.entry,
             fmt::format("wrote to its input {}, which it may only read",
                         input.number),
             {{"input", uint64_t{input.number}}});
    }
  }

  // An output begins with poison, so that bytes which the node leaves alone are
  // not those of a tensor that lay there before.
  void OpenArguments() {
    for (const auto& [block, role] : roles_) {
      memory_.SetAccess(block,
                        role.is_output ? Access::kReadWrite : Access::kRead);
      if (!role.is_output) continue;
      const size_t bytes = index_.BytesOf(role.entry);
      // The node works in place: its input is there.
      if (role.is_input_too) {
        memory_.FillZones(block, bytes);
      } else {
        memory_.Fill(block, bytes);
      }
    }
  }

  // Two sources are joined by block and kind of access: pages that were closed
  // tell what touched them, red zones of open blocks only that they were
  // written to.
  void CollectDamage(NodeId node) {
    std::map<std::pair<size_t, TrappedAccess>, BlockDamage> damages;
    const auto size_of = [&](size_t block) {
      const auto role = roles_.find(block);
      const EntryId entry =
          role == roles_.end() ? owner_[block] : role->second.entry;
      return static_cast<int64_t>(entry == kNoEntry ? memory_.block(block).bytes
                                                    : index_.BytesOf(entry));
    };
    for (const GuardedMemory::Touch& touch : memory_.Touches()) {
      const int64_t size = size_of(touch.block);
      BlockDamage& damage = damages[{touch.block, touch.access}];
      damage.Add(touch.offset, touch.offset, size);
      const Extent changed = memory_.ChangedBytes(touch);
      if (changed.empty()) continue;
      damage.Add(changed.first, changed.last, size);
    }
    result_->had_more_findings |= memory_.had_more_touches();
    for (const auto& [block, role] : roles_) {
      if (!role.is_output) continue;
      const int64_t size = size_of(block);
      const Extent before = memory_.ChangedBefore(block);
      const Extent behind =
          memory_.ChangedBehind(block, static_cast<size_t>(size));
      if (before.empty() && behind.empty()) continue;
      BlockDamage& damage = damages[{block, TrappedAccess::kWrite}];
      damage.before.Add(before.first, before.last);
      damage.behind.Add(behind.first, behind.last);
    }
    for (const auto& [key, damage] : damages) {
      ReportDamage(node, key.first, key.second, damage);
    }
  }

  // A kernel that frees or unmaps memory that it was lent would end the process
  // at the next access; the pages are put back first.
  void CheckMapped(NodeId node) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (memory_.IsMapped(i)) continue;
      const EntryId owner = owner_[i];
      memory_.MapAgain(i);
      Report(memory_kinds::kStrayWrite, node, owner,
             fmt::format("gave back the memory of {}, which is not its own",
                         EntryName(owner)));
    }
  }

  // The node to blame is the one that made the thread, not the one that runs.
  void CheckLeftThreads() {
    for (const GuardedMemory::StrayTouch& touch : memory_.TakeStrayTouches()) {
      if (touch.node >= graph_.nodes.size()) continue;
      if (touch.access == TrappedAccess::kRead) continue;
      const EntryId owner = owner_[touch.block];
      Report(memory_kinds::kStrayWrite, NodeId{touch.node}, owner,
             fmt::format("left a thread behind, which wrote to {} at byte {}",
                         EntryName(owner), touch.offset),
             {{"offset", touch.offset}});
    }
  }

  // Later nodes see the same structs. They are restored, so that a later node
  // is not blamed for what this one changed.
  void CheckArguments(NodeId node) {
    std::string change = arguments_->FindChange();
    if (change.empty()) return;
    arguments_->Restore();
    Report(memory_kinds::kTensorChanged, node, kNoEntry, std::move(change));
  }

  // A change that a node has made is put back, so that the next node meets the
  // process as it would without the change.
  void CheckProcess(NodeId node) {
    constexpr size_t kNamedChanges = 3;
    const auto changes = process_->ChangesIn(ProcessState::Capture());
    if (changes.empty()) return;
    process_->Restore();
    process_ = ProcessState::Capture();
    Report(memory_kinds::kProcessChanged, node, kNoEntry,
           "left the process changed: " + ListOf(changes, kNamedChanges));
  }

  // Damage inside of an argument's block can only be a write to an input, since
  // outputs are open; inside of another block it is stray. Damage beside a
  // block belongs to the node's own argument if the node has the block, else it
  // is wild.
  void ReportDamage(NodeId node, size_t block, TrappedAccess access,
                    const BlockDamage& damage) {
    const auto found = roles_.find(block);
    const bool is_argument = found != roles_.end();
    const EntryId entry = is_argument ? found->second.entry : owner_[block];
    SeenFinding seen;
    seen.access = access;
    seen.finding.place = PlaceAt(node, entry);
    std::string whose = "memory that holds nothing yet";
    if (is_argument) {
      const char* const role = found->second.is_output ? "output" : "input";
      whose = fmt::format("its {} {}", role, found->second.number);
      seen.finding.numbers = {{role, uint64_t{found->second.number}}};
    } else if (entry != kNoEntry) {
      whose = EntryName(entry) + ", which is none of its arguments";
    }
    if (!damage.inside.empty()) {
      const bool is_read = access == TrappedAccess::kRead;
      seen.finding.kind = is_argument ? memory_kinds::kInputWritten
                          : is_read   ? memory_kinds::kStrayRead
                                      : memory_kinds::kStrayWrite;
      seen.touched = (access == TrappedAccess::kWrite     ? "to "
                      : access == TrappedAccess::kUnknown ? "of "
                                                          : "") +
                     whose;
      if (is_argument) seen.touched += ", which it may only read";
      seen.bytes = damage.inside;
      Report(seen);
    }
    const bool is_overrun = is_argument && access != TrappedAccess::kRead;
    seen.finding.kind =
        is_overrun ? memory_kinds::kOverrun : memory_kinds::kWild;
    for (const auto& [extent, side] : {std::pair(&damage.before, "before "),
                                       std::pair(&damage.behind, "past ")}) {
      if (extent->empty()) continue;
      seen.touched = side + whose;
      seen.bytes = *extent;
      Report(seen);
    }
  }

  // Hashed right away, because a later node may write over them, rightly or
  // not.
  void TakeOutputs(NodeId node) {
    for (const EntryId entry : EntriesMadeBy(graph_, node)) {
      const size_t* const block = BlockOf(entry);
      if (block != nullptr) owner_[*block] = entry;
      if (IsOnHost(entry)) result_->hashes[entry] = HashOf(entry);
    }
  }

  // A slot whose entry has had its last reader holds poison from here on, which
  // shows up in the results of a node that reads it too late.
  void PoisonDead(NodeId node) {
    for (const auto& [block, role] : roles_) {
      const EntryId owner = owner_[block];
      if (owner == kNoEntry || IsInput(owner)) continue;
      if (index_.LifetimeOf(owner).last_read > Index(node)) continue;
      memory_.SetAccess(block, Access::kReadWrite);
      memory_.Fill(block, memory_.block(block).bytes);
    }
  }

  // Blocks that were touched without being arguments are open, too.
  void CloseBlocks() {
    for (const auto& [block, role] : roles_) {
      memory_.SetAccess(block, Access::kNone);
    }
    for (const GuardedMemory::Touch& touch : memory_.Touches()) {
      memory_.SetAccess(touch.block, Access::kNone);
    }
  }

  FindingPlace PlaceAt(NodeId node, EntryId entry) const {
    if (entry == kNoEntry) return PlaceOf(index_, node);
    return PlaceOf(index_, node, entry);
  }

  void Report(SeenFinding seen) {
    if (found_) found_(seen.Finish());
    if (result_->findings.size() < kMostFindings) {
      result_->findings.push_back(std::move(seen));
    } else {
      result_->had_more_findings = true;
    }
  }

  void Report(const FindingKind& kind, NodeId node, EntryId entry,
              std::string found, std::vector<FindingNumber> numbers = {}) {
    Report({MakeFinding(kind, PlaceAt(node, entry), std::move(found),
                        std::move(numbers))});
  }

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
  std::optional<ArgumentRecord> arguments_;
  std::optional<ProcessState> process_;  // Before the running node.
};

// The executor that is given these slots holds on to this through the arrays it
// gets, so that the memory outlives every one of them.
struct SlotMemory {
  static absl::StatusOr<NDArray> Allocate(
      const std::shared_ptr<SlotMemory>& self, uint32_t slot, size_t bytes,
      DLDevice device) {
    if (DeviceTypeOf(device) != kDLCPU) {
      return NDArray::Empty({static_cast<int64_t>(bytes)}, {kDLUInt, 8, 1},
                            device);
    }
    NODEWISE_ASSIGN_OR_RETURN(const size_t block, self->memory.Add(bytes));
    self->block_of_slot[slot] = block;
    return NDArray::BorrowBytes(self->memory.block(block).data, bytes, device,
                                self);
  }

  GuardedMemory memory;
  BlockOfSlot block_of_slot = {};
};

}  // namespace

// A read has no number of bytes: only the first touch of each page is known.
Finding SeenFinding::Finish() const {
  Finding finished = finding;
  if (touched.empty()) return finished;
  std::string did = "read";
  if (access != TrappedAccess::kRead) {
    did = fmt::format("{} {} byte{}",
                      access == TrappedAccess::kWrite ? "wrote" : "touched",
                      bytes.size(), bytes.size() == 1 ? "" : "s");
  }
  finished.found =
      fmt::format("{} {} (first at byte {})", did, touched, bytes.first);
  finished.numbers.insert(
      finished.numbers.begin(),
      {{"offset", bytes.first}, {"bytes", uint64_t{bytes.size()}}});
  return finished;
}

absl::StatusOr<GuardedRunResult> RunGuarded(
    const ExecutorMaker& make, const GuardedRunSettings& settings) {
  const auto slots = std::shared_ptr<SlotMemory>(new SlotMemory{
      {settings.red_zone, settings.zone_byte, settings.poison_byte}});
  DebugExecutor::DebugOptions options;
  options.records = false;
  options.plan = settings.plan;
  // An owner of the options must not keep the memory for ever.
  options.allocate = [weak = std::weak_ptr<SlotMemory>(slots)](
                         uint32_t slot, size_t bytes,
                         DLDevice device) -> absl::StatusOr<NDArray> {
    const std::shared_ptr<SlotMemory> memory = weak.lock();
    if (memory == nullptr) {
      return FailedPrecondition("guarded memory: the run is over");
    }
    return SlotMemory::Allocate(memory, slot, bytes, device);
  };
  NODEWISE_ASSIGN_OR_RETURN(const auto executor, make(std::move(options)));
  slots->memory.Seal();
  GuardedRunResult result;
  result.private_plan = PrivatePlan(executor->index());
  MemoryObserver observer(executor->View(), slots->memory, slots->block_of_slot,
                          settings.found, &result);
  absl::Status status;
  {
    const AccessTrap trap(&slots->memory);
    executor->AddObserver(&observer);
    executor->SetPutsFloatsBack(true);
    status = executor->Run();
    executor->RemoveObserver(&observer);
  }
  if (!status.ok() && !result.findings.empty()) {
    // A crash is often the consequence of what an earlier node did.
    const Finding first = result.findings.front().Finish();
    return WithMessage(status,
                       fmt::format("{}; before that: {}", MessageOf(status),
                                   first.ToString()));
  }
  NODEWISE_RETURN_IF_ERROR(status);
  NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor));
  return result;
}

}  // namespace nodewise
