#include "nodewise/graph/graph_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "nodewise/graph/dump_key.h"
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
using ::testing::IsEmpty;

using Executor = std::unique_ptr<GraphExecutor>;

Executor Make(const GraphBuilder& graph, GraphExecutor::Options options = {}) {
  return GraphExecutor::Create(graph.Build(), TestKernels(), options).value();
}

absl::Status CreateStatus(const GraphBuilder& graph,
                          GraphExecutor::Options options = {}) {
  return GraphExecutor::Create(graph.Build(), TestKernels(), options).status();
}

// x -> `function` -> out.
GraphBuilder One(const std::string& function, TensorSpec in = {},
                 TensorSpec out = {}) {
  return GraphBuilder()
      .Input("x", in)
      .Op("f", function, {"x"}, {out})
      .Head("f");
}

// TV-28.
TEST(GraphExecutorTest, NodesRunInOrderOnTheInputs) {
  const Executor executor = Make(AddThenRelu());
  ASSERT_THAT(executor->SetInput("y", *Floats({1, 1, 1, 9})), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, -2, 3, -4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 0, 4, 5));
}

TEST(GraphExecutorTest, EveryRunReadsTheInputsAnew) {
  const Executor executor = Make(One("inc"));
  for (const float value : {1.0f, 5.0f}) {
    ASSERT_THAT(executor->SetInput(0, *Floats({value, 0, 0, 0})), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_EQ(ValuesOf(*executor->GetOutput(0))[0], value + 1);
  }
}

TEST(GraphExecutorTest, ARunThatIsCancelledEndsBeforeItsNextNode) {
  std::atomic<bool> cancel = true;
  GraphExecutor::Options options;
  options.cancel = &cancel;
  const Executor executor = Make(One("inc"), options);
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 0, 0, 0})), IsOk());
  EXPECT_THAT(executor->Run(),
              FailsWith(StatusCode::kCancelled, HasSubstr("node 1 (f)")));
  cancel = false;
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_EQ(ValuesOf(*executor->GetOutput(0))[0], 2);
}

// TV-47.
TEST(GraphExecutorTest, InputsAndOutputsAreDescribed) {
  const Executor executor =
      Make(GraphBuilder()
               .Input("data", {{2, 3}, "float16"})
               .Input("n", {{}, "int64"})
               .Op("s", "split", {"data"}, {{{2}, "float16"}, {{4}, "int8"}})
               .Head("s:1")
               .Head("n"));
  EXPECT_EQ(executor->NumInputs(), 2u);
  EXPECT_EQ(executor->NumOutputs(), 2u);
  const TensorInfo input = executor->InputInfo(0);
  EXPECT_EQ(input.name, "data");
  EXPECT_EQ(TypeToString(input.shape, input.dtype), "float16 (2, 3)");
  EXPECT_FALSE(input.is_param);
  const TensorInfo output = executor->OutputInfo(0);
  EXPECT_EQ(TypeToString(output.shape, output.dtype), "int8 (4,)");
  EXPECT_EQ(output.name, "s");
  EXPECT_EQ(executor->OutputInfo(1).name, "n");
}

// TV-31.
TEST(GraphExecutorTest, OutputOfTheLastRunIsCopied) {
  const Executor executor = Make(One("inc"));
  const NDArray copy = Floats({0, 0, 0, 0});
  EXPECT_THAT(executor->CopyOutput(0, *copy),
              FailsWith(StatusCode::kFailedPrecondition,
                        "output f: the graph has not been run"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  ASSERT_THAT(executor->CopyOutput(0, *copy), IsOk());
  EXPECT_THAT(ValuesOf(copy), ElementsAre(2, 3, 4, 5));
}

TEST(GraphExecutorTest, InputMayBeWrittenThroughItsArray) {
  const Executor executor = Make(One("inc"));
  const auto input = executor->GetInput(0);
  ASSERT_THAT(input, IsOk());
  std::fill_n(input->As<float>(), 4, 6.0f);
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), Each(7));
}

