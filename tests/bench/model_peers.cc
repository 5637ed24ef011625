#include "tests/bench/model_peers.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "nodewise/support/check.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr char kSources[] = NODEWISE_SOURCE_DIR "/tests/bench";
constexpr char kPython[] = NODEWISE_BUILD_DIR "/venv/bin/python";

// Floats of a file that a Peer has written.
NDArray ReadOutput(const std::string& path) {
  auto tensors = ReadTensorFile(path);
  NODEWISE_CHECK(tensors.ok() && tensors->size() == 1);
  NODEWISE_CHECK((*tensors)[0].tensor.dtype() == kFloat32);
  return (*tensors)[0].tensor;
}

}  // namespace

std::string PrepareBenchModel(const std::string& bench,
                              const std::string& model) {
  const std::string models = NODEWISE_BUILD_DIR "/bench_models";
  if (!std::filesystem::exists(NODEWISE_BUILD_DIR "/venv/is_complete")) {
    std::printf(
        "%s: skipped: ONNX's package is not in build/venv (./dev "
        "setup)\n",
        bench.c_str());
    return "";
  }
  NODEWISE_CHECK(RunProgram(
      {kPython, std::string(kSources) + "/bench_models.py", models, model}));
  return models + "/" + model;
}

std::vector<std::string> OurModelCommand(const std::string& kind,
                                         const std::string& stem) {
  return {NODEWISE_BENCH_MODEL, kind, stem + ".onnx", stem + ".npz"};
}

std::vector<std::string> TheirModelCommand(const std::string& kind,
                                           const std::string& stem) {
  return {kPython, std::string(kSources) + "/model_child.py", kind,
          stem + ".onnx", stem + ".npz"};
}

void SetThreadsOfPeers(int threads) {
  for (const char* variable :
       {"TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    setenv(variable, std::to_string(threads).c_str(), 1);
  }
}

double OutputDifference(Peer& ours, Peer& theirs, const std::string& stem) {
  ours.Ask(stem + ".ours.npy");
  theirs.Ask(stem + ".theirs.npy");
  const NDArray a = ReadOutput(stem + ".ours.npy");
  const NDArray b = ReadOutput(stem + ".theirs.npy");
  if (a.shape() != b.shape()) return kNoLimit;
  double worst = 0;
  double largest = 0;
  for (size_t i = 0; i < a.bytes() / sizeof(float); ++i) {
    const double error = std::fabs(double{a.As<float>()[i]} - b.As<float>()[i]);
    if (std::isnan(error)) return kNoLimit;
    worst = std::max(worst, error);
    largest = std::max(largest, std::fabs(double{b.As<float>()[i]}));
  }
  return worst / largest;
}

}  // namespace nodewise
