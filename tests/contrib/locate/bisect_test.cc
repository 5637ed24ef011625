#include "nodewise/locate/bisect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/planter/planter.h"
#include "nodewise/random/random.h"
#include "nodewise/runners/runner_list.h"
#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray SineRow(int64_t count, float step) {
  const int64_t shape[] = {count};
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  for (int64_t i = 0; i < count; ++i) {
    tensor.As<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  }
  return tensor;
}

// What Bisect() is given, and what it found.
struct Bisected {
  std::shared_ptr<const GraphTarget> target;
  StoragePlan plan;
  absl::StatusOr<BisectResult> result = absl::UnknownError("");

  const LocateResult& located() const { return result->located; }
  std::string First() const {
    return result->first.has_value() ? located().nodes[*result->first].key : "";
  }
  NodeVerdict FirstVerdict() const {
    return located().nodes[*result->first].verdict;
  }
  std::vector<std::string> Culprits() const {
    std::vector<std::string> names;
    for (const Culprit& culprit : located().culprits) {
      names.push_back(located().nodes[culprit.report].key);
    }
    return names;
  }
};

Bisected BisectIn(Graph graph, Ref<Library> library,
                  std::vector<NamedTensor> params, NDArray x,
                  const BisectOptions& options = {}) {
  Bisected bisected;
  bisected.target =
      GraphTarget::FromArtefact(
          "net",
          {std::move(graph), std::move(library), Params{std::move(params)}},
          {kCpu})
          .value();
  bisected.plan = PlanStorage(bisected.target->graph(), kDLCPU).value();
  const GraphIndex index(bisected.target->graph(), bisected.plan);
  const BisectRequest request{
      index,
      AllOperators(),
      MakerOf("debug", {"net", bisected.target}).value(),
      {{"x", std::move(x)}}};
  bisected.result = Bisect(request, options);
  return bisected;
}

// Plants a wrong scale into the node of that name.
PlantedGraph ScaleIn(const std::string& name, const Graph& graph,
                     const Ref<Library>& library) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    auto planted = PlantScale(graph, library, seed).value();
    if (planted.fault.name == name) return planted;
  }
  ADD_FAILURE() << "no seed plants into " << name;
  return {};
}

// A chain of that many nodes, some of which also read what was made up to 20
// nodes before. An error goes through all of it.
Lowered LongNet(size_t count) {
  NetBuilder b;
  RandomSource random(7, "long net");
  std::vector<ValueId> made = {b.In("x", {6})};
  const ValueId bias = b.Const("bias", SineRow(6, 1.3F));
  for (size_t i = 0; i < count; ++i) {
    const ValueId last = made.back();
    const std::string name = "n" + std::to_string(i);
    const int64_t kind = random.Between(0, 2);
    if (kind == 0) {
      made.push_back(b.Op("Sub", {last, bias}, {}, {name + "_v"}, name)[0]);
    } else if (kind == 1) {
      made.push_back(b.Op("Add", {last, bias}, {}, {name + "_v"}, name)[0]);
    } else {
      const size_t most = std::min<size_t>(made.size(), 20) - 1;
      const auto back =
          static_cast<size_t>(random.Between(0, static_cast<int64_t>(most)));
      const ValueId before = made[made.size() - 1 - back];
      made.push_back(b.Op("Mean", {last, before}, {}, {name + "_v"}, name)[0]);
    }
  }
  b.Out({made.back()});
  return Lower(b.net, "net", kPlain).value();
}