TEST(GraphExecutorTest, StridedInputIsSetRowByRow) {
  const Executor executor = Make(One("copy", {{2, 2}}, {{2, 2}}));
  const NDArray values = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  DLTensor turned = *values;
  int64_t strides[] = {1, 2};
  turned.strides = strides;
  ASSERT_THAT(executor->SetInput(0, turned), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 3, 2, 4));
}

TEST(GraphExecutorTest, ArraysOutliveTheExecutor) {
  Executor executor = Make(One("inc"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  const NDArray output = *executor->GetOutput(0);
  executor.reset();
  EXPECT_THAT(ValuesOf(output), ElementsAre(2, 3, 4, 5));
}

TEST(GraphExecutorTest, NodeAttributesReachTheKernel) {
  const Executor executor =
      Make(GraphBuilder().Op("f", "fill", {}).Attr("value", "2.5").Head("f"));
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), Each(2.5));
}

// TV-10.
TEST(GraphExecutorTest, EveryOutputOfANodeGoesItsWay) {
  const Executor executor =
      Make(GraphBuilder()
               .Input("x", {{6}})
               .Op("s", "split", {"x"}, {{{1}}, {{3}}, {{2}}})
               .Op("r", "inc", {"s:1"}, {{{3}}})
               .Head("s:2")
               .Head("r")
               .Head("s:0"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4, 5, 6})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(5, 6));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(3, 4, 5));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(2)), ElementsAre(1));
}

TEST(GraphExecutorTest, GraphWithoutHeadsOrNodesRuns) {
  const Executor nothing = Make(GraphBuilder());
  EXPECT_THAT(nothing->Run(), IsOk());
  EXPECT_EQ(nothing->NumOutputs(), 0u);
  const Executor headless = Make(GraphBuilder().Input("x"));
  EXPECT_THAT(headless->Run(), IsOk());  // Nothing reads x.
}

TEST(GraphExecutorTest, InputMayBeAnOutputAsItIs) {
  const Executor executor = Make(GraphBuilder().Input("x").Head("x").Head("x"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(1, 2, 3, 4));
}

// TV-12.
TEST(GraphExecutorTest, ThousandNodesInTwoSlotsRun) {
  GraphBuilder chain;
  chain.Input("x", {{4}, "float32", 0});
  for (int i = 0; i < 1000; ++i) {
    chain.Op("n" + std::to_string(i), "inc", {"#" + std::to_string(i)},
             {{{4}, "float32", 1 + i % 2}});
  }
  const Executor executor = Make(chain.Head("n999"));
  EXPECT_EQ(executor->plan().slots.size(), 3u);
  ASSERT_THAT(executor->SetInput(0, *Floats({0, 1, 2, 3})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)),
              ElementsAre(1000, 1001, 1002, 1003));
}

TEST(GraphExecutorTest, ScalarsAndEmptyTensorsRun) {
  const Executor scalar = Make(One("inc", {{}}, {{}}));
  ASSERT_THAT(scalar->SetInput(0, *MakeTensor<float>({}, {3})), IsOk());
  ASSERT_THAT(scalar->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*scalar->GetOutput(0)), ElementsAre(4));
  const Executor none = Make(One("inc", {{2, 0}}, {{2, 0}}));
  ASSERT_THAT(none->SetInput(0, *MakeTensor<float>({2, 0}, {})), IsOk());
  ASSERT_THAT(none->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*none->GetOutput(0)), IsEmpty());
}

