#include "nodewise/locate/locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/locate/private_storage.h"
#include "nodewise/planter/planter.h"
#include "nodewise/runners/runner_list.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NDArray Ramp(const std::vector<int64_t>& shape, float step) {
  NDArray tensor = NDArray::Empty(shape, kFloat32, kCpu).value();
  const auto count = static_cast<size_t>(tensor.bytes() / sizeof(float));
  for (size_t i = 0; i < count; ++i) {
    tensor.As<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  }
  return tensor;
}

// x -> product (MatMul, Add, Relu in one node) -> row (Reshape) -> halves
// (Split, two outputs) -> left and right (Tanh each) -> joined (Add).
Lowered BranchingNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId w = b.Const("w", Ramp({6, 8}, 0.7F));
  const ValueId bias = b.Const("bias", Ramp({8}, 1.1F));
  const ValueId row =
      b.Const("sizes", MakeTensor<int64_t>({2}, {2, 16}, kInt64));
  ValueId y = b.Op("MatMul", {x, w}, {}, {"m"}, "product")[0];
  y = b.Op("Add", {y, bias}, {}, {"a"}, "sum")[0];
  y = b.Op("Relu", {y}, {}, {"r"}, "relu")[0];
  y = b.Op("Reshape", {y, row}, {}, {"s"}, "row")[0];
  const auto halves = b.Op("Split", {y}, {{"axis", 1}, {"num_outputs", 2}},
                           {"l", "h"}, "halves");
  const ValueId left = b.Op("Tanh", {halves[0]}, {}, {"lt"}, "left")[0];
  const ValueId right = b.Op("Tanh", {halves[1]}, {}, {"rt"}, "right")[0];
  b.Out({b.Op("Add", {left, right}, {}, {"y"}, "joined")[0], left});
  return Lower(b.net, "net").value();
}

// A compiled network, and what Locate() is given of it.
struct Located {
  std::shared_ptr<const GraphTarget> target;
  StoragePlan plan;
  absl::StatusOr<LocateResult> result = absl::UnknownError("");

  std::vector<std::string> Culprits() const {
    std::vector<std::string> names;
    for (const Culprit& culprit : result->culprits) {
      names.push_back(result->nodes[culprit.report].key);
    }
    return names;
  }
  const NodeReport& Node(const std::string& key) const {
    for (const NodeReport& report : result->nodes) {
      if (report.key == key) return report;
    }
    ADD_FAILURE() << "no node " << key;
    return result->nodes[0];
  }
};

Located LocateIn(Graph graph, Ref<Library> library,
                 std::vector<NamedTensor> params,
                 std::vector<NamedTensor> inputs,
                 const LocateOptions& options = {.repeats = 2}) {
  const auto target_of = [&](Graph made) {
    return GraphTarget::FromArtefact(
               "net", {std::move(made), library, Params{params}}, {kCpu})
        .value();
  };
  Located located;
  located.target = target_of(graph);
  located.plan = PlanStorage(located.target->graph(), kDLCPU).value();
  const GraphIndex index(located.target->graph(), located.plan);
  const LocateRequest request{
      index, AllOperators(), MakerOf("debug", {"net", located.target}).value(),
      MakerOf("debug", {"net", target_of(WithPrivateStorage(graph))}).value(),
      std::move(inputs)};
  located.result = Locate(request, options);
  return located;
}

Located LocateIn(const Lowered& net, NDArray x) {
  return LocateIn(net.graph, BuiltInFunctions(AllOperators()), net.params,
                  {{"x", std::move(x)}});
}

// Plants a fault into the node of that name.
PlantedGraph PlantIn(const std::string& name, const Graph& graph,
                     const Ref<Library>& library) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    auto planted = PlantScale(graph, library, seed).value();
    if (planted.fault.name == name) return planted;
  }
  ADD_FAILURE() << "no seed plants into " << name;
  return {};
}

TEST(LocateTest, ASoundRunAccusesNoNode) {
  const Lowered net = BranchingNet();
  const Located located = LocateIn(net, Ramp({4, 6}, 0.3F));
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre());
  EXPECT_FALSE(located.result->AreOutputsWrong());
  EXPECT_EQ(located.result->CountOf(NodeVerdict::kHealthy),
            located.result->nodes.size());
}

