#include "nodewise/onednn/onednn.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "contrib/onednn/omp_team.h"
#include "nodewise/support/omp_waiting.h"
#include "tests/contrib/onednn/call_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using Ints = std::vector<int64_t>;

NDArray Counted(const Ints& shape, float step = 0.25F) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    tensor.As<float>()[i] = static_cast<float>(i % 23 - 11) * step;
  }
  return tensor;
}

class OneDnnTest : public testing::Test {
 private:
  // OpenMP's threads spin while they wait, for which they starve where others
  // compute too.
  const OneDnnThreads one_{1};
};

CallCase SomeConv() {
  return CaseOf({"Conv", 11, {{"pads", Ints{1, 1, 1, 1}}}},
                {Counted({1, 8, 6, 5}), Counted({16, 8, 3, 3}), Counted({16})});
}

TEST_F(OneDnnTest, ItsVersionIsKnown) {
  EXPECT_THAT(OneDnnVersion(), testing::MatchesRegex("[23]\\.[0-9]+\\.[0-9]+"));
}

TEST_F(OneDnnTest, WhatIsFusedIsComputed) {
  for (const bool is_last : {false, true}) {
    CallCase made = SomeConv();
    SetConstant(made, 1);
    SetConstant(made, 2);
    if (is_last) SetChannelsLast(made);
    Fuse(made, {"Add"}, Counted({1, 16, 6, 5}));
    Fuse(made, {"Mul"}, Counted({16, 1, 1}));
    Fuse(made, {"Relu"});
    // oneDNN 3 has only slow code for this in plain layout.
    if (!is_last && !OneDnnSupports(made.call).can) continue;
    EXPECT_EQ(FaultOf(made), "") << is_last;
  }
}

TEST_F(OneDnnTest, FusedActivationsAreThoseOfTheOperators) {
  for (const char* const name :
       {"Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "Gelu", "HardSwish",
        "HardSigmoid", "Swish", "Abs", "Neg"}) {
    CallCase made = SomeConv();
    Fuse(made, {name});
    EXPECT_EQ(FaultOf(made), "") << name;
  }
}

// oneDNN 2.6 mixes up the numbers of two activations of one kind.
TEST_F(OneDnnTest, ActivationsOfOneKindKeepTheirNumbers) {
  const std::vector<std::vector<OpSetup>> chains = {
      {{"Neg"}, {"HardSigmoid"}},
      {{"LeakyRelu", 16, {{"alpha", 0.5F}}},
       {"LeakyRelu", 16, {{"alpha", 0.1F}}}},
      {{"Elu", 22, {{"alpha", 0.5F}}}, {"Elu", 22, {{"alpha", 2.0F}}}},
      {{"Relu"}, {"LeakyRelu", 16, {{"alpha", 0.5F}}}},
      {{"LeakyRelu", 16, {{"alpha", 0.5F}}}, {"Relu"}}};
  std::vector<CallCase> heads = {
      CaseOf({"MatMul"}, {Counted({2, 3, 5}), Counted({5, 7})}), SomeConv()};
  SetChannelsLast(heads[1]);
  for (const CallCase& head : heads) {
    for (const auto& chain : chains) {
      CallCase made = head;
      for (const OpSetup& op : chain) Fuse(made, op);
      if (!OneDnnSupports(made.call).can) continue;
      EXPECT_EQ(FaultOf(made), "")
          << head.call.op.def().name << ", " << chain[0].name;
    }
  }
}

// oneDNN 2.6 takes the first channel for all if all sides behind it are 1.
TEST_F(OneDnnTest, ABinaryOperatorBehindAnotherTakesEachChannel) {
  for (const Ints& shape :
       {Ints{2, 3, 1, 1}, Ints{5, 2, 1}, Ints{2, 3, 4, 1}, Ints{2, 3}}) {
    Ints channels(shape.size(), 1);
    channels[1] = shape[1];
    CallCase made = CaseOf({"Mul"}, {Counted(shape), Counted(channels)});
    Fuse(made, {"Add"}, Counted(channels, 4));
    EXPECT_EQ(FaultOf(made), "") << shape.size();
  }
}

