// A build without oneDNN has these functions instead of its kernels.

#include "nodewise/onednn/onednn.h"

namespace nodewise {
namespace {

constexpr char kWhy[] =
    "this build has no oneDNN (USE_ONEDNN in config.cmake adds it)";

}  // namespace

Support OneDnnSupports(const OneDnnCall&) { return {false, kWhy, {}}; }

absl::StatusOr<std::unique_ptr<OneDnnKernel>> MakeOneDnnKernel(
    const OneDnnCall&) {
  return absl::UnimplementedError(kWhy);
}

std::vector<std::string_view> OneDnnOperators() { return {}; }

absl::StatusOr<std::vector<NDArray>> RunOneDnnBackward(
    const OneDnnBackwardCall&) {
  return absl::UnimplementedError(kWhy);
}

std::vector<std::string_view> OneDnnBackwardOperators() { return {}; }

int OneDnnMostWeight() { return 127; }
std::string OneDnnVersion() { return ""; }

}  // namespace nodewise
