#include "nodewise/locate/network_locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/runner/network_runner.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// y = tanh(relu(x * w + b) * v); `spoiled` makes one operation another one.
std::shared_ptr<const Network> ChainNetwork(const std::string& spoiled = "") {
  const auto kind = [&](const std::string& name, const std::string& right,
                        const std::string& wrong) {
    return name == spoiled ? wrong : right;
  };
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  const ValueId w = b.Const("w", Floats({2, -1, 0.5, 3}));
  const ValueId c = b.Const("c", Floats({0.25, 2, -1, 1}));
  ValueId y = b.Op(kind("m", "Mul", "Sub"), {x, w}, {}, {"m"}, "m")[0];
  y = b.Op(kind("a", "Add", "Sub"), {y, c}, {}, {"a"}, "a")[0];
  y = b.Op(kind("r", "Relu", "Abs"), {y}, {}, {"r"}, "r")[0];
  y = b.Op(kind("s", "Mul", "Add"), {y, c}, {}, {"s"}, "s")[0];
  b.Out({b.Op(kind("y", "Tanh", "Sin"), {y}, {}, {"y"}, "y")[0]});
  return std::make_shared<const Network>(b.net);
}

// What a runtime does that computes other operations together when it is looked
// into: it chooses the network by what is observed, and hands out nothing else.
class FakeRuntime : public Runner {
 public:
  using Choice = std::function<std::shared_ptr<const Network>(
      bool is_seen, const std::set<std::string>& observed)>;

  FakeRuntime(Choice choice, std::set<std::string> observed,
              std::set<std::string> absent)
      : choice_(std::move(choice)),
        observed_(std::move(observed)),
        absent_(std::move(absent)),
        plain_(MakeNetworkRunner("fake", "net", choice_(false, observed_))) {}

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
    if (options.sink == nullptr) return plain_->Run(inputs, options);
    Filter filter(*this, *options.sink);
    RunOptions inner = options;
    inner.sink = &filter;
    return MakeNetworkRunner("fake", "net", choice_(true, observed_))
        ->Run(inputs, inner);
  }

 private:
  class Filter : public TensorSink {
   public:
    Filter(const FakeRuntime& runtime, TensorSink& sink)
        : runtime_(runtime), sink_(sink) {}
    absl::Status Consume(const TensorItem& item) override {
      const std::string& name = item.key.node;
      if (runtime_.absent_.contains(name)) {
        TensorItem absent{item.key};
        absent.why_absent = "not computed";
        return sink_.Consume(absent);
      }
      const bool is_seen =
          runtime_.observed_.contains(name) || name == "x" || name == "y";
      return is_seen ? sink_.Consume(item) : absl::OkStatus();
    }

   private:
    const FakeRuntime& runtime_;
    TensorSink& sink_;
  };

  const Choice choice_;
  const std::set<std::string> observed_;
  const std::set<std::string> absent_;
  const std::unique_ptr<Runner> plain_;
};

absl::StatusOr<NetworkLocated> LocateWith(const FakeRuntime::Choice& choice,
                                          std::set<std::string> absent = {},
                                          RefereeMaker referee = nullptr) {
  const auto network = ChainNetwork();
  NetworkLocateRequest request{
      *network,
      AllOperators(),
      [&](const std::vector<std::string>& observed) {
        return std::make_unique<FakeRuntime>(
            choice, std::set<std::string>(observed.begin(), observed.end()),
            absent);
      },
      ObservableValues(*network),
      {{"x", Floats({1, 2, -3, 0.5})}}};
  request.referee = std::move(referee);
  LocateOptions options;
  options.repeats = 1;
  return LocateInNetwork(request, options);
}

// The operations of each culprit.
std::vector<std::vector<std::string>> CulpritsOf(const NetworkLocated& found) {
  std::vector<std::vector<std::string>> culprits;
  for (const Culprit& culprit : found.result.culprits) {
    culprits.push_back(found.result.nodes[culprit.report].covers);
  }
  return culprits;
}