TEST_F(OneDnnTest, AnOperandOfTheOutputsSizeIsNotFusedBehindAPlainPool) {
  const OpSetup pool = {"MaxPool", 12, {{"kernel_shape", Ints{2, 2}}}};
  CallCase made = CaseOf(pool, {Counted({1, 4, 6, 6})});
  Fuse(made, {"Add"}, Counted({1, 4, 5, 5}));
  EXPECT_FALSE(OneDnnSupports(made.call).can);
  CallCase broadcast = CaseOf(pool, {Counted({1, 4, 6, 6})});
  Fuse(broadcast, {"Add"}, Counted({4, 1, 1}));
  EXPECT_EQ(FaultOf(broadcast), "");
}

TEST_F(OneDnnTest, APoolHasFastCodeIfItsTensorsLieDifferently) {
  CallCase made = CaseOf({"MaxPool", 12, {{"kernel_shape", Ints{2, 2}}}},
                         {Counted({1, 16, 6, 6})});
  for (const bool is_output : {false, true}) {
    SetChannelsLast(made);
    (is_output ? made.call.inputs[0].layout : made.call.output_layout) =
        TensorLayout::kPlain;
    EXPECT_EQ(FaultOf(made), "") << is_output;
    // Only what oneDNN has for AVX-512 moves elements while it pools.
    if (__builtin_cpu_supports("avx512f") == 0) continue;
    EXPECT_THAT(OneDnnSupports(made.call).penalties, testing::IsEmpty());
  }
}

// As numbers beyond those of float16 must be to what is fused behind them.
TEST_F(OneDnnTest, WhatFloat16DoesNotHaveMayBeInfinite) {
  CallCase product = CaseOf({"MatMul"}, {MakeTensor<float>({2, 1}, {300, 5}),
                                         MakeTensor<float>({1, 1}, {300})});
  CallCase sum = CaseOf({"Add"}, {MakeTensor<float>({2, 1}, {60000, 1000}),
                                  MakeTensor<float>({2, 1}, {30000, 500})});
  for (CallCase& made : {std::ref(product), std::ref(sum)}) {
    made.call.overflows_as_float16 = true;
    Fuse(made, {"Mul"}, MakeTensor<float>({2, 1}, {0.125F, 1}));
    Fuse(made, {"Sub"}, MakeTensor<float>({2, 1}, {1, 1}));
    const auto kernel = MakeOneDnnKernel(made.call);
    ASSERT_THAT(kernel, IsOk());
    const auto found = RunKernel(**kernel, made);
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(ValuesOf(*found), testing::ElementsAre(HUGE_VALF, 1499));
  }
}

