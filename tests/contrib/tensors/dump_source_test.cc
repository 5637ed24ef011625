// Dumps as sources: what is joined, and what is missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/graph/params.h"
#include "tests/contrib/tensors/tensor_source_support.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTensors[] = "/_tvmdbg_device_CPU_0/output_tensors.params";
constexpr char kRecords[] = "/_tvmdbg_device_CPU_0/_nodewise_nodes.bin";
constexpr char kGraph[] = "/_tvmdbg_device_CPU_0/_tvmdbg_graph_dump.json";

using Kept = TensorCollector::Kept;

std::unique_ptr<TensorSource> Open(const std::string& path) {
  return OpenTensorSource(path).value();
}

// Doubled() has x, f with two outputs, another f, y and g.
std::string DumpOfDoubled(RecordOptions options = {.stats = true}) {
  options.root = Folder();
  EXPECT_THAT(WriteDump(Doubled(), options), IsOk());
  return options.root;
}

TEST(DumpSourceTest, HandsOutWhatEachNodeReadAndMade) {
  const auto items = VisitAll(*Open(DumpOfDoubled()));
  EXPECT_THAT(NamesOf(items),
              ElementsAre("x", "y", "f#1:input:0", "f#1", "f#1:1",
                          "f#2:input:0", "f#2", "g:input:0", "g"));
  EXPECT_TRUE(items[0].is_network_input);
  EXPECT_TRUE(items[1].is_network_input);
  EXPECT_FALSE(items[3].is_network_input);
}

TEST(DumpSourceTest, JoinsTensorStatisticsAndTime) {
  const auto items = VisitAll(*Open(DumpOfDoubled()));
  const Kept& made = items[4];
  EXPECT_EQ(made.tensor.shape(), absl::Span<const int64_t>({3}));
  ASSERT_TRUE(made.stats.has_value());
  EXPECT_EQ(made.stats->hash, StatsOf(*made.tensor).hash);
  EXPECT_EQ(made.hash.value().value, made.stats->hash);
  EXPECT_EQ(made.time.start_ns, 10);
  EXPECT_EQ(made.time.end_ns, 15);
}

TEST(DumpSourceTest, WhatWasReadSaysWhatItShouldBe) {
  const auto items = VisitAll(*Open(DumpOfDoubled()));
  const Kept& read = items[5];
  EXPECT_FALSE(read.tensor.defined());
  EXPECT_EQ(read.why_absent, "only its hash was recorded");
  ASSERT_TRUE(read.origin.has_value());
  EXPECT_EQ(*read.origin, items[4].key);
  EXPECT_EQ(CompareHashes(read.hash.value(), items[4].hash.value()),
            HashMatch::kSame);
}

TEST(DumpSourceTest, DumpOfStatisticsHasNoTensors) {
  const auto source = Open(DumpOfDoubled({.tensors = false, .stats = true}));
  for (const Kept& item : VisitAll(*source)) {
    EXPECT_FALSE(item.tensor.defined());
    EXPECT_TRUE(item.hash.has_value());
    if (item.key.role == TensorRole::kInput) continue;
    EXPECT_TRUE(item.stats.has_value());
    EXPECT_EQ(item.why_absent, "only its statistics were recorded");
  }
  EXPECT_THAT(source->CheckComplete(), IsOk());
  EXPECT_THAT(source->Find({"g"}),
              FailsWith(StatusCode::kNotFound,
                        HasSubstr("only its statistics were recorded")));
}

TEST(DumpSourceTest, WithoutTheGraphStatisticsAreNamedByNumbers) {
  const std::string root =
      DumpOfDoubled({.tensors = false, .stats = true, .select = "f"});
  fs::remove(root + kGraph);
  const auto items = VisitAll(*Open(root));
  EXPECT_THAT(NamesOf(items),
              ElementsAre("#1:input:0", "#1", "#1:1", "#2:input:0", "#2"));
  // What node 1 read was not recorded.
  EXPECT_FALSE(items[0].origin.has_value());
}

TEST(DumpSourceTest, CutDumpGivesItsCompleteTensorsAndNamesTheOthers) {
  const std::string root = DumpOfDoubled();
  CutFile(root + kTensors, 4);
  const auto source = Open(root);
  const auto items = VisitAll(*source);
  EXPECT_EQ(items.size(), 9u);
  EXPECT_TRUE(items[6].tensor.defined());
  const Kept& last = items[8];
  EXPECT_EQ(last.key.Name(), "g");
  EXPECT_FALSE(last.tensor.defined());
  EXPECT_EQ(last.why_absent, "the dump ends before it");
  EXPECT_TRUE(last.hash.has_value());
  EXPECT_THAT(
      source->CheckComplete(),
      FailsWith(StatusCode::kDataLoss,
                AllOf(HasSubstr("output_tensors.params: is cut short"),
                      HasSubstr("1 tensor missing"), HasSubstr("g____topo"))));
}

