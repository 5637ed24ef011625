// Nodes that end the run: they are named, and all others are judged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nodewise/locate/locate_target.h"
#include "nodewise/planter/planter.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/thread_pool.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Five nodes, one after the other: first, second, middle, fourth, last.
Lowered ChainNet() {
  NetBuilder b;
  ValueId y = b.In("x", {2, 4});
  const std::pair<const char*, const char*> nodes[] = {{"Tanh", "first"},
                                                       {"Softmax", "second"},
                                                       {"Sigmoid", "middle"},
                                                       {"Exp", "fourth"},
                                                       {"Tanh", "last"}};
  for (const auto& [kind, name] : nodes) {
    y = b.Op(kind, {y}, {}, {std::string(name) + "_out"}, name)[0];
  }
  b.Out({y});
  return Lower(b.net, "net", kPlain).value();
}

NDArray EightNumbers() {
  return MakeTensor<float>({2, 4}, {1, -2, 3, 0.5F, -1, 0.25F, 2, -3});
}

// What a test has Locate() examine.
struct Examined {
  Graph graph;
  Ref<Library> library;

  absl::StatusOr<LocateResult> Locate(LocateOptions options = {
                                          .repeats = 2}) const {
    const auto target = GraphTarget::FromArtefact(
        "net", {graph, library, Params{}}, {DLDevice{kDLCPU, 0}});
    return LocateInTarget({target.value(), {{"x", EightNumbers()}}},
                          AllOperators(), options);
  }
};

Examined Sound() { return {ChainNet().graph, ReferenceFunctions()}; }

Examined Planted(const Examined& into, FaultKind kind,
                 const std::string& node) {
  PlanterOptions options;
  options.operators = AllOperators();
  const auto planter = Planter::Create(into.graph, into.library, options);
  const NodeId id = GraphIndex(into.graph).FindNode(node).value();
  PlantedGraph planted = (*planter)->PlantAt(kind, id, 7).value();
  return {std::move(planted.graph), std::move(planted.library)};
}

// Calls `before` before each call of the node's function.
class Disturbed : public Library {
 public:
  Disturbed(Ref<Library> sound, std::string function,
            std::function<absl::Status()> before)
      : sound_(std::move(sound)),
        function_(std::move(function)),
        before_(std::move(before)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    if (request.function.find(function_) == std::string_view::npos) {
      return function;
    }
    return PackedFunc::FromBody(
        [function,
         before = before_](const PackedArgs& args) -> absl::StatusOr<Value> {
          NODEWISE_RETURN_IF_ERROR(before());
          return function.CallPacked(args);
        });
  }

 private:
  const Ref<Library> sound_;
  const std::string function_;
  const std::function<absl::Status()> before_;
};

// The sigmoid of the chain is "middle".
Examined WithMiddle(std::function<absl::Status()> before) {
  return {ChainNet().graph, MakeRef<Disturbed>(ReferenceFunctions(), "sigmoid",
                                               std::move(before))};
}

std::vector<std::string> VerdictsOf(const LocateResult& result) {
  std::vector<std::string> verdicts;
  for (const NodeReport& report : result.nodes) {
    verdicts.emplace_back(NameOf(report.verdict));
  }
  return verdicts;
}

const NodeReport& CulpritOf(const LocateResult& result, size_t i = 0) {
  return result.nodes[result.culprits[i].report];
}

TEST(EndingNodesTest, ACrashIsNamedWhereverItIsAndTheOthersAreJudged) {
  for (const std::string node : {"first", "middle", "last"}) {
    SCOPED_TRACE(node);
    const auto result = Planted(Sound(), FaultKind::kCrash, node).Locate();
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->culprits.size(), 1U);
    EXPECT_EQ(CulpritOf(*result).key, node);
    EXPECT_EQ(CulpritOf(*result).verdict, NodeVerdict::kCrashes);
    EXPECT_EQ(CulpritOf(*result).reason,
              "crashed with SIGSEGV at address 0x10");
    EXPECT_EQ(result->CountOf(NodeVerdict::kHealthy), 4U);
    EXPECT_THAT(result->stand_ins, ElementsAre(node));
    EXPECT_FALSE(result->AreOutputsWrong());
  }
}