using Names = std::vector<std::string>;

TEST(NetworkLocateTest, ASoundRuntimeAccusesNoNode) {
  const auto found =
      LocateWith([](bool, const auto&) { return ChainNetwork(); });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_EQ(found->result.nodes.size(), 5);
  EXPECT_EQ(found->result.CountOf(NodeVerdict::kHealthy), 5);
  EXPECT_FALSE(found->vanishes);
}

TEST(NetworkLocateTest, TheOperationThatIsWrongIsNamedAndExplainsTheError) {
  for (const std::string wrong : {"m", "a", "r", "s", "y"}) {
    SCOPED_TRACE(wrong);
    const auto found =
        LocateWith([&](bool, const auto&) { return ChainNetwork(wrong); });
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(CulpritsOf(*found), ElementsAre(Names{wrong}));
    ASSERT_TRUE(found->result.culprits[0].share.has_value());
    EXPECT_GT(*found->result.culprits[0].share, 0.99);
  }
}

TEST(NetworkLocateTest, AFaultThatVanishesWhenObservedIsBracketed) {
  // Relu is wrong only where it is computed together with what follows.
  const auto found =
      LocateWith([](bool is_seen, const std::set<std::string>& observed) {
        const bool is_fused = !is_seen || !observed.contains("r");
        return ChainNetwork(is_fused ? "r" : "");
      });
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(found->vanishes);
  EXPECT_FALSE(found->is_gone);
  EXPECT_THAT(found->unobserved, ElementsAre("r"));
  EXPECT_THAT(CulpritsOf(*found), ElementsAre(Names{"r", "s"}));
  EXPECT_THAT(found->result.notes,
              Contains(HasSubstr("vanishes when observed: most of the "
                                 "error of y is gone when r is handed out")));
}

TEST(NetworkLocateTest, AFaultThatIsNeverSeenIsGone) {
  const auto found = LocateWith([](bool is_seen, const auto&) {
    return ChainNetwork(is_seen ? "" : "r");
  });
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(found->vanishes);
  EXPECT_TRUE(found->is_gone);
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
}

TEST(NetworkLocateTest, WhatIsNotHandedOutIsJudgedWithItsNeighbours) {
  const auto found =
      LocateWith([](bool, const auto&) { return ChainNetwork("a"); }, {"m"});
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->unobserved, ElementsAre("m"));
  EXPECT_THAT(CulpritsOf(*found), ElementsAre(Names{"m", "a"}));
}

// ChainNetwork() that computes with the right sum and calls something else "a":
// another sum, or what Relu makes of the right one.
std::shared_ptr<const Network> MisreportingNetwork(bool is_cut_off = false) {
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  const ValueId w = b.Const("w", Floats({2, -1, 0.5, 3}));
  const ValueId c = b.Const("c", Floats({0.25, 2, -1, 1}));
  const ValueId m = b.Op("Mul", {x, w}, {}, {"m"}, "m")[0];
  ValueId y = b.Op("Add", {m, c}, {}, {"sum"}, "sum")[0];
  if (is_cut_off) {
    b.Op("Relu", {y}, {}, {"a"}, "a");
  } else {
    b.Op("Sub", {m, c}, {}, {"a"}, "a");
  }
  y = b.Op("Relu", {y}, {}, {"r"}, "r")[0];
  y = b.Op("Mul", {y, c}, {}, {"s"}, "s")[0];
  b.Out({b.Op("Tanh", {y}, {}, {"y"}, "y")[0]});
  return std::make_shared<const Network>(b.net);
}

TEST(NetworkLocateTest, AValueThatIsHandedOutWrongAndComputedRightIsNotAFault) {
  const auto found =
      LocateWith([](bool, const auto&) { return MisreportingNetwork(); });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_THAT(found->result.notes,
              Contains(HasSubstr("what is handed out for a is not what the "
                                 "runtime computes with")));
  EXPECT_EQ(found->result.CountOf(NodeVerdict::kInconclusive), 1);
  EXPECT_EQ(found->result.CountOf(NodeVerdict::kHealthy), 4);
}

