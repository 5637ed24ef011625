#include "nodewise/memcheck/plan_sanitizer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/support/status.h"
#include "runtime/memcheck/guarded_run.h"

namespace nodewise {
namespace {

// The second run's red zones differ from the first's in every bit, so that any
// byte written there shows in one of the runs; and its dead floats are numbers,
// because NaN hides in comparisons and maxima.
constexpr uint8_t kOtherZoneByte = 0x58;
constexpr uint8_t kOtherPoisonByte = 0x41;

// Signal handlers belong to the whole process, so two runs would take each
// other's traps.
std::atomic<bool> is_sanitizing{false};

// Entries are compared by number, which is the order in which a run makes them.
std::optional<EntryId> FirstDifference(const GuardedRunResult& a,
                                       const GuardedRunResult& b) {
  const auto [in_a, in_b] = std::mismatch(a.hashes.begin(), a.hashes.end(),
                                          b.hashes.begin(), b.hashes.end());
  if (in_a == a.hashes.end() || in_b == b.hashes.end()) return std::nullopt;
  return EntryId{static_cast<uint32_t>(in_a - a.hashes.begin())};
}

class Sanitizer {
 public:
  Sanitizer(const ExecutorMaker& make, const SanitizeOptions& options)
      : make_(make), options_(options) {
    settings_.red_zone = options.red_zone;
    settings_.found = options.found;
  }

  absl::StatusOr<SanitizeReport> Run() {
    NODEWISE_ASSIGN_OR_RETURN(first_, RunGuarded(make_, settings_));
    SanitizeReport report;
    // The first run's findings stand even if the others fail.
    const auto note = [&](const char* what, const absl::Status& status) {
      if (!status.ok()) report.not_compared.push_back(At(what, status));
    };
    if (options_.compare_poison) {
      note("not compared over other unused bytes", ComparePoison());
    }
    if (options_.compare_private) {
      note("not compared with storage of its own for every entry",
           ComparePrivate());
    }
    // Until now the later runs' findings are at the end.
    std::ranges::stable_sort(first_.findings, {}, &SeenFinding::node);
    for (const SeenFinding& seen : first_.findings) {
      report.findings.push_back(seen.Finish());
    }
    report.had_more_findings = first_.had_more_findings;
    report.nodes = first_.nodes;
    report.outputs = std::move(first_.outputs);
    return report;
  }

 private:
  absl::Status ComparePoison() {
    GuardedRunSettings other = settings_;
    other.zone_byte = kOtherZoneByte;
    other.poison_byte = kOtherPoisonByte;
    NODEWISE_ASSIGN_OR_RETURN(const GuardedRunResult second,
                              RunGuarded(make_, other));
    for (const SeenFinding& seen : second.findings) AddOverrun(seen);
    return Judge(second, other, memory_kinds::kUninitialised,
                 "depends on what lay in memory before: it differs when unused "
                 "memory is filled differently");
  }

  absl::Status ComparePrivate() {
    GuardedRunSettings other = settings_;
    other.plan = first_.private_plan;
    NODEWISE_ASSIGN_OR_RETURN(const GuardedRunResult second,
                              RunGuarded(make_, other));
    return Judge(second, other, memory_kinds::kPlanMatters,
                 "depends on the memory plan: it differs when every entry has "
                 "storage of its own");
  }

  void AddOverrun(const SeenFinding& seen) {
    if (!(seen.finding.kind == memory_kinds::kOverrun)) return;
    for (SeenFinding& known : first_.findings) {
      if (known.finding.kind == seen.finding.kind &&
          known.finding.place == seen.finding.place &&
          known.access == seen.access && known.touched == seen.touched) {
        return known.bytes.Add(seen.bytes.first, seen.bytes.last);
      }
    }
    first_.findings.push_back(seen);
  }

