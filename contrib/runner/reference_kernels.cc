#include "nodewise/runner/reference_kernels.h"

#include <utility>
#include <vector>

#include "contrib/runner/region_output.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class ReferenceKernel : public RegionKernel {
 public:
  explicit ReferenceKernel(const Region& region)
      : region_(region), interpreter_(region_.network) {}

  absl::Status Run(absl::Span<const NDArray> inputs,
                   absl::Span<const NDArray> outputs) override {
    // These are second holders of the tensors, which keeps the interpreter from
    // writing over the node's inputs.
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                              interpreter_.Run({inputs.begin(), inputs.end()}));
    for (size_t i = 0; i < outputs.size(); ++i) {
      NODEWISE_RETURN_IF_ERROR(
          StoreRegionOutput(region_, i, made[i], outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  const Region region_;
  const Interpreter interpreter_;
};

// It refuses nothing.
class ReferencePlan : public RegionPlan {
 public:
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const override {
    return std::make_unique<ReferenceKernel>(region);
  }
};

class ReferenceMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "reference"; }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region&) const override {
    return std::make_unique<ReferencePlan>();
  }
};

}  // namespace

std::shared_ptr<const KernelMaker> ReferenceKernels() {
  return std::make_shared<const ReferenceMaker>();
}

}  // namespace nodewise
