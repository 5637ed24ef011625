#include "nodewise/locate/known_deviation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/interp/network_bounds.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/runner/network_runner.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Kind = KnownDeviation::Kind;

KnownDeviation Approximation(const std::string& operation, double times) {
  return {Kind::kApproximation, operation, "float32", "", times};
}

TEST(KnownDeviationTest, ATableThatIsWrittenIsReadAgain) {
  const KnownRuntime known{
      "net 1.0, cpu",
      "avx2",
      {Approximation("Sigmoid", 4.25),
       {Kind::kShortType, "MatMul", "float32", "float16 or TF32", 900},
       {Kind::kStep, "QuantizeLinear", "uint8"},
       {Kind::kSaturation, "QLinearConv", "uint8"}}};
  const auto read = ParseKnownRuntimes(TextOf(known), "known.txt");
  ASSERT_THAT(read, IsOk());
  ASSERT_THAT(*read, SizeIs(1));
  EXPECT_EQ(TextOf((*read)[0]), TextOf(known));
  EXPECT_EQ((*read)[0].rows[1].type, "float16 or TF32");
  EXPECT_EQ((*read)[0].rows[0].times, 4.25);
}

TEST(KnownDeviationTest, ALineThatIsNotARowIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"Tanh float32 step\n", "known.txt:1: found \"Tanh float32 step\""},
      {"[net 1.0]\n", "known.txt:1: "},
      {"[net | avx2]\nTanh float32 near 2\n", "known.txt:2: found \"near\""},
      {"[net | avx2]\n\nTanh float32 approximation\n", "known.txt:3: "},
      {"[net | avx2]\nTanh float32 approximation nan\n", "1 or more"},
      {"[net | avx2]\nTanh float32 approximation 0.5\n", "1 or more"},
      {"[net | avx2]\nTanh float32 approximation 2 3\n", "found \"3\""},
      {"[net | avx2]\nTanh float32 shorter\n", "the shorter type"},
      {"[net | avx2]\nTanh\n", "OPERATOR TYPE CLASS"},
  };
  for (const auto& [text, words] : cases) {
    const auto read = ParseKnownRuntimes(text, "known.txt");
    EXPECT_THAT(
        read, FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  }
}

TEST(KnownDeviationTest, RowsAreThoseOfTheVersionOnThisProcessor) {
  const std::string here(InstructionSet());
  const std::vector<KnownRuntime> known = {
      {"net 1.3", here, {Approximation("Tanh", 2)}},
      {"net 1.3", "another", {Approximation("Erf", 2)}},
      {"net 1.3, cpu", here, {Approximation("Exp", 2)}}};
  EXPECT_THAT(RowsOf(known, "net 1.3, cpu"), SizeIs(2));
  EXPECT_THAT(RowsOf(known, "net 1.3, gpu"), SizeIs(1));
  EXPECT_THAT(RowsOf(known, "net 1.30, cpu"), IsEmpty());
  EXPECT_THAT(RowsOf(known, "net"), IsEmpty());
}

TEST(KnownDeviationTest, RowsOfAnyRuntimeAreForThoseThatHaveNone) {
  const std::vector<KnownRuntime> known = {
      {"net 1.3", std::string(InstructionSet()), {Approximation("Tanh", 2)}},
      {"any", "any", {Approximation("Conv", 10)}}};
  const auto own = RowsOf(known, "net 1.3, cpu");
  ASSERT_THAT(own, SizeIs(1));
  EXPECT_EQ(own[0].operation, "Tanh");
  EXPECT_FALSE(own[0].is_of_any);
  const auto of_any = RowsOf(known, "net 1.4");
  ASSERT_THAT(of_any, SizeIs(1));
  EXPECT_EQ(of_any[0].operation, "Conv");
  EXPECT_EQ(KnownOf(of_any[0], "net 1.4, cpu"), "many runtimes");
}

TEST(KnownDeviationTest, AnErrorIsKnownUpToTwiceTheRow) {
  const std::vector<KnownDeviation> rows = {Approximation("Tanh", 3)};
  EXPECT_TRUE(FindKnown(rows, "Tanh", "float32", 5.9, {})->is_within());
  EXPECT_FALSE(FindKnown(rows, "Tanh", "float32", 6, {})->is_within());
  EXPECT_FALSE(FindKnown(rows, "Tanh", "float64", 1, {}).has_value());
  EXPECT_FALSE(FindKnown(rows, "Erf", "float32", 1, {}).has_value());
}

TEST(KnownDeviationTest, AShorterTypeExplainsOnlyWhatIsRoundedToIt) {
  const std::vector<KnownDeviation> rows = {
      {Kind::kShortType, "MatMul", "float32", "bfloat16", 900}};
  const Cause rounded{Cause::Kind::kPrecision, "inputs are rounded",
                      "bfloat16"};
  const Cause other{Cause::Kind::kPrecision, "inputs are rounded", "float32"};
  const auto use = [&](double error, std::optional<Cause> cause) {
    return FindKnown(rows, "MatMul", "float32", error, cause)->is_within();
  };
  EXPECT_TRUE(use(1000, rounded));
  EXPECT_FALSE(use(1800, rounded));
  EXPECT_FALSE(use(1000, other));
  EXPECT_FALSE(use(1, std::nullopt));
}

// A runtime that adds something to an element of its only result.
class OffRuntime : public Runner {
 public:
  OffRuntime(const std::shared_ptr<const Network>& network, size_t element,
             double error)
      : plain_(MakeNetworkRunner("off", "net", network)),
        element_(element),
        error_(error) {}

