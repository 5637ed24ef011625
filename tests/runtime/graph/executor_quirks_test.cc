// What TVM's executor gets wrong or lets pass, one test for each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/executor_module.h"
#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Executor = std::unique_ptr<GraphExecutor>;

Executor MakeExecutor(const GraphBuilder& graph,
                      GraphExecutor::Options options = {}) {
  return GraphExecutor::Create(graph.Build(), TestKernels(), options).value();
}

// x -> split -> three outputs, of which the last is read with another input.
GraphBuilder SplitThenAdd() {
  return GraphBuilder()
      .Input("x", {{6}})
      .Op("s", "split", {"x"}, {{{1}}, {{2}}, {{3}}})
      .Input("w", {{3}, "float32"})
      .Op("a", "add", {"s:2", "w"}, {{{3}}})
      .Head("a");
}

TEST(InputNameTest, UnknownNameIsAnErrorWithTheNearest) {
  // TVM ignores it and runs on stale memory.
  const Executor executor =
      MakeExecutor(GraphBuilder().Input("data").Input("weight").Head("data"));
  EXPECT_THAT(executor->SetInput("weigth", *Floats({1, 2, 3, 4})),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr("input weigth: "),
                              HasSubstr("did you mean weight?"))));
  EXPECT_THAT(executor->InputIndex("unlike"),
              FailsWith(StatusCode::kNotFound, Not(HasSubstr("did you mean"))));
}

TEST(InputNameTest, NumberOutOfRangeIsAnError) {
  const Executor executor = MakeExecutor(AddThenRelu());
  const NDArray tensor = Floats({1, 2, 3, 4});
  const auto out_of_range =
      FailsWith(StatusCode::kOutOfRange, "input 2: the graph has 2 inputs");
  EXPECT_THAT(executor->SetInput(2, *tensor), out_of_range);
  EXPECT_THAT(executor->SetInputZeroCopy(2, tensor), out_of_range);
  EXPECT_THAT(executor->GetInput(2), out_of_range);
}

TEST(OutputNameTest, NumberOutOfRangeIsAnError) {
  const Executor executor = MakeExecutor(AddThenRelu());
  const NDArray tensor = Floats({1, 2, 3, 4});
  const auto out_of_range =
      FailsWith(StatusCode::kOutOfRange, "output 1: the graph has 1 outputs");
  EXPECT_THAT(executor->GetOutput(1), out_of_range);
  EXPECT_THAT(executor->CopyOutput(1, *tensor), out_of_range);
  EXPECT_THAT(executor->SetOutputZeroCopy(1, tensor), out_of_range);
}

TEST(InputTypeTest, OtherTypeOrShapeIsRefusedThoughTheBytesFit) {
  // TVM looks at the count of bytes alone.
  const Executor executor =
      MakeExecutor(GraphBuilder().Input("x", {{4, 6}}).Head("x"));
  const std::vector<float> values(24);
  const NDArray others[] = {MakeTensor<float>({6, 4}, values),
                            MakeTensor<float>({24}, values),
                            MakeTensor<float>({4, 6}, values, {kDLInt, 32, 1}),
                            MakeTensor<float>({4, 6, 1}, values),
                            MakeTensor<float>({4, 6}, values, {kDLInt, 16, 2})};
  for (const NDArray& other : others) {
    const auto refused = FailsWith(
        StatusCode::kInvalidArgument,
        "input: tensor x is " + TypeToString(other.shape(), other.dtype()) +
            ", expected float32 (4, 6)");
    EXPECT_THAT(executor->SetInput("x", *other), refused);
    EXPECT_THAT(executor->SetInputZeroCopy(0, other), refused);
  }
}

TEST(OutputTypeTest, OtherTypeOrShapeIsRefused) {
  // TVM writes float bits into an int array.
  const Executor executor = MakeExecutor(GraphBuilder().Input("x").Head("x"));
  const NDArray other = MakeTensor<int32_t>({4}, {1, 2, 3, 4});
  const auto refused =
      FailsWith(StatusCode::kInvalidArgument,
                "output: tensor x is int32 (4,), expected float32 (4,)");
  EXPECT_THAT(executor->CopyOutput(0, *other), refused);
  EXPECT_THAT(executor->SetOutputZeroCopy(0, other), refused);
}