TEST(NetworkLocateTest, AWrongValueOfWhichNothingElseIsMadeOnlyDeviates) {
  const auto found =
      LocateWith([](bool, const auto&) { return MisreportingNetwork(true); });
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_EQ(found->result.CountOf(NodeVerdict::kDeviates), 1);
  EXPECT_EQ(found->result.CountOf(NodeVerdict::kHealthy), 4);
}

// Two hundred operations in two branches that meet again and again; the one of
// that number makes something else.
std::shared_ptr<const Network> LongNetwork(int spoiled = -1) {
  constexpr int kOperations = 200;
  NetBuilder b;
  const ValueId c = b.Const("c", Floats({0.25, -0.5, 0.75, -0.125}));
  ValueId left = b.In("x", {4});
  ValueId right = left;
  for (int i = 0; i < kOperations - 1; ++i) {
    const std::string name = "v" + std::to_string(i);
    const bool is_wrong = i == spoiled;
    ValueId& branch = i % 2 == 0 ? left : right;
    branch =
        i % 5 == 0
            ? b.Op(is_wrong ? "Sub" : "Add", {left, right}, {}, {name}, name)[0]
        : i % 3 == 0
            ? b.Op(is_wrong ? "Cos" : "Sin", {branch}, {}, {name}, name)[0]
            : b.Op(is_wrong ? "Sub" : "Add", {branch, c}, {}, {name}, name)[0];
  }
  b.Out({b.Op("Add", {left, right}, {}, {"y"}, "y")[0]});
  return std::make_shared<const Network>(b.net);
}

// Something that hands out nothing but outputs. `had` counts the values that
// were had of shorter models.
absl::StatusOr<NetworkLocated> LocateByParts(int spoiled, size_t* had) {
  const auto network = LongNetwork();
  const auto runs = [=](std::vector<std::string> observed,
                        std::set<std::string> absent) {
    return std::make_unique<FakeRuntime>(
        [=](bool, const auto&) { return LongNetwork(spoiled); },
        std::set<std::string>(observed.begin(), observed.end()),
        std::move(absent));
  };
  NetworkLocateRequest request{
      *network,
      AllOperators(),
      [&](const std::vector<std::string>& observed) {
        return runs(observed, {observed.begin(), observed.end()});
      },
      ObservableValues(*network),
      {{"x", Floats({1, 2, -3, 0.5})}}};
  request.by_parts = [&](const std::vector<std::string>& observed) {
    *had += observed.size();
    return runs(observed, {});
  };
  return LocateInNetwork(request);
}

TEST(NetworkLocateTest, WhereOnlyOutputsAreHadShorterModelsNameTheOperation) {
  for (const int spoiled : {0, 1, 57, 110, 198}) {
    SCOPED_TRACE(spoiled);
    size_t had = 0;
    const auto found = LocateByParts(spoiled, &had);
    ASSERT_THAT(found, IsOk());
    EXPECT_THAT(CulpritsOf(*found),
                ElementsAre(Names{"v" + std::to_string(spoiled)}));
    EXPECT_GT(had, 0);
    EXPECT_LT(had, 100);
    EXPECT_THAT(found->result.notes,
                Contains(HasSubstr("hands out nothing but outputs")));
  }
}

TEST(NetworkLocateTest, SoundOutputsNeedNoShorterModels) {
  size_t had = 0;
  const auto found = LocateByParts(-1, &had);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_EQ(had, 0);
}

// y = x * w - c, which is small; the factor is on w.
std::shared_ptr<const Network> DifferenceNetwork(float factor, float end) {
  NetBuilder b;
  const ValueId x = b.In("x", {4});
  const ValueId w = b.Const(
      "w", Floats({2 * factor, -1 * factor, 0.5F * factor, 3 * factor}));
  const ValueId c = b.Const("c", Floats({end, -end, end, -end}));
  const ValueId m = b.Op("Mul", {x, w}, {}, {"m"}, "m")[0];
  b.Out({b.Op("Sub", {m, c}, {}, {"y"}, "y")[0]});
  return std::make_shared<const Network>(b.net);
}

