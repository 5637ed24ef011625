// Kernels that leave the floating-point environment changed, and who says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <string>
#include <vector>

#include "nodewise/dump/dump.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/isolation.h"
#include "nodewise/sweep/sweep.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/runtime/dump/dump_support.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Executor = std::unique_ptr<DebugExecutor>;

constexpr char kFound[] =
    "node 1 (down) left the rounding mode changed (downward, was to nearest)";

// What is divided after it is another number.
void LeaveDownward(const std::vector<float*>& tensors) {
  std::copy_n(tensors[0], 4, tensors[1]);
  std::fesetround(FE_DOWNWARD);
}

void DivideByThree(const std::vector<float*>& tensors) {
  volatile float three = 3;
  for (int i = 0; i < 4; ++i) tensors[1][i] = tensors[0][i] / three;
}

const float kNearest = [] {
  volatile float one = 1;
  return one / 3;
}();

class FloatChangesTest : public testing::Test {
 protected:
  ~FloatChangesTest() override { std::fesetround(FE_TONEAREST); }

  // x -> down -> third
  static absl::StatusOr<Executor> Make(DebugExecutor::DebugOptions options) {
    NODEWISE_ASSIGN_OR_RETURN(
        Executor made,
        DebugExecutor::Create(GraphBuilder()
                                  .Input("x")
                                  .Op("down", "leave_downward", {"x"})
                                  .Op("third", "third", {"down"})
                                  .Head("third")
                                  .Build(),
                              WithKernels({{"leave_downward", LeaveDownward},
                                           {"third", DivideByThree}}),
                              std::move(options)));
    NODEWISE_RETURN_IF_ERROR(made->SetInput(0, *Floats({1, 1, 1, 1})));
    return made;
  }

  static Executor MakeTiming() {
    DebugExecutor::DebugOptions options;
    options.records = false;
    return Make(options).value();
  }

  static float Output(const GraphExecutor& executor) {
    return static_cast<const float*>(executor.GetOutput(0)->data())[0];
  }
};

class Watcher : public NodeObserver {
 public:
  absl::Status AfterNode(const NodeRun& node) override {
    modes.push_back(std::fegetround());
    if (node.floats == nullptr) return absl::OkStatus();
    found.push_back(node.run.index().KeyOf(node.node) + ": " +
                    DescribeChange(*node.floats));
    return absl::OkStatus();
  }

  std::vector<int> modes;
  std::vector<std::string> found;
};

TEST_F(FloatChangesTest, ObserversAreToldWhoLeftItChanged) {
  const DefaultFloatEnvironment floats;
  const KeepCandidateFloats kept;
  const Executor executor = MakeTiming();
  Watcher watcher;
  executor->AddObserver(&watcher);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(
      watcher.found,
      ElementsAre(
          "down: the rounding mode changed (downward, was to nearest)"));
  // They work in an environment of their own.
  EXPECT_THAT(watcher.modes, ElementsAre(FE_TONEAREST, FE_TONEAREST));
}

TEST_F(FloatChangesTest, NextNodeRunsInItAsInAPlainRun) {
  const DefaultFloatEnvironment floats;
  const KeepCandidateFloats kept;
  const Executor executor = MakeTiming();
  Watcher watcher;
  executor->AddObserver(&watcher);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_LT(Output(*executor), kNearest);
  ASSERT_THAT(executor->RunPlain(), IsOk());
  EXPECT_LT(Output(*executor), kNearest);
  ASSERT_THAT(executor->RunTimed(), IsOk());
  EXPECT_LT(Output(*executor), kNearest);
}

TEST_F(FloatChangesTest, ItIsPutBackWhereNodesAreJudged) {
  const DefaultFloatEnvironment floats;
  const Executor executor = MakeTiming();
  Watcher watcher;
  executor->AddObserver(&watcher);
  executor->SetPutsFloatsBack(true);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(Output(*executor), kNearest);
  EXPECT_THAT(watcher.found, SizeIs(1));
  EXPECT_EQ(CandidateFloats(), DefaultFloats());
}

TEST_F(FloatChangesTest, SanitizerSweepAndIsolationNameTheNode) {
  const auto sanitized = Sanitize(Make, {});
  ASSERT_THAT(sanitized, IsOk());
  ASSERT_THAT(sanitized->findings, SizeIs(1));
  EXPECT_EQ(sanitized->findings[0].ToString(), kFound);
  SweepOptions options;
  options.threads = {1, 2};
  options.layouts = 1;
  const auto swept = Sweep(
      [](DebugExecutor::DebugOptions given) { return Make(std::move(given)); },
      options);
  ASSERT_THAT(swept, IsOk());
  ASSERT_THAT(swept->findings, SizeIs(1));
  EXPECT_EQ(swept->findings[0].ToString(), kFound);
  const Executor executor = MakeTiming();
  const auto isolated = RunIsolated(executor.get(), {});
  ASSERT_THAT(isolated, IsOk());
  ASSERT_THAT(isolated->findings, SizeIs(1));
  EXPECT_EQ(isolated->findings[0].ToString(), kFound);
  EXPECT_EQ(Output(*executor), kNearest);
}

TEST_F(FloatChangesTest, DumpSaysWhoLeftIt) {
  DebugExecutor::DebugOptions options;
  options.record.root = Folder();
  const Executor executor = Make(options).value();
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_LT(Output(*executor), kNearest);
  const auto dump = OpenDump(executor->dump_folder());
  ASSERT_THAT(dump, IsOk());
  std::vector<std::string> found;
  for (const NodeRecord& record : dump->records) {
    if (!record.floats.has_value()) continue;
    found.push_back(std::to_string(Index(record.node)) + ": " +
                    DescribeChange(*record.floats));
  }
  EXPECT_THAT(
      found,
      ElementsAre("1: the rounding mode changed (downward, was to nearest)"));
}

}  // namespace
}  // namespace nodewise
