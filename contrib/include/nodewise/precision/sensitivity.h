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

// Which operations a lower precision hurts most. All errors are OutputError()
// against float32.
struct Sensitivity {
  struct Operator {
    std::string operation;
    std::string kind;
    double error = 0;  // With this operation alone lowered.
  };
  // With the first `kept` of the ranking left alone, and all others lowered.
  struct Point {
    size_t kept = 0;
    double error = 0;
  };
  std::vector<Operator> ranking;  // The largest error first.
  // From 0 to all; long rankings have points at growing distances.
  std::vector<Point> curve;
  // How many of the first to keep: the point at which the share of the error
  // that remains and the share of operations that are kept have the least sum.
  // One bad operation among many is worth keeping; where all do equal harm,
  // none is.
  size_t suggested = 0;
  // The error that the suggestion leaves: ErrorWith() it, or more where it was
  // seen to depend on how floats are rounded.
  double suggested_error = 0;

  // Returns the largest error at this point of the curve and those behind it:
  // what becomes worse again with more left alone was luck, and another tool
  // that makes such a model will not have it. REQUIRES: the curve has it.
  double ErrorWith(size_t kept) const;
  // Sets what is suggested by the curve.
  void Suggest();
  // Returns an expression for PrecisionOptions::keep that selects operations of
  // these names; empty for none.
  static std::string ExpressionFor(const std::vector<std::string>& names);
  // Returns an expression for PrecisionOptions::keep that selects those that
  // options.keep did and the first `suggested`; empty if there are none.
  std::string KeepExpression(const std::string& kept_before = "") const;
};

// Lowers one operation at a time, then all but the worst, and runs each network
// on the samples. Fails as LowerPrecision() does, with kInvalidArgument if
// there is no sample, and with the error of a run. `options.only` must be null.
absl::StatusOr<Sensitivity> MeasureSensitivity(
    const Network& network, const PrecisionOptions& options,
    absl::Span<const Sample> samples);

}  // namespace nodewise
