#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/lower/kernel_table.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The functions of graphs that Lower() makes. They are kernels made of what the
// nodes' own attributes say: the names of functions mean nothing.
class LoweredLibrary : public Library {
 public:
  // The makers are asked in this order; what all of them refuse cannot be run.
  // What a table says of a node is taken from there, if one is given; its plans
  // are of these makers.
  LoweredLibrary(OpSet ops,
                 std::vector<std::shared_ptr<const KernelMaker>> makers,
                 std::shared_ptr<const KernelTable> table = nullptr);

  absl::StatusOr<PackedFunc> Find(std::string_view name) override;
  // Fails as RegionOf() does for a node that says nothing sound, as a maker
  // does, or with kUnimplemented and all refusals.
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override;
  // Its kernels read elements wherever they lie.
  size_t NeededAlignment() const override { return 1; }

  // Returns the choice for every node that has been bound, by name, as it is
  // now. If several nodes have one name, the last one bound counts.
  std::vector<KernelChoice> choices() const;

 private:
  class Choices;
  class BoundKernel;

  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const KernelRequest& request, const Region& region,
      KernelChoice* choice) const;

  const OpSet ops_;
  const std::vector<std::shared_ptr<const KernelMaker>> makers_;
  const std::shared_ptr<const KernelTable> table_;  // May be null.
  // Kernels tell it what they know at their end, which may be after the
  // library's.
  const std::shared_ptr<Choices> choices_;
};

}  // namespace nodewise
