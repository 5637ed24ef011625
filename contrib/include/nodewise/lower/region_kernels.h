#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// What computes an operation of a region.
struct OperationChoice {
  std::string operation;
  std::string kernel;   // KernelMaker::name()
  std::string why_not;  // Why it is not the kernel of the node; "" if it is.
  // What is worth knowing about how it runs: that the code is slow, say.
  std::string remark;
};

// Computes a region. One thread at a time calls Run().
class RegionKernel {
 public:
  virtual ~RegionKernel() = default;

  // Reads the inputs, which must not be written to, and fills the outputs. All
  // are compact, in host memory, and of the region's types; they are lent for
  // the call alone.
  virtual absl::Status Run(absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs) = 0;

  // Returns what computes each operation of the region, as far as it is known
  // by now: what runs need to know may change it. Empty: the maker's kernel all
  // of them, without remarks. Any thread may call.
  virtual std::vector<OperationChoice> Operations() const { return {}; }
};

// A region that a maker has looked through and can compute. Any thread may call
// it.
class RegionPlan {
 public:
  virtual ~RegionPlan() = default;

  // Returns what is to compute each operation of the region, as far as it can
  // be known before the first run. A choice without a kernel means that nothing
  // does. Empty: the maker's kernel all of them, without remarks.
  virtual std::vector<OperationChoice> Operations() const { return {}; }
  // Makes a kernel of the region that was planned, as a node of a graph says
  // it: `region` has the same network.
  virtual absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const = 0;
};

// A way to compute regions. Any thread may call it.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;

  // What listings call it: "reference".
  virtual std::string_view name() const = 0;
  // Fails with kUnimplemented, saying why, for a region that it cannot compute;
  // then the next maker is asked. Any other failure is final. Nothing is
  // compiled and no weights are touched.
  virtual absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region& region) const = 0;
  // Plans a region and makes its kernel.
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const;
};

// Which maker computes a node.
struct KernelChoice {
  std::string node;
  std::string kernel;  // KernelMaker::name().
  // Why the makers before refused it, each beginning with its name.
  std::vector<std::string> refusals;
  std::vector<OperationChoice> operations;  // All of the node's, in order.
};

// A choice, and the plan that a kernel is made of.
struct PlannedKernel {
  KernelChoice choice;
  // Null if no maker takes the region: `choice` has no kernel then.
  std::shared_ptr<const RegionPlan> plan;
  absl::Status status;  // Why not; else OK.
};

// Asks the makers in their order. This is the one place where kernels are
// chosen: before a network is lowered, and when nodes are bound.
PlannedKernel ChooseKernel(
    absl::Span<const std::shared_ptr<const KernelMaker>> makers,
    const Region& region);

// What computes each node of a graph, decided before there is one. Any thread
// may read it.
class KernelTable {
 public:
  void Add(const Region& region, PlannedKernel kernel);

  // In the order in which the nodes run.
  absl::Span<const PlannedKernel> rows() const { return rows_; }
  // Returns the row of the region that a node says, read from it; null for one
  // that was not planned, or has been changed since.
  const PlannedKernel* Find(const Region& region,
                            const std::string& attributes) const;

 private:
  std::vector<PlannedKernel> rows_;
  std::unordered_map<std::string, size_t> by_region_;
};

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
