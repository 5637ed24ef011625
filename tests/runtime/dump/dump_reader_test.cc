#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "nodewise/dump/dump.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/fixtures.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DumpReaderTest, EveryBeginningOfADumpGivesItsCompleteTensors) {
  const Graph graph = Doubled();
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.root = root}), IsOk());
  const std::string bytes =
      ReadText(root + kSubfolder + "/output_tensors.params");
  const DumpPlan plan = PlanDump(GraphIndex(graph), {}).value();
  const std::vector<std::string> keys = KeysOf(plan.items);
  const size_t header = ParamsHeader(keys).size();
  size_t last = 0;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto partial =
        ParsePartialParams(BytesOf(bytes).subspan(0, size), "p", nullptr);
    ASSERT_THAT(partial, IsOk()) << size;
    const size_t count = partial->params.tensors.size();
    ASSERT_GE(count, last);
    last = count;
    EXPECT_EQ(partial->is_cut, size < bytes.size()) << size;
    if (size >= header) {
      EXPECT_EQ(count + partial->missing.size(), keys.size()) << size;
    } else {
      EXPECT_EQ(count, 0u) << size;
    }
  }
  EXPECT_EQ(last, keys.size());
}

TEST(DumpReaderTest, DamageIsToldFromBeingCut) {
  const std::string bytes =
      SerializeParams({{{"a", Floats({1, 2})}, {"b", Floats({3})}}}).value();
  const auto patched = [&](size_t at, char value) {
    std::string copy = bytes;
    copy[at] = value;
    return copy;
  };
  const std::pair<std::string, const char*> cases[] = {
      {"nods", "byte 0: list magic"},
      {patched(42, 9), "byte 42: tensor count is 9, expected 2"},
      {patched(50, 0), "byte 50: tensor magic"},
      {patched(66, 2), "byte 66: tensor is on device type 2"},
      {patched(74, 0), "has 2 data bytes, expected 4"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ParsePartialParams(BytesOf(text), "p", nullptr),
                FailsWith(StatusCode::kDataLoss, HasSubstr(message)));
  }
}

TEST(DumpReaderTest, FlippedBytesNeverDoWorseThanAnError) {
  const Graph graph = Doubled();
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(graph, {.stats = true, .root = root}), IsOk());
  for (const char* file : {"/output_tensors.params", "/_nodewise_nodes.bin"}) {
    const std::string bytes = ReadText(root + kSubfolder + file);
    for (size_t i = 0; i < bytes.size(); ++i) {
      for (const char flip : {'\x01', '\x80', '\xFF'}) {
        std::string copy = bytes;
        copy[i] = static_cast<char>(copy[i] ^ flip);
        (void)ParsePartialParams(BytesOf(copy), "p", nullptr);
        (void)ParseNodeRecords(BytesOf(copy), "r");
      }
    }
  }
}

TEST(DumpReaderTest, EveryBeginningOfTheRecordsGivesTheWholeOnes) {
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(Doubled(), {.stats = true, .root = root}), IsOk());
  const std::string bytes =
      ReadText(root + kSubfolder + "/_nodewise_nodes.bin");
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto records =
        ParseNodeRecords(BytesOf(bytes).subspan(0, size), "nodes.bin");
    ASSERT_THAT(records, IsOk()) << size;
    EXPECT_EQ(records->size(), size < 24 ? 0 : (size - 24) / 88);
  }
}