TEST(EndingNodesTest, ANodeThatNeverReturnsHangs) {
  const auto result = Planted(Sound(), FaultKind::kHang, "middle")
                          .Locate({.repeats = 2, .node_limit_ms = 300});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(VerdictsOf(*result),
              ElementsAre("healthy", "healthy", "hangs", "healthy", "healthy"));
  EXPECT_EQ(CulpritOf(*result).reason,
            "had not returned after 300 ms and was stopped");
}

TEST(EndingNodesTest, ANodeThatEndsTheProcessIsNamed) {
  const auto result =
      WithMiddle([]() -> absl::Status { std::exit(3); }).Locate();
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->culprits.size(), 1U);
  EXPECT_EQ(CulpritOf(*result).key, "middle");
  EXPECT_EQ(CulpritOf(*result).verdict, NodeVerdict::kCrashes);
  EXPECT_EQ(CulpritOf(*result).reason, "ended the process with exit status 3");
}

TEST(EndingNodesTest, AnExceptionIsNamedCaughtOrNot) {
  // In the node's own thread it is an error of the node; in another thread it
  // is not caught.
  const auto caught = WithMiddle([]() -> absl::Status {
                        throw std::runtime_error("no room");
                      }).Locate();
  ASSERT_THAT(caught, IsOk());
  EXPECT_EQ(CulpritOf(*caught).verdict, NodeVerdict::kCrashes);
  EXPECT_THAT(CulpritOf(*caught).reason, HasSubstr("no room"));
  const auto uncaught = WithMiddle([] {
                          std::thread([] { throw 1; }).join();
                          return absl::OkStatus();
                        }).Locate();
  ASSERT_THAT(uncaught, IsOk());
  EXPECT_EQ(CulpritOf(*uncaught).reason, "crashed with SIGABRT");
}

TEST(EndingNodesTest, SeveralNodesThatCrashAreAllNamed) {
  Examined both = Planted(Sound(), FaultKind::kCrash, "fourth");
  // A planter runs what it is given, so that two crashes cannot be planted one
  // after the other.
  both.library = MakeRef<Disturbed>(both.library, "softmax", [] {
    std::raise(SIGFPE);
    return absl::OkStatus();
  });
  const auto result = both.Locate();
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(VerdictsOf(*result), ElementsAre("healthy", "crashes", "healthy",
                                               "crashes", "healthy"));
  EXPECT_EQ(CulpritOf(*result, 0).reason, "crashed with SIGFPE");
  EXPECT_THAT(result->stand_ins, ElementsAre("second", "fourth"));
}

TEST(EndingNodesTest, AWrongValueElsewhereIsStillFoundAndExplained) {
  for (const auto& [crash, wrong] :
       {std::pair("second", "fourth"), std::pair("fourth", "second")}) {
    SCOPED_TRACE(wrong);
    const Examined both = Planted(Planted(Sound(), FaultKind::kScale, wrong),
                                  FaultKind::kCrash, crash);
    const auto result = both.Locate();
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->culprits.size(), 2U);
    for (const Culprit& culprit : result->culprits) {
      const NodeReport& node = result->nodes[culprit.report];
      const bool is_crash = node.key == crash;
      EXPECT_EQ(node.verdict,
                is_crash ? NodeVerdict::kCrashes : NodeVerdict::kBroken);
      EXPECT_EQ(culprit.share.has_value(), !is_crash);
      EXPECT_GT(culprit.share.value_or(1), 0.999);
    }
  }
}

TEST(EndingNodesTest, ANodeThatCrashesInSomeCallsIsFoundWhenItDoes) {
  auto calls = std::make_shared<int>(0);
  const auto result = WithMiddle([calls] {
                        if (++*calls == 3) std::raise(SIGILL);
                        return absl::OkStatus();
                      }).Locate({.repeats = 5});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->culprits.size(), 1U);
  // The run that is looked at comes first where there are two processors.
  EXPECT_THAT(CulpritOf(*result).reason,
              testing::AnyOf("crashed with SIGILL (not before, in 2 runs)",
                             "crashed with SIGILL (not before, in 3 runs)"));
}

TEST(EndingNodesTest, TheMethodWithoutRepeatsSeesACrashToo) {
  const auto result = Planted(Sound(), FaultKind::kCrash, "fourth")
                          .Locate({.repeats = 0, .checks_storage = false});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(VerdictsOf(*result), ElementsAre("healthy", "healthy", "healthy",
                                               "crashes", "healthy"));
}

