// Every kind of fault: it changes what it says, and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/planter/planter.h"
#include "nodewise/random/random.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

NDArray Drawn(const std::string& name, const std::vector<int64_t>& shape) {
  RandomSource random(7, name);
  return RandomTensor(random, shape, kFloat32).value();
}

// conv (with padding and a bias) -> norm -> exp -> product -> sum of two ->
// softmax: something for every kind, a node each.
Lowered ManyNodes() {
  NetBuilder b;
  ValueId x = b.In("x", {1, 2, 6, 9});
  x = b.Op("Conv",
           {x, b.Const("weight", Drawn("weight", {3, 2, 3, 3})),
            b.Const("bias", Drawn("bias", {3}))},
           {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, {"c"}, "conv")[0];
  x = b.Op("LayerNormalization",
           {x, b.Const("scale", Drawn("scale", {9})),
            b.Const("shift", Drawn("shift", {9}))},
           {}, {"n"}, "norm")[0];
  const ValueId e = b.Op("Exp", {x}, {}, {"e"}, "exp")[0];
  ValueId m = b.Op("MatMul", {e, b.Const("matrix", Drawn("m", {9, 9}))}, {},
                   {"p"}, "product")[0];
  m = b.Op("Sub", {m, x}, {}, {"d"}, "sub")[0];
  b.Out({b.Op("Softmax", {m}, {}, {"s"}, "softmax")[0], e});
  return Lower(b.net, "net", kPlain).value();
}

PlanterOptions OptionsFor(const Lowered& lowered) {
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = lowered.params;
  return options;
}

std::unique_ptr<const Planter> PlanterOf(const Lowered& lowered) {
  auto planter =
      Planter::Create(lowered.graph, ReferenceFunctions(), OptionsFor(lowered));
  EXPECT_THAT(planter, IsOk());
  return *std::move(planter);
}

// What every function node makes in a run, in the order of the nodes. All
// entries are outputs, in memory of their own if `is_private`.
std::vector<std::vector<float>> AllMade(Graph graph,
                                        const Ref<Library>& library,
                                        const Lowered& lowered,
                                        bool is_private = true, int runs = 1) {
  graph.heads.clear();
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.IsFunction(NodeId{n})) graph.heads.push_back({n, 0});
    const EntryId entry = graph.EntryOf(NodeId{n}, 0);
    if (is_private) {
      graph.entries[Index(entry)].storage_id = static_cast<int32_t>(n);
    }
  }
  auto executor = GraphExecutor::Create(graph, library).value();
  EXPECT_THAT(executor->LoadParams(Params{lowered.params}), IsOk());
  EXPECT_THAT(executor->SetInput("x", *Drawn("x", {1, 2, 6, 9})), IsOk());
  for (int i = 0; i < runs; ++i) EXPECT_THAT(executor->Run(), IsOk());
  std::vector<std::vector<float>> made;
  for (size_t i = 0; i < executor->NumOutputs(); ++i) {
    made.push_back(ValuesOf(executor->GetOutput(i).value()));
  }
  return made;
}

// Bit for bit, NaN included.
bool AreSame(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<FaultKind> KindsWithSign(FaultSign sign) {
  std::vector<FaultKind> kinds;
  for (const FaultKindRow& row : FaultKinds()) {
    if (row.sign == sign) kinds.push_back(row.kind);
  }
  return kinds;
}

TEST(FaultTest, KindsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const FaultKindRow& row : FaultKinds()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(ParseFaultKind(row.name).value(), row.kind);
    EXPECT_EQ(RowOf(row.kind).name, row.name);
  }
  EXPECT_THAT(ParseFaultKind("rust"),
              FailsWith(absl::StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("rust: is not a kind"),
                              HasSubstr("lane-drop"))));
}

TEST(FaultTest, NodesNamesAndFunctionsStayAsTheyAre) {
  const Lowered lowered = ManyNodes();
  const auto planter = PlanterOf(lowered);
  for (const FaultKindRow& row : FaultKinds()) {
    SCOPED_TRACE(row.name);
    const auto planted = planter->Plant(row.kind, 1);
    ASSERT_THAT(planted, IsOk());
    EXPECT_EQ(planted->fault.kind, row.kind);
    EXPECT_EQ(planted->fault.name,
              lowered.graph.node(planted->fault.node).name);
    EXPECT_FALSE(planted->fault.what.empty());
    ASSERT_EQ(planted->graph.nodes.size(), lowered.graph.nodes.size());
    for (size_t n = 0; n < lowered.graph.nodes.size(); ++n) {
      EXPECT_EQ(planted->graph.nodes[n].name, lowered.graph.nodes[n].name);
      EXPECT_EQ(planted->graph.nodes[n].function,
                lowered.graph.nodes[n].function);
    }
  }
}

