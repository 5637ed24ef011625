#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/runner/half_floats.h"
#include "contrib/runner/onednn_plan.h"

namespace nodewise {

// A step of a region and, if oneDNN computes it, the kernel with the constants
// that it was made for. One thread at a time runs it; any thread may ask
// why_not and for a remark.
class OneDnnStep {
 public:
  OneDnnStep(const Region& region, PlannedStep planned);

  const PlannedStep& planned() const { return planned_; }

  // Makes the kernel that fits the constants and the number of threads as they
  // are now, unless it is there. Returns whether there is one: constants may
  // hold what oneDNN refuses, which why_not() tells. `inputs` are as
  // OneDnnKernel::Run takes them, and then the numbers of PlannedStep::gelus.
  // REQUIRES: the step is a call.
  absl::StatusOr<bool> Prepare(absl::Span<const NDArray> inputs);
  // Returns false if the step's operations are to be computed by their
  // definitions, since the call's own operators or types are others, and not
  // made for the numbers of this run. REQUIRES: Prepare() returned true for
  // these inputs.
  absl::StatusOr<bool> Run(absl::Span<const NDArray> inputs,
                           const NDArray& output);

  // Lets go all that a next run would be made faster by.
  void Forget();

  // Why oneDNN does not compute the step, or not with these constants; "" if it
  // does.
  std::string why_not() const;
  // A remark about how the step runs that is worth knowing; "" if there is
  // none.
  std::string remark() const;

 private:
  struct Kept {
    size_t place;                                  // Among the inputs.
    std::shared_ptr<const TensorChanges> changes;  // May be null.
    uint64_t count = 0;
    uint64_t hash = 0;
  };

  void Keep(const Region& region, size_t place, ValueId value);
  bool IsCurrent(absl::Span<const NDArray> inputs);
  // Whether the call computes what the operations do, but with other roundings,
  // or with other results for NaN.
  bool IsRewritten() const;
  absl::Status RunWide(absl::Span<const NDArray> inputs, const NDArray& output);
  absl::Status CheckGelus(absl::Span<const NDArray> inputs) const;
  absl::StatusOr<std::unique_ptr<OneDnnKernel>> MakeKernel(
      absl::Span<const NDArray> inputs) const;
  absl::Status Make(absl::Span<const NDArray> inputs);

  PlannedStep planned_;
  std::vector<Kept> kept_;
  int threads_ = 0;           // 0: nothing has been made.
  mutable std::mutex mutex_;  // Guards what follows against who asks.
  std::unique_ptr<OneDnnKernel> kernel_;
  std::string why_not_;
  int64_t num_evaluated_before_ = 0;  // By kernels that are gone.
  int64_t num_nans_ = 0;              // Runs computed again for a NaN.
};

}  // namespace nodewise