// TV-14.
TEST(GraphExecutorTest, EveryElementTypeRuns) {
  for (const char* name :
       {"float16", "bfloat16", "float32", "float64", "bool", "int4", "int8",
        "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint64"}) {
    const Executor executor = Make(One("copy", {{3}, name}, {{3}, name}));
    const NDArray input =
        NDArray::Empty({3}, ParseDType(name).value(), kCpu).value();
    for (int i = 0; i < 3; ++i) StoreElement(*input, i, i % 2);
    ASSERT_THAT(executor->SetInput(0, *input), IsOk()) << name;
    ASSERT_THAT(executor->Run(), IsOk()) << name;
    const NDArray output = *executor->GetOutput(0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(LoadElement(*output, i), i % 2);
  }
}

TEST(GraphExecutorTest, TypesOfAGraphMayDifferFromEntryToEntry) {
  const Executor executor = Make(One("inc", {{4}, "int8"}, {{4}, "float64"}));
  ASSERT_THAT(executor->SetInput(0, *MakeTensor<int8_t>({4}, {1, 2, 3, 4})),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf<double>(*executor->GetOutput(0)),
              ElementsAre(2, 3, 4, 5));
}

TEST(GraphExecutorTest, TwoExecutorsOfOneLibraryRunAtOnce) {
  const Ref<Library> library = TestKernels();
  const auto work = [&](float value) {
    const Executor executor =
        GraphExecutor::Create(AddThenRelu().Build(), library).value();
    const std::vector<float> x(4, value);
    for (int i = 0; i < 500; ++i) {
      EXPECT_THAT(executor->SetInput("x", *Floats(x)), IsOk());
      EXPECT_THAT(executor->SetInput("y", *Floats(x)), IsOk());
      EXPECT_THAT(executor->Run(), IsOk());
      EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), Each(2 * value));
    }
  };
  std::thread first(work, 3.0f);
  std::thread second(work, 8.0f);
  first.join();
  second.join();
}

// TV-07.
TEST(CreateTest, MissingFunctionIsLocatedWithTheNearestName) {
  EXPECT_THAT(
      CreateStatus(One("reluu")),
      FailsWith(
          StatusCode::kNotFound,
          AllOf(HasSubstr("graph.json:"),
                HasSubstr("/nodes/1/attrs/func_name: node f: there is no "
                          "built-in function reluu; did you mean relu?"))));
}

TEST(CreateTest, KernelThatCannotBeMadeKeepsItsCode) {
  EXPECT_THAT(CreateStatus(One("refuse")),
              FailsWith(StatusCode::kUnimplemented,
                        HasSubstr("/nodes/1/attrs/func_name: node f: no kernel "
                                  "for that")));
}

TEST(CreateTest, UnsoundGraphIsRefused) {
  Graph graph = AddThenRelu().Build();
  graph.heads[0].node = 99;
  EXPECT_THAT(GraphExecutor::Create(graph, TestKernels()),
              FailsWith(StatusCode::kDataLoss, HasSubstr("/heads/0/0")));
}

TEST(CreateTest, DeviceMustBeGiven) {
  GraphExecutor::Options options;
  options.devices.clear();
  EXPECT_THAT(CreateStatus(AddThenRelu(), options),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no device")));
}

TEST(CreateTest, DeviceThatIsNotBuiltInIsNamedWithTheStorage) {
  GraphExecutor::Options options;
  options.devices = {{kDLVPI, 0}};
  EXPECT_THAT(CreateStatus(AddThenRelu(), options),
              FailsWith(StatusCode::kUnavailable,
                        AllOf(HasSubstr("storage 0: "),
                              HasSubstr("this build has no such device"))));
}

TEST(RunTest, FailingKernelNamesItsNodeAndFunction) {
  const Executor executor = Make(One("fail"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT(executor->Run(),
              FailsWith(StatusCode::kInternal,
                        "node 1 (f): fail: this kernel always fails"));
}

TEST(RunTest, KernelThatThrowsIsAnError) {
  const Executor executor = Make(One("throw"));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  const absl::Status status = executor->Run();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("node 1 (f): throw: "), HasSubstr("this kernel throws")));
}

TEST(RunTest, NodesBehindAFailingOneDoNotRun) {
  const Executor executor = Make(GraphBuilder()
                                     .Op("bad", "fail", {})
                                     .Op("c", "count", {"bad"})
                                     .Op("d", "copy", {"c"})
                                     .Head("d"));
  EXPECT_FALSE(executor->Run().ok());
  EXPECT_THAT(
      executor->CopyOutput(0, *Floats({0, 0, 0, 0})),
      FailsWith(StatusCode::kFailedPrecondition, HasSubstr("output d")));
}

TEST(LoadParamsTest, KnownNamesAreSetAndOthersListed) {
  const Executor executor = Make(AddThenRelu());
  const auto loaded = executor->LoadParams({{{"y", Floats({1, 2, 3, 4})},
                                             {"z", Floats({1})},
                                             {"y", Floats({5, 6, 7, 8})}},
                                            0});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(loaded->unknown, ElementsAre("z"));
  EXPECT_TRUE(executor->InputInfo(1).is_param);
  EXPECT_FALSE(executor->InputInfo(0).is_param);
  // The last of one name wins.
  EXPECT_THAT(ValuesOf(*executor->GetInput(1)), ElementsAre(5, 6, 7, 8));
}

TEST(LoadParamsTest, NothingIsSetIfOneDoesNotFit) {
  const Executor executor = Make(AddThenRelu());
  EXPECT_THAT(
      executor->LoadParams(
          {{{"x", Floats({1, 2, 3, 4})}, {"y", Floats({1})}}, 0}),
      FailsWith(StatusCode::kInvalidArgument,
                "params: tensor y is float32 (1,), expected float32 (4,)"));
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kFailedPrecondition,
                                         HasSubstr("never set: x, y")));
}

