#include "nodewise/locate/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/planter/planter.h"
#include "tests/contrib/locate/spoiled_library.h"
#include "tests/contrib/lower/lower_support.h"
#include "tests/contrib/tensors/tensor_source_support.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTensorsOfDump[] = "/_tvmdbg_device_CPU_0/output_tensors.params";
constexpr char kGraphOfDump[] = "/_tvmdbg_device_CPU_0/_nodewise_graph.json";

// x -> a (Tanh) -> b (Softmax) -> c (Softmax), and y = a + c: a is needed until
// the end.
Lowered FourNodes() {
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  const ValueId first = b.Op("Tanh", {x}, {}, {"at"}, "a")[0];
  const ValueId second = b.Op("Softmax", {first}, {}, {"bt"}, "b")[0];
  const ValueId third = b.Op("Softmax", {second}, {}, {"ct"}, "c")[0];
  b.Out({b.Op("Add", {first, third}, {}, {"yt"}, "y")[0]});
  return Lower(b.net, "net", kPlain).value();
}

// Runs a graph and returns where its dump is.
std::string DumpOfRun(const Graph& graph, const Ref<Library>& library,
                      RecordOptions record = {}) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      (std::string("replay_") + test->name());
  std::filesystem::remove_all(folder);
  record.root = folder.string();
  DebugExecutor::DebugOptions options;
  options.record = record;
  // With a text that says what has been changed by hand.
  Graph again =
      ParseGraph(GraphText::FromString("net", WriteGraph(graph))).value();
  auto executor =
      DebugExecutor::Create(std::move(again), library, options).value();
  NDArray x = NDArray::Empty({4, 6}, kFloat32, kCpu).value();
  for (int i = 0; i < 24; ++i) {
    x.As<float>()[i] = std::sin(0.3F * static_cast<float>(i + 1));
  }
  EXPECT_THAT(executor->SetInput(0, *x), IsOk());
  EXPECT_THAT(executor->Run(), IsOk());
  EXPECT_THAT(executor->dump_status(), IsOk());
  return record.root;
}

std::string DumpOfSound(RecordOptions record = {}) {
  return DumpOfRun(FourNodes().graph, ReferenceFunctions(), std::move(record));
}

absl::StatusOr<LocateResult> Replay(const std::string& dump) {
  return ReplayDump(dump, AllOperators());
}

std::vector<std::string> CulpritsOf(const LocateResult& located) {
  std::vector<std::string> names;
  for (const Culprit& culprit : located.culprits) {
    names.push_back(located.nodes[culprit.report].key);
  }
  return names;
}

TEST(ReplayTest, ASoundDumpAccusesNoNodeAndItsOutputsAreCompared) {
  const auto located = Replay(DumpOfSound());
  ASSERT_THAT(located, IsOk());
  EXPECT_THAT(CulpritsOf(*located), ElementsAre());
  EXPECT_EQ(located->CountOf(NodeVerdict::kHealthy), 4U);
  ASSERT_EQ(located->outputs.size(), 1U);
  EXPECT_FALSE(located->AreOutputsWrong());
}

TEST(ReplayTest, OnlyTheNodeThatMadeTheErrorIsNamed) {
  const Lowered net = FourNodes();
  std::vector<std::string> seen;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const auto planted =
        PlantScale(net.graph, ReferenceFunctions(), seed).value();
    const auto located = Replay(DumpOfRun(planted.graph, planted.library));
    ASSERT_THAT(located, IsOk());
    EXPECT_THAT(CulpritsOf(*located), ElementsAre(planted.fault.name));
    EXPECT_TRUE(located->AreOutputsWrong());
  }
}