// Behind every operator that the page says something can be fused behind.
TEST_F(OneDnnTest, OthersFuseToo) {
  const NDArray image = Counted({1, 4, 6, 6});
  const NDArray list = Counted({4});
  const OpSetup pool = {"MaxPool", 12, {{"kernel_shape", Ints{2, 2}}}};
  const OpSetup mean = {"AveragePool", 11, {{"kernel_shape", Ints{2, 2}}}};
  std::vector<CallCase> cases = {
      CaseOf({"MatMul"}, {Counted({2, 3, 5}), Counted({5, 7})}),
      CaseOf({"MatMul"}, {Counted({2, 3, 5}), Counted({2, 5, 7})}),
      CaseOf({"Gemm"}, {Counted({3, 5}), Counted({5, 7}), Counted({7})}),
      CaseOf({"ConvTranspose"}, {image, Counted({4, 8, 2, 2})}),
      CaseOf(pool, {image}),
      CaseOf(mean, {image}),
      CaseOf({"GlobalAveragePool"}, {image}),
      CaseOf({"Add"}, {image, Counted({6, 1})}),
      CaseOf({"Tanh"}, {image}),
      CaseOf({"Upsample", 9}, {image, Floats({1, 1, 2, 2})}),
      CaseOf({"BatchNormalization"},
             {image, list, list, list, Floats({1, 2, 3, 4})})};
  SetConstant(cases[9], 1);
  // Behind a convolution of plain tensors only in slow code.
  SetConstant(cases[3], 1);
  SetChannelsLast(cases[3]);
  // Behind a pool of plain tensors oneDNN 3.2 computes wrong numbers.
  for (const size_t i : {4, 5, 6}) SetChannelsLast(cases[i]);
  for (CallCase& made : cases) {
    if (std::string_view("BatchNormalization") != made.call.op.def().name) {
      Fuse(made, {"Add"}, Counted(*made.call.output.sizes()));
    }
    Fuse(made, {"Relu"});
    EXPECT_EQ(FaultOf(made), "") << made.call.op.def().name;
  }
}

// Fuses a batch normalization of so many channels, with constant lists.
void FuseBatchNorm(CallCase& made, int64_t channels) {
  Fuse(made, {"BatchNormalization", 15});
  NDArray variance = Counted({channels});
  for (int64_t c = 0; c < channels; ++c) {
    variance.As<float>()[c] = 0.5F + static_cast<float>(c);
  }
  for (const NDArray& list : {Counted({channels}, 0.5F), Counted({channels}),
                              Counted({channels}, 0.125F), variance}) {
    OneDnnInput& input = made.call.post_ops.back().others.emplace_back();
    input.type = TensorType::From(*list);
    input.constant = list;
    made.inputs.push_back(list);
  }
}

// A convolution without or with a bias, with constant weights.
CallCase ConvOf(const char* name, int64_t group, const Ints& weights,
                int64_t channels, bool has_bias) {
  std::vector<NDArray> inputs = {Counted({2, 8, 6, 5}), Counted(weights)};
  if (has_bias) inputs.push_back(Counted({channels}));
  CallCase made = CaseOf({name, 11, {{"group", group}}}, std::move(inputs));
  SetConstant(made, 1);
  SetConstant(made, 2);
  return made;
}

TEST_F(OneDnnTest, ABatchNormalizationBehindAConvolutionIsInItsWeights) {
  for (const bool has_bias : {false, true}) {
    for (const bool is_last : {false, true}) {
      std::vector<std::pair<CallCase, int64_t>> cases;
      cases.emplace_back(ConvOf("Conv", 1, {16, 8, 3, 3}, 16, has_bias), 16);
      cases.emplace_back(ConvOf("Conv", 2, {16, 4, 3, 3}, 16, has_bias), 16);
      cases.emplace_back(ConvOf("Conv", 8, {8, 1, 1, 1}, 8, has_bias), 8);
      cases.emplace_back(
          ConvOf("ConvTranspose", 1, {8, 12, 2, 2}, 12, has_bias), 12);
      cases.emplace_back(ConvOf("ConvTranspose", 2, {8, 6, 2, 2}, 12, has_bias),
                         12);
      for (auto& [made, channels] : cases) {
        if (is_last) SetChannelsLast(made);
        FuseBatchNorm(made, channels);
        Fuse(made, {"Relu"});
        EXPECT_EQ(FaultOf(made), "")
            << made.call.op.def().name << " " << has_bias << is_last;
      }
    }
  }
}

TEST_F(OneDnnTest, ABatchNormalizationWhoseNumbersAreNotFiniteIsRefused) {
  CallCase made = ConvOf("Conv", 1, {16, 8, 3, 3}, 16, false);
  FuseBatchNorm(made, 16);
  made.call.post_ops[0].others[3].constant = Counted({16}, -4);
  EXPECT_THAT(
      MakeOneDnnKernel(made.call),
      FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("not finite")));
}

