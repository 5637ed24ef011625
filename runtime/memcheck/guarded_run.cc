#include "runtime/memcheck/guarded_run.h"

#include <memory>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/support/status_macros.h"
#include "runtime/memcheck/memory_observer.h"

namespace nodewise {
namespace {

// Gives an executor its slots.
class SlotMemory {
 public:
  explicit SlotMemory(const GuardedRunSettings& settings)
      : memory_(settings.red_zone, settings.zone_byte, settings.poison_byte) {}

  absl::StatusOr<NDArray> Allocate(uint32_t slot, size_t bytes, DLDevice device,
                                   const std::shared_ptr<SlotMemory>& self) {
    if (DeviceTypeOf(device) != kDLCPU) {
      return NDArray::Empty({static_cast<int64_t>(bytes)}, {kDLUInt, 8, 1},
                            device);
    }
    NODEWISE_ASSIGN_OR_RETURN(const size_t block, memory_.Add(bytes));
    block_of_slot_[slot] = block;
    return NDArray::BorrowBytes(memory_.block(block).data, bytes, device, self);
  }

  GuardedMemory& memory() { return memory_; }
  const BlockOfSlot& block_of_slot() const { return block_of_slot_; }

 private:
  GuardedMemory memory_;
  BlockOfSlot block_of_slot_;
};

// Returns the status of a run with the finding that preceded its failure.
absl::Status WithFirstFinding(const absl::Status& status,
                              const GuardedRunResult& result) {
  if (result.findings.empty()) return status;
  const Finding first = result.findings.front().Finish();
  return WithMessage(status, fmt::format("{}; before that: {}",
                                         MessageOf(status), first.ToString()));
}

}  // namespace

bool SeenFinding::IsSameAs(const SeenFinding& other) const {
  return finding.kind == other.finding.kind &&
         finding.place == other.finding.place && access == other.access &&
         touched == other.touched;
}

void SeenFinding::Widen(const SeenFinding& other) {
  bytes.Add(other.bytes.first, other.bytes.last);
}

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
  const auto slots = std::make_shared<SlotMemory>(settings);
  DebugExecutor::DebugOptions options;
  options.records = false;
  options.plan = settings.plan;
  // An owner of the options must not keep the memory for ever.
  options.allocate = [weak = std::weak_ptr<SlotMemory>(slots)](
                         uint32_t slot, size_t bytes,
                         DLDevice device) -> absl::StatusOr<NDArray> {
    const std::shared_ptr<SlotMemory> memory = weak.lock();
    if (memory == nullptr) {
      return absl::FailedPreconditionError("guarded memory: the run is over");
    }
    return memory->Allocate(slot, bytes, device, memory);
  };
  NODEWISE_ASSIGN_OR_RETURN(const auto executor, make(std::move(options)));
  slots->memory().Seal();
  GuardedRunResult result;
  result.private_plan = PrivatePlan(executor->index());
  MemoryObserver observer(executor->View(), slots->memory(),
                          slots->block_of_slot(), settings.found, &result);
  absl::Status status;
  {
    const AccessTrap trap(&slots->memory());
    executor->AddObserver(&observer);
    executor->SetPutsFloatsBack(true);
    status = executor->Run();
    executor->RemoveObserver(&observer);
  }
  if (!status.ok()) return WithFirstFinding(status, result);
  NODEWISE_ASSIGN_OR_RETURN(result.outputs, FetchOutputs(*executor));
  return result;
}

}  // namespace nodewise