TEST(ReplayTest, ANodeThatOverwroteWhatWasNeededIsThePlanFault) {
  const Lowered net = FourNodes();
  Graph graph = net.graph;
  const GraphIndex index(net.graph);
  const EntryId a = index.FindEntry("a").value();
  const EntryId c = index.FindEntry("c").value();
  graph.entries[Index(c)].storage_id = graph.entries[Index(a)].storage_id;
  const auto located = Replay(DumpOfRun(graph, ReferenceFunctions()));
  ASSERT_THAT(located, IsOk());
  ASSERT_THAT(CulpritsOf(*located), ElementsAre("c"));
  EXPECT_THAT(located->culprits[0].victims,
              ElementsAre("a:0, which y still reads"));
  EXPECT_EQ(located->nodes[2].verdict, NodeVerdict::kPlanFault);
  EXPECT_EQ(located->nodes[3].verdict, NodeVerdict::kInconclusive);
  EXPECT_THAT(located->nodes[3].reason, HasSubstr("had been written over"));
}

TEST(ReplayTest, NodesWhoseTensorsWereNotRecordedAreNotJudged) {
  const auto located = Replay(DumpOfSound({.select = "^[bc]$"}));
  ASSERT_THAT(located, IsOk());
  EXPECT_EQ(located->CountOf(NodeVerdict::kHealthy), 1U);  // c
  EXPECT_EQ(located->CountOf(NodeVerdict::kInconclusive), 3U);
  EXPECT_THAT(located->nodes[1].reason,
              HasSubstr("its input 0 (a:0): was not recorded"));
  EXPECT_TRUE(located->outputs.empty());
}

TEST(ReplayTest, WhereNothingCanBeJudgedTheReasonIsGiven) {
  const auto located = Replay(DumpOfSound({.tensors = false, .stats = true}));
  EXPECT_THAT(located, FailsWith(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("no node could be judged: a: its "
                                           "input 0 (x:0): only its statistics "
                                           "were recorded")));
}

TEST(ReplayTest, ADumpThatIsCutShortIsAnError) {
  const std::string dump = DumpOfSound();
  CutFile(dump + kTensorsOfDump, 10);
  EXPECT_THAT(Replay(dump), FailsWith(absl::StatusCode::kDataLoss,
                                      HasSubstr("is cut short, 1 tensor")));
}

TEST(ReplayTest, AnEmptyFileOfTensorsIsAnError) {
  const std::string dump = DumpOfSound();
  WriteWhole(dump + kTensorsOfDump, "");
  EXPECT_THAT(Replay(dump), FailsWith(absl::StatusCode::kDataLoss,
                                      HasSubstr(kTensorsOfDump)));
}

TEST(ReplayTest, ATensorThatWasChangedAfterTheRunIsAnError) {
  const std::string dump = DumpOfSound();
  std::string bytes = ReadWhole(dump + kTensorsOfDump);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  WriteWhole(dump + kTensorsOfDump, bytes);
  EXPECT_THAT(Replay(dump), FailsWith(absl::StatusCode::kDataLoss,
                                      HasSubstr("tensor y is not what the run "
                                                "made")));
}

TEST(ReplayTest, ADumpOfAnotherGraphIsAnError) {
  const std::string dump = DumpOfSound();
  NetBuilder b;
  const ValueId x = b.In("x", {4, 6});
  b.Out({b.Op("Tanh", {x}, {}, {"z"}, "other")[0]});
  WriteWhole(dump + kGraphOfDump,
             WriteGraph(Lower(b.net, "other", kPlain).value().graph));
  EXPECT_THAT(Replay(dump), FailsWith(absl::StatusCode::kDataLoss,
                                      HasSubstr("has 2 nodes, expected 5 as in "
                                                "_tvmdbg_graph_dump.json")));
  // Without that file the tensors say so.
  std::filesystem::remove(dump +
                          "/_tvmdbg_device_CPU_0/_tvmdbg_graph_dump.json");
  EXPECT_THAT(Replay(dump),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("tensor a:input:0 is of no node of")));
}

