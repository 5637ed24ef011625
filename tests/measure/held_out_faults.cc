#include "tests/measure/held_out_faults.h"

#include <utility>

#include "tests/measure/held_out_kinds.h"

namespace nodewise {
namespace {

constexpr FurtherFaultKind kKinds[] = {
    {"rest-not-summed", &RestNotSummed},
    {"saturated-sums", &SaturatedSums},
    {"index-wraps", &WrappedIndex},
    {"input-overwritten", &OverwrittenInput},
    {"wrong-broadcast", &WrongBroadcast},
    {"early-activation", &EarlyActivation},
};

}  // namespace

std::vector<FaultSource> HeldOutFaults() {
  std::vector<FaultSource> sources;
  for (const FurtherFaultKind& kind : kKinds) {
    FaultSource source;
    source.name = kind.name;
    source.is_held_out = true;
    source.plant = [kind](const Planter& planter, uint64_t seed) {
      return planter.Plant(kind, seed);
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace nodewise
