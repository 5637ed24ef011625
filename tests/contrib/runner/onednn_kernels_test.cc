#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "nodewise/graph/graph_json.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/thread_pool.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// y = relu(x w + b): one node.
Lowered Dense() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId w = b.Const("w", MakeTensor<float>({2, 2}, {1, 0, 0, 1}));
  const ValueId bias = b.Const("b", Floats({0, 0}));
  const ValueId product = b.Op("MatMul", {x, w}, {}, {}, "product")[0];
  const ValueId sum = b.Op("Add", {product, bias}, {}, {}, "sum")[0];
  b.Out(b.Op("Relu", {sum}, {}, {"y"}, "relu"));
  return Lower(b.net, "net").value();
}

NDArray Row(float first, float second) {
  return MakeTensor<float>({1, 2}, {first, second});
}
NDArray Diagonal(float first, float second) {
  return MakeTensor<float>({2, 2}, {first, 0, 0, second});
}

// An executor of Dense() with x set, and its library.
struct Running {
  Ref<LoweredLibrary> library = BuiltInFunctions(AllOperators());
  std::unique_ptr<GraphExecutor> executor;

  explicit Running(const Lowered& lowered = Dense()) {
    executor = ExecutorOf(lowered, library).value();
    EXPECT_THAT(executor->SetInput("x", *Row(3, 5)), IsOk());
  }
  std::vector<float> Run() const {
    EXPECT_THAT(executor->Run(), IsOk());
    return ValuesOf(*executor->GetOutput(0));
  }
  KernelChoice choice(size_t i = 0) const { return library->choices().at(i); }
};

TEST(OneDnnKernelsTest, AFusedNodeIsOneKernel) {
  const Running running;
  EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  EXPECT_EQ(running.choice().kernel, "oneDNN");
  const auto operations = running.choice().operations;
  ASSERT_EQ(operations.size(), 3u);
  for (const OperationChoice& operation : operations) {
    EXPECT_EQ(operation.kernel, "oneDNN") << operation.operation;
    EXPECT_EQ(operation.why_not, "");
  }
}

TEST(OneDnnKernelsTest, WeightsThatAreSetAnewCount) {
  const Running running;
  EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  for (const float factor : {2.0F, 7.0F}) {
    ASSERT_THAT(running.executor->SetInput("w", *Diagonal(factor, 1)), IsOk());
    EXPECT_THAT(running.Run(), ElementsAre(3 * factor, 5));
  }
  ASSERT_THAT(running.executor->SetParam("w", *Diagonal(1, 4)), IsOk());
  EXPECT_THAT(running.Run(), ElementsAre(3, 20));
}

TEST(OneDnnKernelsTest, WeightsWrittenThroughAViewCount) {
  const Running running;
  EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  const size_t w = running.executor->InputIndex("w").value();
  const NDArray view = running.executor->GetInput(w).value();
  for (const float factor : {2.0F, 7.0F, 1.0F}) {
    view.As<float>()[0] = factor;
    EXPECT_THAT(running.Run(), ElementsAre(3 * factor, 5));
  }
}

TEST(OneDnnKernelsTest, WeightsInTheCallersMemoryCount) {
  const Running running;
  const size_t w = running.executor->InputIndex("w").value();
  const NDArray own = Diagonal(1, 1);
  ASSERT_THAT(running.executor->SetInputZeroCopy(w, own), IsOk());
  for (const float factor : {2.0F, 7.0F}) {
    own.As<float>()[0] = factor;
    EXPECT_THAT(running.Run(), ElementsAre(3 * factor, 5));
  }
  // From here on the executor has memory of its own again.
  ASSERT_THAT(running.executor->SetInput(w, *Diagonal(4, 1)), IsOk());
  own.As<float>()[0] = 9;
  EXPECT_THAT(running.Run(), ElementsAre(12, 5));
}