TEST(UnsetInputTest, RunNamesTheInputsThatAreReadAndWereNeverSet) {
  // TVM computes with what the memory happens to hold.
  const Executor executor = MakeExecutor(AddThenRelu().Input("unused"));
  EXPECT_THAT(executor->Run(),
              FailsWith(StatusCode::kFailedPrecondition,
                        AllOf(HasSubstr("2 of 3 inputs were never set: x, y"),
                              HasSubstr("NODEWISE_ALLOW_UNSET=1"))));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kFailedPrecondition,
                                         HasSubstr("never set: y")));
  ASSERT_THAT(executor->SetInput("y", *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
}

// For users who only time a network.
TEST(UnsetInputTest, EnvironmentPutsZerosInTheirPlaceAndSaysSoOnce) {
  const Executor executor = MakeExecutor(AddThenRelu());
  ASSERT_THAT(executor->SetInput("y", *Floats({1, 2, 3, 4})), IsOk());
  setenv("NODEWISE_ALLOW_UNSET", "1", 1);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "nodewise: inputs that were never set are zeros: x\n");
  unsetenv("NODEWISE_ALLOW_UNSET");
  EXPECT_THAT(ValuesOf<float>(*executor->GetOutput(0)),
              ElementsAre(1, 2, 3, 4));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 1, 1, 1})), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf<float>(*executor->GetOutput(0)),
              ElementsAre(2, 3, 4, 5));
}

TEST(UnsetInputTest, OnlyTheValueOneAllowsIt) {
  const Executor executor = MakeExecutor(AddThenRelu());
  setenv("NODEWISE_ALLOW_UNSET", "0", 1);
  EXPECT_FALSE(executor->Run().ok());
  unsetenv("NODEWISE_ALLOW_UNSET");
}

TEST(UnsetInputTest, RefusedTensorLeavesTheInputUnset) {
  const Executor executor = MakeExecutor(GraphBuilder().Input("x").Head("x"));
  EXPECT_FALSE(executor->SetInput("x", *Floats({1})).ok());
  EXPECT_FALSE(executor->Run().ok());
}

TEST(EntryNumberTest, InfoBehindANodeWithManyOutputsIsThatOfTheEntry) {
  // TVM takes the node's number for the entry's.
  const Executor executor = MakeExecutor(SplitThenAdd());
  const TensorInfo input = executor->InputInfo(1);
  EXPECT_EQ(input.name, "w");
  EXPECT_THAT(input.shape, ElementsAre(3));
  EXPECT_THAT(executor->OutputInfo(0).shape, ElementsAre(3));
}

TEST(EntryNumberTest, ValuesBehindANodeWithManyOutputsAreRight) {
  const Executor executor = MakeExecutor(SplitThenAdd());
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4, 5, 6})), IsOk());
  ASSERT_THAT(executor->SetInput("w", *Floats({10, 20, 30})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(14, 25, 36));
}

TEST(DoubledNameTest, EveryReshapeNopMayHaveTheSameName) {
  const Executor executor = MakeExecutor(
      GraphBuilder()
          .Input("x", {{4}, "float32", 0})
          .Op("reshape_nop", "__nop", {"x"}, {{{2, 2}, "float32", 0}})
          .Op("inc", "inc", {"#1"}, {{{2, 2}, "float32", 1}})
          .Op("reshape_nop", "__nop", {"inc"}, {{{4, 1}, "float32", 1}})
          .Head("#1")
          .Head("#3"));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(executor->OutputInfo(0).name, "reshape_nop#1:0");
  EXPECT_EQ(executor->OutputIndex("reshape_nop#3:0").value(), 1u);
  EXPECT_THAT(executor->OutputInfo(1).shape, ElementsAre(4, 1));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(2, 3, 4, 5));
}

