#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/planter/planter.h"

namespace nodewise {

// A kind of faults that is measured.
struct FaultSource {
  std::string_view name;
  FaultSign sign = FaultSign::kWrongValues;
  // The fault may end, block or corrupt the process that it is in.
  bool is_dangerous = false;
  // A fault that is not one in values must be named exactly wherever it is
  // planted, by the methods that see it.
  bool is_required = false;
  // The search was written without a look at the kind: it is measured and not
  // required.
  bool is_held_out = false;
  std::function<absl::StatusOr<PlantedGraph>(const Planter& planter,
                                             uint64_t seed)>
      plant;
};

// Returns the planter's kinds, and those that were written for the measurement
// alone.
const std::vector<FaultSource>& FaultSources();
// Fails with kInvalidArgument, naming all.
absl::StatusOr<const FaultSource*> FindFaultSource(std::string_view name);

}  // namespace nodewise