TEST(LocateTest, AFaultInAnyNodeIsNamedAndExplainsTheWholeError) {
  const Lowered net = BranchingNet();
  const auto sound = BuiltInFunctions(AllOperators());
  for (const std::string name : {"relu", "row", "halves", "left", "joined"}) {
    SCOPED_TRACE(name);
    const PlantedGraph planted = PlantIn(name, net.graph, sound);
    const Located located = LocateIn(planted.graph, planted.library, net.params,
                                     {{"x", Ramp({4, 6}, 0.3F)}});
    ASSERT_THAT(located.result, IsOk());
    EXPECT_THAT(located.Culprits(), ElementsAre(name));
    EXPECT_EQ(located.Node(name).verdict, NodeVerdict::kBroken);
    ASSERT_TRUE(located.result->culprits[0].share.has_value());
    EXPECT_GT(*located.result->culprits[0].share, 0.999);
  }
}

TEST(LocateTest, AFusedNodeNamesTheOperationsInIt) {
  const Lowered net = BranchingNet();
  const Located located = LocateIn(net, Ramp({4, 6}, 0.3F));
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Node("relu").covers,
              ElementsAre("product", "sum", "relu"));
}

TEST(LocateTest, NodesBehindAFaultInheritIt) {
  const Lowered net = BranchingNet();
  const PlantedGraph planted =
      PlantIn("relu", net.graph, BuiltInFunctions(AllOperators()));
  const Located located = LocateIn(planted.graph, planted.library, net.params,
                                   {{"x", Ramp({4, 6}, 0.3F)}});
  ASSERT_THAT(located.result, IsOk());
  for (const std::string name : {"row", "halves", "left", "joined"}) {
    const NodeReport& node = located.Node(name);
    EXPECT_EQ(node.verdict, NodeVerdict::kInherits) << name;
    EXPECT_GT(node.received, 0.005) << name;
    EXPECT_LT(node.made, 1e-6) << name;
    EXPECT_GT(node.gain(), 0.1) << name;
  }
  EXPECT_EQ(located.Node("relu").received, 0);
}

TEST(LocateTest, TwoFaultsAreBothNamedTheOneWithTheLargerShareFirst) {
  const Lowered net = BranchingNet();
  const PlantedGraph first =
      PlantIn("relu", net.graph, BuiltInFunctions(AllOperators()));
  const PlantedGraph both = PlantIn("left", first.graph, first.library);
  const Located located = LocateIn(both.graph, both.library, net.params,
                                   {{"x", Ramp({4, 6}, 0.3F)}});
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre("left", "relu"));
  ASSERT_TRUE(located.result->share_of_all.has_value());
  EXPECT_GT(*located.result->share_of_all, 0.999);
  for (const Culprit& culprit : located.result->culprits) {
    ASSERT_TRUE(culprit.share.has_value());
    EXPECT_LT(*culprit.share, 0.99);
  }
  EXPECT_GT(*located.result->culprits[0].share,
            *located.result->culprits[1].share);
}

// x -> a -> b -> c, and y = a + c: a is needed until the end.
Lowered KeepingNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId first = b.Op("Tanh", {x}, {}, {"at"}, "a")[0];
  const ValueId second = b.Op("Softmax", {first}, {}, {"bt"}, "b")[0];
  const ValueId third = b.Op("Softmax", {second}, {}, {"ct"}, "c")[0];
  b.Out({b.Op("Add", {first, third}, {}, {"y"}, "y")[0]});
  return Lower(b.net, "net", kPlain).value();
}

TEST(LocateTest, ANodeThatOverwritesWhatIsStillNeededIsThePlanFault) {
  const Lowered net = KeepingNet();
  Graph graph = net.graph;
  const GraphIndex index(net.graph);
  const EntryId a = index.FindEntry("a").value();
  const EntryId c = index.FindEntry("c").value();
  graph.entries[Index(c)].storage_id = graph.entries[Index(a)].storage_id;
  const Located located = LocateIn(std::move(graph), ReferenceFunctions(),
                                   net.params, {{"x", Ramp({4, 6}, 0.3F)}});
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre("c"));
  EXPECT_EQ(located.Node("c").verdict, NodeVerdict::kPlanFault);
  EXPECT_THAT(located.result->culprits[0].victims,
              ElementsAre("a:0, which y still reads"));
  EXPECT_EQ(located.Node("y").verdict, NodeVerdict::kInherits);
  ASSERT_TRUE(located.result->culprits[0].share.has_value());
  EXPECT_EQ(*located.result->culprits[0].share, 1);
}

