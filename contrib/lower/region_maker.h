#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/lowering_plan.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {

// Which values of the source lie outside of regions with their channels last.
struct RegionLayouts {
  LayoutTable channels_last;
  const OpSet* operators = nullptr;

  bool IsLast(ValueId id) const {
    return !channels_last.empty() && channels_last[Index(id)];
  }
  // The type that the value has in memory there.
  TensorType TypeOf(const NetworkValue& value) const {
    return IsLast(value.id) ? WithChannelsLast(value.type) : value.type;
  }
};

// Makes a network of some operations of another: every value that is made
// elsewhere becomes an input. Constants become inputs too, unless the types of
// something depend on what they hold, as on the shape of a Reshape. `outputs`
// are values of these operations; empty: those of the last one.
// REQUIRES: nothing else of them is read by others.
absl::StatusOr<PlannedNode> MakeRegion(const Network& source,
                                       absl::Span<const OperationId> operations,
                                       const std::string& name,
                                       const RegionLayouts& layouts = {},
                                       absl::Span<const ValueId> outputs = {});

}  // namespace nodewise