TEST_F(OneDnnTest, ABatchNormalizationOfWeightsThatChangeIsRefused) {
  CallCase made = ConvOf("Conv", 1, {16, 8, 3, 3}, 16, false);
  FuseBatchNorm(made, 16);
  made.call.inputs[1].constant = NDArray();
  EXPECT_EQ(OneDnnSupports(made.call).why_not, "input 1 (W): is not constant");
}

// A limit that is not given is not the next operation's input.
TEST_F(OneDnnTest, FusedLimitsAreTheirOwnOperations) {
  CallCase made = SomeConv();
  SetConstant(made, 1);
  SetConstant(made, 2);
  SetChannelsLast(made);
  Fuse(made, {"Clip"}, MakeTensor<float>({}, {-0.5F}));
  OneDnnInput& limit = made.call.post_ops[0].others[0];
  limit.constant = made.inputs.back();
  Fuse(made, {"Add"}, MakeTensor<float>({}, {2}));
  EXPECT_EQ(FaultOf(made), "");
}

TEST_F(OneDnnTest, ActivationsThatAreNotAccurateEverywhereAreNotFused) {
  CallCase made = SomeConv();
  Fuse(made, {"Exp"});
  EXPECT_EQ(OneDnnSupports(made.call).why_not,
            "Exp cannot be fused: it is not accurate for all numbers");
}

TEST_F(OneDnnTest, WeightsMayChangeBetweenRuns) {
  CallCase made = SomeConv();
  const auto kernel = MakeOneDnnKernel(made.call);
  ASSERT_THAT(kernel, IsOk());
  for (const float step : {0.5F, 0.125F}) {
    made.inputs[1] = Counted({16, 8, 3, 3}, step);
    EXPECT_EQ(Fault(*JudgeOf(made), *RunKernel(**kernel, made)), "") << step;
  }
}

TEST_F(OneDnnTest, ANanBehindAReluIsFoundAndCounted) {
  CallCase made = SomeConv();
  Fuse(made, {"Relu"});
  const auto kernel = MakeOneDnnKernel(made.call);
  ASSERT_THAT(kernel, IsOk());
  ASSERT_THAT(RunKernel(**kernel, made), IsOk());
  EXPECT_EQ((*kernel)->num_evaluated(), 0);
  made.inputs[0].As<float>()[17] = NAN;
  const auto found = RunKernel(**kernel, made);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(Fault(*JudgeOf(made), *found), "");
  EXPECT_TRUE(std::isnan(ToDoubles(*found)[17]));
  EXPECT_EQ((*kernel)->num_evaluated(), 1);
}

// Infinity less infinity, which a ReLU would make 0.
TEST_F(OneDnnTest, SumsThatOverflowAreEvaluated) {
  CallCase made =
      CaseOf({"Conv"}, {Counted({1, 2, 4, 4}, 0), Counted({8, 2, 1, 1}, 0)});
  std::fill_n(made.inputs[0].As<float>(), 32, 3e38F);
  made.inputs[1].As<float>()[0] = 9;
  made.inputs[1].As<float>()[1] = -8;
  Fuse(made, {"Relu"});
  const auto kernel = MakeOneDnnKernel(made.call);
  ASSERT_THAT(kernel, IsOk());
  EXPECT_EQ(ValuesOf(*RunKernel(**kernel, made))[0], 3e38F);
  EXPECT_EQ((*kernel)->num_evaluated(), 1);
}

TEST_F(OneDnnTest, TypesWithoutKernelsAreRefused) {
  OneDnnCall call = SomeConv().call;
  for (OneDnnInput& input : call.inputs) input.type.dtype = kFloat16;
  call.output.dtype = kFloat16;
  EXPECT_EQ(OneDnnSupports(call).why_not,
            "input 0 (X): is of type float16, for which oneDNN has kernels "
            "from AVX-512 on only (convert to float32 before and back behind)");
}

