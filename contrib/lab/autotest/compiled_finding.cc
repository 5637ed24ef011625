#include "nodewise/autotest/compiled_finding.h"

#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/params.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr std::string_view kProgram =
    R"(// Runs the network in net/, whose functions are compiled C, on the inputs that
// failed, and shows what comes out beside what is right. Ends with 1 if they
// differ. usage: repro FOLDER
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "nodewise/ndarray/elements.h"

namespace {

std::vector<double> NumbersOf(const nodewise::NDArray& tensor) {
  size_t count = 1;
  for (const int64_t side : tensor.shape()) count *= static_cast<size_t>(side);
  std::vector<double> numbers(count);
  nodewise::DecodeToDoubles(tensor.dtype(), tensor.data(), count,
                            numbers.data());
  return numbers;
}

bool Shows(size_t output, const nodewise::NDArray& right,
           const nodewise::NDArray& made) {
  const std::vector<double> x = NumbersOf(right);
  const std::vector<double> y = NumbersOf(made);
  bool differs = x.size() != y.size();
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    differs = true;
    std::printf("output %zu, element %zu: expected %.17g, found %.17g\n",
                output, i, x[i], y[i]);
  }
  return differs;
}

}  // namespace

int main(int count, char** words) {
  const std::string folder = count > 1 ? words[1] : ".";
  const auto files = nodewise::FindArtefact(folder + "/net");
  const auto inputs = nodewise::OpenParams(folder + "/inputs.params");
  const auto expected = nodewise::OpenParams(folder + "/expected.params");
  if (!files.ok() || !inputs.ok() || !expected.ok()) return 2;
  const auto executor = nodewise::CreateExecutor(*files, {});
  if (!executor.ok()) return 2;
  for (const auto& [name, tensor] : inputs->tensors) {
    if (!(*executor)->SetInput(name, *tensor).ok()) return 2;
  }
  if (!(*executor)->Run().ok()) return 2;
  bool differs = false;
  for (size_t i = 0; i < expected->tensors.size(); ++i) {
    const auto made = (*executor)->GetOutput(i);
    if (!made.ok()) return 2;
    differs = Shows(i, expected->tensors[i].tensor, *made) || differs;
  }
  return differs ? 1 : 0;
}
)";

constexpr std::string_view kBuild =
    R"(cmake_minimum_required(VERSION 3.25)
project(repro LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(nodewise REQUIRED)
# The functions of the network, where the runtime looks for them.
add_custom_command(OUTPUT ${CMAKE_SOURCE_DIR}/net/lib.so
  COMMAND ${CMAKE_C_COMPILER} -O2 -shared -fPIC lib.c -o lib.so -lm
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/net DEPENDS net/lib.c)
add_custom_target(net ALL DEPENDS ${CMAKE_SOURCE_DIR}/net/lib.so)
add_executable(repro repro.cc)
target_link_libraries(repro PRIVATE nodewise::runtime)
)";

}  // namespace

absl::Status WriteCompiledFinding(const AutotestFinding& finding,
                                  const std::string& folder) {
  const Network& network = *finding.made.network;
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, Lower(network, "case"));
  NODEWISE_ASSIGN_OR_RETURN(const EmittedC emitted,
                            EmitC(lowered.graph, AllOperators()));
  ArtefactTexts texts;
  texts.graph = emitted.graph.text.text;
  texts.source = emitted.source;
  const Params params{lowered.params};
  NODEWISE_RETURN_IF_ERROR(WriteArtefactFolder(folder + "/net", texts, params));
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < finding.set.inputs.size(); ++i) {
    inputs.push_back(
        {network.value(network.inputs()[i]).name, finding.set.inputs[i]});
  }
  std::vector<NamedTensor> expected;
  if (finding.expected.ok()) {
    for (size_t i = 0; i < finding.expected->size(); ++i) {
      expected.push_back({fmt::format("{}", i), (*finding.expected)[i]});
    }
  }
  NODEWISE_RETURN_IF_ERROR(WriteParams(folder + "/inputs.params", inputs));
  NODEWISE_RETURN_IF_ERROR(WriteParams(folder + "/expected.params", expected));
  NODEWISE_RETURN_IF_ERROR(ReplaceFile(folder + "/repro.cc", kProgram));
  return ReplaceFile(folder + "/CMakeLists.txt", kBuild);
}

}  // namespace nodewise
