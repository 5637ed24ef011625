#include "nodewise/dump/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "nodewise/support/machine.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DumpTest, LiesOnDiskAsTvmLaysItOut) {
  const Graph graph = AddThenRelu().Build();
  const std::string root = Folder() + "/made/now";
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  std::set<std::string> files;
  for (const auto& file : fs::directory_iterator(root + kSubfolder)) {
    files.insert(file.path().filename().string());
  }
  EXPECT_THAT(files,
              ElementsAre("_nodewise_graph.json", "_nodewise_nodes.bin",
                          "_tvmdbg_execution_trace.json",
                          "_tvmdbg_graph_dump.json", "output_tensors.params"));
  struct stat status;
  ASSERT_EQ(stat((root + kSubfolder).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_EQ(ReadText(root + kSubfolder + "/_tvmdbg_graph_dump.json"),
            GraphDumpJson(graph));
}

// TV-01: the graph as it is, with its spaces and unknown keys.
TEST(DumpTest, HoldsTheGraphsOwnTextByteForByte) {
  const std::string text =
      AddThenRelu().With("/version", "[ 1,\t2 ]").Text() + "\n \n";
  for (const size_t spaces : {size_t{0}, size_t{1} << 20}) {
    const std::string whole = text + std::string(spaces, ' ');
    const Graph graph = ParseGraph(GraphFile(whole)).value();
    const std::string root = Folder();
    ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
    EXPECT_EQ(ReadText(root + kSubfolder + "/_nodewise_graph.json"), whole);
  }
}

// TV-01.
TEST(DumpTest, GraphWithoutATextHasNoFileOfIt) {
  Graph graph = AddThenRelu().Build();
  graph.text = {};
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  EXPECT_FALSE(fs::exists(root + kSubfolder + "/_nodewise_graph.json"));
  EXPECT_TRUE(fs::exists(root + kSubfolder + "/_tvmdbg_graph_dump.json"));
}

// The long one is written beside the run; the longer one is not kept for the
// next run either.
TEST(DumpTest, LongGraphIsDescribedWhole) {
  for (const size_t name_bytes : {size_t{2} << 20, size_t{5} << 20}) {
    const Graph graph = GraphBuilder()
                            .Input("x")
                            .Op(std::string(name_bytes, 'a'), "f", {"x"})
                            .Head("x")
                            .Build();
    const std::string root = Folder();
    ASSERT_THAT(WriteDump(graph, {.tensors = false, .root = root}), IsOk());
    EXPECT_EQ(ReadText(root + kSubfolder + "/_tvmdbg_graph_dump.json"),
              GraphDumpJson(graph));
  }
}

TEST(DumpTest, EveryEntryHasAKeyOfItsOwn) {
  const Graph graph = Doubled();
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  const auto params = OpenParams(root + kSubfolder + "/output_tensors.params");
  ASSERT_THAT(params, IsOk());
  EXPECT_EQ(params->trailing_bytes, 0u);
  EXPECT_THAT(NamesOf(*params),
              ElementsAre("x____topo-index:0____output-num:0",
                          "y____topo-index:3____output-num:0",
                          "f____topo-index:1____output-num:0",
                          "f____topo-index:1____output-num:1",
                          "f____topo-index:2____output-num:0",
                          "g____topo-index:4____output-num:0"));
  EXPECT_THAT(ValuesOf<int8_t>(params->tensors[4].tensor),
              ElementsAre(4, 4, 4));
  EXPECT_EQ(TypeToString(params->tensors[5].tensor.shape(),
                         params->tensors[5].tensor.dtype()),
            "int8 (1, 3)");
}

TEST(DumpTest, RunsOfOneRootAreIndependent) {
  const Graph graph = AddThenRelu().Build();
  const std::string root = Folder();
  for (int run = 0; run < 3; ++run) {
    ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  }
  for (const char* run : {"", "/run_2", "/run_3"}) {
    const auto dump = OpenDump(root + run + kSubfolder);
    ASSERT_THAT(dump, IsOk());
    EXPECT_EQ(dump->tensors.tensors.size(), 4u);
  }
  const auto last = OpenDump(root);
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(last->folder, root + "/run_3" + kSubfolder);
  EXPECT_EQ(last->runs_beside, 2u);
}

TEST(DumpTest, AfterTheLastNumberTheFirstFreeOneIsTaken) {
  const Graph graph = AddThenRelu().Build();
  const std::string root = Folder();
  fs::create_directories(root + kSubfolder);
  fs::create_directories(root + "/run_2");
  fs::create_directories(root + "/run_4294967295");
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  EXPECT_THAT(OpenDump(root + "/run_3" + kSubfolder), IsOk());
}

TEST(DumpTest, WithoutARootATemporaryFolderIsMade) {
  const Graph graph = AddThenRelu().Build();
  setenv("TMPDIR", Folder().c_str(), 1);
  const DumpPlan plan = PlanDump(GraphIndex(graph), {}).value();
  const auto writer = DumpWriter::Create(graph, plan, {}, kCpu);
  unsetenv("TMPDIR");
  ASSERT_THAT(writer, IsOk());
  EXPECT_THAT((*writer)->folder(), HasSubstr("/tvmdbg_"));
  Record(graph, writer->get());
  EXPECT_THAT((*writer)->Close(TimesOf(graph)), IsOk());
  EXPECT_THAT(OpenDump((*writer)->folder()), IsOk());
}

// TV-34.
TEST(DumpTest, WithoutARootOrATemporaryFolderOfTheUsersItLiesInTmp) {
  const Graph graph = AddThenRelu().Build();
  const char* const given = std::getenv("TMPDIR");
  const std::string kept = given != nullptr ? given : "";
  unsetenv("TMPDIR");
  const DumpPlan plan = PlanDump(GraphIndex(graph), {}).value();
  const auto writer = DumpWriter::Create(graph, plan, {}, kCpu);
  if (!kept.empty()) setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_THAT(writer, IsOk());
  const std::string folder((*writer)->folder());
  EXPECT_THAT(folder, testing::StartsWith("/tmp/tvmdbg_"));
  EXPECT_THAT((*writer)->Close(TimesOf(graph)), IsOk());
  fs::remove_all(fs::path(folder).parent_path());
}

TEST(DumpTest, SelectionByANameTakesAllNodesThatHaveIt) {
  const auto plan = PlanDump(GraphIndex(Doubled()), {.select = "^f$"});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(KeysOf(plan->items),
              ElementsAre("f____topo-index:1____output-num:0",
                          "f____topo-index:1____output-num:1",
                          "f____topo-index:2____output-num:0"));
}

TEST(DumpTest, SelectionByKeyFunctionAndRange) {
  const Graph graph = Doubled();
  const auto keys = [&](const RecordOptions& options) {
    return KeysOf(PlanDump(GraphIndex(graph), options).value().items);
  };
  EXPECT_THAT(keys({.select = "f#2"}),
              ElementsAre("f____topo-index:2____output-num:0"));
  EXPECT_THAT(keys({.select = "^(split|__nop)$"}),
              ElementsAre("f____topo-index:1____output-num:0",
                          "f____topo-index:1____output-num:1",
                          "g____topo-index:4____output-num:0"));
  EXPECT_THAT(keys({.first_node = 2, .last_node = 3}),
              ElementsAre("y____topo-index:3____output-num:0",
                          "f____topo-index:2____output-num:0"));
}

TEST(DumpTest, BadSelectionIsRefused) {
  const Graph graph = Doubled();
  const std::pair<RecordOptions, const char*> cases[] = {
      {{.select = "f("}, "f( is not a regular expression"},
      {{.select = "(f)\\1"}, "is not a regular expression"},
      {{.select = "((a?){300}){300}"}, "is not a regular expression"},
      {{.select = "f(?=g)"},
       "is not a regular expression of RE2: invalid perl"},
      {{.select = "nothing"},
       "no node is chosen by the expression \"nothing\""},
      {{.first_node = 3, .last_node = 2}, "chosen by nodes 3 to 2, expected"},
      {{.first_node = 5}, "chosen by nodes 5 and later, expected"},
      {{.root = std::string("a\0b", 3)}, "root \"a\" has a zero byte at 1"},
  };
  for (const auto& [options, message] : cases) {
    EXPECT_THAT(PlanDump(GraphIndex(graph), options),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(DumpTest, ExpressionThatBacktracksEndsSoon) {
  const Graph graph = GraphBuilder()
                          .Input("x")
                          .Op(std::string(100000, 'a'), "f", {"x"})
                          .Head("x")
                          .Build();
  EXPECT_THAT(PlanDump(GraphIndex(graph), {.select = "(a*)*b"}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no node")));
}

TEST(DumpTest, SelectionLooksAtNamesOfAnyLengthAndBytes) {
  const std::string begin(100000, 'a');
  Graph graph = GraphBuilder()
                    .Input("x")
                    .Op(begin + "bcd", "f", {"x"})
                    .Op(begin, "f", {"x"})
                    .Head("x")
                    .Build();
  graph.nodes[2].name += "\xff\xfe";
  const auto found = [&](const char* select) -> size_t {
    const auto plan = PlanDump(GraphIndex(graph), {.select = select});
    return plan.ok() ? plan->items.size() : 0;
  };
  EXPECT_EQ(found("bcd$"), 1u);
  EXPECT_EQ(found("^a+b"), 1u);
  EXPECT_EQ(found("b$"), 0u);
  EXPECT_EQ(found("a..$"), 1u);
  EXPECT_EQ(found("\xff.$"), 1u);
}

TEST(DumpTest, SizeLimitLeavesOutWholeEntriesByName) {
  const Graph graph = Doubled();  // 16 and 16 bytes, then 8, 12, 3, 3.
  const std::string root = Folder();
  const RecordOptions options{.max_bytes = 43, .root = root};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  EXPECT_EQ(plan.tensor_bytes, 43u);
  EXPECT_THAT(KeysOf(plan.left_out),
              ElementsAre("f____topo-index:1____output-num:1",
                          "g____topo-index:4____output-num:0"));
  ASSERT_THAT(WriteDump(graph, options), IsOk());
  const auto dump = OpenDump(root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(NamesOf(dump->tensors), KeysOf(plan.items));
  EXPECT_EQ(dump->records.size(), 6 + 3 + 3u);  // Outputs, inputs, times.
}

TEST(DumpTest, RecordsHoldTimesAndHashesInTheOrderOfTheRun) {
  const Graph graph = AddThenRelu().Build();
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.tensors = false, .root = root}), IsOk());
  const auto dump = OpenDump(root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_THAT(dump->tensors.tensors, IsEmpty());
  std::vector<std::string> lines;
  for (const NodeRecord& record : dump->records) {
    lines.push_back(absl::StrCat(static_cast<int>(record.kind), " ",
                                 Index(record.node), ":", record.slot, " ",
                                 Index(record.entry)));
  }
  EXPECT_THAT(lines, ElementsAre("3 0:0 0", "3 1:0 1",             //
                                 "2 2:0 0", "2 2:1 1", "1 2:0 0",  //
                                 "3 2:0 2",                        //
                                 "2 3:0 2", "1 3:0 0", "3 3:0 3"));
  EXPECT_EQ(dump->records[4].time.start_ns, 20);
  EXPECT_EQ(dump->records[4].time.end_ns, 25);
  const std::vector<NDArray> tensors = TensorsOf(graph);
  EXPECT_EQ(dump->records[5].stats.hash, HashBytes(tensors[2].data(), 16));
  EXPECT_EQ(dump->records[6].stats.hash, dump->records[5].stats.hash);
  EXPECT_EQ(dump->records[6].stats.elements, 4u);
  EXPECT_FALSE(dump->records[5].has_stats);
}

// The hash of what the second node reads, when the first one's output has been
// written over: that or, unless it is null, `to_read`.
uint64_t HashOfInputOverwritten(bool is_untouched,
                                const NDArray* to_read = nullptr) {
  const Graph graph = AddThenRelu().Build();
  const RecordOptions options{.tensors = false, .root = Folder()};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
  const std::vector<NDArray> tensors = TensorsOf(graph);
  const DLTensor* const inputs[] = {tensors[0].tensor(), tensors[1].tensor()};
  const DLTensor* const made = tensors[2].tensor();
  const DLTensor* const read = to_read != nullptr ? to_read->tensor() : made;
  writer->WillRun(NodeId{2}, inputs, is_untouched);
  writer->DidRun(NodeId{2}, {&made, 1}, {});
  std::memset(tensors[2].data(), 0, tensors[2].bytes());
  writer->WillRun(NodeId{3}, {&read, 1}, is_untouched);
  EXPECT_THAT(writer->Close(TimesOf(graph)), IsOk());
  return OpenDump(options.root)->records.back().stats.hash;
}

TEST(DumpTest, WhatTheLastNodeMadeIsHashedAgainUnlessItIsUntouched) {
  const NDArray as_made = TensorsOf(AddThenRelu().Build())[2];
  const uint64_t made = HashBytes(as_made.data(), 16);
  const uint64_t zeros = HashBytes(Floats({0, 0, 0, 0}).data(), 16);
  EXPECT_EQ(HashOfInputOverwritten(/*is_untouched=*/true), made);
  EXPECT_EQ(HashOfInputOverwritten(/*is_untouched=*/false), zeros);
  const NDArray elsewhere = Floats({1, 2, 3, 4});
  EXPECT_EQ(HashOfInputOverwritten(/*is_untouched=*/true, &elsewhere),
            HashBytes(elsewhere.data(), 16));
}

TEST(DumpTest, StatisticsComeBack) {
  const Graph graph = AddThenRelu().Build();
  const RecordOptions options{.stats = true, .root = Folder()};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
  const NDArray tensor = Floats({-1, 0, 3, NAN});
  writer->Input(NodeId{0}, *tensor);
  ASSERT_THAT(writer->Close(TimesOf(graph)), IsOk());
  const auto dump = OpenDump(options.root);
  ASSERT_THAT(dump, IsOk());
  ASSERT_EQ(dump->records.size(), 1u);
  ASSERT_TRUE(dump->records[0].has_stats);
  const TensorStats expected = StatsOf(*tensor);
  const TensorStats& stats = dump->records[0].stats;
  EXPECT_EQ(stats.hash, expected.hash);
  EXPECT_EQ(stats.nans, expected.nans);
  EXPECT_EQ(stats.min, expected.min);
  EXPECT_EQ(stats.max, expected.max);
  EXPECT_EQ(stats.mean, expected.mean);
}

TEST(DumpTest, RunThatStopsEarlyLeavesAFileThatTvmReads) {
  const Graph graph = Doubled();
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.root = root}, 2), IsOk());
  const auto params = OpenParams(root + kSubfolder + "/output_tensors.params");
  ASSERT_THAT(params, IsOk());
  EXPECT_THAT(NamesOf(*params),
              ElementsAre("x____topo-index:0____output-num:0",
                          "y____topo-index:3____output-num:0",
                          "f____topo-index:1____output-num:0",
                          "f____topo-index:1____output-num:1"));
  EXPECT_THAT(OpenDump(root)->missing, IsEmpty());
}

TEST(DumpTest, LargeDumpGoesThroughTheBufferUnchanged) {
  const Graph graph = LargeChain(100);  // 25 MiB through at most 12.
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  const auto dump = OpenDump(root);
  ASSERT_THAT(dump, IsOk());
  const std::vector<NDArray> tensors = TensorsOf(graph);
  ASSERT_EQ(dump->tensors.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(std::memcmp(dump->tensors.tensors[i].tensor.data(),
                          tensors[i].data(), tensors[i].bytes()),
              0)
        << i;
  }
}

TEST(DumpTest, MemoryDoesNotGrowWithTheNetwork) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory that is freed";
  const auto peak_of = [](int nodes) {
    const Graph graph = LargeChain(nodes);
    const RecordOptions options{.root = Folder()};
    const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
    // One tensor for all, so that the network itself takes none.
    const NDArray one = NDArray::Empty({65536}, kFloat32, kCpu).value();
    std::memset(one.data(), 1, one.bytes());
    const pid_t child = fork();
    if (child == 0) {
      auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
      writer->Input(NodeId{0}, *one);
      for (int i = 1; i <= nodes; ++i) {
        const DLTensor* tensor = one.tensor();
        writer->DidRun(NodeId{static_cast<uint32_t>(i)}, {&tensor, 1}, {});
      }
      _exit(writer->Close({}).ok() ? 0 : 1);
    }
    int status = 0;
    struct rusage usage;
    wait4(child, &status, 0, &usage);
    EXPECT_EQ(status, 0);
    fs::remove_all(options.root);
    return usage.ru_maxrss;  // In KiB.
  };
  const auto small = peak_of(4);
  EXPECT_LT(peak_of(400) - small, 16 << 10);
}

}  // namespace
}  // namespace nodewise