TEST(BisectTest, OneOfAThousandNodesIsFoundWithFewRuns) {
  constexpr size_t kNodes = 1200;
  const Lowered net = LongNet(kNodes);
  // As much memory as there is, and no more than a question needs.
  const std::pair<uint64_t, size_t> cases[] = {{1, size_t{1} << 30}, {2, 0}};
  for (const auto& [seed, most_bytes] : cases) {
    SCOPED_TRACE(seed);
    const PlantedGraph planted =
        PlantScale(net.graph, ReferenceFunctions(), seed).value();
    const Bisected found =
        BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F),
                 {.most_bytes = most_bytes});
    ASSERT_THAT(found.result, IsOk());
    ASSERT_TRUE(found.located().AreOutputsWrong());
    EXPECT_EQ(found.First(), planted.fault.name);
    EXPECT_THAT(found.Culprits(), ElementsAre(planted.fault.name));
    EXPECT_EQ(found.FirstVerdict(), NodeVerdict::kBroken);
    EXPECT_EQ(found.result->masking, Masking::kNone);
    EXPECT_EQ(found.result->nodes_on_path, kNodes);
    EXPECT_LE(static_cast<double>(found.result->runs()),
              2 * std::log2(kNodes) + 10);
    ASSERT_TRUE(found.located().culprits[0].share.has_value());
    EXPECT_GT(*found.located().culprits[0].share, 0.999);
  }
}

