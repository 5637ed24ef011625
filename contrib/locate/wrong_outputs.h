#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/locate/output_error.h"
#include "nodewise/compare/compare.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// The outputs of a network that are wrong in a run, and by how much: what other
// runs are measured against.
class WrongOutputs {
 public:
  // Before any run: nothing is wrong.
  WrongOutputs() = default;
  // Both lists have all outputs of the network. The comparisons go to
  // `compared`, unless it is null.
  static absl::StatusOr<WrongOutputs> Find(
      const std::vector<NDArray>& reference,
      const std::vector<NamedTensor>& outputs, Tolerance tolerance,
      std::vector<TensorComparison>* compared);

  bool empty() const { return heads_.empty(); }
  // Their places in Graph::heads, and their names.
  const std::vector<size_t>& heads() const { return heads_; }
  const std::vector<std::string>& names() const { return names_; }

  // Return which share of the error is left: in these outputs alone, by
  // heads(), and in a run of the whole network.
  absl::StatusOr<double> ShareLeft(std::vector<NDArray> outputs) const;
  absl::StatusOr<double> ShareLeftIn(
      const std::vector<NamedTensor>& outputs) const;

 private:
  Tolerance tolerance_;
  std::vector<size_t> heads_;
  std::vector<std::string> names_;
  std::vector<NDArray> reference_;
  OutputError error_;
};

}  // namespace nodewise