TEST_F(OneDnnTest, UnknownSizesAndEmptyTensorsAreRefused) {
  OneDnnCall call = SomeConv().call;
  call.inputs[0].type = *ParseTensorType("float32[n, 8, 6, 5]");
  EXPECT_EQ(OneDnnSupports(call).why_not,
            "input 0: is float32[n, 8, 6, 5], whose sizes are not all known");
  call.inputs[0].type = *ParseTensorType("float32[0, 8, 6, 5]");
  EXPECT_EQ(OneDnnSupports(call).why_not, "input 0: has no elements");
}

// A call of tensors that no memory holds; nothing is computed. None if the
// operator itself refuses such sizes.
std::optional<OneDnnCall> CallOfSizes(const OpSetup& operation,
                                      const std::vector<Ints>& shapes) {
  OneDnnCall call;
  auto made = operation.Make();
  if (!made.ok()) return std::nullopt;
  call.op = *std::move(made);
  std::vector<InputInfo> infos;
  for (const Ints& shape : shapes) {
    OneDnnInput& input = call.inputs.emplace_back();
    input.type = TensorType(kFloat32, Shape(shape.begin(), shape.end()));
    infos.push_back({true, input.type, nullptr, nullptr});
  }
  const OpAttrs& op = call.op;
  const auto outputs = op.def().infer(op.get(), Inputs(infos), 1);
  if (!outputs.ok()) return std::nullopt;
  call.output = (*outputs)[0].type;
  return call;
}

TEST_F(OneDnnTest, WhatIsCountedWithMoreThan32BitsIsRefusedByEveryRow) {
  for (const int64_t huge :
       {int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 40}) {
    const std::vector<std::optional<OneDnnCall>> calls = {
        CallOfSizes({"Conv", 11}, {{1, 1, huge, 1}, {1, 1, 1, 1}}),
        CallOfSizes({"Conv", 11}, {{1, huge, 1, 1}, {1, huge, 1, 1}}),
        CallOfSizes({"ConvTranspose", 11}, {{1, 1, huge, 1}, {1, 1, 1, 1}}),
        CallOfSizes({"MaxPool", 12, {{"kernel_shape", Ints{1}}}},
                    {{1, 1, huge}}),
        CallOfSizes({"AveragePool", 11, {{"kernel_shape", Ints{1}}}},
                    {{1, 1, huge}}),
        CallOfSizes({"GlobalAveragePool", 1}, {{1, 1, huge}}),
        CallOfSizes({"MatMul", 13}, {{huge, 1}, {1, 1}}),
        CallOfSizes({"MatMul", 13}, {{1, huge}, {huge, 1}}),
        CallOfSizes({"Softmax", 13}, {{1, huge}}),
        CallOfSizes({"Relu", 14}, {{huge}}),
        CallOfSizes({"Add", 14}, {{huge}, {1}}),
        CallOfSizes({"Transpose", 13}, {{huge, 1}}),
        CallOfSizes({"ReduceSum", 11, {{"axes", Ints{0}}}}, {{huge, 1}}),
        CallOfSizes({"LRN", 13, {{"size", int64_t{3}}}}, {{1, huge, 1, 1}})};
    size_t reached = 0;
    for (const std::optional<OneDnnCall>& call : calls) {
      if (!call.has_value()) continue;
      ++reached;
      const Support support = OneDnnSupports(*call);
      EXPECT_FALSE(support.can) << call->op.def().name << " " << huge;
      EXPECT_THAT(support.why_not, HasSubstr("elements at most"));
    }
    EXPECT_GT(reached, 5u);
  }
}