TEST(BisectTest, ASoundRunIsNotBisected) {
  const Lowered net = LongNet(30);
  const Bisected found =
      BisectIn(net.graph, ReferenceFunctions(), net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_FALSE(found.located().AreOutputsWrong());
  EXPECT_EQ(found.result->first, std::nullopt);
  EXPECT_EQ(found.result->runs(), 2U);
}

TEST(BisectTest, BothEndsAndTheAnswerAreAskedTwice) {
  const Lowered net = LongNet(30);
  const PlantedGraph planted = ScaleIn("n17", net.graph, ReferenceFunctions());
  const Bisected found =
      BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  std::vector<size_t> repeated;
  for (const BisectQuestion& question : found.result->questions) {
    if (question.is_repeated) repeated.push_back(question.taken);
  }
  EXPECT_THAT(repeated, ElementsAre(0, 30, 17, 18));
  EXPECT_EQ(found.result->questions[0].left, 0);
  EXPECT_EQ(found.result->questions[1].left, 1);
}

// x -> early (Tanh) -> hides -> late (Tanh) -> y.
Lowered HidingNet(const std::string& hides, const NDArray& other) {
  NetBuilder b;
  const ValueId x = b.In("x", {6});
  ValueId y = b.Op("Tanh", {x}, {}, {"e"}, "early")[0];
  y = b.Op(hides, {y, b.Const("other", other)}, {}, {"h"}, "hides")[0];
  y = b.Op("Add", {y, b.Const("bias", SineRow(6, 0.9F))}, {}, {"s"}, "sum")[0];
  b.Out({b.Op("Tanh", {y}, {}, {"y"}, "late")[0]});
  return Lower(b.net, "net", kPlain).value();
}

TEST(BisectTest, AnErrorThatIsMultipliedByZeroIsMaskedAndNamed) {
  const Lowered net = HidingNet("Mul", Floats({0, 0, 0, 0, 0, 0}));
  const PlantedGraph early = ScaleIn("early", net.graph, ReferenceFunctions());
  const PlantedGraph both = ScaleIn("late", early.graph, early.library);
  const Bisected found =
      BisectIn(both.graph, both.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.First(), "late");
  EXPECT_EQ(found.result->masking, Masking::kCertain);
  EXPECT_THAT(found.Culprits(), ElementsAre("early", "late"));
}

TEST(BisectTest, AnErrorThatARectifierHidesIsMaskedAndNamed) {
  // All numbers below 2 that `early` makes are lost.
  const Lowered net = HidingNet("Max", Floats({2, 2, 2, 2, 2, 2}));
  const PlantedGraph early = ScaleIn("early", net.graph, ReferenceFunctions());
  const PlantedGraph both = ScaleIn("sum", early.graph, early.library);
  const Bisected found =
      BisectIn(both.graph, both.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.First(), "sum");
  EXPECT_EQ(found.result->masking, Masking::kCertain);
}

TEST(BisectTest, AMaskedErrorAloneIsNotAnErrorOfTheOutputs) {
  const Lowered net = HidingNet("Mul", Floats({0, 0, 0, 0, 0, 0}));
  const PlantedGraph early = ScaleIn("early", net.graph, ReferenceFunctions());
  const Bisected found =
      BisectIn(early.graph, early.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_FALSE(found.located().AreOutputsWrong());
}

TEST(BisectTest, OfTwoFaultsTheLargerIsFirstAndTheOtherIsNamed) {
  const Lowered net = HidingNet("Add", Floats({1, 1, 1, 1, 1, 1}));
  const auto small =
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "tanh", Times(1.002F));
  // Both Tanh are a little wrong, and the sum between them more.
  const PlantedGraph planted = ScaleIn("sum", net.graph, small);
  const Bisected found =
      BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_THAT(found.Culprits(), testing::Contains("early"));
  EXPECT_THAT(found.Culprits(), testing::Contains(found.First()));
}

TEST(BisectTest, AFaultBehindTheFirstOneIsFoundOnceThatIsMended) {
  const Lowered net = LongNet(60);
  PlantedGraph early = ScaleIn("n20", net.graph, ReferenceFunctions());
  // Planted twice more, so that this fault is larger than the other one.
  early = ScaleIn("n20", early.graph, early.library);
  early = ScaleIn("n20", early.graph, early.library);
  const PlantedGraph both = ScaleIn("n50", early.graph, early.library);
  const Bisected found =
      BisectIn(both.graph, both.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_THAT(found.Culprits(), ElementsAre("n20", "n50"));
  EXPECT_GT(found.located().share_of_all.value(), 0.999);
  EXPECT_GT(found.result->questions.back().round, 0U);
}

// x -> halves (Split) -> left and right (Tanh) -> joined; and `left` again.
Lowered SplitNet(const LowerOptions& options = {}) {
  NetBuilder b;
  const ValueId x = b.In("x", {6});
  const auto halves = b.Op("Split", {x}, {{"axis", 0}, {"num_outputs", 2}},
                           {"l", "h"}, "halves");
  const ValueId left = b.Op("Tanh", {halves[0]}, {}, {"lt"}, "left")[0];
  const ValueId right = b.Op("Softmax", {halves[1]}, {}, {"rt"}, "right")[0];
  b.Out({b.Op("Add", {left, right}, {}, {"y"}, "joined")[0], left});
  return Lower(b.net, "net", options).value();
}

TEST(BisectTest, ANodeWithSeveralOutputsIsNamed) {
  const Lowered net = SplitNet();
  const PlantedGraph planted =
      ScaleIn("halves", net.graph, ReferenceFunctions());
  const Bisected found =
      BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_THAT(found.Culprits(), ElementsAre("halves"));
}

TEST(BisectTest, OnlyNodesOnTheWayToAWrongOutputCount) {
  const Lowered net = SplitNet(kPlain);
  const PlantedGraph planted =
      ScaleIn("right", net.graph, ReferenceFunctions());
  const Bisected found =
      BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_THAT(found.Culprits(), ElementsAre("right"));
  EXPECT_EQ(found.result->nodes_on_path, 4U);
}

TEST(BisectTest, MemoryThatIsUsedAgainChangesNothing) {
  NetBuilder b;
  ValueId y = b.In("x", {6});
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    y = b.Op("Tanh", {y}, {}, {std::string(name) + "_v"}, name)[0];
  }
  b.Out({y});
  const Lowered net = Lower(b.net, "net", {.fuse = false}).value();
  const PlantedGraph planted = ScaleIn("d", net.graph, ReferenceFunctions());
  const Bisected found =
      BisectIn(planted.graph, planted.library, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.First(), "d");
}

TEST(BisectTest, ANodeThatOverwritesWhatIsStillNeededIsThePlanFault) {
  NetBuilder b;
  const ValueId x = b.In("x", {6});
  const ValueId first = b.Op("Tanh", {x}, {}, {"at"}, "a")[0];
  const ValueId second = b.Op("Softmax", {first}, {}, {"bt"}, "b")[0];
  const ValueId third = b.Op("Softmax", {second}, {}, {"ct"}, "c")[0];
  b.Out({b.Op("Add", {first, third}, {}, {"y"}, "y")[0]});
  Lowered net = Lower(b.net, "net", kPlain).value();
  const GraphIndex index(net.graph);
  const EntryId a = index.FindEntry("a").value();
  const EntryId c = index.FindEntry("c").value();
  net.graph.entries[Index(c)].storage_id =
      net.graph.entries[Index(a)].storage_id;
  const Bisected found =
      BisectIn(net.graph, ReferenceFunctions(), net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.First(), "y");
  EXPECT_EQ(found.FirstVerdict(), NodeVerdict::kInherits);
  EXPECT_THAT(found.Culprits(), ElementsAre("c"));
}

TEST(BisectTest, ANodeThatRoundsIsNotAccused) {
  NetBuilder b;
  const ValueId x = b.In("x", {6});
  ValueId y = b.Op("Tanh", {x}, {}, {"t"}, "bend")[0];
  // What cancels leaves nothing but rounding, and that is enlarged.
  const NDArray in = SineRow(6, 0.3F);
  std::vector<float> bent;
  for (const float value : ValuesOf(in)) bent.push_back(-std::tanh(value));
  y = b.Op("Add", {y, b.Const("less", Floats(bent))}, {}, {"d"}, "less_")[0];
  const NDArray one = Floats({1e-7F, 1e-7F, 1e-7F, 1e-7F, 1e-7F, 1e-7F});
  b.Out({b.Op("Div", {y, b.Const("one", one)}, {}, {"y"}, "large")[0]});
  const Lowered net = Lower(b.net, "net", kPlain).value();
  const auto rounding = MakeRef<SpoiledLibrary>(
      ReferenceFunctions(), "tanh", [](const DLTensor& made) {
        auto* const data = static_cast<float*>(made.data);
        for (int i = 0; i < 6; ++i) data[i] = std::nextafter(data[i], 2.0F);
      });
  const Bisected found = BisectIn(net.graph, rounding, net.params, in);
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.First(), "bend");
  EXPECT_EQ(found.FirstVerdict(), NodeVerdict::kInherits);
  EXPECT_THAT(found.Culprits(), ElementsAre());
}

