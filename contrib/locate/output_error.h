#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/compare/compare.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// How far what nodes and whole networks make is from the reference's, and by
// which tolerance that is judged where no bounds are known.

// Returns the tolerance for errors that have come through a whole network: that
// of the shortest float type in it, since a float32 behind a float16 is no
// better than that.
Tolerance AccumulatedTolerance(const Graph& graph);

// Returns how a tensor of this type is compared then; integers by their type.
CompareOptions AccumulatedOptions(Tolerance tolerance, DLDataType dtype);

// Compares an output of a node with the reference's. Fails as CompareTensors().
absl::StatusOr<TensorComparison> CompareNodeOutput(
    const std::string& node, uint32_t slot, const NDArray& expected,
    const DLTensor& found, const CompareOptions& options);

// Compares what a node made with what the reference makes of the same inputs,
// by its bounds: those alone on which the verdict may depend, or all.
absl::StatusOr<std::vector<TensorComparison>> CompareByBounds(
    const std::string& node, BoundedRun* reference,
    absl::Span<const NDArray> made, bool with_all_bounds = false);

// Compares the outputs of a run with the reference's, by place, with the
// tolerance of AccumulatedTolerance().
absl::StatusOr<std::vector<TensorComparison>> CompareNetworkOutputs(
    absl::Span<const NDArray> reference, absl::Span<const NamedTensor> outputs,
    Tolerance tolerance);

// Returns the tensors without their names, as those of a reference are given.
std::vector<NDArray> Unnamed(absl::Span<const NamedTensor> tensors);

// Returns whether both are of one type and hold the same bytes. REQUIRES: both
// are compact, in host memory.
bool HaveSameBytes(const NDArray& a, const NDArray& b);

bool AnyIsWrong(absl::Span<const TensorComparison> outputs);
// Returns the largest RelativeError(); 0 for no outputs.
double LargestError(absl::Span<const TensorComparison> outputs);

// How far all outputs of a network together are from the reference's.
struct OutputError {
  uint64_t non_finite = 0;  // Elements that are so on one side alone.
  double size = 0;  // The root of the sum of the squared RelativeError().

  bool any() const { return non_finite > 0 || size > 0; }
};
OutputError ErrorOf(absl::Span<const TensorComparison> outputs);

// Returns which share of the error is gone in the other one. REQUIRES:
// error.any().
double ShareRemoved(const OutputError& error, const OutputError& left);

// The outputs of a network that are wrong in a run, and by how much: what other
// runs are measured against. By default nothing is wrong.
struct WrongOutputs {
  std::vector<size_t> heads = {};  // Their places in Graph::heads.
  std::vector<std::string> names = {};
  std::vector<NDArray> reference = {};
  OutputError error = {};
  Tolerance tolerance = {};

  bool empty() const { return heads.empty(); }
  // Return which share of the error is left: in these outputs alone, by
  // `heads`, and in a run of the whole network.
  absl::StatusOr<double> ShareLeft(std::vector<NDArray> outputs) const;
  absl::StatusOr<double> ShareLeftIn(
      const std::vector<NamedTensor>& outputs) const;
};

// Both lists have all outputs of the network. The comparisons go to `compared`,
// unless it is null.
absl::StatusOr<WrongOutputs> FindWrongOutputs(
    const std::vector<NDArray>& reference,
    const std::vector<NamedTensor>& outputs, Tolerance tolerance,
    std::vector<TensorComparison>* compared);

}  // namespace nodewise
