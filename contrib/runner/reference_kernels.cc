#include "nodewise/runner/reference_kernels.h"

#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
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
      NODEWISE_RETURN_IF_ERROR(Store(i, made[i], outputs[i]));
    }
    return absl::OkStatus();
  }

 private:
  // Sizes may depend on what the inputs hold.
  absl::Status Store(size_t i, const NDArray& made, const NDArray& output) {
    if (!IsOfType(made, region_.outputs[i])) {
      return absl::InvalidArgumentError(fmt::format(
          "output {}: is made as {}, expected {}, as the graph has it", i,
          ToString(TensorType::Of(*made)), ToString(region_.outputs[i])));
    }
    // A faulty storage plan may let them overlap.
    std::memmove(output.data(), made.data(), made.bytes());
    return absl::OkStatus();
  }

  const Region region_;
  const Interpreter interpreter_;
};

class ReferenceMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "reference"; }
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const override {
    return std::make_unique<ReferenceKernel>(region);
  }
};

}  // namespace

std::shared_ptr<const KernelMaker> ReferenceKernels() {
  return std::make_shared<const ReferenceMaker>();
}

}  // namespace nodewise
