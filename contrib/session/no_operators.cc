// Takes the place of what reads models and changes them in builds without
// operators.

#include "contrib/session/open_model.h"
#include "nodewise/session/model_file.h"
#include "nodewise/session/target_support.h"

namespace nodewise {
namespace {

absl::Status NeedsOperators(const std::string& what) {
  return absl::UnimplementedError(
      what +
      ", and this build was configured with USE_ONNX OFF, so it has no "
      "operators (set USE_ONNX ON in config.cmake, or -DUSE_ONNX=ON)");
}

}  // namespace

absl::StatusOr<Network> LoadModel(const std::string& path, const ModelSpec&,
                                  DiagnosticList*) {
  return NeedsOperators(path + ": is an ONNX model");
}

absl::StatusOr<NetworkData> LoadNetworkText(const std::string& path) {
  return NeedsOperators(path + ": is a network as text");
}

absl::StatusOr<Session> OpenNetwork(const TargetSpec& spec, InputFiles*,
                                    DiagnosticList*) {
  return NeedsOperators(spec.path + ": is a model");
}

// The message says which of both kinds of file it was.
absl::StatusOr<Session> OpenModel(const TargetSpec& spec, InputFiles* files,
                                  DiagnosticList* diagnostics) {
  if (IsNetworkText(spec.path)) return LoadNetworkText(spec.path).status();
  return OpenNetwork(spec, files, diagnostics);
}

Ref<LoweredLibrary> BuiltIns(Backend, std::shared_ptr<const KernelTable>) {
  return nullptr;
}
LowerOptions LowerOptionsOf(const LoweringSpec&) { return {}; }

absl::Status StandIn(const std::vector<std::string>& expressions, Session*) {
  if (expressions.empty()) return absl::OkStatus();
  return NeedsOperators("stand-in: the reference computes nodes");
}

// There is no network that could have opaque operations, or be lowered.
absl::Status UseOpaqueProgram(const ModelSpec&) { return absl::OkStatus(); }
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelSpec&, Network*) {
  return OpaqueReport();
}
absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionSpec&, Network*, DiagnosticList*) {
  return nullptr;
}
absl::StatusOr<PassesReport> RunPassList(const std::string& list, Network*) {
  return NeedsOperators(list + ": are passes");
}
absl::StatusOr<TargetSupport> QueryTarget(const Network&,
                                          const std::string& target) {
  return NeedsOperators(target + ": is asked about a network");
}
absl::StatusOr<EmittedC> EmitModelC(const Graph&) {
  return NeedsOperators("the functions of a graph: become C");
}

}  // namespace nodewise
