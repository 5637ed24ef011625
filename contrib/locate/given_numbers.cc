#include "nodewise/locate/given_numbers.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {

absl::Status CheckGivenNumbers(absl::Span<const NamedTensor> inputs) {
  for (const NamedTensor& input : inputs) {
    const NDArray& tensor = input.tensor;
    if (!IsFloat(tensor.dtype()) || tensor.dtype().lanes != 1) continue;
    const auto count = NumElements(tensor.shape());
    std::vector<double> numbers(static_cast<size_t>(count.value_or(0)));
    if (!DecodeToDoubles(tensor.dtype(), tensor.data(), numbers.size(),
                         numbers.data())) {
      continue;
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (!std::isnan(numbers[i])) continue;
      return absl::FailedPreconditionError(fmt::format(
          "input {}: element {} is NaN, expected numbers: what it reaches is "
          "NaN on both sides and counts as equal, so that it is not judged "
          "(give numbers; {} names the nodes that are given NaN)",
          Printable(input.name), i, NameOf(Way::kNodeByNode)));
    }
  }
  return absl::OkStatus();
}

}  // namespace nodewise
