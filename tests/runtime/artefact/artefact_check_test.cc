#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/artefact/artefact.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kOpenCl = 4;

// All errors of an artefact as lines, without the path of the library.
std::vector<std::string> ErrorsOf(const ArtefactFiles& files,
                                  const VerifyOptions& options = {}) {
  std::vector<std::string> errors;
  const auto found = VerifyArtefact(files, options);
  EXPECT_THAT(found, IsOk());
  if (!found.ok()) return errors;
  for (const Diagnostic& item : found->items()) {
    if (item.severity != Severity::kError) continue;
    std::string line = item.ToString();
    if (line.starts_with(files.library)) line.erase(0, files.library.size());
    errors.push_back(std::move(line));
  }
  return errors;
}

// Writes a graph to a file of this test's own.
std::string GraphPath(const GraphBuilder& graph) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path path =
      fs::path(testing::TempDir()) / (std::string(test->name()) + ".json");
  std::ofstream(path) << graph.Text();
  return path;
}

// A graph whose one node calls a function, and which names no device.
GraphBuilder CallOf(const std::string& function) {
  return GraphBuilder().Input("x").Op("y", function, {"x"}).Head("y");
}

TEST(ArtefactCheckTest, LibraryWithCodeForADeviceThatIsNotThereIsAnError) {
  const ArtefactFiles files{GraphPath(CallOf("launches_kernel")),
                            LibraryPath("opencl"), "", "net"};
  EXPECT_THAT(ErrorsOf(files),
              ElementsAre(": module 1 (opencl): code for opencl, expected a "
                          "device that this build has "
                          "(VerifyOptions::device_types opencl verifies for a "
                          "machine that has it)"));
}

TEST(ArtefactCheckTest, CodeForADeviceOfTheTargetIsNotAFault) {
  const ArtefactFiles files{GraphPath(CallOf("launches_kernel")),
                            LibraryPath("opencl"), "", "net"};
  EXPECT_THAT(ErrorsOf(files, {{kOpenCl}}), IsEmpty());
  EXPECT_THAT(ErrorsOf(files, {{kDLCPU}}),
              ElementsAre(HasSubstr("one of the devices of the target")));
}

TEST(ArtefactCheckTest, DeviceThatTheGraphNamesTooIsReportedOnce) {
  TensorSpec on_device;
  on_device.device_type = kOpenCl;
  const GraphBuilder graph = GraphBuilder()
                                 .Input("x", on_device)
                                 .Op("y", "launches_kernel", {"x"}, {on_device})
                                 .Head("y");
  const ArtefactFiles files{GraphPath(graph), LibraryPath("opencl"), "", "net"};
  EXPECT_THAT(ErrorsOf(files), ElementsAre(HasSubstr("/attrs/device_index")));
}

// It runs, too: its host code never asks for a kernel.
TEST(ArtefactCheckTest, DeviceCodeThatNothingCanCallIsNotAFault) {
  EXPECT_THAT(ErrorsOf({"", LibraryPath("factory_cuda"), "", "net"}),
              IsEmpty());
}

TEST(ArtefactCheckTest, GraphThatCallsOnlyHostFunctionsNeedsNoDevice) {
  const std::string library =
      FixturesFolder() + "/tvm-0.14-opencl/two-devices/lib.so";
  if (!fs::exists(library)) GTEST_SKIP() << "no fixtures/tvm-0.14-opencl";
  const std::string host = GraphPath(CallOf("tvmgen_default_fused_abs_sqrt"));
  EXPECT_THAT(ErrorsOf({host, library, "", "net"}), IsEmpty());
  const std::string device =
      GraphPath(CallOf("tvmgen_default_fused_add_multiply"));
  EXPECT_THAT(ErrorsOf({device, library, "", "net"}),
              ElementsAre(HasSubstr("code for opencl")));
}

TEST(ArtefactCheckTest, VmLibraryForCudaIsAnError) {
  const auto folders = FixtureFolders("tvm-0.27-cuda");
  if (folders.empty()) GTEST_SKIP() << "no fixtures/tvm-0.27-cuda";
  for (const std::string& folder : folders) {
    const ArtefactFiles files{"", folder + "/vm.so", "", folder};
    const auto errors = ErrorsOf(files);
    EXPECT_THAT(errors,
                testing::Contains(AllOf(HasSubstr("(cuda): code for"),
                                        HasSubstr("device_types cuda"))))
        << folder;
    EXPECT_THAT(ErrorsOf(files, {{kDLCUDA}}),
                testing::Not(testing::Contains(HasSubstr("code for"))))
        << folder;
  }
}

}  // namespace
}  // namespace nodewise