TEST(DoubledNameTest, OutputsOfOneNodeAreFoundByTheNamesTheyAreGiven) {
  // TVM has three spellings for an output, and one of them looks like ours.
  const Executor executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{6}})
                       .Op("s", "split", {"x"}, {{{1}}, {{2}}, {{3}}})
                       .Head("s:2")
                       .Head("s:0")
                       .Head("x"));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(executor->OutputIndex(executor->OutputInfo(i).name).value(), i);
  }
  EXPECT_EQ(executor->OutputInfo(0).name, "s:2");
  EXPECT_EQ(executor->OutputIndex("x:2").value(), 2u);  // TVM's name of x.
  EXPECT_THAT(executor->OutputIndex("s:7"),
              FailsWith(StatusCode::kNotFound, HasSubstr("output s:7: ")));
}

TEST(DoubledNameTest, HostThatNamesAnOutputTwoWaysIsAskedForTheNumber) {
  auto executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{6}})
                       .Op("s", "split", {"x"}, {{{1}}, {{2}}, {{3}}})
                       .Head("x")
                       .Head("s:0")
                       .Head("s:1"));
  const auto module = MakeRef<ExecutorModule>(std::move(executor));
  const PackedFunc bind = module->GetFunction("set_output_zero_copy").value();
  EXPECT_THAT(bind.Call("s:1", Floats({0})).status(),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("may be output 2, or output 1")));
  EXPECT_THAT(bind.Call("s:0", Floats({0})).status(), IsOk());
  EXPECT_THAT(bind.Call("s:2", Floats({0, 0})).status(), IsOk());
}

// The user's p0 and Relay's constant p0, as TVM emits them.
GraphBuilder TwoNamedP0(TensorSpec constant) {
  return GraphBuilder()
      .Input("p0")
      .Input("p0", constant)
      .Op("u", "inc", {"#0"})
      .Op("c", "copy", {"#1"}, {constant})
      .Head("u")
      .Head("c");
}

TEST(DoubledNameTest, UserInputThatIsCalledLikeAConstantCanBeSet) {
  // In TVM the name means the constant, and the input cannot be reached.
  const Executor executor = MakeExecutor(TwoNamedP0({}));
  ASSERT_THAT(executor->LoadParams({{{"p0", Floats({9, 9, 9, 9})}}, 0}),
              IsOk());
  ASSERT_THAT(executor->SetInput("p0", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), Each(9));
}

TEST(DoubledNameTest, ConstantIsToldFromTheUsersInputByItsType) {
  const Executor executor =
      MakeExecutor(GraphBuilder().Input("p0", {{2}}).Input("p0", {{4}}));
  ASSERT_THAT(executor->LoadParams({{{"p0", Floats({1, 2})}}, 0}), IsOk());
  EXPECT_TRUE(executor->InputInfo(0).is_param);
  EXPECT_EQ(executor->InputIndex("p0").value(), 1u);
}

TEST(DoubledNameTest, NameOfSeveralInputsAsksForOneOfThem) {
  const Executor executor = MakeExecutor(TwoNamedP0({}));
  EXPECT_THAT(executor->SetInput("p0", *Floats({1, 2, 3, 4})),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("2 inputs have that name, expected one of "
                                  "p0#0, p0#1")));
  EXPECT_EQ(executor->InputIndex("p0#1").value(), 1u);
}

