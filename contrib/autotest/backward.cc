#include "nodewise/autotest/backward.h"

#include <memory>
#include <utility>

#include "nodewise/gradient/gradient.h"
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

}  // namespace nodewise