TEST_F(OneDnnTest, WindowsThatAreCountedWithMoreThan32BitsAreRefused) {
  const int64_t huge = int64_t{1} << 31;
  const std::vector<std::optional<OneDnnCall>> calls = {
      CallOfSizes({"Conv", 11, {{"strides", Ints{huge}}}},
                  {{1, 1, 1}, {1, 1, 1}}),
      CallOfSizes({"Conv", 11, {{"dilations", Ints{huge}}}},
                  {{1, 1, 1}, {1, 1, 1}}),
      CallOfSizes({"ConvTranspose",
                   11,
                   {{"strides", Ints{huge}}, {"pads", Ints{0, huge}}}},
                  {{1, 1, 2}, {1, 1, 1}}),
      CallOfSizes(
          {"MaxPool", 12, {{"kernel_shape", Ints{1}}, {"strides", Ints{huge}}}},
          {{1, 1, 1}}),
      CallOfSizes({"LRN", 13, {{"size", huge + 1}}}, {{1, 1, 1, 1}})};
  size_t reached = 0;
  for (const std::optional<OneDnnCall>& call : calls) {
    if (!call.has_value()) continue;
    ++reached;
    EXPECT_FALSE(OneDnnSupports(*call).can) << call->op.def().name;
  }
  EXPECT_GT(reached, 2u);
}

TEST_F(OneDnnTest, CallsThatTheOperatorRefusesAreRefused) {
  OneDnnCall call = SomeConv().call;
  call.output.shape = {1, 16, 6, 4};
  EXPECT_EQ(OneDnnSupports(call).why_not,
            "the output is float32[1, 16, 6, 4], expected float32[1, 16, 6, "
            "5]");
  call.inputs.resize(1);
  EXPECT_EQ(OneDnnSupports(call).why_not, "input 1 (W) is not given");
}

TEST_F(OneDnnTest, OperatorsWithoutARowAreRefused) {
  const CallCase made = CaseOf({"Det"}, {Counted({3, 3})});
  EXPECT_EQ(OneDnnSupports(made.call).why_not, "oneDNN has no such operator");
  EXPECT_THAT(MakeOneDnnKernel(made.call),
              FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("Det: ")));
}

TEST_F(OneDnnTest, TensorsOfAnotherSizeAreAnError) {
  CallCase made = SomeConv();
  const auto kernel = MakeOneDnnKernel(made.call);
  ASSERT_THAT(kernel, IsOk());
  made.inputs[0] = Counted({1, 8, 6, 4});
  EXPECT_THAT(RunKernel(**kernel, made),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("Conv: input 0 has 768 bytes, expected "
                                  "960")));
}

CallCase SomeConvInteger(int8_t weight) {
  NDArray x = NDArray::Empty({1, 4, 5, 5}, kUint8, kCpu).value();
  NDArray w = NDArray::Empty({8, 4, 3, 3}, kInt8, kCpu).value();
  std::memset(x.data(), 255, x.bytes());
  std::memset(w.data(), weight, w.bytes());
  CallCase made = CaseOf({"ConvInteger"}, {x, w});
  SetConstant(made, 1);
  return made;
}

TEST_F(OneDnnTest, WeightsThatSaturateAreRefusedOrRight) {
  EXPECT_EQ(FaultOf(SomeConvInteger(64)), "");
  const CallCase made = SomeConvInteger(127);
  const Support support = OneDnnSupports(made.call);
  if (support.can) {  // With VNNI.
    EXPECT_EQ(FaultOf(made), "");
    return;
  }
  EXPECT_EQ(support.why_not,
            "input 1 (w): has a weight of 127, expected -64 to 64: without "
            "VNNI sums would saturate silently");
}

TEST_F(OneDnnTest, WeightsMustBeConstant) {
  CallCase made = SomeConvInteger(3);
  made.call.inputs[1].constant = NDArray();
  EXPECT_EQ(OneDnnSupports(made.call).why_not, "input 1 (w): is not constant");
}

