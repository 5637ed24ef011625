// Artefacts of real TVM under the debugger: the outputs stay the same bits in
// every mode, the dumps are those of TVM's own debugger, tensor for tensor.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "nodewise/artefact/artefact.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/dump/dump.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/isolation.h"
#include "nodewise/profile/profiler.h"
#include "nodewise/support/status.h"
#include "nodewise/sweep/sweep.h"
#include "tests/support/fixtures.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::testing::IsEmpty;

struct Fixture {
  std::string folder;
  // The library with bytecode instead of what an exporter made of it.
  bool is_vm = false;

  std::string name() const {
    return FixtureName(folder) + (is_vm ? "_vm" : "");
  }
};

void PrintTo(const Fixture& fixture, std::ostream* out) {
  *out << fixture.name();
}

std::vector<Fixture> AllFixtures() {
  std::vector<Fixture> all;
  for (const char* part :
       {"tvm-0.8", "tvm-0.14", "tvm-0.25", "tvm-0.26", "tvm-0.27"}) {
    for (const std::string& folder : FixtureFolders(part)) {
      all.push_back({folder});
      const bool has_vm = std::filesystem::exists(folder + "/vm.so");
      if (has_vm) all.push_back({folder, /*is_vm=*/true});
    }
  }
  return all;
}

class FixtureDebugTest : public testing::TestWithParam<Fixture> {
 protected:
  static absl::StatusOr<Artefact> Load() {
    const auto& [folder, is_vm] = GetParam();
    if (is_vm) return LoadArtefact({"", folder + "/vm.so", "", folder});
    return LoadArtefact({folder + "/graph.json", folder + "/lib.so",
                         folder + "/params.params", folder});
  }

