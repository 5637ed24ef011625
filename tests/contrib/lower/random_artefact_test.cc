// Random networks as artefacts on disk: nothing is wrong with them, nodes touch
// no memory but their own, and they run as they did before they were written.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/artefact/artefact.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "tests/contrib/lower/random_network.h"
#include "tests/support/random_cases.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

ArtefactFiles Written(const Lowered& lowered) {
  const fs::path folder = fs::path(testing::TempDir()) / "random_artefact";
  fs::create_directories(folder);
  EXPECT_THAT(WriteParams(folder / "params.params", lowered.params), IsOk());
  std::ofstream(folder / "graph.json") << lowered.graph.text.text;
  return FindArtefact(folder).value();
}

absl::Status SetAll(const Artefact& artefact,
                    const std::vector<NDArray>& inputs,
                    GraphExecutor* executor) {
  NODEWISE_RETURN_IF_ERROR(executor->LoadParams(artefact.params).status());
  for (size_t i = 0; i < inputs.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(executor->SetInput(i, *inputs[i]));
  }
  return absl::OkStatus();
}

void ExpectCleanMemory(const Artefact& artefact,
                       const std::vector<NDArray>& inputs,
                       const std::vector<NDArray>& expected) {
  const auto make = [&](DebugExecutor::DebugOptions options)
      -> absl::StatusOr<std::unique_ptr<DebugExecutor>> {
    options.records = false;
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor, DebugExecutor::Create(artefact.graph, artefact.library,
                                             std::move(options)));
    NODEWISE_RETURN_IF_ERROR(SetAll(artefact, inputs, executor.get()));
    return executor;
  };
  const auto report = Sanitize(make, {});
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) {
    ADD_FAILURE() << finding.ToString();
  }
  ASSERT_EQ(report->outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(HaveSameBits(report->outputs[i].tensor, expected[i])) << i;
  }
}

TEST(RandomArtefactTest, IsWithoutFaultsAndRunsAsTheNetworkDoes) {
  const uint64_t seed = FirstSeed();
  const int networks = NumCases(15, 300);
  for (int i = 0; i < networks && !HasFailure(); ++i) {
    const RandomNetwork random(seed + static_cast<uint64_t>(i));
    const Ref<Library> built_ins = BuiltInFunctions(
        AllOperators(), i % 2 == 0 ? Backend::kReference : Backend::kFastest);
    const auto expected =
        RunLowered(random.net(), random.inputs(), {}, built_ins);
    ASSERT_THAT(expected, IsOk());
    const ArtefactFiles files = Written(Lower(random.net(), "net").value());
    const auto found = VerifyArtefact(files, {{}, built_ins});
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(found->ToStatus(), IsOk());
    const auto artefact = LoadArtefact(files, {}, built_ins);
    ASSERT_THAT(artefact, IsOk());
    ExpectCleanMemory(*artefact, random.inputs(), *expected);
    if (!HasFailure()) continue;
    ADD_FAILURE() << "repeat with NODEWISE_SEED=" << seed + i
                  << " nodewise_ops_tests --gtest_filter=RandomArtefactTest.*";
  }
}

}  // namespace
}  // namespace nodewise