TEST(BisectTest, ACandidateThatIsNotDeterministicIsNotBisected) {
  const Lowered net = HidingNet("Add", Floats({1, 1, 1, 1, 1, 1}));
  const auto unsteady = MakeRef<SpoiledLibrary>(
      ReferenceFunctions(), "tanh",
      [calls = std::make_shared<float>(0)](const DLTensor& made) {
        static_cast<float*>(made.data)[0] += 0.1F * ++*calls;
      });
  const Bisected found =
      BisectIn(net.graph, unsteady, net.params, SineRow(6, 0.3F));
  ASSERT_THAT(found.result, IsOk());
  EXPECT_EQ(found.result->first, std::nullopt);
  ASSERT_THAT(found.Culprits(), testing::Contains("early"));
  EXPECT_EQ(found.located().nodes[0].verdict, NodeVerdict::kNotDeterministic);
  for (const BisectQuestion& question : found.result->questions) {
    EXPECT_TRUE(question.taken == 0 || question.taken == 4) << question.taken;
  }
}

TEST(BisectTest, ANodeThatDoesNotSayWhatItComputesIsAnErrorBeforeAnythingRuns) {
  Lowered net = LongNet(10);
  const NodeId node = GraphIndex(net.graph).FindNode("n4").value();
  net.graph.nodes[Index(node)].attrs.clear();
  // Nothing runs, so that it does not matter that n4 cannot.
  const Bisected found =
      BisectIn(net.graph, ReferenceFunctions(), net.params, SineRow(6, 0.3F));
  EXPECT_THAT(found.result,
              FailsWith(absl::StatusCode::kUnimplemented, HasSubstr("(n4)")));
}

}  // namespace
}  // namespace nodewise