// TV-20: a dump's tensors are parameters, named by keys.
TEST(LoadParamsTest, DumpSetsTheInputsAmongItsKeysAndCountsTheRest) {
  const Executor executor = Make(AddThenRelu());
  const NDArray four = Floats({1, 2, 3, 4});
  const auto loaded = executor->LoadParams(
      {{{DumpKeyOf("x", NodeId{0}, 0), four},
        {DumpKeyOf("y", NodeId{1}, 0), Floats({5, 6, 7, 8})},
        {DumpKeyOf("add0", NodeId{2}, 0), four},
        {DumpKeyOf("y", NodeId{3}, 0), four}},
       0});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->set, 2u);
  EXPECT_EQ(loaded->computed, 1u);
  EXPECT_THAT(loaded->unknown,
              ElementsAre("y____topo-index:3____output-num:0"));
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(6, 8, 10, 12));
}

// TV-29: many inputs by name in one call.
TEST(SetInputsTest, SetsAllByTheirNames) {
  const Executor executor = Make(AddThenRelu());
  ASSERT_THAT(executor->SetInputs(
                  {{"y", Floats({5, 6, 7, 8})}, {"x", Floats({1, 2, 3, 4})}}),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(6, 8, 10, 12));
}

// TV-29.
TEST(SetInputsTest, NothingIsSetIfOneIsWrongAndEachOfThoseIsNamed) {
  const Executor executor = Make(AddThenRelu());
  const NDArray four = Floats({1, 2, 3, 4});
  EXPECT_THAT(executor->SetInputs({{"x", four},
                                   {"z", four},
                                   {"y", Floats({1})},
                                   {"x", four},
                                   {"y", NDArray()}}),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("input z: the graph has no such input"),
                              HasSubstr("tensor y is float32 (1,), expected"),
                              HasSubstr("input x: was given twice"),
                              HasSubstr("tensor y is null"))));
  EXPECT_THAT(executor->SetInputs({{"a", four}, {"b", four}}),
              FailsWith(StatusCode::kNotFound, HasSubstr("; input b: ")));
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kFailedPrecondition,
                                         HasSubstr("never set: x, y")));
}