// What a run of a product with 16 MiB of weights leaves resident.
uint64_t KeptByRun(bool in_little_memory) {
  constexpr int64_t kSide = 2048;
  NetBuilder b;
  const ValueId x = b.In("x", {1, kSide});
  const ValueId w =
      b.Const("w", NDArray::Empty({kSide, kSide}, kFloat32, kCpu).value());
  b.Out(b.Op("MatMul", {x, w}, {}, {"y"}));
  const Lowered lowered = Lower(b.net, "net").value();
  const auto executor =
      ExecutorOf(lowered, BuiltInFunctions(AllOperators())).value();
  const NDArray row = NDArray::Empty({1, kSide}, kFloat32, kCpu).value();
  std::fill_n(row.As<float>(), kSide, 1.0F);
  const NDArray weights =
      NDArray::Empty({kSide, kSide}, kFloat32, kCpu).value();
  std::fill_n(weights.As<float>(), kSide * kSide, 0.5F);
  EXPECT_THAT(executor->SetInput("x", *row), IsOk());
  EXPECT_THAT(executor->SetInput("w", *weights), IsOk());
  ReturnLargeBlocksAtOnce();
  const PeakMemory memory;
  std::optional<LowMemoryScope> little;
  if (in_little_memory) little.emplace();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(executor->Run(), IsOk());
    EXPECT_EQ(ValuesOf(*executor->GetOutput(0))[0], kSide / 2);
  }
  return memory.bytes();
}

TEST(OneDnnKernelsTest, InLittleMemoryNoWeightsAreCopied) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory that is freed";
  constexpr uint64_t kWeights = uint64_t{16} << 20;
  EXPECT_GT(KeptByRun(false), kWeights);
  EXPECT_LT(KeptByRun(true), kWeights / 4);
}

TEST(OneDnnKernelsTest, WhatWasForgottenIsMadeAgain) {
  const Running running;
  EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  {
    const LowMemoryScope little;
    EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  }
  EXPECT_THAT(running.Run(), ElementsAre(3, 5));
  ASSERT_THAT(running.executor->SetInput("w", *Diagonal(2, 1)), IsOk());
  const LowMemoryScope little;
  EXPECT_THAT(running.Run(), ElementsAre(6, 5));
}

TEST(OneDnnKernelsTest, WeightsThatANodeWritesOverCount) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId w = b.Const("w", Diagonal(1, 1));
  const ValueId y = b.Op("MatMul", {x, w}, {}, {"y"}, "product")[0];
  b.Out({y, b.Op("MatMul", {w, w}, {}, {"z"}, "square")[0]});
  Lowered lowered = Lower(b.net, "net", kPlain).value();
  // A faulty plan: the square is written over the weights.
  auto& graph = lowered.graph;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].name != "square") continue;
    graph.entries[Index(graph.EntryOf(NodeId{n}, 0))].storage_id =
        graph.entries[1].storage_id;
  }
  const Running running(lowered);
  running.Run();
  ASSERT_THAT(running.executor->SetInput("w", *Diagonal(2, 1)), IsOk());
  EXPECT_THAT(running.Run(), ElementsAre(6, 5));
  const auto second = running.Run();
  EXPECT_NE(second[0], 6) << "the kernel did not see the weights change";
}

TEST(OneDnnKernelsTest, WhatOneDnnLacksIsComputedByTheDefinitionAndListed) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId w = b.Const("w", Diagonal(2, 2));
  const ValueId product = b.Op("MatMul", {x, w}, {}, {}, "product")[0];
  const ValueId erf = b.Op("Erf", {product}, {}, {}, "erf")[0];
  b.Out(b.Op("Neg", {erf}, {}, {"y"}, "neg"));
  const Running running(Lower(b.net, "net").value());
  EXPECT_THAT(running.Run(), ElementsAre(-1, -1));
  const auto operations = running.choice().operations;
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[0].kernel, "oneDNN");
  EXPECT_EQ(operations[1].operation, "erf");
  EXPECT_EQ(operations[1].kernel, "reference");
  EXPECT_THAT(operations[1].why_not, HasSubstr("no such operator"));
  EXPECT_EQ(operations[2].kernel, "oneDNN");
}

TEST(OneDnnKernelsTest, WhatTwoCouldTakeInOneDoes) {
  NetBuilder b;
  const ValueId x = b.Op("Neg", {b.In("x", {1, 2})})[0];
  const ValueId left = b.Op("Mul", {x, b.Const("two", Floats({2}))})[0];
  const ValueId right = b.Op("Add", {b.Op("Erf", {x})[0], x})[0];
  b.Out(b.Op("Mul", {left, right}));
  const Running running(Lower(b.net, "net").value());
  const auto expected = Interpret(b.net, {Row(3, 5)}).value();
  EXPECT_EQ(running.Run(), ValuesOf(expected[0]));
  EXPECT_EQ(running.choice().operations.size(), 5u);
}

