#include <algorithm>
#include <optional>
#include <utility>

#include "nodewise/autotest/backward.h"
#include "nodewise/autotest/input_domain.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<std::vector<NDArray>> WithCotangents(
    const BackwardCase& backward, const Network& gradient,
    std::vector<NDArray> inputs, Choices* choices) {
  const auto cotangents = gradient.inputs().subspan(inputs.size());
  const auto type_of = [&](ValueId id) -> const TensorType& {
    return gradient.value(id).type;
  };
  std::vector<NDArray> outputs;
  if (std::any_of(cotangents.begin(), cotangents.end(), [&](ValueId id) {
        return !type_of(id).sizes().has_value();
      })) {
    NODEWISE_ASSIGN_OR_RETURN(outputs, Interpret(backward.forward, inputs));
  }
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& type = type_of(cotangents[i]);
    auto sizes = type.sizes();
    if (!sizes.has_value()) {
      const auto shape = outputs[backward.outputs[i]].shape();
      sizes.emplace(shape.begin(), shape.end());
    }
    NODEWISE_ASSIGN_OR_RETURN(inputs.emplace_back(),
                              DrawTensor(type.dtype, *sizes, {}, choices));
  }
  return inputs;
}

}  // namespace nodewise
