// Tensors of the caller that the executor reads and writes in place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/graph/graph_executor.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = std::unique_ptr<GraphExecutor>;

Executor MakeWithKernels(const GraphBuilder& graph) {
  return GraphExecutor::Create(graph.Build(), TestKernels()).value();
}

// x -> inc -> f.
GraphBuilder Inc() {
  return GraphBuilder().Input("x").Op("f", "inc", {"x"}).Head("f");
}

void Write(const NDArray& tensor, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), tensor.As<float>());
}

TEST(InputZeroCopyTest, WhatTheCallerWritesIsReadByTheNextRun) {
  const Executor executor = MakeWithKernels(Inc());
  const NDArray x = Floats({1, 2, 3, 4});
  ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  Write(x, {5, 6, 7, 8});
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(executor->GetInput(0)->data(), x.data());
}

TEST(InputZeroCopyTest, TensorAtAnyAddressWorks) {
  // TVM refuses what is not aligned to 64 or 128 bytes.
  for (const size_t offset : {0, 1, 2, 4, 16, 32, 63, 64, 100}) {
    const Executor executor = MakeWithKernels(Inc());
    const NDArray x = CopyAtOffset(Floats({1, 2, 3, 4}), offset);
    ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
    std::memset(x.data(), 0, x.bytes());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 1, 1, 1));
  }
}

TEST(InputZeroCopyTest, ByteOffsetIsFollowed) {
  const Executor executor = MakeWithKernels(Inc());
  std::vector<float> values(36, 0);
  std::fill(values.begin() + 32, values.end(), 3.0f);
  const NDArray block = Floats(values);
  DLTensor tensor = *block.View({4}, kFloat32).value();
  tensor.byte_offset = 128;
  int64_t shape[] = {4};
  tensor.shape = shape;
  ASSERT_THAT(executor->SetInputZeroCopy(0, NDArray::Borrow(tensor, nullptr)),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(4, 4, 4, 4));
}

TEST(InputZeroCopyTest, StridesAreFollowed) {
  // TVM reads them as if they were compact.
  const Executor executor =
      MakeWithKernels(GraphBuilder()
                          .Input("x", {{2, 2}})
                          .Op("f", "inc", {"x"}, {{{2, 2}}})
                          .Head("f"));
  const NDArray values = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  DLTensor turned = *values;
  int64_t strides[] = {1, 2};
  turned.strides = strides;
  ASSERT_THAT(executor->SetInputZeroCopy(0, NDArray::Borrow(turned, nullptr)),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 4, 3, 5));
}

TEST(InputZeroCopyTest, SettingTheInputLaterLeavesTheCallersMemoryAlone) {
  // TVM 0.14 and later write into the caller's tensor.
  const Executor executor = MakeWithKernels(Inc());
  const NDArray x = Floats({1, 2, 3, 4});
  ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({7, 7, 7, 7})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(8, 8, 8, 8));
}

TEST(InputZeroCopyTest, AnotherTensorTakesThePlaceOfTheFirst) {
  const Executor executor = MakeWithKernels(Inc());
  const NDArray unaligned = CopyAtOffset(Floats({5, 5, 5, 5}), 4);
  const NDArray tensors[] = {Floats({1, 1, 1, 1}), unaligned,
                             Floats({2, 2, 2, 2}), unaligned, unaligned};
  for (const NDArray& tensor : tensors) {
    ASSERT_THAT(executor->SetInputZeroCopy(0, tensor), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_EQ(ValuesOf(*executor->GetOutput(0))[0], ValuesOf(tensor)[0] + 1);
  }
}

// Has the kernels of the tests, which need no alignment.
class UnalignedKernels : public Library {
 public:
  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return kernels_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    return kernels_->Bind(request);
  }
  size_t NeededAlignment() const override { return 1; }

 private:
  const Ref<Library> kernels_ = TestKernels();
};

// What a run makes of a parameter after its owner has written 9 to it.
float MadeAfterWriting(const NDArray& w, Ref<Library> library,
                       const Graph& graph) {
  const auto executor = GraphExecutor::Create(graph, library).value();
  const auto loaded = executor->BindParams({{{"w", w}}});
  EXPECT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->set, 1u);
  EXPECT_TRUE(executor->InputInfo(0).is_param);
  float nine = 9;
  std::memcpy(w.data(), &nine, sizeof(nine));
  EXPECT_THAT(executor->Run(), IsOk());
  return ValuesOf(*executor->GetOutput(0))[0];
}