// A killed run leaves such a dump.
TEST(DumpReaderTest, DumpOfStatisticsWithoutTheFileThatIsMadeLastIsCut) {
  const std::string root = Folder();
  const RecordOptions options{.tensors = false, .stats = true, .root = root};
  ASSERT_THAT(WriteDump(Doubled(), options), IsOk());
  EXPECT_FALSE(OpenDump(root)->is_cut);
  std::filesystem::remove(root + kSubfolder + "/_tvmdbg_execution_trace.json");
  const auto dump = OpenDump(root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_TRUE(dump->is_cut);
  EXPECT_FALSE(dump->has_tensors);
}

// The inputs, the first node and its first output of Doubled(), as written
// before record files named their hash.
constexpr char kOldRecords[] =
    "4e4f444557495345010000002000000003000000000000000000000000000000"
    "5b74536cb3690cec040000000000000003000000030000000000000004000000"
    "05f09b314da38216040000000000000002000000010000000000000000000000"
    "5b74536cb3690cec040000000000000001000000010000000000000000000000"
    "0a000000000000000f0000000000000003000000010000000000000001000000"
    "22bc712ceb5f9a9e0200000000000000";

std::string OldRecords() { return absl::HexStringToBytes(kOldRecords); }

TEST(DumpReaderTest, RecordsOfVersion1AreReadAndHaveTheOldHash) {
  const auto records = ParseNodeRecords(BytesOf(OldRecords()), "nodes.bin");
  ASSERT_THAT(records, IsOk());
  ASSERT_EQ(records->size(), 5u);
  const NodeRecord& made = records->at(0);
  const NodeRecord& read = records->at(2);
  EXPECT_EQ(made.hash_kind, HashKind::kNodewiseOwn);
  EXPECT_EQ(made.stats.hash, 0xEC0C69B36C53745B);
  EXPECT_EQ(made.stats.elements, 4u);
  EXPECT_EQ(CompareHashes(made.hash(), read.hash()), HashMatch::kSame);
  EXPECT_EQ(records->at(3).time.end_ns, 15);
  EXPECT_EQ(records->at(4).entry, EntryId{1});
}

TEST(DumpReaderTest, EveryBeginningOfOldRecordsGivesTheWholeOnes) {
  const std::string bytes = OldRecords();
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const auto records =
        ParseNodeRecords(BytesOf(bytes).subspan(0, size), "nodes.bin");
    ASSERT_THAT(records, IsOk()) << size;
    EXPECT_EQ(records->size(), size < 16 ? 0 : (size - 16) / 32);
  }
}

TEST(DumpReaderTest, RecordFileNamesItsHash) {
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(Doubled(), {.root = root}), IsOk());
  const std::string bytes =
      ReadText(root + kSubfolder + "/_nodewise_nodes.bin");
  EXPECT_EQ(bytes.substr(16, 8), std::string("XXH3-64\0", 8));
  EXPECT_EQ(OpenDump(root)->records.at(0).hash_kind, HashKind::kXxh3);
}

TEST(DumpReaderTest, OldHashOfTheSameTensorIsNotComparable) {
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(Doubled(), {.root = root}), IsOk());
  const NodeRecord now = OpenDump(root)->records.at(0);
  const NodeRecord old =
      ParseNodeRecords(BytesOf(OldRecords()), "nodes.bin")->at(0);
  EXPECT_EQ(now.entry, old.entry);
  EXPECT_NE(now.stats.hash, old.stats.hash);
  EXPECT_EQ(CompareHashes(now.hash(), old.hash()), HashMatch::kNotComparable);
}

TEST(DumpReaderTest, EmptyFileHasNoRecords) {
  const auto records = ParseNodeRecords({}, "nodes.bin");
  ASSERT_THAT(records, IsOk());
  EXPECT_TRUE(records->empty());
}

TEST(DumpReaderTest, DamagedRecordIsNamedByItsByte) {
  const std::string root = Folder();
  ASSERT_THAT(WriteDump(Doubled(), {.root = root}), IsOk());
  const std::string bytes =
      ReadText(root + kSubfolder + "/_nodewise_nodes.bin");
  const std::tuple<size_t, char, const char*> cases[] = {
      {0, 'n', "nodes.bin: byte 0: is not a node record file"},
      {8, 3, "byte 8: version is 3, expected 1 or 2"},
      {12, 33, "byte 12: records have 33 bytes, expected 32 or 88"},
      {20, '9', "byte 16: hash is \"XXH3964\", expected"},
      {56, 9, "byte 56: record kind is 9"},
      {58, 1, "byte 58: record flags are 1"},
  };
  for (const auto& [at, value, message] : cases) {
    std::string copy = bytes;
    copy[at] = value;
    EXPECT_THAT(ParseNodeRecords(BytesOf(copy), "nodes.bin"),
                FailsWith(StatusCode::kDataLoss, HasSubstr(message)));
  }
}

