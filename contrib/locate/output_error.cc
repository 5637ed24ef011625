#include "contrib/locate/output_error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {

Tolerance AccumulatedTolerance(const Graph& graph) {
  // Types without a tolerance of their own, such as integers, have 0 here.
  Tolerance widest;
  for (const GraphEntry& entry : graph.entries) {
    const Tolerance one = ToleranceOf({Rule::Kind::kByType}, entry.dtype);
    if (one.relative > widest.relative) widest = one;
  }
  return widest;
}

CompareOptions AccumulatedOptions(Tolerance tolerance, DLDataType dtype) {
  CompareOptions options;
  // Types whose own tolerance is nothing are integers: an index or a label that
  // is one off means something else, however short the floats before it are.
  const bool is_exact = ToleranceOf({Rule::Kind::kByType}, dtype).relative == 0;
  if (!is_exact) options.rule = {Rule::Kind::kTolerance, tolerance};
  return options;
}

absl::StatusOr<TensorComparison> CompareNodeOutput(
    const std::string& node, uint32_t slot, const NDArray& expected,
    const DLTensor& found, const CompareOptions& options) {
  const TensorKey key{node, slot, TensorRole::kOutput, "reference"};
  return CompareTensors({.key = key, .tensor = expected.tensor()}, found,
                        options);
}

absl::StatusOr<std::vector<TensorComparison>> CompareByBounds(
    const std::string& node, BoundedRun* reference,
    absl::Span<const NDArray> made, bool with_all_bounds) {
  std::vector<TensorComparison> compared;
  for (uint32_t slot = 0; slot < made.size(); ++slot) {
    const TensorKey key{node, slot, TensorRole::kOutput, "reference"};
    BoundSource& bounds = reference->bounds(slot);
    TensorItem item{.key = key,
                    .tensor = reference->outputs()[slot].tensor(),
                    .bound_source = &bounds};
    if (with_all_bounds) {
      NODEWISE_ASSIGN_OR_RETURN(const BoundSpans all, bounds.All());
      item.proved_bounds = all.proved;
      item.expected_bounds = all.expected;
    }
    NODEWISE_ASSIGN_OR_RETURN(TensorComparison one,
                              CompareTensors(item, *made[slot]));
    compared.push_back(std::move(one));
  }
  return compared;
}

absl::StatusOr<std::vector<TensorComparison>> CompareNetworkOutputs(
    absl::Span<const NDArray> reference, absl::Span<const NamedTensor> outputs,
    Tolerance tolerance) {
  std::vector<TensorComparison> compared;
  for (size_t i = 0; i < outputs.size() && i < reference.size(); ++i) {
    const auto& [name, found] = outputs[i];
    if (!reference[i].defined() || !found.defined()) {
      return NotFound("output {}: the {} has not handed it out",
                      Printable(name),
                      reference[i].defined() ? "run" : "reference");
    }
    NODEWISE_ASSIGN_OR_RETURN(
        TensorComparison output,
        CompareNodeOutput(name, 0, reference[i], *found,
                          AccumulatedOptions(tolerance, reference[i].dtype())));
    // Infinities that the reference has, too, are equal, and yet no user
    // expects them in an output.
    const TensorStats stats = StatsOf(*found);
    output.has_non_finite = stats.nans + stats.infinities > 0;
    compared.push_back(std::move(output));
  }
  return compared;
}

std::vector<NDArray> Unnamed(absl::Span<const NamedTensor> tensors) {
  std::vector<NDArray> unnamed;
  for (const NamedTensor& each : tensors) unnamed.push_back(each.tensor);
  return unnamed;
}

bool HaveSameBytes(const NDArray& a, const NDArray& b) {
  // Tensors are shared wherever nothing has changed, which is the usual case.
  return a.data() == b.data() ||
         (a.dtype() == b.dtype() && a.shape() == b.shape() &&
          std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

bool AnyIsWrong(absl::Span<const TensorComparison> outputs) {
  return std::ranges::any_of(outputs, &TensorComparison::is_wrong);
}

double LargestError(absl::Span<const TensorComparison> outputs) {
  double largest = 0;
  for (const TensorComparison& output : outputs) {
    largest = std::max(largest, RelativeError(output));
  }
  return largest;
}

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

double ShareRemoved(const OutputError& error, const OutputError& left) {
  // No finite error weighs anything against an infinity or a NaN, so these are
  // counted alone as long as there are any; and a run that has them where the
  // first had none is no better than it, however small its other errors are.
  if (error.non_finite > 0) {
    return 1 - static_cast<double>(left.non_finite) /
                   static_cast<double>(error.non_finite);
  }
  if (left.non_finite > 0) return 0;
  return 1 - left.size / error.size;
}

absl::StatusOr<WrongOutputs> FindWrongOutputs(
    const std::vector<NDArray>& reference,
    const std::vector<NamedTensor>& outputs, Tolerance tolerance,
    std::vector<TensorComparison>* compared) {
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<TensorComparison> all,
      CompareNetworkOutputs(reference, outputs, tolerance));
  WrongOutputs found;
  found.tolerance = tolerance;
  std::vector<TensorComparison> wrong;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_wrong()) continue;
    found.heads.push_back(i);
    found.names.push_back(outputs[i].name);
    found.reference.push_back(reference[i]);
    wrong.push_back(all[i]);
  }
  // Outputs that are within the tolerance have errors, too, which would only
  // blur the shares.
  found.error = ErrorOf(wrong);
  if (compared != nullptr) *compared = std::move(all);
  return found;
}

absl::StatusOr<double> WrongOutputs::ShareLeft(
    std::vector<NDArray> outputs) const {
  // Names are for messages alone: outputs are compared by place.
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < outputs.size(); ++i) {
    named.push_back({names[i], std::move(outputs[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto compared,
                            CompareNetworkOutputs(reference, named, tolerance));
  return 1 - ShareRemoved(error, ErrorOf(compared));
}

absl::StatusOr<double> WrongOutputs::ShareLeftIn(
    const std::vector<NamedTensor>& outputs) const {
  std::vector<NDArray> tensors;
  for (const size_t head : heads) tensors.push_back(outputs[head].tensor);
  return ShareLeft(std::move(tensors));
}

}  // namespace nodewise