// Has the functions of another library, and adds something else in each call of
// those whose name has a word in it.
class UnsteadyLibrary : public Library {
 public:
  UnsteadyLibrary(Ref<Library> sound, std::string word)
      : sound_(std::move(sound)), word_(std::move(word)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    if (request.function.find(word_) == std::string_view::npos) return function;
    return PackedFunc::FromBody([function, calls = std::make_shared<float>(
                                               0.0F)](const PackedArgs& args)
                                    -> absl::StatusOr<Value> {
      NODEWISE_ASSIGN_OR_RETURN(Value result, function.CallPacked(args));
      NODEWISE_ASSIGN_OR_RETURN(const ArgView last, args.At(args.size() - 1));
      NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const made, last.AsTensor());
      static_cast<float*>(made->data)[0] += 0.1F * ++*calls;
      return result;
    });
  }

 private:
  const Ref<Library> sound_;
  const std::string word_;
};

TEST(LocateTest, ANodeThatMakesOtherBitsOfTheSameBitsIsNamed) {
  const Lowered net = BranchingNet();
  const Located located = LocateIn(
      net.graph, MakeRef<UnsteadyLibrary>(ReferenceFunctions(), "reshape"),
      net.params, {{"x", Ramp({4, 6}, 0.3F)}});
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre("row"));
  EXPECT_EQ(located.Node("row").verdict, NodeVerdict::kNotDeterministic);
}

TEST(LocateTest, AnInputThatIsNotANumberIsTheBadInput) {
  const Lowered net = BranchingNet();
  NDArray x = Ramp({4, 6}, 0.3F);
  x.As<float>()[3] = std::nanf("");
  const Located located = LocateIn(net, x);
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre("relu"));
  EXPECT_EQ(located.Node("relu").verdict, NodeVerdict::kBadInput);
}

TEST(LocateTest, MaskedAttentionIsAnIntendedInfinity) {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 3});
  const float inf = INFINITY;
  const ValueId mask = b.Const("mask", Floats({0, -inf, 0}));
  const ValueId masked = b.Op("Add", {x, mask}, {}, {"m"}, "masked")[0];
  b.Out({b.Op("Softmax", {masked}, {}, {"y"}, "weights")[0]});
  const Located located =
      LocateIn(Lower(b.net, "net", kPlain).value(), Ramp({2, 3}, 0.3F));
  ASSERT_THAT(located.result, IsOk());
  EXPECT_THAT(located.Culprits(), ElementsAre());
  EXPECT_EQ(located.Node("masked").verdict, NodeVerdict::kIntendedInfinity);
  EXPECT_EQ(located.Node("weights").verdict, NodeVerdict::kHealthy);
}

TEST(LocateTest, ANodeThatDoesNotSayWhatItComputesIsInconclusive) {
  Lowered net = BranchingNet();
  const auto library = ReferenceFunctions();
  auto target = GraphTarget::FromArtefact(
      "net", {net.graph, library, Params{net.params}}, {kCpu});
  ASSERT_THAT(target, IsOk());
  // The candidate still knows; who judges it does not.
  Graph judged = net.graph;
  const NodeId left = GraphIndex(judged).FindNode("left").value();
  judged.nodes[Index(left)].attrs.clear();
  const StoragePlan plan = PlanStorage(judged, kDLCPU).value();
  const GraphIndex index(judged, plan);
  const LocateRequest request{index,
                              AllOperators(),
                              MakerOf("debug", {"net", *target}).value(),
                              nullptr,
                              {{"x", Ramp({4, 6}, 0.3F)}}};
  const auto result = Locate(request, {.repeats = 0});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->CountOf(NodeVerdict::kInconclusive), 1U);
  for (const NodeReport& node : result->nodes) {
    if (node.key != "left") continue;
    EXPECT_THAT(node.reason, HasSubstr("not checked: "));
  }
}

TEST(LocateTest, RunsOfTheRunnerFailAsTheyAre) {
  const Lowered net = BranchingNet();
  const Located located = LocateIn(net, Ramp({4, 7}, 0.3F));
  EXPECT_THAT(located.result,
              FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
}

}  // namespace
}  // namespace nodewise