TEST(FaultTest, OnlyThePlantedNodeMakesWrongValues) {
  const Lowered lowered = ManyNodes();
  const auto planter = PlanterOf(lowered);
  const auto sound = AllMade(lowered.graph, ReferenceFunctions(), lowered);
  for (const FaultKind kind : KindsWithSign(FaultSign::kWrongValues)) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const auto planted = planter->Plant(kind, seed);
      ASSERT_THAT(planted, IsOk());
      SCOPED_TRACE(planted->fault.name + ": " + planted->fault.what);
      ASSERT_TRUE(planted->fault.effect.has_value());
      EXPECT_GT(*planted->fault.effect, 0);
      const auto made = AllMade(planted->graph, planted->library, lowered);
      size_t at = 0;
      for (uint32_t n = 0; n < lowered.graph.nodes.size(); ++n) {
        if (!lowered.graph.IsFunction(NodeId{n})) continue;
        if (n < Index(planted->fault.node)) {
          EXPECT_TRUE(AreSame(made[at], sound[at])) << n;
        } else if (n == Index(planted->fault.node)) {
          EXPECT_FALSE(AreSame(made[at], sound[at])) << n;
        }
        ++at;
      }
    }
  }
}

TEST(FaultTest, OneSeedAlwaysPlantsTheSameAndSeedsDiffer) {
  const Lowered lowered = ManyNodes();
  const auto planter = PlanterOf(lowered), other = PlanterOf(lowered);
  for (const FaultKindRow& row : FaultKinds()) {
    SCOPED_TRACE(row.name);
    std::set<std::string> places;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto a = planter->Plant(row.kind, seed);
      const auto b = other->Plant(row.kind, seed);
      ASSERT_THAT(a, IsOk());
      ASSERT_THAT(b, IsOk());
      EXPECT_EQ(a->fault.node, b->fault.node);
      EXPECT_EQ(a->fault.what, b->fault.what);
      EXPECT_EQ(a->fault.effect, b->fault.effect);
      places.insert(a->fault.name + a->fault.what);
    }
    // There may be few places for a kind: one convolution has padding.
    EXPECT_GT(places.size(), 1U);
  }
}

TEST(FaultTest, WhatANodeLacksIsSaid) {
  const Lowered lowered = ManyNodes();
  const auto planter = PlanterOf(lowered);
  const auto node = [&](const std::string& name) {
    for (uint32_t n = 0; n < lowered.graph.nodes.size(); ++n) {
      if (lowered.graph.nodes[n].name == name) return NodeId{n};
    }
    ADD_FAILURE() << name;
    return NodeId{0};
  };
  const auto expect_lacks = [&](FaultKind kind, const std::string& name,
                                const std::string& what) {
    EXPECT_THAT(
        planter->PlantAt(kind, node(name), 1),
        FailsWith(absl::StatusCode::kFailedPrecondition, HasSubstr(what)));
  };
  expect_lacks(FaultKind::kMissingBias, "exp", "it adds no constant");
  expect_lacks(FaultKind::kOneWeight, "exp", "it reads no constant");
  expect_lacks(FaultKind::kWrongPadding, "product", "it has no padding");
  expect_lacks(FaultKind::kSwappedInputs, "exp", "no two tensors of one type");
  expect_lacks(FaultKind::kFloat16Sums, "exp", "no sums of floats");
  expect_lacks(FaultKind::kApproximation, "conv", "no function such as exp");
  expect_lacks(FaultKind::kCrash, "x", "computes nothing");
}

TEST(FaultTest, WithoutEffectNothingIsPlanted) {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 4});
  b.Out({b.Op("Add", {x, b.In("y", {4, 4})})[0]});
  const Lowered lowered = Lower(b.net, "net", kPlain).value();
  EXPECT_THAT(PlanterOf(lowered)->Plant(FaultKind::kSwappedInputs, 1),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("no effect: it makes the same bits")));
}

TEST(FaultTest, WithoutOperatorsKindsThatNeedThemSaySo) {
  const Lowered lowered = ManyNodes();
  PlanterOptions options = OptionsFor(lowered);
  options.operators = OpSet();
  const auto planter =
      Planter::Create(lowered.graph, ReferenceFunctions(), options);
  ASSERT_THAT(planter, IsOk());
  EXPECT_THAT((*planter)->Plant(FaultKind::kWrongPadding, 1),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        HasSubstr("not known what it computes")));
  EXPECT_THAT((*planter)->Plant(FaultKind::kDroppedLane, 1), IsOk());
}