TEST(EndingNodesTest, WithoutAStandInTheNodesBeforeAreJudged) {
  for (const std::string node : {"first", "fourth"}) {
    SCOPED_TRACE(node);
    const Examined crashing = Planted(Sound(), FaultKind::kCrash, node);
    const auto target = GraphTarget::FromArtefact(
        "net", {crashing.graph, crashing.library, Params{}}, {kCpu});
    const StoragePlan plan = PlanStorage((*target)->graph(), kDLCPU).value();
    const GraphIndex index((*target)->graph(), plan);
    LocateRequest request{index,
                          AllOperators(),
                          MakerOf("guarded", {"net", *target}).value(),
                          nullptr,
                          {{"x", EightNumbers()}}};
    request.with_stand_ins = [](const std::vector<std::string>&) {
      return absl::UnimplementedError("it does not say what it computes");
    };
    const auto result = Locate(request, {.repeats = 2});
    ASSERT_THAT(result, IsOk());
    ASSERT_EQ(result->culprits.size(), 1U);
    EXPECT_EQ(CulpritOf(*result).key, node);
    EXPECT_THAT(result->stand_ins, ElementsAre());
    EXPECT_THAT(result->notes, ElementsAre("it does not say what it computes"));
    EXPECT_EQ(result->nodes[4].reason,
              "not judged: " + node + " ended the run");
    EXPECT_EQ(result->CountOf(NodeVerdict::kHealthy),
              node == "first" ? 0U : 3U);
  }
}

TEST(EndingNodesTest, AnErrorThatTheReferenceMakesTooAccusesNoNode) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 4});
  const ValueId which = b.Const("which", MakeTensor<int64_t>({1}, {9}, kInt64));
  b.Out({b.Op("Gather", {x, which}, {}, {"y"}, "pick")[0]});
  const Lowered net = Lower(b.net, "net", kPlain).value();
  const auto target = GraphTarget::FromArtefact(
      "net", {net.graph, ReferenceFunctions(), Params{net.params}}, {kCpu});
  const auto result =
      LocateInTarget({*target, {{"x", EightNumbers()}}}, AllOperators());
  EXPECT_THAT(result.status().ToString(),
              AllOf(HasSubstr("pick"),
                    HasSubstr("so it does where the reference computes it")));
}

TEST(EndingNodesTest, NodesThatTheReferenceComputesAnywayAreNotJudged) {
  const Examined wrong = Planted(Sound(), FaultKind::kScale, "middle");
  const auto target = GraphTarget::FromArtefact(
      "net", {wrong.graph, wrong.library, Params{}}, {kCpu});
  const auto result = LocateInTarget(
      {*target, {{"x", EightNumbers()}}, {"middle"}}, AllOperators());
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(VerdictsOf(*result),
              ElementsAre("healthy", "healthy", "inconclusive", "inherits",
                          "inherits"));
  EXPECT_EQ(result->nodes[2].reason, "not judged: the reference computed it");
}

TEST(EndingNodesTest, AChildOfAProcessWithThreadsDoesNotHang) {
  NetBuilder b;
  const NDArray square = NDArray::Empty({256, 256}, kFloat32, kCpu).value();
  std::fill_n(square.As<float>(), 256 * 256, 0.5F);
  const ValueId x = b.In("x", {256, 256});
  b.Out({b.Op("MatMul", {x, b.Const("w", square)}, {}, {"y"}, "product")[0]});
  const Lowered net = Lower(b.net, "net").value();
  const auto target = GraphTarget::FromArtefact(
      "net", {net.graph, BuiltInFunctions(AllOperators()), Params{net.params}},
      {kCpu});
  const TargetRequest request{*target, {{"x", square}}};
  // The pool and OpenMP have threads here that the child does not have.
  SetNumThreads(2);
  ASSERT_THAT(ParallelRun(2, [](int, TaskGroup&) { return absl::OkStatus(); }),
              IsOk());
  const auto runner = MakerOf("plain", {"net", *target}).value()().value();
  ASSERT_THAT(runner->Run(request.inputs), IsOk());
  for (int i = 0; i < 3; ++i) {
    const auto result =
        LocateInTarget(request, AllOperators(), {.node_limit_ms = 20'000});
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->CountOf(NodeVerdict::kHealthy), 1U);
  }
  SetNumThreads(0);
}

}  // namespace
}  // namespace nodewise
