#include <utility>

#include "contrib/lab/autotest/dual_case.h"
#include "nodewise/autotest/backward.h"
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
  const Network& network = gradient.network;
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<NDArray> inputs,
      WithCotangents(backward, network, inputs_, draw_.choices()));
  const std::vector<std::vector<NDArray>> sets = {inputs};
  const CandidateJob job{&network, sets, &backward};
  return JudgeOn(network, inputs, RunJobs(tested_, {&job, 1})[0].sets[0],
                 "as a gradient", true);
}

}  // namespace nodewise
