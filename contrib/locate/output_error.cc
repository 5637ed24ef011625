#include "contrib/locate/output_error.h"

#include <cmath>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "fmt/format.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {

OutputError ErrorOf(absl::Span<const TensorComparison> outputs) {
  OutputError error;
  for (const TensorComparison& output : outputs) {
    const Metrics& metrics = output.metrics;
    error.non_finite += metrics.non_finite();
    // Where all is expected to be 0, what is there is as large as the error.
    const double scale = metrics.expected_norm > 0 ? metrics.expected_norm : 1;
    error.size = std::hypot(error.size, metrics.difference_norm / scale);
  }
  return error;
}

double ShareGone(const OutputError& error, const OutputError& left) {
  if (error.non_finite > 0) {
    return 1 - static_cast<double>(left.non_finite) /
                   static_cast<double>(error.non_finite);
  }
  if (left.non_finite > 0) return 0;
  return 1 - left.size / error.size;
}

absl::StatusOr<std::vector<TensorComparison>> CompareNetworkOutputs(
    absl::Span<const NDArray> reference, absl::Span<const NamedTensor> outputs,
    Tolerance tolerance) {
  std::vector<TensorComparison> compared;
  for (size_t i = 0; i < outputs.size() && i < reference.size(); ++i) {
    if (!reference[i].defined() || !outputs[i].tensor.defined()) {
      return absl::NotFoundError(fmt::format(
          "output {}: the {} has not handed it out", Printable(outputs[i].name),
          reference[i].defined() ? "run" : "reference"));
    }
    const TensorKey key{outputs[i].name, 0, TensorRole::kOutput, "reference"};
    TensorItem item{key};
    item.tensor = reference[i].tensor();
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison output,
        CompareTensors(item, *outputs[i].tensor,
                       AccumulatedOptions(tolerance, reference[i].dtype())));
    const TensorStats stats = StatsOf(*outputs[i].tensor);
    output.has_non_finite = stats.nans + stats.infinities > 0;
    compared.push_back(std::move(output));
  }
  return compared;
}

}  // namespace nodewise
