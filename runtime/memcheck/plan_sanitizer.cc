#include "nodewise/memcheck/plan_sanitizer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "runtime/memcheck/guarded_run.h"

namespace nodewise {
namespace {

// The second run's red zones differ from the first's in every bit, so that any
// byte written there shows in one of the runs; and its dead floats are numbers,
// because NaN hides in comparisons and maxima.
constexpr uint8_t kOtherZoneByte = 0x58;
constexpr uint8_t kOtherPoisonByte = 0x41;

std::atomic<bool> is_sanitizing{false};

struct OnlyOne {
  bool is_mine = !is_sanitizing.exchange(true);
  OnlyOne() = default;
  OnlyOne(const OnlyOne&) = delete;
  OnlyOne& operator=(const OnlyOne&) = delete;
  ~OnlyOne() {
    if (is_mine) is_sanitizing.store(false);
  }
};

// Returns the first entry that two runs disagree on, or none.
std::optional<EntryId> FirstDifference(const GuardedRunResult& a,
                                       const GuardedRunResult& b) {
  const auto [in_a, in_b] = std::mismatch(a.hashes.begin(), a.hashes.end(),
                                          b.hashes.begin(), b.hashes.end());
  if (in_a == a.hashes.end() || in_b == b.hashes.end()) return std::nullopt;
  return EntryId{static_cast<uint32_t>(in_a - a.hashes.begin())};
}

// The runs of one call of Sanitize() and what they show together.
class Sanitizer {
 public:
  Sanitizer(const ExecutorMaker& make, const SanitizeOptions& options)
      : make_(make), options_(options) {
    settings_.red_zone = options.red_zone;
  }

  absl::StatusOr<SanitizeReport> Run() {
    NODEWISE_ASSIGN_OR_RETURN(first_, RunGuarded(make_, settings_));
    SanitizeReport report;
    // The first run's findings stand whatever happens in the others.
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
    for (const SeenFault& seen : first_.faults) {
      report.faults.push_back(seen.Finish());
    }
    // Until now the later runs' findings are at the end.
    std::stable_sort(report.faults.begin(), report.faults.end(),
                     [](const MemoryFault& a, const MemoryFault& b) {
                       return Index(a.node) < Index(b.node);
                     });
    report.had_more_faults = first_.had_more_faults;
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
    for (const SeenFault& seen : second.faults) AddOverrun(seen);
    return Judge(second, MemoryFault::Kind::kUninitialised,
                 "depends on what lay in memory before: it differs when unused "
                 "memory is filled differently");
  }

  absl::Status ComparePrivate() {
    GuardedRunSettings other = settings_;
    other.plan = first_.private_plan;
    NODEWISE_ASSIGN_OR_RETURN(const GuardedRunResult second,
                              RunGuarded(make_, other));
    return Judge(second, MemoryFault::Kind::kPlanMatters,
                 "depends on the memory plan: it differs when every entry has "
                 "storage of its own");
  }

  void AddOverrun(const SeenFault& seen) {
    if (seen.fault.kind != MemoryFault::Kind::kOverrun) return;
    for (SeenFault& known : first_.faults) {
      if (known.IsSameAs(seen)) return known.Widen(seen);
    }
    first_.faults.push_back(seen);
  }

  // Reports the first entry that differs in `other`, unless a known fault may
  // be the reason, or it differs in a repetition of the first run too.
  absl::Status Judge(const GuardedRunResult& other, MemoryFault::Kind kind,
                     const char* what) {
    const auto difference = FirstDifference(first_, other);
    if (!difference.has_value() || IsExplained(*difference)) {
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const GuardedRunResult again,
                              RunGuarded(make_, settings_));
    const auto unsteady = FirstDifference(first_, again);
    if (unsteady.has_value() && Index(*unsteady) <= Index(*difference)) {
      Add(*unsteady, MemoryFault::Kind::kUnsteady,
          "is another in a second run of the same, so what it depends on "
          "cannot be told");
    } else {
      Add(*difference, kind, what);
    }
    return absl::OkStatus();
  }

  bool IsExplained(EntryId entry) const {
    return std::any_of(
        first_.faults.begin(), first_.faults.end(), [&](const SeenFault& seen) {
          return Index(seen.fault.node) <= Index(first_.node_of[entry]);
        });
  }

  void Add(EntryId entry, MemoryFault::Kind kind, const char* what) {
    const NodeId node = first_.node_of[entry];
    uint32_t output = 0;
    while (output < Index(entry) &&
           first_.node_of[EntryId{Index(entry) - output - 1}] == node) {
      ++output;
    }
    SeenFault seen;
    seen.fault.kind = kind;
    seen.fault.node = node;
    seen.fault.entry = entry;
    seen.fault.text =
        fmt::format("{}: its output {} {}", first_.actors[node], output, what);
    first_.faults.push_back(std::move(seen));
  }

  const ExecutorMaker& make_;
  const SanitizeOptions& options_;
  GuardedRunSettings settings_;
  GuardedRunResult first_;
};

}  // namespace

std::string_view NameOf(MemoryFault::Kind kind) {
  switch (kind) {
    case MemoryFault::Kind::kOverrun:
      return "overrun";
    case MemoryFault::Kind::kInputWritten:
      return "input written";
    case MemoryFault::Kind::kStrayWrite:
      return "stray write";
    case MemoryFault::Kind::kStrayRead:
      return "stray read";
    case MemoryFault::Kind::kOverwritten:
      return "overwritten";
    case MemoryFault::Kind::kUndersized:
      return "undersized";
    case MemoryFault::Kind::kWild:
      return "wild";
    case MemoryFault::Kind::kPlanMatters:
      return "plan matters";
    case MemoryFault::Kind::kUninitialised:
      return "uninitialised";
    case MemoryFault::Kind::kUnsteady:
      return "unsteady";
  }
  return "unknown";
}

absl::StatusOr<SanitizeReport> Sanitize(const ExecutorMaker& make,
                                        const SanitizeOptions& options) {
  if (options.red_zone > kMostRedZone) {
    return absl::InvalidArgumentError(
        fmt::format("sanitize: red zones of {} bytes, expected at most {}",
                    options.red_zone, kMostRedZone));
  }
  const OnlyOne only;
  if (!only.is_mine) {
    return absl::FailedPreconditionError(
        "sanitize: another run is going on in this process (one at a time)");
  }
  return Sanitizer(make, options).Run();
}

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
  // Each slot becomes as large as what is in it now.
  for (StorageSlot& slot : made.slots) slot.bytes = 0;
  for (uint32_t e = 0; e < made.slot_of.size(); ++e) {
    size_t& bytes = made.slots[made.slot_of[e]].bytes;
    bytes = std::max(bytes, index.BytesOf(EntryId{e}));
  }
  return made;
}

}  // namespace nodewise