TEST(OneDnnKernelsTest, ARegionOfNothingElseIsTheReferences) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  b.Out(b.Op("Erf", {x}, {}, {"y"}, "erf"));
  const Running running(Lower(b.net, "net").value());
  running.Run();
  EXPECT_EQ(running.choice().kernel, "reference");
  ASSERT_EQ(running.choice().refusals.size(), 1u);
  EXPECT_THAT(running.choice().refusals[0],
              HasSubstr("oneDNN: Erf: oneDNN has no such operator"));
  EXPECT_EQ(running.choice().operations.at(0).kernel, "reference");
}

TEST(OneDnnKernelsTest, ConstantsThatOneDnnRefusesAreListedOnceTheyAreKnown) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 2});
  const ValueId least = b.Const("least", MakeTensor<float>({}, {1}));
  const ValueId most = b.Const("most", MakeTensor<float>({}, {4}));
  b.Out(b.Op("Clip", {x, least, most}, {}, {"y"}, "clip"));
  Running running(Lower(b.net, "net").value());
  EXPECT_THAT(running.Run(), ElementsAre(3, 4));
  EXPECT_EQ(running.choice().operations.at(0).kernel, "oneDNN");
  // The limits are in the wrong order.
  ASSERT_THAT(running.executor->SetInput("least", *MakeTensor<float>({}, {9})),
              IsOk());
  EXPECT_THAT(running.Run(), ElementsAre(4, 4));
  EXPECT_EQ(running.choice().operations.at(0).kernel, "reference");
  running.executor.reset();
  EXPECT_THAT(running.choice().operations.at(0).why_not,
              HasSubstr("wrong order"));
}

TEST(OneDnnKernelsTest, RunsThatMetANaNAreCounted) {
  const Running running;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_THAT(running.executor->SetInput("x", *Row(nan, 1)), IsOk());
  EXPECT_TRUE(std::isnan(running.Run()[0]));
  EXPECT_THAT(running.choice().operations.at(0).remark,
              HasSubstr("1 run computed by the definitions"));
}

NDArray Steps(const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<size_t>(*NumElements(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 7) - 3;
  }
  return MakeTensor<float>(shape, values);
}

// Two convolutions with a clip between them.
NetBuilder TwoConvs() {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 3, 5, 4});
  const ValueId first = b.Const("first", Steps({8, 3, 1, 1}));
  const ValueId second = b.Const("second", Steps({2, 8, 1, 1}));
  const ValueId least = b.Const("least", MakeTensor<float>({}, {-2}));
  const ValueId most = b.Const("most", MakeTensor<float>({}, {5}));
  const ValueId conv = b.Op("Conv", {x, first}, {}, {"c"}, "conv")[0];
  const ValueId clip = b.Op("Clip", {conv, least, most}, {}, {"m"}, "clip")[0];
  b.Out(b.Op("Conv", {clip, second}, {}, {"y"}, "last"));
  return b;
}

TEST(OneDnnKernelsTest, TensorsBetweenConvolutionsHaveTheirChannelsLast) {
  const NetBuilder b = TwoConvs();
  const Lowered lowered =
      Lower(b.net, "net", LoweringFor(AllOperators())).value();
  const Graph& graph = lowered.graph;
  const auto clip = static_cast<uint32_t>(*NodeCovering(graph, "clip"));
  EXPECT_EQ(graph.nodes[clip].function, "nodewise_conv_clip");
  const size_t entry = graph.node_row_ptr[clip];
  EXPECT_THAT(graph.entries[entry].shape, ElementsAre(1, 5, 4, 8));
  EXPECT_EQ(ValueNameOf(graph, {clip, 0, 0}), "m.channels_last");
  EXPECT_THAT(graph.entries.back().shape, ElementsAre(1, 2, 5, 4));
}

