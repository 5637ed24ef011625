#include <utility>

#include "contrib/autotest/dual_case.h"
#include "nodewise/autotest/backward.h"
#include "nodewise/autotest/input_domain.h"
#include "nodewise/gradient/gradient.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status DualCase::CompareGradients() {
  NODEWISE_RETURN_IF_ERROR(SetAllOutputs());
  const std::vector<size_t> wanted = FloatInputs(network_);
  if (network_.outputs().empty() || wanted.empty()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(GradientNetwork gradient,
                            GradientOf(network_, wanted));
  const BackwardCase backward{network_, std::move(gradient.outputs),
                              std::move(gradient.inputs)};
  std::vector<NDArray> inputs = inputs_;
  const Network& network = gradient.network;
  for (size_t i = inputs.size(); i < network.inputs().size(); ++i) {
    const TensorType& type = network.value(network.inputs()[i]).type;
    NODEWISE_ASSIGN_OR_RETURN(
        inputs.emplace_back(),
        DrawTensor(type.dtype, *type.sizes(), {}, draw_.choices()));
  }
  const std::vector<std::vector<NDArray>> sets = {inputs};
  const CandidateJob job{&network, sets, &backward};
  return JudgeOn(network, inputs, RunJobs(tested_, {&job, 1})[0].sets[0],
                 "as a gradient", true);
}

}  // namespace nodewise