TEST(DumpReaderTest, TensorsAreReadBesideDamagedRecords) {
  const std::string root = Folder();
  const std::string folder = root + kSubfolder;
  ASSERT_THAT(WriteDump(Doubled(), {.root = root}), IsOk());
  const size_t tensors = OpenDump(root)->tensors.tensors.size();
  WriteText(folder + "/_nodewise_nodes.bin", "no records at all");
  const auto dump = OpenDump(root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->tensors.tensors.size(), tensors);
  EXPECT_EQ(dump->tensors_path, folder + "/output_tensors.params");
  EXPECT_THAT(dump->records, IsEmpty());
  EXPECT_THAT(dump->records_status,
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("_nodewise_nodes.bin: byte 0: ")));
}

TEST(DumpReaderTest, FolderWithoutADumpIsNotFound) {
  const std::string root = Folder();
  EXPECT_THAT(OpenDump(root),
              FailsWith(StatusCode::kNotFound, HasSubstr("holds no dump")));
  EXPECT_THAT(OpenDump(root + "/none"),
              FailsWith(StatusCode::kNotFound, HasSubstr("is not a folder")));
  fs::create_directories(root + "/run_2" + kSubfolder);
  EXPECT_THAT(OpenDump(root), FailsWith(StatusCode::kNotFound, HasSubstr("")));
}

TEST(DumpReaderTest, GraphDumpOfAGraphWithoutTextIsThatOfItsText) {
  Graph graph = AddThenRelu().Build();
  graph.text = {};
  const std::string json = GraphDumpJson(graph);
  EXPECT_THAT(json, AllOf(HasSubstr("\"op\": \"param\""),
                          HasSubstr("\"T\": \"type: float32\"")));
}

TEST(DumpReaderTest, GraphDumpHoldsNothingButAscii) {
  const Graph graph = GraphBuilder().Input("\xC3\xBC\x7F").Head("#0").Build();
  EXPECT_THAT(GraphDumpJson(graph), HasSubstr("\"name\": \"\\u00fc\\u007f\""));
}

class TvmDumpTest : public testing::Test {
 protected:
  void SetUp() override {
    folders_ = FixtureFolders("tvm-0.14");
    if (folders_.empty()) GTEST_SKIP() << "no fixtures: tvm-0.14";
  }
  std::vector<std::string> folders_;
};

TEST_F(TvmDumpTest, GraphDumpIsTvmsByteForByte) {
  for (const std::string& folder : folders_) {
    const auto graph =
        ParseGraph(GraphText::FromFile(folder + "/graph.json").value());
    ASSERT_THAT(graph, IsOk());
    EXPECT_EQ(GraphDumpJson(*graph),
              ReadText(folder + "/tvm_debug" + kSubfolder +
                       "/_tvmdbg_graph_dump.json"))
        << folder;
  }
}

TEST_F(TvmDumpTest, TvmsDumpsHoldWhatOursWould) {
  for (const std::string& folder : folders_) {
    const auto graph =
        ParseGraph(GraphText::FromFile(folder + "/graph.json").value());
    ASSERT_THAT(graph, IsOk());
    const auto dump = OpenDump(folder + "/tvm_debug");
    ASSERT_THAT(dump, IsOk());
    EXPECT_THAT(dump->missing, IsEmpty());
    EXPECT_FALSE(dump->is_cut);
    EXPECT_THAT(dump->records, IsEmpty());
    const DumpPlan plan = PlanDump(GraphIndex(*graph), {}).value();
    EXPECT_EQ(plan.items.size(), dump->tensors.tensors.size());
    for (const DumpPlan::Item& item : plan.items) {
      const NDArray* tensor = dump->tensors.Find(item.key);
      ASSERT_NE(tensor, nullptr) << item.key;
      EXPECT_EQ(tensor->bytes(), item.bytes) << item.key;
    }
  }
}

}  // namespace
}  // namespace nodewise