TEST(DumpSourceTest, CutTensorsWithoutRecordsAreNamedToo) {
  const std::string root = DumpOfDoubled();
  CutFile(root + kTensors, 4);
  fs::remove(root + kRecords);
  const auto items = VisitAll(*Open(root));
  EXPECT_THAT(NamesOf(items),
              ElementsAre("x", "y", "f#1", "f#1:1", "f#2", "g"));
  EXPECT_EQ(items[5].why_absent, "the dump ends before it");
}

TEST(DumpSourceTest, DumpThatIsCutInItsHeaderIsNotComplete) {
  const std::string root = DumpOfDoubled();
  fs::resize_file(root + kTensors, 10);
  EXPECT_THAT(Open(root)->CheckComplete(),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("is cut short before the first tensor")));
}

TEST(DumpSourceTest, KilledRunOfStatisticsIsNotComplete) {
  const std::string root = DumpOfDoubled({.tensors = false, .stats = true});
  fs::remove(root + "/_tvmdbg_device_CPU_0/_tvmdbg_execution_trace.json");
  EXPECT_THAT(
      Open(root)->CheckComplete(),
      FailsWith(StatusCode::kDataLoss, HasSubstr("had not come to its end")));
}

TEST(DumpSourceTest, DamagedRecordsAreReportedAndTheTensorsStillThere) {
  const std::string root = DumpOfDoubled();
  WriteText(root + kRecords, "no records are in here");
  const auto source = Open(root);
  EXPECT_EQ(VisitAll(*source).size(), 6u);
  EXPECT_THAT(source->CheckComplete(),
              FailsWith(StatusCode::kDataLoss, HasSubstr("_nodewise_nodes")));
}

TEST(DumpSourceTest, DamagedGraphIsReported) {
  const std::string root = DumpOfDoubled();
  WriteText(root + kGraph, "{\"nodes\": [{}]}");
  EXPECT_THAT(Open(root)->CheckComplete(),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("_tvmdbg_graph_dump.json: is not a graph")));
}

// Writes the files of a dump as TVM does, without records.
std::string TvmDump(const std::vector<NamedTensor>& tensors) {
  const std::string root = Folder();
  fs::create_directories(root + kSubfolder);
  EXPECT_THAT(WriteParams(root + kTensors, tensors), IsOk());
  WriteText(root + kGraph, GraphDumpJson(Doubled()));
  return root;
}

TEST(DumpSourceTest, TvmsTensorsComeInTheOrderOfTheRun) {
  const NDArray tensor = Floats({1});
  const std::string root = TvmDump({{DumpKeyOf("g", NodeId{4}, 0), tensor},
                                    {DumpKeyOf("f", NodeId{1}, 1), tensor},
                                    {DumpKeyOf("y", NodeId{3}, 0), tensor},
                                    {DumpKeyOf("f", NodeId{1}, 0), tensor},
                                    {DumpKeyOf("x", NodeId{0}, 0), tensor}});
  const auto items = VisitAll(*Open(root));
  EXPECT_THAT(NamesOf(items), ElementsAre("x", "y", "f#1", "f#1:1", "g"));
  EXPECT_TRUE(items[1].is_network_input);
}

// Its keys do not say which of two nodes of one name is meant.
TEST(DumpSourceTest, KeysOfTvm08AreFoundByTheNamesOfNodes) {
  const NDArray tensor = Floats({1});
  const std::string root =
      TvmDump({{"g____0", tensor}, {"f____1", tensor}, {"x____0", tensor}});
  EXPECT_THAT(NamesOf(VisitAll(*Open(root))), ElementsAre("x", "g", "f:1"));
}

TEST(DumpSourceTest, TensorsThatAreNotCalledAsInADumpKeepTheirNames) {
  const std::string root = TvmDump({{"a/b", Floats({1})}});
  EXPECT_THAT(NamesOf(VisitAll(*Open(root))), ElementsAre("a/b"));
}

// A tensor of another name belongs to another graph than the JSON text.
TEST(DumpSourceTest, TwoNamesOfOneNodeAreNotMixedUp) {
  const std::string root =
      TvmDump({{DumpKeyOf("a", NodeId{1}, 0), Floats({1})},
               {DumpKeyOf("b", NodeId{1}, 0), Floats({2})}});
  EXPECT_THAT(NamesOf(VisitAll(*Open(root))), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace nodewise
