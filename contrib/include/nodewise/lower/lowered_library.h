#pragma once

#include <memory>
#include <string>
#include <string_view>
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

// A way to compute regions. Any thread may call it.
class KernelMaker {
 public:
  virtual ~KernelMaker() = default;

  // What listings call it: "reference".
  virtual std::string_view name() const = 0;
  // Fails with kUnimplemented, saying why, for a region that it cannot compute;
  // then the next maker is asked. Any other failure is final.
  virtual absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const = 0;
};

// Which maker computes a node.
struct KernelChoice {
  std::string node;
  std::string kernel;  // KernelMaker::name().
  // Why the makers before refused it, each beginning with its name.
  std::vector<std::string> refusals;
  std::vector<OperationChoice> operations;  // All of the node's, in order.
};

// The functions of graphs that Lower() makes. They are kernels made of what the
// nodes' own attributes say: the names of functions mean nothing.
class LoweredLibrary : public Library {
 public:
  // The makers are asked in this order; what all of them refuse cannot be run.
  LoweredLibrary(OpSet ops,
                 std::vector<std::shared_ptr<const KernelMaker>> makers);

  absl::StatusOr<PackedFunc> Find(std::string_view name) override;
  // Fails as RegionOf() does for a node that says nothing sound, as a maker
  // does, or with kUnimplemented and all refusals.
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override;
  // Its kernels read elements wherever they lie.
  size_t NeededAlignment() const override { return 1; }

  // Returns the choice for every node that has been bound, by name, as it is
  // now. Of several nodes with one name, that of the last one bound.
  std::vector<KernelChoice> choices() const;

 private:
  class Choices;
  class BoundKernel;

  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region, KernelChoice* choice) const;

  const OpSet ops_;
  const std::vector<std::shared_ptr<const KernelMaker>> makers_;
  // Kernels tell it what they know at their end, which may be after the
  // library's.
  const std::shared_ptr<Choices> choices_;
};

}  // namespace nodewise