TEST(FaultTest, SeveralFaultsStandInOneNetwork) {
  const Lowered lowered = ManyNodes();
  const auto first = PlanterOf(lowered)->Plant(FaultKind::kNan, 3);
  ASSERT_THAT(first, IsOk());
  const auto planter =
      Planter::Create(first->graph, first->library, OptionsFor(lowered));
  ASSERT_THAT(planter, IsOk());
  const auto both =
      (*planter)->PlantAt(FaultKind::kCrash, first->fault.node, 1);
  ASSERT_THAT(both, IsOk());
  // A sanitizer would catch the signal, and end with a status of its own.
  EXPECT_EXIT(
      (signal(SIGSEGV, SIG_DFL), AllMade(both->graph, both->library, lowered)),
      testing::KilledBySignal(SIGSEGV), "");
}

TEST(FaultTest, AnOverlapSpoilsTheVictimAndTheReadersOfItAlone) {
  const Lowered lowered = ManyNodes();
  const auto planter = PlanterOf(lowered);
  const auto sound = AllMade(lowered.graph, ReferenceFunctions(), lowered);
  const auto planted = planter->Plant(FaultKind::kPlanOverlap, 1);
  ASSERT_THAT(planted, IsOk());
  ASSERT_TRUE(planted->fault.victim.has_value());
  EXPECT_FALSE(planted->fault.effect.has_value());
  const EntryId victim = *planted->fault.victim;
  const EntryId written = planted->graph.EntryOf(planted->fault.node, 0);
  EXPECT_EQ(planted->graph.entry(victim).storage_id,
            planted->graph.entry(written).storage_id);
  EXPECT_NE(lowered.graph.entry(victim).storage_id,
            lowered.graph.entry(written).storage_id);
  // With memory for each alone, nothing is wrong.
  EXPECT_EQ(AllMade(planted->graph, planted->library, lowered), sound);
  EXPECT_NE(AllMade(planted->graph, planted->library, lowered, false), sound);
}

TEST(FaultTest, AnOverrunLeavesTheResultRight) {
  const Lowered lowered = ManyNodes();
  const auto planted = PlanterOf(lowered)->Plant(FaultKind::kOverrun, 1);
  ASSERT_THAT(planted, IsOk());
  size_t overwritten = 0;
  std::vector<NDArray> slots;
  GraphExecutor::Options options;
  // Every slot has room behind it.
  options.allocate = [&](uint32_t, size_t bytes, DLDevice) {
    const auto size = static_cast<int64_t>(bytes + 64);
    NDArray slot = NDArray::Empty({size}, kUint8, kCpu).value();
    std::memset(slot.data(), 0, slot.bytes());
    slots.push_back(slot);
    return absl::StatusOr<NDArray>(slot);
  };
  const auto executor = GraphExecutor::Create(planted->graph, planted->library,
                                              std::move(options));
  ASSERT_THAT(executor, IsOk());
  ASSERT_THAT((*executor)->LoadParams(Params{lowered.params}), IsOk());
  ASSERT_THAT((*executor)->SetInput("x", *Drawn("x", {1, 2, 6, 9})), IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  for (const NDArray& slot : slots) {
    for (size_t i = slot.bytes() - 64; i < slot.bytes(); ++i) {
      overwritten += slot.As<uint8_t>()[i] != 0;
    }
  }
  EXPECT_THAT(planted->fault.what,
              HasSubstr("writes " + std::to_string(overwritten) + " bytes"));
}

TEST(FaultTest, AFlakyNodeIsWrongInAThirdOfTheCalls) {
  const Lowered lowered = ManyNodes();
  const auto planted = PlanterOf(lowered)->Plant(FaultKind::kFlaky, 1);
  ASSERT_THAT(planted, IsOk());
  const auto sound = AllMade(lowered.graph, ReferenceFunctions(), lowered);
  int wrong = 0;
  for (int run = 0; run < 90; ++run) {
    wrong += AllMade(planted->graph, planted->library, lowered) != sound;
  }
  EXPECT_GT(wrong, 15);
  EXPECT_LT(wrong, 45);
}

TEST(FaultTest, ANodeThatHangsIsEndedByASignalAlone) {
  const Lowered lowered = ManyNodes();
  const auto planted = PlanterOf(lowered)->Plant(FaultKind::kHang, 1);
  ASSERT_THAT(planted, IsOk());
  EXPECT_EXIT(
      {
        alarm(1);
        AllMade(planted->graph, planted->library, lowered);
      },
      testing::KilledBySignal(SIGALRM), "");
}

}  // namespace
}  // namespace nodewise