TEST(BindParamsTest, ParametersAreReadWhereTheFunctionsCanReadThem) {
  const Graph graph =
      GraphBuilder().Input("w").Op("f", "inc", {"w"}).Head("f").Build();
  const auto any = Ref<Library>(MakeRef<UnalignedKernels>());
  const struct {
    size_t offset;
    Ref<Library> library;
    float made;  // 10: read in place.
  } table[] = {
      {0, TestKernels(), 10}, {4, TestKernels(), 2}, {0, any, 10},
      {4, any, 10},           {2, any, 2},  // Within an element.
  };
  for (const auto& row : table) {
    const NDArray w = CopyAtOffset(Floats({1, 2, 3, 4}), row.offset);
    EXPECT_EQ(MadeAfterWriting(w, row.library, graph), row.made) << row.offset;
  }
}

TEST(BindParamsTest, AParameterThatANodeWritesOverIsCopied) {
  Graph graph =
      GraphBuilder().Input("w").Op("f", "inc", {"w"}).Head("f").Build();
  graph.entries[1].storage_id = graph.entries[0].storage_id;
  const NDArray w = Floats({1, 2, 3, 4});
  EXPECT_EQ(MadeAfterWriting(w, TestKernels(), graph), 2);
}

TEST(BindParamsTest, OfSeveralThatDoNotFitNoneIsBound) {
  const auto executor = MakeWithKernels(
      GraphBuilder().Input("w").Input("v").Op("f", "inc", {"w"}).Head("f"));
  EXPECT_THAT(
      executor->BindParams({{{"w", Floats({1, 2, 3, 4})}, {"v", Floats({1})}}}),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("tensor v is")));
  EXPECT_THAT(executor->Run(), FailsWith(StatusCode::kFailedPrecondition,
                                         HasSubstr("never set: w")));
}

TEST(InputZeroCopyTest, TensorIsKeptAliveUntilItIsReplaced) {
  // TVM leaves that to the caller.
  const Executor executor = MakeWithKernels(Inc());
  auto values = std::make_shared<std::vector<float>>(64, 3.0f);
  const std::weak_ptr<std::vector<float>> watch = values;
  int64_t shape[] = {4};
  DLTensor tensor{values->data(), kCpu, 1, kFloat32, shape, nullptr, 0};
  ASSERT_THAT(
      executor->SetInputZeroCopy(0, NDArray::Borrow(tensor, std::move(values))),
      IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_FALSE(watch.expired());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(4, 4, 4, 4));
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 1, 1, 1})), IsOk());
  EXPECT_TRUE(watch.expired());
}

TEST(InputZeroCopyTest, TensorOnAnotherDeviceIsRefused) {
  const Executor executor = MakeWithKernels(Inc());
  const NDArray near = Floats({1, 2, 3, 4});
  DLTensor far = *near;
  far.device = {kDLVPI, 0};
  EXPECT_THAT(executor->SetInputZeroCopy(0, NDArray::Borrow(far, nullptr)),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("tensor x is on vpi(0), expected cpu(0)")));
}

TEST(InputZeroCopyTest, InputThatIsAnOutputTooIsSeenThere) {
  // TVM up to 0.13 still hands out its own buffer (issue 14978).
  const Executor executor = MakeWithKernels(
      GraphBuilder().Input("x").Op("f", "inc", {"x"}).Head("x").Head("f"));
  const NDArray x = Floats({1, 2, 3, 4});
  ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(1, 2, 3, 4));
  const NDArray copy = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->CopyOutput(0, *copy), IsOk());
  EXPECT_THAT(ValuesOf(copy), ElementsAre(1, 2, 3, 4));
}

// x -> reshape in the same storage -> inc, with the reshape as an output too.
GraphBuilder Reshaped() {
  return GraphBuilder()
      .Input("x", {{4}, "float32", 0})
      .Op("reshape_nop", "__nop", {"x"}, {{{2, 2}, "float32", 0}})
      .Op("f", "inc", {"reshape_nop"}, {{{2, 2}, "float32", 1}})
      .Head("f")
      .Head("reshape_nop");
}

