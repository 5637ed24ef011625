#include "nodewise/profile/debug_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "nodewise/func/containers.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// x -> s -> (s:0, s:1) -> c: after the node with two outputs the numbers of
// nodes and of entries differ.
class DebugModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DebugExecutor::DebugOptions options;
    options.records = false;
    module_ = MakeRef<DebugModule>(
        DebugExecutor::Create(GraphBuilder()
                                  .Input("x")
                                  .Op("s", "split", {"x"}, {{{2}}, {{2}}})
                                  .Op("c", "inc", {"s:1"}, {{{2}}})
                                  .Op("d", "inc", {"c"}, {{{2}}})
                                  .Head("d")
                                  .Build(),
                              TestKernels(), options)
            .value());
    SetX(0);
  }

  void SetX(float first) {
    ASSERT_THAT(Call("set_input", "x", Floats({first, 1, 2, 3})), IsOk());
  }

  template <typename... Args>
  absl::StatusOr<Value> Call(const char* name, const Args&... args) {
    return module_->GetFunction(name)->Call(args...);
  }

  std::vector<float> Array(const absl::StatusOr<Value>& value) {
    return ValuesOf(*value->Get<NDArray>());
  }

  std::vector<double> Doubles(const absl::StatusOr<Value>& value,
                              size_t header) {
    const std::string& bytes = value->Get<Value::Bytes>()->data;
    std::vector<double> doubles((bytes.size() - header) / sizeof(double));
    std::memcpy(doubles.data(), bytes.data() + header, bytes.size() - header);
    return doubles;
  }

  Ref<DebugModule> module_;
};

// TV-25.
TEST_F(DebugModuleTest, HasWhatTheNormalExecutorHas) {
  ASSERT_THAT(Call("run"), IsOk());
  EXPECT_THAT(Array(Call("get_output", 0)), ElementsAre(4, 5));
  EXPECT_EQ(*Call("get_num_inputs")->Get<int64_t>(), 1);
}

// TV-48.
TEST_F(DebugModuleTest, DebugGetOutputNumbersNodesAndNotEntries) {
  EXPECT_THAT(Array(Call("debug_get_output", 2)), ElementsAre(3, 4));
  EXPECT_THAT(Array(Call("debug_get_output", "c")), ElementsAre(3, 4));
  EXPECT_THAT(Array(Call("debug_get_output", "s:1")), ElementsAre(2, 3));
}

TEST_F(DebugModuleTest, DebugGetOutputFillsTheCallersTensor) {
  const NDArray out = Floats({0, 0});
  ASSERT_THAT(Call("debug_get_output", 3, out), IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(4, 5));
}

TEST_F(DebugModuleTest, DebugGetOutputOfAnotherTypeIsRefused) {
  EXPECT_THAT(Call("debug_get_output", 3, Floats({0, 0, 0})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("(2,)")));
}

TEST_F(DebugModuleTest, ExecutingTheSameNodeAgainSeesNewInputs) {
  ASSERT_THAT(Call("execute_node", 1), IsOk());
  EXPECT_THAT(Array(Call("get_node_output", 1, 0)), ElementsAre(0, 1));
  SetX(7);
  ASSERT_THAT(Call("execute_node", 1), IsOk());
  EXPECT_THAT(Array(Call("get_node_output", 1, 0)), ElementsAre(7, 1));
}

TEST_F(DebugModuleTest, NodeOutputIsACopyThatLaterRunsDoNotChange) {
  ASSERT_THAT(Call("execute_node", 3), IsOk());
  const auto copy = Call("get_node_output", 3, 0);
  SetX(100);
  ASSERT_THAT(Call("run"), IsOk());
  EXPECT_THAT(Array(copy), ElementsAre(4, 5));
}

TEST_F(DebugModuleTest, OutputsBeforeTheLastExecutedNodeCanBeRead) {
  ASSERT_THAT(Call("execute_node", 3), IsOk());
  EXPECT_THAT(Array(Call("get_node_output", 1, 1)), ElementsAre(2, 3));
  EXPECT_THAT(Array(Call("get_node_output", 0, 0)), ElementsAre(0, 1, 2, 3));
}

TEST_F(DebugModuleTest, OutputOfANodeThatDidNotRunIsAnError) {
  ASSERT_THAT(Call("execute_node", 1), IsOk());
  EXPECT_THAT(
      Call("get_node_output", 2, 0),
      FailsWith(StatusCode::kFailedPrecondition, HasSubstr("node 2 (c)")));
}

TEST_F(DebugModuleTest, NodesAndOutputsOutOfRangeAreNamed) {
  EXPECT_THAT(Call("execute_node", 4),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("has 4 nodes")));
  EXPECT_THAT(Call("execute_node", -1),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("node -1")));
  EXPECT_THAT(Call("get_node_output", 2, 1),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("which has 1")));
}

