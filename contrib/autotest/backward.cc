#include "nodewise/autotest/backward.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "nodewise/autotest/input_domain.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

bool HasBackwardSpace(const OperatorDef& def) {
  const auto kind = GradientKindOf(def);
  return HasSpace(def) && kind.has_value() && *kind != GradientKind::kZero;
}

absl::StatusOr<OperatorCase> BackwardOf(const OperatorCase& made) {
  OperatorCase backward;
  backward.configuration = made.configuration;
  std::vector<size_t> wanted;
  size_t given = 0;
  for (CaseInput& input : backward.configuration.inputs) {
    if (!input.is_given || input.is_constant) continue;
    if (input.fixed.defined()) {
      input.is_constant = true;
      continue;
    }
    if (IsFloat(input.dtype) && !input.domain.is_whole) {
      wanted.push_back(given);
    }
    ++given;
  }
  if (wanted.empty()) {
    return absl::InvalidArgumentError("no input can be differentiated");
  }
  NODEWISE_ASSIGN_OR_RETURN(Network forward, NetworkOf(backward.configuration));
  NODEWISE_ASSIGN_OR_RETURN(GradientNetwork gradient,
                            GradientOf(forward, wanted));
  backward.network =
      std::make_shared<const Network>(std::move(gradient.network));
  backward.exact = ExactSource::Of(*backward.network);
  backward.backward = std::make_shared<const BackwardCase>(
      BackwardCase{std::move(forward), std::move(gradient.outputs),
                   std::move(gradient.inputs)});
  return backward;
}

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