TEST(InputZeroCopyTest, ReshapeInTheSameStorageReadsTheCallersMemory) {
  for (const size_t offset : {0, 4}) {
    const Executor executor = MakeWithKernels(Reshaped());
    ASSERT_THAT(executor->SetInput(0, *Floats({9, 9, 9, 9})), IsOk());
    const NDArray x = CopyAtOffset(Floats({1, 2, 3, 4}), offset);
    ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
    EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(1, 2, 3, 4));
  }
}

TEST(InputZeroCopyTest, FlattenedArgumentsFollow) {
  const Executor executor =
      MakeWithKernels(GraphBuilder()
                          .Input("x", {{2, 2}})
                          .Op("f", "inc", {"x"}, {{{2, 2}}})
                          .Attr("flatten_data", "1")
                          .Head("f"));
  const NDArray x = MakeTensor<float>({2, 2}, {1, 2, 3, 4});
  const NDArray y = MakeTensor<float>({2, 2}, {0, 0, 0, 0});
  ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
  ASSERT_THAT(executor->SetOutputZeroCopy(0, y), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(2, 3, 4, 5));
}

TEST(OutputZeroCopyTest, OutputAtAnyAddressIsWritten) {
  for (const size_t offset : {0, 1, 4, 32, 64, 100}) {
    const Executor executor = MakeWithKernels(Inc());
    const NDArray y = CopyAtOffset(Floats({0, 0, 0, 0}), offset);
    ASSERT_THAT(executor->SetOutputZeroCopy(0, y), IsOk());
    ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(ValuesOf(*y.CopyToHost()), ElementsAre(2, 3, 4, 5)) << offset;
    EXPECT_EQ(executor->GetOutput(0)->data(), y.data());
  }
}

TEST(OutputZeroCopyTest, StridedOutputIsWritten) {
  const Executor executor =
      MakeWithKernels(GraphBuilder()
                          .Input("x", {{2, 2}})
                          .Op("f", "inc", {"x"}, {{{2, 2}}})
                          .Head("f"));
  float values[4] = {};
  int64_t shape[] = {2, 2};
  int64_t strides[] = {1, 2};
  DLTensor y{values, kCpu, 2, kFloat32, shape, strides, 0};
  ASSERT_THAT(executor->SetOutputZeroCopy(0, NDArray::Borrow(y, nullptr)),
              IsOk());
  ASSERT_THAT(executor->SetInput(0, *MakeTensor<float>({2, 2}, {1, 2, 3, 4})),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(values, ElementsAre(2, 4, 3, 5));
}

TEST(OutputZeroCopyTest, OutputThatAnotherNodeReadsIsReadThere) {
  const Executor executor = MakeWithKernels(GraphBuilder()
                                                .Input("x")
                                                .Op("f", "inc", {"x"})
                                                .Op("g", "inc", {"f"})
                                                .Head("f")
                                                .Head("g"));
  const NDArray y = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, y), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(3, 4, 5, 6));
}

TEST(OutputZeroCopyTest, OutputOfAReshapeIsWritten) {
  // TVM leaves the buffer unwritten, or follows a wild pointer (issue 17152).
  const Executor executor = MakeWithKernels(
      GraphBuilder()
          .Input("x", {{4}, "float32", 0})
          .Op("f", "inc", {"x"}, {{{4}, "float32", 1}})
          .Op("reshape_nop", "__nop", {"f"}, {{{2, 2}, "float32", 1}})
          .Head("reshape_nop")
          .Head("f"));
  const NDArray y = MakeTensor<float>({2, 2}, {0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, y), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(1)), ElementsAre(2, 3, 4, 5));
}

TEST(OutputZeroCopyTest, InputAndOutputJoinedByAReshapeBothWork) {
  const Executor executor = MakeWithKernels(Reshaped());
  const NDArray x = Floats({1, 2, 3, 4});
  const NDArray y = MakeTensor<float>({2, 2}, {0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(1, y), IsOk());
  ASSERT_THAT(executor->SetInputZeroCopy(0, x), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
}

TEST(OutputZeroCopyTest, TwoOutputsOfOneTensorBothGetIt) {
  const Executor executor = MakeWithKernels(
      GraphBuilder().Input("x").Op("f", "inc", {"x"}).Head("f").Head("f"));
  const NDArray first = Floats({0, 0, 0, 0});
  const NDArray second = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, first), IsOk());
  ASSERT_THAT(executor->SetOutputZeroCopy(1, second), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(first), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ValuesOf(second), ElementsAre(2, 3, 4, 5));
}