TEST(LoadParamsTest, SingleParameterIsSetByName) {
  const Executor executor = Make(AddThenRelu());
  EXPECT_THAT(executor->SetParam("y", *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_TRUE(executor->InputInfo(1).is_param);
  EXPECT_THAT(executor->SetParam("w", *Floats({1})),
              FailsWith(StatusCode::kNotFound, HasSubstr("parameter w: ")));
}

TEST(LinkedParamTest, DataOfAStorageIdComesFromTheLookup) {
  const NDArray weights = Floats({10, 20, 30, 40});
  GraphExecutor::Options options;
  options.linked_param = [&](int64_t id, const DLTensor& like) {
    EXPECT_EQ(TypeToString(ShapeOf(like), like.dtype), "float32 (4,)");
    return id == 1 ? weights : NDArray();
  };
  const Executor executor = Make(AddThenRelu(), options);
  EXPECT_TRUE(executor->InputInfo(1).is_param);
  ASSERT_THAT(executor->SetInput("x", *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(11, 22, 33, 44));
}

TEST(LinkedParamTest, TensorThatWouldBeCopiedOverLinkedDataIsRefused) {
  const NDArray weights = Floats({10, 20, 30, 40});
  GraphExecutor::Options options;
  options.linked_param = [&](int64_t id, const DLTensor&) {
    return id == 1 ? weights : NDArray();
  };
  const Executor executor = Make(AddThenRelu(), options);
  EXPECT_THAT(
      executor->SetInputZeroCopy(1, CopyAtOffset(weights, 4)),
      FailsWith(StatusCode::kFailedPrecondition, HasSubstr("cannot be set")));
  EXPECT_THAT(executor->SetInputZeroCopy(1, Floats({1, 2, 3, 4})), IsOk());
}

TEST(LinkedParamTest, LinkedDataIsNeverWrittenTo) {
  const NDArray weights = Floats({10, 20, 30, 40});
  GraphExecutor::Options options;
  options.linked_param = [&](int64_t id, const DLTensor&) {
    return id == 1 ? weights : NDArray();
  };
  const Executor executor = Make(AddThenRelu(), options);
  EXPECT_THAT(executor->SetInput("y", *Floats({0, 0, 0, 0})),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("input y: its data is linked")));
  EXPECT_THAT(ValuesOf(weights), ElementsAre(10, 20, 30, 40));
}

TEST(LinkedParamTest, FailingLookupAndTooLittleDataAreErrors) {
  GraphExecutor::Options options;
  options.linked_param = [](int64_t, const DLTensor&) {
    return absl::DataLossError("no table");
  };
  EXPECT_THAT(CreateStatus(AddThenRelu(), options),
              FailsWith(StatusCode::kDataLoss, HasSubstr("no table")));
  options.linked_param = [](int64_t, const DLTensor&) { return Floats({1}); };
  EXPECT_THAT(CreateStatus(AddThenRelu(), options),
              FailsWith(StatusCode::kInvalidArgument,
                        "storage 0: the linked data is float32 (1,), expected "
                        "16 compact bytes"));
}

// Like compiled code, it is called directly, without a wrapper.
int ThrowAsCompiledCode(TVMValue*, int*, int, TVMValue*, int*, void*) {
  throw std::runtime_error("the code threw this");
}

TEST(GraphExecutorTest, ExceptionOfCompiledCodeIsAnErrorThatNamesTheNode) {
  const auto library = BuiltInLibrary(
      {{"raw", [](const KernelRequest&) {
          return absl::StatusOr<PackedFunc>(
              PackedFunc::FromAddress(&ThrowAsCompiledCode, nullptr, {}));
        }}});
  const auto executor = GraphExecutor::Create(
      GraphBuilder().Input("x").Op("f", "raw", {"x"}).Head("f").Build(),
      library);
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT((*executor)->Run(),
              FailsWith(StatusCode::kInternal,
                        AllOf(HasSubstr("node 1 (f): raw"),
                              HasSubstr("the code threw this"))));
}

TEST(LoadParamsTest, NothingIsSetIfOneIsLinkedIntoTheLibrary) {
  GraphExecutor::Options options;
  options.linked_param = [](int64_t id,
                            const DLTensor&) -> absl::StatusOr<NDArray> {
    return id == 51 ? Floats({7, 7, 7, 7}) : NDArray();
  };
  const auto executor =
      GraphExecutor::Create(GraphBuilder()
                                .Input("w", {{4}, "float32", 50})
                                .Input("p", {{4}, "float32", 51})
                                .Op("a", "add", {"w", "p"})
                                .Head("a")
                                .Build(),
                            TestKernels(), options)
          .value();
  ASSERT_THAT(executor->SetInput("w", *Floats({1, 1, 1, 1})), IsOk());
  EXPECT_THAT(executor->LoadParams({{{"w", Floats({100, 100, 100, 100})},
                                     {"p", Floats({0, 0, 0, 0})}},
                                    0}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("input p")));
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(8, 8, 8, 8));
}

}  // namespace
}  // namespace nodewise