// oneDNN 2.6 makes something else of these.
TEST_F(OneDnnTest, ZeroPointsOfPaddedVolumesAreRefused) {
  NDArray x = NDArray::Empty({1, 2, 2, 5, 4}, kUint8, kCpu).value();
  NDArray w = NDArray::Empty({1, 2, 2, 3, 4}, kInt8, kCpu).value();
  std::memset(x.data(), 0, x.bytes());
  std::memset(w.data(), 2, w.bytes());
  const auto of = [&](uint8_t zero, std::vector<int64_t> pads) {
    CallCase made =
        CaseOf({"ConvInteger",
                10,
                {{"pads", pads}, {"strides", std::vector<int64_t>{3, 2, 2}}}},
               {x, w, MakeTensor<uint8_t>({}, {zero})});
    SetConstant(made, 1);
    SetConstant(made, 2);
    return made;
  };
  EXPECT_EQ(OneDnnSupports(of(3, {0, 1, 1, 0, 1, 1}).call).why_not,
            "has a zero point and padding of three spatial sides");
  EXPECT_EQ(FaultOf(of(3, {0, 0, 0, 0, 0, 0})), "");
  EXPECT_EQ(FaultOf(of(0, {0, 1, 1, 0, 1, 1})), "");
}

TEST_F(OneDnnTest, ZeroPointsOfWeightsAreRefused) {
  CallCase made =
      CaseOf({"ConvInteger"},
             {SomeConvInteger(3).inputs[0], SomeConvInteger(3).inputs[1],
              NDArray(), MakeTensor<int8_t>({}, {5})});
  SetConstant(made, 1);
  SetConstant(made, 3);
  EXPECT_EQ(OneDnnSupports(made.call).why_not,
            "input 3 (w_zero_point): is 5, but oneDNN has no zero points of "
            "weights (quantize them symmetrically)");
}