TEST(ShareParamsTest, SharingTwiceAndWithAHandleHeldWorks) {
  // TVM refuses both.
  const Executor parent = MakeExecutor(AddThenRelu());
  ASSERT_THAT(parent->SetParam("y", *Floats({1, 2, 3, 4})), IsOk());
  const Executor child = MakeExecutor(AddThenRelu());
  const NDArray held = *child->GetInput(1);
  ASSERT_THAT(child->ShareParams(*parent, {"y", "unknown"}), IsOk());
  ASSERT_THAT(child->ShareParams(*parent, {"y"}), IsOk());
  ASSERT_THAT(child->SetInput("x", *Floats({1, 1, 1, 1})), IsOk());
  ASSERT_THAT(child->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*child->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(child->InputInfo(1).is_param);
  EXPECT_EQ(child->GetInput(1)->data(), parent->GetInput(1)->data());
}

TEST(ShareParamsTest, SharedMemoryOutlivesTheParent) {
  Executor parent = MakeExecutor(AddThenRelu());
  ASSERT_THAT(parent->SetParam("y", *Floats({1, 2, 3, 4})), IsOk());
  const Executor child = MakeExecutor(AddThenRelu());
  ASSERT_THAT(child->ShareParams(*parent, {"y"}), IsOk());
  parent.reset();
  ASSERT_THAT(child->SetInput("x", *Floats({0, 0, 0, 0})), IsOk());
  ASSERT_THAT(child->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*child->GetOutput(0)), ElementsAre(1, 2, 3, 4));
}

TEST(ShareParamsTest, SettingAChildsParameterLeavesTheParentsAlone) {
  const Executor parent = MakeExecutor(AddThenRelu());
  ASSERT_THAT(parent->SetParam("y", *Floats({1, 2, 3, 4})), IsOk());
  const Executor child = MakeExecutor(AddThenRelu());
  ASSERT_THAT(child->ShareParams(*parent, {"y"}), IsOk());
  ASSERT_THAT(child->SetInput("y", *Floats({0, 0, 0, 0})), IsOk());
  EXPECT_THAT(ValuesOf(*parent->GetInput(1)), ElementsAre(1, 2, 3, 4));
}

TEST(ShareParamsTest, ParameterThatWasNeverSetIsRefused) {
  const Executor parent = MakeExecutor(AddThenRelu());
  const Executor child = MakeExecutor(AddThenRelu());
  EXPECT_THAT(child->ShareParams(*parent, {"y"}),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("shared parameter y: ")));
}

TEST(ShareParamsTest, OtherTypeIsRefusedByName) {
  const Executor parent =
      MakeExecutor(GraphBuilder().Input("y", {{4}, "int32"}));
  ASSERT_THAT(parent->SetParam("y", *MakeTensor<int32_t>({4}, {1, 2, 3, 4})),
              IsOk());
  const Executor child = MakeExecutor(AddThenRelu());
  EXPECT_THAT(child->ShareParams(*parent, {"y"}),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("shared parameter y: "),
                              HasSubstr("int32 (4,), expected float32"))));
}

TEST(ShareParamsTest, ConstantIsSharedNotTheUsersInputOfItsName) {
  const Executor parent = MakeExecutor(TwoNamedP0({}));
  ASSERT_THAT(parent->LoadParams({{{"p0", Floats({9, 9, 9, 9})}}, 0}), IsOk());
  const Executor child = MakeExecutor(TwoNamedP0({}));
  ASSERT_THAT(child->ShareParams(*parent, {"p0"}), IsOk());
  EXPECT_FALSE(child->InputInfo(0).is_param);
  EXPECT_TRUE(child->InputInfo(1).is_param);
  EXPECT_EQ(child->GetInput(1)->data(), parent->GetInput(1)->data());
}

// TV-06.
TEST(FlattenTest, KernelSeesOneDimensionAndTheReportedShapeStays) {
  // TVM 0.14 and later flatten the entry itself.
  const Executor executor = MakeExecutor(GraphBuilder()
                                             .Input("x", {{2, 3}})
                                             .Op("flat", "shape", {"x"})
                                             .Attr("flatten_data", "1")
                                             .Op("full", "shape", {"x"})
                                             .Head("flat")
                                             .Head("full"));
  ASSERT_THAT(executor->GetInput(0), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(6, 0, 0, 0));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(2, 3, 0, 0));
  EXPECT_THAT(executor->InputInfo(0).shape, ElementsAre(2, 3));
  EXPECT_THAT(executor->GetInput(0)->shape(), ElementsAre(2, 3));
}