absl::StatusOr<NetworkLocated> LocateDifference(float factor, float end,
                                                bool is_strict = false) {
  const auto network = DifferenceNetwork(1, end);
  const NetworkLocateRequest request{
      *network,
      AllOperators(),
      [&](const std::vector<std::string>& observed) {
        return std::make_unique<FakeRuntime>(
            [&](bool, const auto&) { return DifferenceNetwork(factor, end); },
            std::set<std::string>(observed.begin(), observed.end()),
            std::set<std::string>());
      },
      ObservableValues(*network),
      {{"x", Floats({1, 2, -3, 0.5})}}};
  LocateOptions options;
  options.repeats = 1;
  options.is_strict = is_strict;
  return LocateInNetwork(request, options);
}

// What is left of a sum of 256 products when nearly all of it is taken away;
// one of the weights has `more`.
std::shared_ptr<const Network> CancellingNetwork(float more) {
  constexpr int64_t kTerms = 256;
  std::vector<float> weights;
  for (int64_t i = 0; i < kTerms; ++i) {
    weights.push_back(1 / (1 + 0.37F * static_cast<float>(i)));
  }
  weights[0] += more;
  NetBuilder b;
  const ValueId x = b.In("x", {1, kTerms});
  const ValueId w = b.Const("w", MakeTensor<float>({kTerms, 1}, weights));
  const ValueId sum = b.Op("MatMul", {x, w}, {}, {"sum"}, "sum")[0];
  const ValueId c = b.Const("c", Floats({12.8524F}));
  b.Out({b.Op("Sub", {sum, c}, {}, {"y"}, "y")[0]});
  return std::make_shared<const Network>(b.net);
}

TEST(NetworkLocateTest, OutputsThatRoundingPutsOffAreToldFromFaults) {
  const auto network = CancellingNetwork(0);
  const NetworkLocateRequest request{
      *network,
      AllOperators(),
      [&](const std::vector<std::string>& observed) {
        return std::make_unique<FakeRuntime>(
            [](bool, const auto&) { return CancellingNetwork(3e-5F); },
            std::set<std::string>(observed.begin(), observed.end()),
            std::set<std::string>());
      },
      ObservableValues(*network),
      {{"x", MakeTensor<float>({1, 256}, std::vector<float>(256, 1))}}};
  const auto found = LocateInNetwork(request);
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(found->result.AreOutputsWrong());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_TRUE(found->result.is_rounding);
}

// More than rounding does, and less than the tolerance of float32.
constexpr float kSlightly = 1.00002F;

TEST(NetworkLocateTest, AnErrorThatMattersNowhereOnlyDeviates) {
  const auto found = LocateDifference(kSlightly, 100);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), IsEmpty());
  EXPECT_FALSE(found->result.AreOutputsWrong());
  EXPECT_EQ(found->result.nodes[0].verdict, NodeVerdict::kDeviates);
}

TEST(NetworkLocateTest, AnErrorThatMattersNowhereIsNamedIfThatIsAskedFor) {
  const auto found = LocateDifference(kSlightly, 100, /*is_strict=*/true);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(CulpritsOf(*found), ElementsAre(Names{"m"}));
}

TEST(NetworkLocateTest, ASmallErrorThatMakesAnOutputWrongIsNamed) {
  const auto found = LocateDifference(kSlightly, 2.00001F);
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(found->result.AreOutputsWrong());
  EXPECT_FALSE(found->result.nodes[0].evidence.is_large);
  ASSERT_THAT(CulpritsOf(*found), ElementsAre(Names{"m"}));
  EXPECT_GT(found->result.culprits[0].share.value_or(0), 0.99);
}

