#include "nodewise/runner/reference_kernels.h"

#include <cstring>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"

namespace nodewise {

absl::Status StoreRegionOutput(const Region& region, size_t i,
                               const NDArray& made, const NDArray& output) {
  // The graph was made with the sizes of some inputs at hand. Other data may
  // give others, as a NonZero does, and the memory at the output would not fit.
  if (!IsOfType(made, region.outputs[i])) {
    return InvalidArgument(
        "output {}: makes {} of these inputs, expected {}, for which the graph "
        "was made (make it with these inputs: {}, and let it compute as now)",
        i, ToString(TensorType::From(*made)), ToString(region.outputs[i]),
        NameOf(Way::kInputs));
  }
  // A faulty storage plan may let them overlap.
  std::memmove(output.data(), made.data(), made.bytes());
  return absl::OkStatus();
}

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
  // The interpreter refers to the network in it, so it comes first and stays
  // where it is.
  const Region region_;
  const Interpreter interpreter_;
};

// The reference refuses no region.
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