// What the graph computes, and the kernels' report.
std::vector<float> RunTwoConvs(const std::vector<float>& limits,
                               std::vector<KernelChoice>* choices) {
  const NetBuilder b = TwoConvs();
  const auto library = BuiltInFunctions(AllOperators());
  const auto executor =
      ExecutorOf(Lower(b.net, "net", LoweringFor(AllOperators())).value(),
                 library)
          .value();
  EXPECT_THAT(executor->SetInput("x", *Steps({1, 3, 5, 4})), IsOk());
  EXPECT_THAT(executor->SetInput("least", *MakeTensor<float>({}, {limits[0]})),
              IsOk());
  EXPECT_THAT(executor->SetInput("most", *MakeTensor<float>({}, {limits[1]})),
              IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  *choices = library->choices();
  return ValuesOf(*executor->GetOutput(0));
}

std::vector<float> TwoConvsInterpreted(const std::vector<float>& limits) {
  NetBuilder b = TwoConvs();
  auto data = b.net.data();
  for (auto& value : data.values) {
    if (value->name == "least")
      value->data = MakeTensor<float>({}, {limits[0]});
    if (value->name == "most") value->data = MakeTensor<float>({}, {limits[1]});
  }
  const Network network = Network::FromData(std::move(data)).value();
  return ValuesOf(Interpret(network, {Steps({1, 3, 5, 4})}).value()[0]);
}

TEST(OneDnnKernelsTest, NoOperationMovesChannelsThatAreLastAnyway) {
  std::vector<KernelChoice> choices;
  EXPECT_EQ(RunTwoConvs({-2, 5}, &choices), TwoConvsInterpreted({-2, 5}));
  ASSERT_EQ(choices.size(), 2u);
  size_t operations = 0;
  for (const KernelChoice& choice : choices) {
    EXPECT_EQ(choice.kernel, "oneDNN");
    for (const OperationChoice& operation : choice.operations) {
      EXPECT_EQ(operation.kernel, "oneDNN") << operation.operation;
      ++operations;
    }
  }
  EXPECT_EQ(operations, 3u);
}

TEST(OneDnnKernelsTest, WhatOneDnnRefusesLateIsRightWithChannelsLast) {
  std::vector<KernelChoice> choices;
  EXPECT_EQ(RunTwoConvs({9, 5}, &choices), TwoConvsInterpreted({9, 5}));
  EXPECT_EQ(choices.at(0).operations.at(0).kernel, "reference");
  EXPECT_THAT(choices.at(0).operations.at(0).why_not, HasSubstr("wrong order"));
}

// The Transposes of a user's own network are computed.
TEST(OneDnnKernelsTest, ATransposeByItselfIsComputed) {
  NetBuilder b;
  const ValueId x = b.In("x", {1, 3, 5, 4});
  const std::vector<int64_t> perm = {0, 2, 3, 1};
  b.Out(b.Op("Transpose", {x}, {{"perm", AttrValue(perm)}}, {"y"}));
  const auto found =
      RunLowered(b.net, {Steps({1, 3, 5, 4})}, LoweringFor(AllOperators()),
                 BuiltInFunctions(AllOperators()));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(ValuesOf((*found)[0]),
            ValuesOf(Interpret(b.net, {Steps({1, 3, 5, 4})}).value()[0]));
}

// A large product, so that two threads share it.
Lowered Large() {
  NetBuilder b;
  const ValueId x = b.In("x", {512, 256});
  const std::vector<float> ones(256 * 256, 1);
  const ValueId w = b.Const("w", MakeTensor<float>({256, 256}, ones));
  b.Out(b.Op("MatMul", {x, w}, {}, {"y"}));
  return Lower(b.net, "net").value();
}

TEST(OneDnnKernelsTest, AForkedChildRunsOnAfterTwoThreadsRan) {
  SetNumThreads(2);
  const std::vector<float> ones(512 * 256, 1);
  const auto executor =
      ExecutorOf(Large(), BuiltInFunctions(AllOperators())).value();
  ASSERT_THAT(executor->SetInput(0, *MakeTensor<float>({512, 256}, ones)),
              IsOk());
  ASSERT_THAT(executor->Run(), IsOk());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // Ends a child that waits for threads that are not there.
    const bool ran = executor->Run().ok() && OneDnnThreads::Count() == 1 &&
                     ValuesOf(*executor->GetOutput(0))[0] == 256;
    _exit(ran ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(OneDnnThreads::Count(), 2);
  SetNumThreads(0);
}

}  // namespace
}  // namespace nodewise
