// Replaces what is said of models in builds without ONNX and its operators.

#include "apps/nodewise/model_passes.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/precision_options.h"
#include "apps/nodewise/target_support.h"

namespace nodewise {
namespace {

absl::Status NeedsOperators() {
  return absl::UnimplementedError("this build has no operators");
}

}  // namespace

// There is no network that could have opaque operations.
std::string DescribeOpaque(const Network&, JsonWriter*) { return ""; }
void AddOpaqueOption(OptionList*, ModelOptions*) {}
void ShowOpaque(const OpaqueReport&, Outcome*) {}
void AddMissingOutputs(const OpaqueReport&, Outcome*) {}

// There is no network that could be lowered.
std::string TitleOfKernel(const std::string& kernel) { return kernel; }
absl::StatusOr<TargetSupport> AskTarget(const Network&, const std::string&) {
  return NeedsOperators();
}
absl::StatusOr<EmittedC> EmitModelC(const Graph&) { return NeedsOperators(); }
absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice&) {
  return PrecisionSpec();
}
void ShowPrecision(const PrecisionResult&, Outcome*) {}
std::string PrecisionLine(const PrecisionResult&) { return ""; }
std::string PassHelp() { return "this build has no passes\n"; }
absl::Status CheckPasses(const std::string& list) {
  return list.empty() ? absl::OkStatus() : NeedsOperators();
}
std::string ShowPasses(const PassesReport&, JsonWriter*) { return ""; }

}  // namespace nodewise