  const std::string& name() const override { return plain_->name(); }
  const InputList& inputs() const override { return plain_->inputs(); }
  const std::vector<std::string>& outputs() const override {
    return plain_->outputs();
  }
  bool Can(Capability capability) const override {
    return plain_->Can(capability);
  }

 protected:
  absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                       const RunOptions& options) override {
    const std::vector<NamedTensor> inputs = {{"x", tensors[0]}};
    RunOptions inner = options;
    NODEWISE_ASSIGN_OR_RETURN(const RunResult right, plain_->Run(inputs));
    if (options.patches.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(NDArray off,
                                right.outputs[0].tensor.CopyToHost());
      static_cast<float*>(off.data())[element_] += static_cast<float>(error_);
      inner.patches.push_back({"y", off, "the fault", "y"});
    }
    NODEWISE_ASSIGN_OR_RETURN(RunResult result, plain_->Run(inputs, inner));
    result.runtime = "off 1.0, cpu";
    return result;
  }

 private:
  const std::unique_ptr<Runner> plain_;
  const size_t element_;
  const double error_;
};

struct Planted {
  std::shared_ptr<const Network> network;
  NDArray input;
  size_t element = 0;
  double unit = 0;  // What a row's multiples are of at that element.
};

Planted PlantIn(const std::string& operation, std::mt19937& random) {
  constexpr size_t kElements = 16;
  NetBuilder b;
  const ValueId x = b.In("x", {kElements});
  b.Out({b.Op(operation, {x}, {}, {"y"}, "y")[0]});
  std::vector<float> values(kElements);
  std::normal_distribution<float> normal(0, 3);
  for (float& value : values) {
    value = normal(random);
    if (operation == "Log" || operation == "Sqrt") value = std::fabs(value);
  }
  Planted made{std::make_shared<const Network>(b.net), Floats(values)};
  made.element = random() % kElements;
  const auto run = RunWithLazyBounds(*made.network, {made.input});
  EXPECT_THAT(run, IsOk());
  const auto bounds = (*run)->bounds(0).All();
  EXPECT_THAT(bounds, IsOk());
  made.unit = std::max(bounds->proved[made.element], 0x1p-24);
  return made;
}

absl::StatusOr<LocateResult> LocateIn(const Planted& planted, double times,
                                      double error) {
  const std::string operation(
      planted.network->operation(planted.network->order()[0]).def().name);
  LocateOptions options;
  options.repeats = 0;
  options.known = [&](const std::string&) {
    return std::vector<KnownDeviation>{Approximation(operation, times)};
  };
  const NetworkLocateRequest request{*planted.network,
                                     AllOperators(),
                                     [&](const std::vector<std::string>&) {
                                       return std::make_unique<OffRuntime>(
                                           planted.network, planted.element,
                                           error);
                                     },
                                     {},
                                     {{"x", planted.input}}};
  NODEWISE_ASSIGN_OR_RETURN(NetworkLocated found,
                            LocateInNetwork(request, options));
  return std::move(found.result);
}

// A fault in an operation that has a row is named from twice the row's bound
// on.
TEST(KnownDeviationTest, TwoHundredFaultsBeyondTheirRowsAreAllNamed) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const char* const kinds[] = {"Sigmoid",  "Tanh", "Erf",     "Exp",
                               "Softplus", "Sqrt", "Softmax", "Log"};
  std::uniform_real_distribution<double> row(1, 20);
  std::uniform_real_distribution<double> power(0.4, 4);
  for (int i = 0; i < 200; ++i) {
    const Planted planted = PlantIn(kinds[i % std::size(kinds)], random);
    const double times = row(random);
    // A little more than twice: the sum is rounded to float32.
    const double error = std::pow(10, power(random)) * times * planted.unit;
    const auto found = LocateIn(planted, times, error);
    ASSERT_THAT(found.status(), IsOk())
        << "fault " << i << " of seed " << kSeed;
    const NodeReport& node = found->nodes[0];
    EXPECT_TRUE(node.known.has_value() && !node.known->is_within())
        << "fault " << i << " of seed " << kSeed;
    EXPECT_TRUE(IsCulpritVerdict(node.verdict) ||
                node.verdict == NodeVerdict::kDeviates)
        << "fault " << i << " of seed " << kSeed;
  }
}

TEST(KnownDeviationTest, WhatARowExplainsIsNotACulpritWhileOutputsAgree) {
  std::mt19937 random(1);
  const Planted planted = PlantIn("Sigmoid", random);
  const auto found = LocateIn(planted, 40, 30 * planted.unit);
  ASSERT_THAT(found.status(), IsOk());
  EXPECT_THAT(found->culprits, IsEmpty());
  EXPECT_EQ(found->nodes[0].verdict, NodeVerdict::kDeviates);
  EXPECT_EQ(found->runtime, "off 1.0, cpu");
}

TEST(KnownDeviationTest, ARowExcusesNothingWhereAnOutputIsWrong) {
  std::mt19937 random(1);
  const Planted planted = PlantIn("Sigmoid", random);
  const auto found = LocateIn(planted, 1e6, 1e6 * planted.unit);
  ASSERT_THAT(found.status(), IsOk());
  ASSERT_THAT(found->culprits, SizeIs(1));
  EXPECT_TRUE(found->nodes[0].known->is_within());
}

}  // namespace
}  // namespace nodewise
