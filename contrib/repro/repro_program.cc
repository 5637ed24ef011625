#include "contrib/repro/repro_texts.h"

namespace nodewise {

// It is compiled where only what is installed is there: the public headers of
// the runtime. The delimiter is one of which clang-format leaves the text as
// it stands.
std::string_view ReproProgram() {
  return R"program(// Runs the node of this folder and compares what it makes with what it should
// make. Exit status: 0 it is right, 1 it is wrong, 2 it could not be run.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/ndarray/elements.h"

namespace {

using nodewise::NDArray;

int Fail(const std::string& what, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(),
               std::string(status.message()).c_str());
  return 2;
}

bool IsRight(double found, double expected, double limit) {
  if (found == expected) return true;
  if (std::isnan(found) || std::isnan(expected)) {
    return std::isnan(found) && std::isnan(expected);
  }
  return std::fabs(found - expected) <= limit;
}

// Counts the elements that are further off than they may be, and shows the
// first of them.
size_t CountWrong(size_t output, const NDArray& found, const NDArray& expected,
                  const NDArray& limits) {
  const size_t count = limits.bytes() / sizeof(double);
  std::vector<double> a(count), b(count), most(count);
  std::memcpy(most.data(), limits.data(), limits.bytes());
  const bool are_numbers =
      nodewise::DecodeToDoubles(found.dtype(), found.data(), count, a.data()) &&
      nodewise::DecodeToDoubles(expected.dtype(), expected.data(), count,
                                b.data());
  if (!are_numbers ||
      (found.dtype().code != kDLFloat && found.dtype().bits == 64)) {
    // Doubles do not hold all of these numbers; their bytes say enough.
    return std::memcmp(found.data(), expected.data(), found.bytes()) != 0;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (IsRight(a[i], b[i], most[i])) continue;
    if (wrong++ > 0) continue;
    std::printf(
        "output %zu, element %zu: found %.9g, expected %.9g, "
        "which may be off by %.3g\n",
        output, i, a[i], b[i], most[i]);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto files = nodewise::FindArtefact(folder);
  if (!files.ok()) return Fail(folder, files.status());
  auto executor = nodewise::CreateExecutor(*files, {});
  if (!executor.ok()) return Fail(folder, executor.status());
  const auto inputs = nodewise::OpenParams(folder + "/data/inputs.params");
  if (!inputs.ok()) return Fail("inputs", inputs.status());
  for (const auto& [name, tensor] : inputs->tensors) {
    const absl::Status status = (*executor)->SetInput(name, *tensor);
    if (!status.ok()) return Fail("inputs", status);
  }
  const auto expected = nodewise::OpenParams(folder + "/data/reference.params");
  if (!expected.ok()) return Fail("reference", expected.status());
  const auto limits = nodewise::OpenParams(folder + "/data/limits.params");
  if (!limits.ok()) return Fail("limits", limits.status());
  const absl::Status run = (*executor)->Run();
  if (!run.ok()) return Fail("run", run);
  size_t wrong = 0;
  for (size_t i = 0; i < (*executor)->NumOutputs(); ++i) {
    const auto found = (*executor)->GetOutput(i);
    if (!found.ok()) return Fail("output", found.status());
    if (i >= expected->tensors.size() || i >= limits->tensors.size()) return 2;
    const NDArray& reference = expected->tensors[i].tensor;
    const NDArray& most = limits->tensors[i].tensor;
    if (found->bytes() != reference.bytes()) return 2;
    wrong += CountWrong(i, *found, reference, most);
  }
  std::printf("%zu elements are wrong\n", wrong);
  return wrong > 0 ? 1 : 0;
}
)program";
}

std::string_view ReproCMakeLists() {
  return R"(cmake_minimum_required(VERSION 3.25)
project(repro LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(nodewise REQUIRED)
add_executable(repro main.cc)
target_link_libraries(repro PRIVATE nodewise::runtime)
)";
}

}  // namespace nodewise