TEST(NetworkLocateTest, ALargeErrorIsNamedThoughTheOutputsAreRight) {
  // Multiplied by 1e-9, nothing of it is left.
  const auto network = [](float factor) {
    NetBuilder b;
    const ValueId x = b.In("x", {4});
    const ValueId w = b.Const("w", Floats({factor, factor, factor, factor}));
    const ValueId tiny = b.Const("tiny", Floats({1e-9F, 1e-9F, 1e-9F, 1e-9F}));
    const ValueId m = b.Op("Mul", {x, w}, {}, {"m"}, "m")[0];
    const ValueId t = b.Op("Mul", {m, tiny}, {}, {"t"}, "t")[0];
    b.Out({b.Op("Add", {t, x}, {}, {"y"}, "y")[0]});
    return std::make_shared<const Network>(b.net);
  };
  const auto sound = network(1);
  NetworkLocateRequest request{
      *sound,
      AllOperators(),
      [&](const std::vector<std::string>& observed) {
        return std::make_unique<FakeRuntime>(
            [&](bool, const auto&) { return network(2); },
            std::set<std::string>(observed.begin(), observed.end()),
            std::set<std::string>());
      },
      ObservableValues(*sound),
      {{"x", Floats({1, 2, -3, 0.5})}}};
  const auto found = LocateInNetwork(request);
  ASSERT_THAT(found, IsOk());
  EXPECT_FALSE(found->result.AreOutputsWrong());
  EXPECT_THAT(CulpritsOf(*found), ElementsAre(Names{"m"}));
}

// A referee that computes a node as `spoil` makes it.
RefereeMaker RefereeWith(
    std::function<std::shared_ptr<const Network>(const Network&)> spoil) {
  return [spoil = std::move(spoil)](std::shared_ptr<const Network> network)
             -> absl::StatusOr<std::unique_ptr<Runner>> {
    return MakeNetworkRunner("referee", "node", spoil(*network));
  };
}

// y = r + c in place of r * c, which is what the node s does.
std::shared_ptr<const Network> SumInPlaceOfProduct(const Network& node) {
  NetBuilder b;
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs()) {
    inputs.push_back(b.In(node.value(id).name, {4}));
  }
  b.Out({b.Op("Add", inputs, {}, {"s"}, "s")[0]});
  return std::make_shared<const Network>(b.net);
}

TEST(NetworkLocateTest, ARefereeStandsWithOneOfTheTwo) {
  const auto wrong = [](bool, const auto&) { return ChainNetwork("s"); };
  const auto sides = [&](RefereeMaker referee) {
    const auto found = LocateWith(wrong, {}, std::move(referee));
    EXPECT_THAT(found, IsOk());
    std::vector<RefereeSide> found_sides;
    for (const RefereeOpinion& opinion : found->opinions) {
      found_sides.push_back(opinion.side);
    }
    return found_sides;
  };
  EXPECT_THAT(sides(RefereeWith([](const Network& node) {
                return std::make_shared<const Network>(node);
              })),
              ElementsAre(RefereeSide::kReference));
  EXPECT_THAT(sides(RefereeWith(&SumInPlaceOfProduct)),
              ElementsAre(RefereeSide::kCandidate));
  EXPECT_THAT(sides([](const auto&) -> absl::StatusOr<std::unique_ptr<Runner>> {
                return absl::UnimplementedError("no Mul");
              }),
              ElementsAre(RefereeSide::kNotAsked));
}

TEST(NetworkLocateTest, AMissingInputIsNamed) {
  const auto network = ChainNetwork();
  const NetworkLocateRequest request{
      *network,
      AllOperators(),
      [&](const std::vector<std::string>&)
          -> absl::StatusOr<std::unique_ptr<Runner>> {
        return MakeNetworkRunner("fake", "net", network);
      },
      ObservableValues(*network),
      {}};
  EXPECT_THAT(LocateInNetwork(request),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        HasSubstr("input x: was not given")));
}

}  // namespace
}  // namespace nodewise
