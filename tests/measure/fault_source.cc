#include "tests/measure/fault_source.h"

#include "fmt/format.h"
#include "nodewise/support/words.h"
#include "tests/measure/held_out_faults.h"

namespace nodewise {
namespace {

std::vector<FaultSource> MakeSources() {
  std::vector<FaultSource> sources;
  for (const FaultKindRow& row : FaultKinds()) {
    FaultSource source;
    source.name = row.name;
    source.sign = row.sign;
    source.is_dangerous =
        row.sign == FaultSign::kNoReturn || row.kind == FaultKind::kOverrun;
    // A flaky node may be right, or wrong, in all runs that are looked at.
    source.is_required = row.sign != FaultSign::kSometimes;
    source.plant = [kind = row.kind](const Planter& planter, uint64_t seed) {
      return planter.Plant(kind, seed);
    };
    sources.push_back(std::move(source));
  }
  for (FaultSource& source : HeldOutFaults()) {
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace

const std::vector<FaultSource>& FaultSources() {
  static const std::vector<FaultSource> sources = MakeSources();
  return sources;
}

absl::StatusOr<const FaultSource*> FindFaultSource(std::string_view name) {
  std::vector<std::string> names;
  for (const FaultSource& source : FaultSources()) {
    if (source.name == name) return &source;
    names.emplace_back(source.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("kind: found \"{}\", expected one of {}", Printable(name),
                  ListOf(names, names.size())));
}

}  // namespace nodewise
