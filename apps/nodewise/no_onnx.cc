// Replaces what is said of models in builds without ONNX and its operators.

#include "apps/nodewise/model_passes.h"
#include "apps/nodewise/precision_options.h"

namespace nodewise {

absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice&) {
  return PrecisionSpec();
}
std::string PassHelp() { return "this build has no passes\n"; }
absl::Status CheckPasses(const std::string& list) {
  return list.empty() ? absl::OkStatus()
                      : absl::UnimplementedError("this build has no operators");
}

}  // namespace nodewise
