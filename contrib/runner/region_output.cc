#include "contrib/runner/region_output.h"

#include <cstring>

#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/ways.h"

namespace nodewise {

absl::Status StoreRegionOutput(const Region& region, size_t i,
                               const NDArray& made, const NDArray& output) {
  if (!IsOfType(made, region.outputs[i])) {
    return absl::InvalidArgumentError(fmt::format(
        "output {}: makes {} of these inputs, expected {}, for which the graph "
        "was made (make it with these inputs: {}, and let it compute as now)",
        i, ToString(TensorType::Of(*made)), ToString(region.outputs[i]),
        NameOf(Way::kInputs)));
  }
  // A faulty storage plan may let them overlap.
  std::memmove(output.data(), made.data(), made.bytes());
  return absl::OkStatus();
}

}  // namespace nodewise
