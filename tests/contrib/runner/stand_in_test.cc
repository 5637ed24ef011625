#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "nodewise/emit_c/emit_c.h"
#include "nodewise/planter/planter.h"
#include "nodewise/runner/mixed_target.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// y = tanh(softmax(x)), a node each.
Lowered BendingNet() {
  NetBuilder b;
  const ValueId x = b.In("x", {2, 4});
  const ValueId weights = b.Op("Softmax", {x}, {}, {"w"}, "weights")[0];
  b.Out({b.Op("Tanh", {weights}, {}, {"y"}, "bend")[0]});
  return Lower(b.net, "net", kPlain).value();
}

std::shared_ptr<const GraphTarget> TargetOf(Graph graph, Ref<Library> library) {
  return GraphTarget::FromArtefact("net", {std::move(graph), library, {}},
                                   {kCpu})
      .value();
}

std::vector<float> Outputs(const GraphTarget& target) {
  auto executor = target.MakeExecutor().value();
  const NDArray x = MakeTensor<float>({2, 4}, {1, 2, 3, 4, 0.5F, -1, 2, 7});
  EXPECT_THAT(executor->SetInput(0, *x), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  return ValuesOf(executor->GetOutput(0).value());
}

NodeChoice Only(const std::string& name) {
  return [name](const std::string& node) { return node == name; };
}

TEST(StandInTest, TheReferenceTakesThePlaceOfABrokenFunction) {
  const Lowered net = BendingNet();
  const PlantedGraph planted =
      PlantScale(net.graph, ReferenceFunctions(), 3).value();
  const auto sound = TargetOf(net.graph, ReferenceFunctions());
  const auto broken = TargetOf(planted.graph, planted.library);
  ASSERT_NE(Outputs(*broken), Outputs(*sound));
  const auto mended =
      WithStandIns(*broken, AllOperators(), Only(planted.fault.name));
  ASSERT_THAT(mended, IsOk());
  EXPECT_EQ(Outputs(**mended), Outputs(*sound));
}

TEST(StandInTest, NodesThatAreNotChosenKeepTheirOwnFunctions) {
  const Lowered net = BendingNet();
  const PlantedGraph planted =
      PlantScale(net.graph, ReferenceFunctions(), 3).value();
  const auto broken = TargetOf(planted.graph, planted.library);
  const auto same = WithStandIns(*broken, AllOperators(), Only("none"));
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(Outputs(**same), Outputs(*broken));
}

TEST(StandInTest, ALibraryAloneKnowsNodesByWhatTheySay) {
  const Lowered net = BendingNet();
  const PlantedGraph planted =
      PlantScale(net.graph, ReferenceFunctions(), 3).value();
  const auto mended = TargetOf(
      planted.graph,
      WithStandIns(planted.library, AllOperators(), Only(planted.fault.name)));
  EXPECT_EQ(Outputs(*mended),
            Outputs(*TargetOf(net.graph, ReferenceFunctions())));
}

TEST(StandInTest, ANodeThatDoesNotSayWhatItComputesCannotBeReplaced) {
  Lowered net = BendingNet();
  const NodeId bend = GraphIndex(net.graph).FindNode("bend").value();
  net.graph.nodes[Index(bend)].attrs.clear();
  const auto target = TargetOf(net.graph, ReferenceFunctions());
  const auto replaced = WithStandIns(*target, AllOperators(), Only("bend"));
  ASSERT_THAT(replaced, IsOk());
  EXPECT_THAT((*replaced)->MakeExecutor().status(),
              FailsWith(absl::StatusCode::kUnimplemented,
                        AllOf(HasSubstr("node bend: the reference cannot stand "
                                        "in for it"),
                              HasSubstr("nodewise.network"))));
}

TEST(StandInTest, NodesOfCompiledCAreReplacedToo) {
  const Lowered net = BendingNet();
  const auto emitted = EmitC(net.graph, AllOperators());
  ASSERT_THAT(emitted, IsOk());
  const std::string source =
      std::regex_replace(emitted->source, std::regex(R"(\btanh\()"), "sin(");
  const std::string stem = testing::TempDir() + "nodewise_stand_in";
  std::ofstream(stem + ".c") << source;
  const std::string command =
      "cc -shared -fPIC '" + stem + ".c' -o '" + stem + ".so' -lm";
  ASSERT_EQ(std::system(command.c_str()), 0);
  auto module = LoadModule(stem + ".so");
  ASSERT_THAT(module, IsOk());
  const auto broken = TargetOf(emitted->graph, LibraryOf(*module));
  const auto sound = Outputs(*TargetOf(net.graph, ReferenceFunctions()));
  EXPECT_GT(std::abs(Outputs(*broken)[3] - sound[3]), 1e-3F);
  const auto mended = WithStandIns(*broken, AllOperators(), Only("bend"));
  ASSERT_THAT(mended, IsOk());
  EXPECT_NEAR(Outputs(**mended)[3], sound[3], 1e-6F);
  std::filesystem::remove(stem + ".c");
  std::filesystem::remove(stem + ".so");
}

}  // namespace
}  // namespace nodewise
