#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"
#include "nodewise/lower/region.h"
#include "nodewise/lower/region_kernels.h"

namespace nodewise {

// What lowering decides about a network before it makes a graph of it, as side
// tables: none can be read any more once the network has been edited.

// One node of the graph to be. It is called as its region's network.
struct PlannedNode {
  Region region;
  std::vector<OperationId> operations;  // Those in the network, in its order.
  // What the region's inputs and outputs are in the network; each input once.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};
using NodeTable = std::vector<PlannedNode>;  // In the order in which they run.

// Which values lie between nodes with their channels last, by value; empty:
// none does.
using LayoutTable = std::vector<bool>;

// Which memory values share, by value: those with one number do.
// kOwnStorage: memory of its own, as inputs, constants and outputs have it.
using StorageTable = std::vector<int32_t>;
inline constexpr int32_t kOwnStorage = -1;

// The tables of one network, in the order in which each follows from those
// before it. REQUIRES: the network is neither moved nor destroyed before it.
// Any thread may read it.
class LoweringPlan {
 public:
  // Fails as Lower().
  static absl::StatusOr<LoweringPlan> Make(const Network& network,
                                           const LowerOptions& options);

  // Fail with kFailedPrecondition if the network has been edited since: the
  // plan is to be made again. What they return is valid as long as the plan.
  absl::StatusOr<const LayoutTable*> layouts() const { return layouts_.Get(); }
  absl::StatusOr<const NodeTable*> nodes() const { return nodes_.Get(); }
  absl::StatusOr<const StorageTable*> storage() const { return storage_.Get(); }
  // Null inside if the options name no makers. It may outlive the plan: what
  // was lowered is bound by it, however the network is edited then.
  absl::StatusOr<std::shared_ptr<const KernelTable>> kernels() const;

  // The network's, when the plan was made.
  uint64_t version() const { return version_; }

 private:
  using Kernels = std::shared_ptr<const KernelTable>;

  LoweringPlan(uint64_t version, SideTable<LayoutTable> layouts,
               SideTable<NodeTable> nodes, SideTable<StorageTable> storage,
               SideTable<Kernels> kernels)
      : version_(version),
        layouts_(std::move(layouts)),
        nodes_(std::move(nodes)),
        storage_(std::move(storage)),
        kernels_(std::move(kernels)) {}

  uint64_t version_;
  SideTable<LayoutTable> layouts_;
  SideTable<NodeTable> nodes_;
  SideTable<StorageTable> storage_;
  SideTable<Kernels> kernels_;
};

// Makes the graph that the plan of `network` describes. Fails as Lower() with
// options, and with kFailedPrecondition for a network that has been edited
// since, or another one than that of the plan.
absl::StatusOr<Lowered> Lower(const Network& network, const std::string& name,
                              const LoweringPlan& plan);

}  // namespace nodewise