TEST(OneDnnThreadsTest, AForkedChildRunsWithOneThread) {
  const CallCase made = SomeConv();
  {
    const OneDnnThreads two(2);
    ASSERT_EQ(FaultOf(made), "");
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    const OneDnnThreads one(1);
    _exit(FaultOf(made).empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(OneDnnThreadsTest, TheCountHoldsWhileItLives) {
  const int before = OneDnnThreads::Count();
  {
    const OneDnnThreads three(3);
    EXPECT_EQ(OneDnnThreads::Count(), 3);
    const OneDnnThreads one(1);
    EXPECT_EQ(OneDnnThreads::Count(), 1);
  }
  EXPECT_EQ(OneDnnThreads::Count(), before);
}

constexpr int kRegions = 20;

// How much CPU time the second thread of a team takes for regions with nothing
// to do and long pauses between them. Other programs do not change it.
std::chrono::microseconds TimeOfIdleThread() {
  clockid_t clock{};
  const auto used = [&] {
    timespec time{};
    clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) +
           std::chrono::nanoseconds(time.tv_nsec);
  };
  onednn::OnOmpTeam(2, [&](int index, int) {
    if (index == 1) pthread_getcpuclockid(pthread_self(), &clock);
  });
  const auto before = used();
  for (int i = 0; i < kRegions; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    onednn::OnOmpTeam(2, [](int, int) {});
  }
  return std::chrono::duration_cast<std::chrono::microseconds>(used() - before);
}

// Whether this test passes in a process of its own with NAME=VALUE.
bool PassesWith(const char* name, const char* value, const char* test) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(name, value, 1);
    setenv("NODEWISE_TEST_AGAIN", name, 1);
    const std::string filter = std::string("--gtest_filter=") + test;
    execl("/proc/self/exe", "tests", filter.c_str(), nullptr);
    _exit(127);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

bool IsAgain() { return std::getenv("NODEWISE_TEST_AGAIN") != nullptr; }

bool IsSetAlready() {
  return std::getenv("OMP_WAIT_POLICY") != nullptr ||
         std::getenv("GOMP_SPINCOUNT") != nullptr ||
         std::getenv("OMP_NUM_THREADS") != nullptr;
}

TEST(OmpWaitingTest, ThreadsWithNothingToDoSleep) {
  if (IsSetAlready() && !IsAgain()) GTEST_SKIP() << "the environment says how";
  const onednn::OmpThreads two(2);
  if (IsAgain()) onednn::ReduceOmpPolling(true);
  // Polling as long as libgomp does by default takes more than 1 ms.
  EXPECT_LT(TimeOfIdleThread(), kRegions * std::chrono::microseconds(500));
}

TEST(OmpWaitingTest, LibgompIsToldBeforeItLooks) {
  if (IsSetAlready()) GTEST_SKIP() << "the environment says how";
  EXPECT_TRUE(OmpWaitsBriefly());
}

TEST(OmpWaitingTest, TheEnvironmentOfTheProcessStaysAsItWas) {
  if (IsSetAlready()) GTEST_SKIP() << "the environment says how";
  EXPECT_EQ(std::getenv("GOMP_SPINCOUNT"), nullptr);
}

TEST(OmpWaitingTest, ThreadsSleepWhereLibgompCannotBeTold) {
  if (IsSetAlready()) GTEST_SKIP() << "the environment says how";
  // A single thread hides whether libgomp has looked.
  EXPECT_TRUE(PassesWith("OMP_NUM_THREADS", "1",
                         "OmpWaitingTest.ThreadsWithNothingToDoSleep"));
}

TEST(OmpWaitingTest, ThreadsPollAgainOnceTheMachineIsQuiet) {
  if (IsAgain()) {
    const onednn::OmpThreads two(2);
    for (const bool is_calm : {true, false, true, false}) {
      onednn::ReduceOmpPolling(is_calm);
    }
    EXPECT_GT(TimeOfIdleThread(), kRegions * std::chrono::microseconds(500));
    return;
  }
  if (IsSetAlready()) GTEST_SKIP() << "the environment says how";
  EXPECT_TRUE(
      PassesWith("OMP_NUM_THREADS", "1",
                 "OmpWaitingTest.ThreadsPollAgainOnceTheMachineIsQuiet"));
}

TEST(OmpWaitingTest, AFirstLookKnowsOfNoWaiting) {
  bool is_kept_waiting = true;
  std::thread([&] { is_kept_waiting = onednn::IsStarvedOfCpu(); }).join();
  EXPECT_FALSE(is_kept_waiting);
}

TEST(OmpWaitingTest, AThreadBesideTooManyIsKeptWaiting) {
  std::atomic<bool> is_over = false;
  std::vector<std::thread> others;
  for (unsigned i = 0; i < 3 * std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!is_over) continue;
    });
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(9);
  bool is_kept_waiting = false;
  while (!is_kept_waiting && std::chrono::steady_clock::now() < limit) {
    is_kept_waiting = onednn::IsStarvedOfCpu();
  }
  is_over = true;
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(is_kept_waiting);
}

TEST(OmpWaitingTest, LibgompIsToldWithANumberOfThreads) {
  if (IsAgain()) {
    EXPECT_TRUE(OmpWaitsBriefly());
    return;
  }
  if (IsSetAlready()) GTEST_SKIP() << "the environment says how";
  EXPECT_TRUE(PassesWith("OMP_NUM_THREADS", "2",
                         "OmpWaitingTest.LibgompIsToldWithANumberOfThreads"));
}

TEST(OmpWaitingTest, WhatTheEnvironmentSaysWins) {
  if (IsAgain()) {
    EXPECT_FALSE(OmpWaitsBriefly());
    const onednn::OmpThreads two(2);
    EXPECT_GT(TimeOfIdleThread(), kRegions * std::chrono::milliseconds(1));
    return;
  }
  EXPECT_TRUE(PassesWith("GOMP_SPINCOUNT", "10000000",
                         "OmpWaitingTest.WhatTheEnvironmentSaysWins"));
}

}  // namespace
}  // namespace nodewise