  // A difference is not reported if a known finding may be the reason. If a
  // repetition of either run differs from it, that is reported instead, since
  // what makes the two runs differ cannot be told then. In the order of the
  // repetitions no counter of calls with a short period looks steady.
  absl::Status Judge(const GuardedRunResult& other,
                     const GuardedRunSettings& other_settings,
                     const FindingKind& kind, const char* what) {
    const auto difference = FirstDifference(first_, other);
    if (!difference.has_value() || IsExplained(*difference)) {
      return absl::OkStatus();
    }
    for (const bool is_other : {true, false, false, true}) {
      NODEWISE_ASSIGN_OR_RETURN(
          const GuardedRunResult again,
          RunGuarded(make_, is_other ? other_settings : settings_));
      const auto unsteady = FirstDifference(is_other ? other : first_, again);
      if (!unsteady.has_value() || Index(*unsteady) > Index(*difference)) {
        continue;
      }
      Add(*unsteady, memory_kinds::kUnsteady,
          "is another in a second run of the same, so what it depends on "
          "cannot be told");
      return absl::OkStatus();
    }
    Add(*difference, kind, what);
    return absl::OkStatus();
  }

  bool IsExplained(EntryId entry) const {
    const NodeId maker = first_.places[entry].node.node;
    return std::ranges::any_of(first_.findings, [&](const SeenFinding& seen) {
      // A changed floating-point environment was put back before it could
      // change a result.
      return !(seen.finding.kind == float_kinds::kLeftChanged) &&
             Index(seen.node()) <= Index(maker);
    });
  }

  void Add(EntryId entry, const FindingKind& kind, const char* what) {
    const uint32_t output = first_.output_of[entry];
    first_.findings.push_back(
        {MakeFinding(kind, first_.places[entry],
                     fmt::format("its output {} {}", output, what),
                     {{"output", uint64_t{output}}})});
  }

  const ExecutorMaker& make_;
  const SanitizeOptions& options_;
  GuardedRunSettings settings_;
  GuardedRunResult first_;
};

}  // namespace

absl::StatusOr<SanitizeReport> Sanitize(const ExecutorMaker& make,
                                        const SanitizeOptions& options) {
  if (options.red_zone > kMostRedZone) {
    return InvalidArgument(
        "sanitize: red zones of {} bytes, expected at most {}",
        options.red_zone, kMostRedZone);
  }
  if (is_sanitizing.exchange(true)) {
    return FailedPrecondition(
        "sanitize: another run is going on in this process (one at a time)");
  }
  const absl::Cleanup end = [] { is_sanitizing.store(false); };
  return Sanitizer(make, options).Run();
}

// Slots keep the device and the scope that they have in the plan, and get the
// size of their only entry.
StoragePlan PrivatePlan(const GraphIndex& index) {
  const StoragePlan& plan = index.plan();
  StoragePlan made;
  made.base_of = plan.base_of;
  made.slot_of.assign(plan.slot_of.size(), 0);
  // Inputs that share a slot keep sharing it.
  std::vector<std::optional<uint32_t>> input_slots(plan.slots.size());
  for (uint32_t e = 0; e < plan.slot_of.size(); ++e) {
    const uint32_t base = plan.base_of[e];
    if (base != e) {
      made.slot_of[e] = made.slot_of[base];
      continue;
    }
    const bool is_input = !index.graph().IsFunction(index.NodeOf(EntryId{e}));
    std::optional<uint32_t>& input_slot = input_slots[plan.slot_of[e]];
    if (is_input && input_slot.has_value()) {
      made.slot_of[e] = *input_slot;
      continue;
    }
    made.slot_of[e] = static_cast<uint32_t>(made.slots.size());
    if (is_input) input_slot = made.slot_of[e];
    made.slots.push_back(plan.slots[plan.slot_of[e]]);
  }
  for (StorageSlot& slot : made.slots) slot.bytes = 0;
  for (uint32_t e = 0; e < made.slot_of.size(); ++e) {
    size_t& bytes = made.slots[made.slot_of[e]].bytes;
    bytes = std::max(bytes, index.BytesOf(EntryId{e}));
  }
  return made;
}

}  // namespace nodewise