TEST(ReplayTest, TensorsOfOtherTypesThanTheGraphHasAreAnError) {
  const std::string dump = DumpOfSound();
  std::string graph = ReadWhole(dump + kGraphOfDump);
  NetBuilder b;
  const ValueId x = b.In("x", {4, 7});
  const ValueId first = b.Op("Tanh", {x}, {}, {"at"}, "a")[0];
  const ValueId second = b.Op("Softmax", {first}, {}, {"bt"}, "b")[0];
  const ValueId third = b.Op("Softmax", {second}, {}, {"ct"}, "c")[0];
  b.Out({b.Op("Add", {first, third}, {}, {"yt"}, "y")[0]});
  WriteWhole(dump + kGraphOfDump,
             WriteGraph(Lower(b.net, "wider", kPlain).value().graph));
  EXPECT_THAT(Replay(dump), FailsWith(absl::StatusCode::kDataLoss,
                                      HasSubstr("tensor x is float32 (4, 6), "
                                                "expected float32 (4, 7)")));
}

TEST(ReplayTest, IntegersWhereTheGraphHasFloatsAreAnError) {
  const std::string dump = DumpOfSound();
  std::string bytes = ReadWhole(dump + kTensorsOfDump);
  // The type of the first tensor: code, bits and lanes, after its device and
  // rank.
  const std::string type("\2\x20\1\0", 4);
  const size_t at = bytes.find(type);
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 0;
  WriteWhole(dump + kTensorsOfDump, bytes);
  EXPECT_THAT(Replay(dump),
              FailsWith(absl::StatusCode::kDataLoss,
                        HasSubstr("int32 (4, 6), expected float32 (4, 6)")));
}

TEST(ReplayTest, ADumpWithoutAGraphThatCouldRunIsAnError) {
  const std::string dump = DumpOfSound();
  std::filesystem::remove(dump + kGraphOfDump);
  EXPECT_THAT(Replay(dump),
              FailsWith(absl::StatusCode::kNotFound,
                        HasSubstr("has no _nodewise_graph.json")));
}

// Moves each element to the number below, as a sum that is rounded downward is.
void RoundDown(const DLTensor& made) {
  auto* const data = static_cast<float*>(DataOf(made));
  for (int i = 0; i < 24; ++i) data[i] = std::nextafter(data[i], -9.0F);
}

void Enlarge(const DLTensor& made) {
  static_cast<float*>(DataOf(made))[0] += 0.1F;
}

// The sum is spoiled, and perhaps the node before it leaves the rounding mode.
absl::StatusOr<LocateResult> ReplayOfSum(SpoiledLibrary::Spoil spoil,
                                         bool leaves_floats) {
  Ref<Library> library =
      MakeRef<SpoiledLibrary>(ReferenceFunctions(), "add", std::move(spoil));
  if (leaves_floats) {
    library = MakeRef<SpoiledLibrary>(
        std::move(library), "tanh",
        [](const DLTensor&) { std::fesetround(FE_DOWNWARD); });
  }
  const std::string dump = DumpOfRun(FourNodes().graph, library);
  std::fesetround(FE_TONEAREST);
  return Replay(dump);
}

TEST(ReplayTest, WhatRoundedAsANodeBeforeItLeftInheritsThat) {
  const auto alone = ReplayOfSum(RoundDown, false);
  ASSERT_THAT(alone, IsOk());
  EXPECT_THAT(CulpritsOf(*alone), ElementsAre("y"));
  const auto located = ReplayOfSum(RoundDown, true);
  ASSERT_THAT(located, IsOk());
  EXPECT_THAT(CulpritsOf(*located), ElementsAre("a"));
  EXPECT_EQ(located->nodes[0].verdict, NodeVerdict::kChangesFloats);
  EXPECT_EQ(located->nodes[3].verdict, NodeVerdict::kInherits);
  EXPECT_EQ(located->nodes[3].reason,
            "ran with floats as a had left them: the rounding mode changed "
            "(downward, was to nearest)");
}

TEST(ReplayTest, NoRoundingExcusesALargeError) {
  const auto located = ReplayOfSum(Enlarge, true);
  ASSERT_THAT(located, IsOk());
  EXPECT_THAT(CulpritsOf(*located), ElementsAre("a", "y"));
}

}  // namespace
}  // namespace nodewise