  static absl::Status SetAll(const Artefact& artefact,
                             GraphExecutor* executor) {
    NODEWISE_RETURN_IF_ERROR(executor->LoadParams(artefact.params).status());
    NODEWISE_ASSIGN_OR_RETURN(const Params inputs,
                              OpenParams(GetParam().folder + "/inputs.params"));
    for (const NamedTensor& input : inputs.tensors) {
      NODEWISE_RETURN_IF_ERROR(executor->SetInput(input.name, *input.tensor));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::unique_ptr<DebugExecutor>> Make(
      DebugExecutor::DebugOptions options) {
    NODEWISE_ASSIGN_OR_RETURN(const Artefact artefact, Load());
    NODEWISE_ASSIGN_OR_RETURN(
        auto executor, DebugExecutor::Create(artefact.graph, artefact.library,
                                             std::move(options)));
    NODEWISE_RETURN_IF_ERROR(SetAll(artefact, executor.get()));
    return executor;
  }

  static ExecutorMaker Maker() {
    return [](DebugExecutor::DebugOptions options) {
      options.records = false;
      return Make(std::move(options));
    };
  }

  // That a plain executor of its own gives the same bits.
  static void ExpectPlainOutputs(const GraphExecutor& debugged) {
    const auto artefact = Load();
    ASSERT_THAT(artefact, IsOk());
    const auto plain =
        GraphExecutor::Create(artefact->graph, artefact->library);
    ASSERT_THAT(plain, IsOk());
    ASSERT_THAT(SetAll(*artefact, plain->get()), IsOk());
    ASSERT_THAT((*plain)->Run(), IsOk());
    const auto check = CompareOutputs(debugged, **plain);
    ASSERT_THAT(check, IsOk());
    EXPECT_TRUE(check->same) << check->text;
  }

  static std::string FreshRoot() {
    const std::string root =
        testing::TempDir() + "/fixture_dump_" + GetParam().name();
    std::filesystem::remove_all(root);
    return root;
  }
};

TEST_P(FixtureDebugTest, TimedRunChangesNothing) {
  const auto executor = Maker()({});
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  ExpectPlainOutputs(**executor);
}

TEST_P(FixtureDebugTest, ProfileChangesNothing) {
  const auto executor = Maker()({});
  ASSERT_THAT(executor, IsOk());
  Profiler::Options options;
  options.runs = 2;
  options.isolated.emplace().number = 2;
  ASSERT_THAT(Profiler(executor->get()).Run(options), IsOk());
  ExpectPlainOutputs(**executor);
}

TEST_P(FixtureDebugTest, SteppingChangesNothing) {
  const auto executor = Maker()({});
  ASSERT_THAT(executor, IsOk());
  while (!(*executor)->AtEnd()) ASSERT_THAT((*executor)->Step(), IsOk());
  ExpectPlainOutputs(**executor);
}

TEST_P(FixtureDebugTest, RecordingChangesNothing) {
  DebugExecutor::DebugOptions options;
  options.record = RecordOptions{.stats = true, .root = FreshRoot()};
  const auto executor = Make(options);
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  ASSERT_THAT((*executor)->dump_status(), IsOk());
  ExpectPlainOutputs(**executor);
}

TEST_P(FixtureDebugTest, EveryInputIsReadAsItWasMade) {
  DebugExecutor::DebugOptions options;
  options.record = RecordOptions{.tensors = false, .root = FreshRoot()};
  const auto executor = Make(options);
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  const auto dump = OpenDump((*executor)->dump_folder());
  ASSERT_THAT(dump, IsOk());
  std::map<EntryId, uint64_t> made;
  for (const NodeRecord& record : dump->records) {
    if (record.kind == NodeRecord::Kind::kOutput) {
      made[record.entry] = record.stats.hash;
    } else if (record.kind == NodeRecord::Kind::kInput) {
      EXPECT_EQ(record.stats.hash, made.at(record.entry))
          << "node " << Index(record.node) << " input " << record.slot;
    }
  }
  EXPECT_EQ(made.size(), (*executor)->graph().entries.size());
}

// TV-21.
TEST_P(FixtureDebugTest, DumpIsThatOfTvmTensorForTensor) {
  const std::string theirs = GetParam().folder + "/tvm_debug";
  if (!std::filesystem::exists(theirs)) {
    GTEST_SKIP() << "no dump of TVM's beside this fixture";
  }
  DebugExecutor::DebugOptions options;
  options.record = RecordOptions{.root = FreshRoot()};
  const auto executor = Make(options);
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  const auto ours = OpenDump((*executor)->dump_folder());
  const auto wanted = OpenDump(theirs);
  ASSERT_THAT(ours, IsOk());
  ASSERT_THAT(wanted, IsOk());
  ASSERT_EQ(ours->tensors.tensors.size(), wanted->tensors.tensors.size());
  for (const NamedTensor& tensor : wanted->tensors.tensors) {
    const NDArray* same = ours->tensors.Find(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    ASSERT_EQ(TypeToString(same->shape(), same->dtype()),
              TypeToString(tensor.tensor.shape(), tensor.tensor.dtype()));
    EXPECT_EQ(std::memcmp(same->data(), tensor.tensor.data(), same->bytes()), 0)
        << tensor.name;
  }
}

TEST_P(FixtureDebugTest, SanitizerIsQuiet) {
  const auto report = Sanitize(Maker(), {});
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) {
    ADD_FAILURE() << finding.ToString();
  }
}

TEST_P(FixtureDebugTest, IsolatedRunChangesNothing) {
  const auto executor = Maker()({});
  ASSERT_THAT(executor, IsOk());
  const auto report = RunIsolated(executor->get(), {});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  ExpectPlainOutputs(**executor);
}

TEST_P(FixtureDebugTest, SweepFindsNothing) {
  SweepOptions options;
  options.threads = {1, 3};
  options.repeats = 1;
  const auto report = Sweep(Maker(), options);
  ASSERT_THAT(report, IsOk());
  for (const Finding& finding : report->findings) {
    ADD_FAILURE() << finding.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Tvm, FixtureDebugTest,
                         testing::ValuesIn(AllFixtures()),
                         [](const testing::TestParamInfo<Fixture>& info) {
                           return info.param.name();
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FixtureDebugTest);

}  // namespace
}  // namespace nodewise