TEST_F(DebugModuleTest, RunIndividualGivesTheBytesOfTvm010) {
  const auto result = Call("run_individual", 2, 3, 0, 100, 0, 1);
  ASSERT_THAT(result, IsOk());
  int64_t nodes = 0;
  std::memcpy(&nodes, result->Get<Value::Bytes>()->data.data(), sizeof(nodes));
  EXPECT_EQ(nodes, 4);
  const std::vector<double> seconds = Doubles(result, sizeof(nodes));
  ASSERT_EQ(seconds.size(), 12u);
  EXPECT_EQ(seconds[0], 0) << "an input";
  EXPECT_GT(seconds[3], 0);
}

TEST_F(DebugModuleTest, RunIndividualGivesTheTextOfTvm08) {
  const auto result = Call("run_individual", 2, 3, 0);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(*result->Get<std::string>(), testing::StartsWith("0,"));
  EXPECT_THAT(*result->Get<std::string>(), testing::EndsWith(","));
}

TEST_F(DebugModuleTest, RunIndividualNodeGivesOneNumberARepeat) {
  const auto result = Call("run_individual_node", 2, 2, 5, 0, 100, 0, 1);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(Doubles(result, 0).size(), 5u);
}

TEST_F(DebugModuleTest, ProfileMakesAReport) {
  const auto report = Call("profile", Value());
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ((*report->Get<Ref<Object>>())->object_type(),
            "runtime.profiling.Report");
  const auto json = Call("profile_rpc");
  ASSERT_THAT(json, IsOk());
  EXPECT_THAT(*json->Get<std::string>(), HasSubstr("Duration (us)"));
}

// TV-30.
TEST_F(DebugModuleTest, RunRecordsNothingUnlessARootIsSet) {
  ASSERT_THAT(Call("run"), IsOk());
  EXPECT_EQ(*Call("nodewise.get_dump_folder")->Get<std::string>(), "");
  const std::string root = testing::TempDir() + "/debug_module_dump";
  ASSERT_THAT(Call("nodewise.set_dump_root", root), IsOk());
  ASSERT_THAT(Call("run"), IsOk());
  const auto folder = Call("nodewise.get_dump_folder");
  ASSERT_THAT(folder, IsOk());
  const auto dump = OpenDump(*folder->Get<std::string>());
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->tensors.tensors.size(), 5u);
}

TEST_F(DebugModuleTest, NoDumpIsTheLastOneAfterRecordingWasEnded) {
  const std::string root = testing::TempDir() + "/debug_module_ended";
  ASSERT_THAT(Call("nodewise.set_dump_root", root), IsOk());
  ASSERT_THAT(Call("run"), IsOk());
  EXPECT_NE(*Call("nodewise.get_dump_folder")->Get<std::string>(), "");
  ASSERT_THAT(Call("nodewise.set_dump_root", Value()), IsOk());
  EXPECT_EQ(*Call("nodewise.get_dump_folder")->Get<std::string>(), "");
}

TEST_F(DebugModuleTest, UnknownNameIsANullFunction) {
  EXPECT_FALSE(*module_->GetFunction("no_such_function"));
}

TEST_F(DebugModuleTest, NodeWithoutOutputsHasNoneToGiveAndIsProfiled) {
  DebugExecutor::DebugOptions options;
  options.records = false;
  module_ = MakeRef<DebugModule>(
      DebugExecutor::Create(
          GraphBuilder()
              .Input("x")
              .Op("a", "inc", {"x"})
              .Op("s", "sink", {"a"}, {})
              .Head("a")
              .Build(),
          WithKernels({{"sink", [](const std::vector<float*>&) {}}}), options)
          .value());
  SetX(0);
  const auto refusal =
      FailsWith(StatusCode::kOutOfRange, HasSubstr("(s), which has 0"));
  EXPECT_THAT(Call("debug_get_output", 2), refusal);
  EXPECT_THAT(Call("debug_get_output", "s"),
              FailsWith(StatusCode::kOutOfRange, HasSubstr("which has 0")));
  EXPECT_THAT(Call("get_node_output", 2, 0), refusal);
  EXPECT_THAT(Call("profile_rpc"), IsOk());
}

TEST_F(DebugModuleTest, ParameterInTheCallersMemoryIsReadAnew) {
  const NDArray x = Floats({0, 1, 2, 3});
  ASSERT_THAT(module_->executor().SetParam("x", *x), IsOk());
  ASSERT_THAT(Call("set_input_zero_copy", "x", x), IsOk());
  EXPECT_THAT(Array(Call("debug_get_output", "s:1")), ElementsAre(2, 3));
  std::fill_n(x.As<float>(), 4, 100.0f);
  EXPECT_THAT(Array(Call("debug_get_output", "c")), ElementsAre(101, 101));
}

}  // namespace
}  // namespace nodewise
