#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/precision/precision.h"

namespace nodewise {

// How far one result of an operation is from its float32 form, over all
// samples. Numbers that are equal, infinities too, or both NaN count as no
// error; a difference that is NaN makes both errors infinite.
struct ValueError {
  std::string operation;
  std::string kind;
  std::string value;
  double max_abs = 0;
  // The norm of all differences by that of all numbers of float32; infinite if
  // only these are all 0.
  double relative_l2 = 0;
};

// Runs both networks on the samples and compares every float32 result of an
// operation with what stands for it, in the order of the operations. `report`
// is that of LowerPrecision(), which made `lowered` of `original`. Fails with
// kInvalidArgument if there is no sample, and with the error of a run.
absl::StatusOr<std::vector<ValueError>> MeasureErrors(
    const Network& original, const Network& lowered,
    const PrecisionReport& report, absl::Span<const Sample> samples);

// Returns the largest relative L2 of an output, each over all samples;
// `expected` and `found` hold the outputs of each. Outputs that are not float32
// count by their numbers, too.
double OutputError(absl::Span<const std::vector<NDArray>> expected,
                   absl::Span<const std::vector<NDArray>> found);

}  // namespace nodewise
