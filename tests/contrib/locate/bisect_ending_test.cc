// Bisecting networks whose nodes end runs: they are culprits, and the search
// goes on without them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/planter/planter.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// n0, n1, ... one after the other.
Lowered AddsAndSubs(size_t count) {
  NetBuilder b;
  ValueId y = b.In("x", {6});
  const ValueId bias = b.Const("bias", Floats({0.5F, -1, 0.25F, 2, 1, -0.5F}));
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "n" + std::to_string(i);
    y = b.Op(i % 2 == 0 ? "Add" : "Sub", {y, bias}, {}, {name + "_v"}, name)[0];
  }
  b.Out({y});
  return Lower(b.net, "net", kPlain).value();
}

// A network, and what was planted into it.
struct ChainExamined {
  Graph graph;
  Ref<Library> library;
  std::vector<NamedTensor> params;

  ChainExamined Planted(FaultKind kind, const std::string& node) const {
    PlanterOptions options;
    options.operators = AllOperators();
    for (const NamedTensor& param : params) options.params.push_back(param);
    const auto planter = Planter::Create(graph, library, options);
    const NodeId id = GraphIndex(graph).FindNode(node).value();
    PlantedGraph planted = (*planter)->PlantAt(kind, id, 7).value();
    return {std::move(planted.graph), std::move(planted.library), params};
  }

  absl::StatusOr<BisectResult> Bisected(int64_t limit_ms = 60'000,
                                        bool can_stand_in = true) const {
    const auto target = GraphTarget::FromArtefact(
                            "net", {graph, library, Params{params}}, {kCpu})
                            .value();
    const StoragePlan plan = PlanStorage(target->graph(), kDLCPU).value();
    const GraphIndex index(target->graph(), plan);
    BisectRequest request{index,
                          AllOperators(),
                          MakersOf(target).value().candidate,
                          {{"x", Floats({1, -2, 3, 0.5F, -1, 0.25F})}}};
    request.with_stand_ins = [&](const std::vector<std::string>& nodes)
        -> absl::StatusOr<CandidateMakers> {
      if (can_stand_in) {
        return MakersWithStandIns(*target, AllOperators(), nodes);
      }
      return absl::UnimplementedError("nothing can stand in");
    };
    return Bisect(request, {.node_limit_ms = limit_ms});
  }
};

ChainExamined SoundChain(size_t count) {
  Lowered net = AddsAndSubs(count);
  return {std::move(net.graph), ReferenceFunctions(), std::move(net.params)};
}

std::vector<std::string> CulpritsWithVerdicts(const BisectResult& result) {
  std::vector<std::string> culprits;
  for (const Culprit& culprit : result.located.culprits) {
    const NodeReport& report = result.located.nodes[culprit.report];
    culprits.push_back(report.key + " " + std::string(NameOf(report.verdict)));
  }
  return culprits;
}

TEST(BisectEndingTest, ACrashIsACulpritWhereverItIs) {
  for (const std::string node : {"n0", "n6", "n11"}) {
    SCOPED_TRACE(node);
    const auto result =
        SoundChain(12).Planted(FaultKind::kCrash, node).Bisected();
    ASSERT_THAT(result, IsOk());
    EXPECT_THAT(CulpritsWithVerdicts(*result), ElementsAre(node + " crashes"));
    const NodeReport& report = result->located.nodes[0];
    EXPECT_EQ(report.reason, "crashed with SIGSEGV at address 0x10");
    EXPECT_THAT(result->located.stand_ins, ElementsAre(node));
    EXPECT_FALSE(result->located.AreOutputsWrong());
    EXPECT_EQ(result->first, std::nullopt);
  }
}

TEST(BisectEndingTest, AHangIsACulprit) {
  const auto result =
      SoundChain(8).Planted(FaultKind::kHang, "n3").Bisected(300);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(CulpritsWithVerdicts(*result), ElementsAre("n3 hangs"));
}

TEST(BisectEndingTest, AWrongNodeIsFoundBeforeOrBehindOneThatCrashes) {
  for (const auto& [crash, wrong] :
       {std::pair("n4", "n20"), std::pair("n20", "n4")}) {
    SCOPED_TRACE(wrong);
    const auto result = SoundChain(30)
                            .Planted(FaultKind::kScale, wrong)
                            .Planted(FaultKind::kCrash, crash)
                            .Bisected();
    ASSERT_THAT(result, IsOk());
    EXPECT_THAT(CulpritsWithVerdicts(*result),
                testing::UnorderedElementsAre(std::string(wrong) + " broken",
                                              std::string(crash) + " crashes"));
    ASSERT_TRUE(result->first.has_value());
    EXPECT_EQ(result->located.nodes[*result->first].key, wrong);
    // Where the reference stands in nothing is masked.
    EXPECT_EQ(result->masking, Masking::kNone);
  }
}

TEST(BisectEndingTest, TurnsThatACrashEndedAreCountedWithTheOthers) {
  const ChainExamined wrong = SoundChain(30).Planted(FaultKind::kScale, "n4");
  const auto without = wrong.Bisected();
  const auto with = wrong.Planted(FaultKind::kCrash, "n20").Bisected();
  ASSERT_THAT(without, IsOk());
  ASSERT_THAT(with, IsOk());
  EXPECT_EQ(with->candidate_runs, without->candidate_runs + 1);
}

TEST(BisectEndingTest, WithoutAStandInTheNodeIsAllThatIsFound) {
  const auto result =
      SoundChain(8).Planted(FaultKind::kCrash, "n3").Bisected(60'000, false);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(CulpritsWithVerdicts(*result), ElementsAre("n3 crashes"));
  EXPECT_THAT(result->located.notes, ElementsAre("nothing can stand in"));
  EXPECT_THAT(result->located.stand_ins, ElementsAre());
  EXPECT_TRUE(result->located.outputs.empty());
}

TEST(BisectEndingTest, AnErrorThatTheReferenceMakesTooAccusesNoNode) {
  NetBuilder b;
  const ValueId x = b.In("x", {6});
  const ValueId which = b.Const("which", MakeTensor<int64_t>({1}, {9}, kInt64));
  b.Out({b.Op("Gather", {x, which}, {}, {"y"}, "pick")[0]});
  Lowered net = Lower(b.net, "net", kPlain).value();
  const ChainExamined wrong{std::move(net.graph), ReferenceFunctions(),
                            std::move(net.params)};
  EXPECT_THAT(wrong.Bisected().status().ToString(),
              AllOf(HasSubstr("pick"),
                    HasSubstr("so it does where the reference computes it")));
}

}  // namespace
}  // namespace nodewise
