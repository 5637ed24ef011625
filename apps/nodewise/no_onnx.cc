// Replaces what reads and changes models in builds without ONNX and its
// operators.

#include "apps/nodewise/model_options.h"
#include "apps/nodewise/model_passes.h"
#include "apps/nodewise/opaque_operations.h"
#include "apps/nodewise/precision_options.h"
#include "apps/nodewise/stand_in_option.h"
#include "apps/nodewise/target_support.h"

namespace nodewise {

absl::StatusOr<Network> LoadModel(const std::string& path, const ModelOptions&,
                                  DiagnosticList*) {
  return absl::UnimplementedError(
      path +
      ": is an ONNX model, and this build was configured with USE_ONNX OFF "
      "(set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)");
}

absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path) {
  return absl::UnimplementedError(
      path +
      ": is a network as text, and this build was configured with USE_ONNX "
      "OFF, so it has no operators (set USE_ONNX ON in config.cmake, or "
      "-DUSE_ONNX=ON)");
}

Ref<LoweredLibrary> BuiltIns(Backend, std::shared_ptr<const KernelTable>) {
  return nullptr;
}
LowerOptions LowerOptionsOf(const LoweringOptions&, Backend) { return {}; }

absl::Status StandIn(const std::vector<std::string>& expressions,
                     LoadedTarget*) {
  if (expressions.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "--stand-in: this build was configured with USE_ONNX OFF, so it has no "
      "operators (set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)");
}

// There is no network that could have opaque operations.
std::string DescribeOpaque(const Network&, JsonWriter*) { return ""; }
void AddOpaqueOption(OptionList*, ModelOptions*) {}
absl::Status UseOpaqueProgram(const ModelOptions&) { return absl::OkStatus(); }
std::string TitleOfKernel(const std::string& kernel) { return kernel; }
absl::Status OrderOpaque(Network*) { return absl::OkStatus(); }
absl::StatusOr<TargetSupport> AskTarget(const Network&, const std::string&) {
  return absl::UnimplementedError("this build has no operators");
}
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelOptions&, Network*) {
  return OpaqueReport();
}
bool HasOpenTypes(const Network&) { return false; }
absl::StatusOr<std::vector<std::pair<std::string, TensorType>>> FindOpenTypes(
    const Network&, absl::Span<const NamedTensor>) {
  return std::vector<std::pair<std::string, TensorType>>();
}
void ShowOpaque(const OpaqueReport&, Outcome*) {}
void AddMissingOutputs(const OpaqueReport&, Outcome*) {}

// There is no network that could be lowered.
absl::StatusOr<EmittedC> EmitModelC(const Graph&) {
  return absl::UnimplementedError("this build has no operators");
}
absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionChoice&, Network*, Outcome*) {
  return nullptr;
}
void ShowPrecision(const PrecisionResult&, Outcome*) {}
std::string PassHelp() { return "this build has no passes\n"; }
absl::StatusOr<PassesReport> RunModelPasses(const std::string&, Network*) {
  return absl::UnimplementedError("this build has no passes");
}
std::string ShowPasses(const PassesReport&, JsonWriter*) { return ""; }
std::string PrecisionLine(const PrecisionResult&) { return ""; }

}  // namespace nodewise