// TV-06.
TEST(FlattenTest, ScalarIsPassedAsOneElement) {
  const Executor executor = MakeExecutor(GraphBuilder()
                                             .Input("x", {{}})
                                             .Op("f", "shape", {"x"})
                                             .Attr("flatten_data", "1")
                                             .Head("f"));
  ASSERT_THAT(executor->GetInput(0), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 0, 0, 0));
}

TEST(NopTest, NopBetweenTwoStoragesCopies) {
  // TVM leaves the output uninitialised.
  const Executor executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{4}, "float32", 0})
                       .Op("n", "__nop", {"x"}, {{{2, 2}, "float32", 1}})
                       .Head("n"));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(executor->GetOutput(0)->shape(), ElementsAre(2, 2));
}

TEST(CopyTest, CopyOnOneDeviceCopies) {
  const Executor executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{4}, "float32", 0})
                       .Op("c", "__copy", {"x"})
                       .Op("same", "__copy", {"x"}, {{{4}, "float32", 0}})
                       .Head("c")
                       .Head("same"));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(1, 2, 3, 4));
}

// TV-16.
TEST(DeviceTest, DeviceThatWasNotGivenIsNamedAndLocated) {
  // TVM takes the first device without a word.
  const Graph graph =
      GraphBuilder().Input("x", {{4}, "float32", 0, 99}).Head("x").Build();
  EXPECT_THAT(
      GraphExecutor::Create(graph, TestKernels()),
      FailsWith(StatusCode::kUnavailable,
                AllOf(HasSubstr("graph.json:"),
                      HasSubstr("/attrs/device_index/1/0: an entry on "
                                "device_type_99, expected one of the devices "
                                "given: cpu(0)"))));
}

TEST(DeviceTest, FirstDeviceOfAGivenTypeIsTaken) {
  GraphExecutor::Options options;
  options.devices = {{kDLVPI, 0}, kCpu};
  const Executor executor = MakeExecutor(
      GraphBuilder().Input("x", {{4}, "float32", 0, kDLCPU}).Head("x"),
      options);
  EXPECT_TRUE(executor->GetInput(0)->device() == kCpu);
}

TEST(StorageTest, SparseHugeIdsTakeNoMoreThanTheirEntries) {
  const Executor executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{4}, "float32", 2147483647})
                       .Op("f", "inc", {"x"}, {{{4}, "float32", 2147483646}})
                       .Head("f"));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
}

TEST(StorageTest, NegativeIdAndOverflowingSizeAreRefusedForGraphsMadeByHand) {
  Graph graph = AddThenRelu().Build();
  graph.entries[1].storage_id = -1;
  EXPECT_THAT(
      GraphExecutor::Create(graph, TestKernels()),
      FailsWith(StatusCode::kDataLoss, HasSubstr("/attrs/storage_id/1/1")));
  graph = AddThenRelu().Build();
  graph.entries[2].shape = {int64_t{1} << 32, int64_t{1} << 32};
  EXPECT_THAT(GraphExecutor::Create(graph, TestKernels()),
              FailsWith(StatusCode::kDataLoss, HasSubstr("/attrs/shape/1/2")));
}

TEST(StorageTest, EntriesOfSeveralSizesShareAStorage) {
  const Executor executor =
      MakeExecutor(GraphBuilder()
                       .Input("x", {{2}, "float32", 0})
                       .Op("a", "inc", {"x"}, {{{2}, "float32", 1}})
                       .Op("b", "inc", {"a"}, {{{2}, "float32", 2}})
                       .Op("c", "inc", {"b"}, {{{2}, "float64", 1}})
                       .Head("c"));
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf<double>(*executor->GetOutput(0)), ElementsAre(4, 5));
}

TEST(StorageTest, MemoryThatTheMachineLacksIsAnError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer aborts on such a request";
#endif
  const Graph graph =
      GraphBuilder().Input("x", {{int64_t{1} << 50}}).Head("x").Build();
  EXPECT_THAT(
      GraphExecutor::Create(graph, TestKernels()),
      FailsWith(StatusCode::kResourceExhausted, HasSubstr("storage 0: ")));
}

}  // namespace
}  // namespace nodewise