TEST(OutputZeroCopyTest, OutputThatIsAnInputIsCopiedThere) {
  const Executor executor =
      MakeWithKernels(GraphBuilder().Input("x").Head("x"));
  const NDArray y = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, y), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(0, 0, 0, 0));
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(1, 2, 3, 4));
}

TEST(OutputZeroCopyTest, EarlierTensorKeepsItsResultWhenAnotherIsBound) {
  const Executor executor = MakeWithKernels(Inc());
  const NDArray tensors[] = {Floats({0, 0, 0, 0}), Floats({0, 0, 0, 0})};
  for (int i = 0; i < 2; ++i) {
    ASSERT_THAT(executor->SetOutputZeroCopy(0, tensors[i]), IsOk());
    const float value = static_cast<float>(i);
    ASSERT_THAT(executor->SetInput(0, *Floats({value, 0, 0, 0})), IsOk());
    ASSERT_THAT(executor->Run(), IsOk());
  }
  EXPECT_EQ(ValuesOf(tensors[0])[0], 1);
  EXPECT_EQ(ValuesOf(tensors[1])[0], 2);
}

TEST(OutputZeroCopyTest, ResultGoesWithTheOutputBackToItsSlot) {
  // The slot of `c` held `a` while `c` was written to the caller's memory.
  const Executor executor =
      MakeWithKernels(GraphBuilder()
                          .Input("x", {{4}, "float32", 9})
                          .Op("a", "inc", {"x"}, {{{4}, "float32", 0}})
                          .Op("b", "inc", {"a"}, {{{4}, "float32", 1}})
                          .Op("c", "inc", {"b"}, {{{4}, "float32", 0}})
                          .Head("c"));
  const NDArray in_place = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->SetOutputZeroCopy(0, in_place), IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({0, 1, 2, 3})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  const NDArray copied = CopyAtOffset(in_place, 4);
  ASSERT_THAT(executor->SetOutputZeroCopy(0, copied), IsOk());
  const NDArray result = Floats({0, 0, 0, 0});
  ASSERT_THAT(executor->CopyOutput(0, *result), IsOk());
  EXPECT_THAT(ValuesOf(result), ElementsAre(3, 4, 5, 6));
}

TEST(OutputZeroCopyTest, TensorIsKeptAliveAsLongAsTheExecutor) {
  Executor executor = MakeWithKernels(Inc());
  auto values = std::make_shared<std::vector<float>>(64, 3.0f);
  const std::weak_ptr<std::vector<float>> watch = values;
  int64_t shape[] = {4};
  DLTensor tensor{values->data(), kCpu, 1, kFloat32, shape, nullptr, 0};
  ASSERT_THAT(executor->SetOutputZeroCopy(
                  0, NDArray::Borrow(tensor, std::move(values))),
              IsOk());
  ASSERT_THAT(executor->SetInput(0, *Floats({1, 2, 3, 4})), IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_FALSE(watch.expired());
  executor.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(ZeroCopyTest, OneTensorMayBeInputAndOutput) {
  // This happens in a loop that feeds its result back.
  const Executor executor = MakeWithKernels(Inc());
  const NDArray state = Floats({0, 10, 20, 30});
  ASSERT_THAT(executor->SetInputZeroCopy(0, state), IsOk());
  ASSERT_THAT(executor->SetOutputZeroCopy(0, state), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(ValuesOf(state), ElementsAre(3, 13, 23, 33));
}

TEST(InputZeroCopyTest, TensorStaysBoundIfSettingTheInputFails) {
  const Executor executor = MakeWithKernels(Inc());
  const NDArray x = Floats({1, 2, 3, 4});
  DLTensor far = *x;
  far.device = {kDLVPI, 0};
  for (const size_t offset : {0, 4}) {
    ASSERT_THAT(executor->SetInputZeroCopy(0, CopyAtOffset(x, offset)), IsOk());
    EXPECT_FALSE(executor->SetInput(0, far).ok());
    ASSERT_THAT(executor->Run(), IsOk());
    EXPECT_THAT(ValuesOf(*executor->GetOutput(0)), ElementsAre(2, 3, 4, 5));
  }
}

}  // namespace
}  // namespace nodewise
