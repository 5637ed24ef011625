#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Computes a region. One thread at a time calls it.
class RegionKernel {
 public:
  virtual ~RegionKernel() = default;

  // Reads the inputs, which must not be written to, and fills the outputs. All
  // are compact, in host memory, and of the region's types; they are lent for
  // the call alone.
  virtual absl::Status Run(absl::Span<const NDArray> inputs,
                           absl::Span<const NDArray> outputs) = 0;
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

  // Returns the choice for every node that has been bound, by name.
  std::vector<KernelChoice> choices() const;

 private:
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(const Region& region);

  const OpSet ops_;
  const std::vector<std::shared_ptr<const KernelMaker>> makers_;
  mutable std::mutex mutex_;
  std::map<std::string, KernelChoice> choices_;  // By node.
};

}  // namespace nodewise
