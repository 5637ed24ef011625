#include "nodewise/tensors/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/dump/dump.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/tensors/tensor_file.h"
#include "tests/contrib/tensors/tensor_source_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/tensors.h"
#ifdef NODEWISE_USE_PROFILER
#include "nodewise/tensors/tensor_observer.h"
#include "tests/support/kernels.h"
#endif

// What every source does, put to the same test: each case has the same tensors
// in another form.

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// x -> a -> s, which has two outputs.
Graph SplitGraph() {
  return GraphBuilder()
      .Input("x")
      .Op("a", "inc", {"x"})
      .Op("s", "split", {"a"}, {{.shape = {2}}, {.shape = {2}}})
      .Head("s")
      .Build();
}

std::vector<NamedTensor> AllTensors() {
  return {{"x", Floats({0, 1, 2, 3})},
          {"a", Floats({1, 2, 3, 4})},
          {"s", Floats({1, 2})},
          {"s:1", Floats({3, 4})}};
}

std::vector<NamedTensor> FirstTensor() { return {AllTensors()[0]}; }

using Source = std::unique_ptr<TensorSource>;

struct SourceCase {
  const char* name;
  std::vector<NamedTensor> (*tensors)();
  // Makes the source; what it needs on the disk lies in the folder.
  absl::StatusOr<Source> (*open)(const std::string& folder);
  // The file to damage; empty for a source that has none.
  const char* file = "";
  bool can_find = true;
};

absl::StatusOr<Source> OpenFile(const std::string& path,
                                const std::vector<NamedTensor>& tensors) {
  if (!fs::exists(path)) {
    EXPECT_THAT(WriteTensorFile(path, tensors), IsOk());
  }
  return OpenTensorSource(path);
}

absl::StatusOr<Source> OpenNpz(const std::string& folder) {
  return OpenFile(folder + "/all.npz", AllTensors());
}
absl::StatusOr<Source> OpenParamsSource(const std::string& folder) {
  return OpenFile(folder + "/all.params", AllTensors());
}
absl::StatusOr<Source> OpenNpy(const std::string& folder) {
  return OpenFile(folder + "/x.npy", FirstTensor());
}
absl::StatusOr<Source> OpenPb(const std::string& folder) {
  return OpenFile(folder + "/one.pb", FirstTensor());
}

absl::StatusOr<Source> OpenSet(const std::string& folder) {
  const std::vector<NamedTensor> tensors = AllTensors();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name =
        i == 0 ? "/input_0.pb" : "/output_" + std::to_string(i - 1) + ".pb";
    if (fs::exists(folder + name)) continue;
    EXPECT_THAT(WriteTensorFile(folder + name, {tensors[i]}), IsOk());
  }
  return OpenTensorSource(folder);
}

// Records a run as an executor does.
void WriteDump(const std::string& root) {
  const Graph graph = SplitGraph();
  const RecordOptions options{.stats = true, .root = root};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  const auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
  const auto tensors = AllTensors();
  std::vector<const DLTensor*> all;
  for (const NamedTensor& entry : tensors) all.push_back(entry.tensor.tensor());
  writer->Input(NodeId{0}, *all[0]);
  writer->WillRun(NodeId{1}, {all[0]}, false);
  writer->DidRun(NodeId{1}, {all[1]}, {10, 15});
  writer->WillRun(NodeId{2}, {all[1]}, false);
  writer->DidRun(NodeId{2}, {all[2], all[3]}, {15, 22});
  EXPECT_THAT(writer->Close(std::vector<NodeTime>(3)), IsOk());
}

absl::StatusOr<Source> OpenDumpFolder(const std::string& folder) {
  if (fs::is_empty(folder)) WriteDump(folder);
  return OpenTensorSource(folder);
}

absl::StatusOr<Source> OpenCollector(const std::string&) {
  auto collector = std::make_unique<TensorCollector>();
  for (const NamedTensor& entry : AllTensors()) {
    const TensorKey key{.node = entry.name, .source = "memory"};
    EXPECT_THAT(
        collector->Consume({.key = key, .tensor = entry.tensor.tensor()}),
        IsOk());
  }
  return collector;
}

#ifdef NODEWISE_USE_PROFILER
// A source of runs, and what runs.
class OwnedRun : public TensorSource {
 public:
  OwnedRun() {
    executor_ = DebugExecutor::Create(SplitGraph(), TestKernels(), {}).value();
    EXPECT_THAT(executor_->SetInput(0, *AllTensors()[0].tensor), IsOk());
    runs_ = SourceOfRuns(executor_.get(), {.source = "run of split"});
  }
  const std::string& name() const override { return runs_->name(); }
  absl::Status Visit(TensorSink& sink) override { return runs_->Visit(sink); }
  absl::StatusOr<NDArray> Find(const TensorKey& key) override {
    return runs_->Find(key);
  }

 private:
  std::unique_ptr<DebugExecutor> executor_;
  Source runs_;
};

absl::StatusOr<Source> OpenRun(const std::string&) {
  return std::make_unique<OwnedRun>();
}
#endif

const SourceCase kCases[] = {
    {"npz", &AllTensors, &OpenNpz, "all.npz"},
    {"params", &AllTensors, &OpenParamsSource, "all.params"},
    {"npy", &FirstTensor, &OpenNpy, "x.npy"},
    {"pb", &FirstTensor, &OpenPb, "one.pb"},
    {"test_set", &AllTensors, &OpenSet, "output_1.pb"},
    {"dump", &AllTensors, &OpenDumpFolder,
     "_tvmdbg_device_CPU_0/output_tensors.params"},
    {"collector", &AllTensors, &OpenCollector},
#ifdef NODEWISE_USE_PROFILER
    {"run", &AllTensors, &OpenRun, "", /*can_find=*/false},
#endif
};

class TensorSourceTest : public testing::TestWithParam<SourceCase> {
 protected:
  TensorSourceTest() {
    folder_ = testing::TempDir() + "source_" + GetParam().name;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  Source Open() { return GetParam().open(folder_).value(); }
  // What the nodes made; dumps also say what they read.
  static std::vector<TensorCollector::Kept> Outputs(TensorSource& source) {
    std::vector<TensorCollector::Kept> outputs;
    for (auto& item : VisitAll(source)) {
      if (item.key.role == TensorRole::kOutput) outputs.push_back(item);
    }
    return outputs;
  }

  std::string folder_;
};

TEST_P(TensorSourceTest, VisitsAllTensorsInTheProducersOrder) {
  const Source source = Open();
  const std::vector<NamedTensor> expected = GetParam().tensors();
  for (int visit = 0; visit < 2; ++visit) {
    const auto outputs = Outputs(*source);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].key.Name(), expected[i].name);
      EXPECT_THAT(ValuesOf(outputs[i].tensor),
                  ElementsAreArray(ValuesOf(expected[i].tensor)));
      EXPECT_EQ(outputs[i].why_absent, "");
    }
  }
}

TEST_P(TensorSourceTest, KeysNameTheSource) {
  const Source source = Open();
  EXPECT_NE(source->name(), "");
  for (const auto& item : VisitAll(*source)) {
    EXPECT_EQ(item.key.source, source->name());
  }
}

TEST_P(TensorSourceTest, KeptTensorsOutliveTheSource) {
  Source source = Open();
  const auto outputs = Outputs(*source);
  source.reset();
  for (const auto& item : outputs) {
    EXPECT_FALSE(ValuesOf(item.tensor).empty());
  }
}

TEST_P(TensorSourceTest, FindsEachTensorByItsKey) {
  const Source source = Open();
  for (const NamedTensor& entry : GetParam().tensors()) {
    const auto found = source->Find({.node = entry.name});
    if (GetParam().can_find) {
      ASSERT_THAT(found, IsOk());
      EXPECT_EQ(ValuesOf(*found), ValuesOf(entry.tensor));
    } else {
      EXPECT_THAT(found, FailsWith(StatusCode::kUnimplemented,
                                   HasSubstr(source->name())));
    }
  }
}

TEST_P(TensorSourceTest, SaysThatItDoesNotHaveATensor) {
  if (!GetParam().can_find) GTEST_SKIP() << "cannot find";
  const Source source = Open();
  EXPECT_THAT(source->Find({"x", 1}),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr(source->name()), HasSubstr("x:1"),
                              HasSubstr("expected one of its"))));
  EXPECT_THAT(source->Find({"x", 0, TensorRole::kInput}),
              FailsWith(StatusCode::kNotFound, HasSubstr("x:input:0")));
}

// Takes one item and has had enough.
class ShortSink : public TensorSink {
 public:
  absl::Status Consume(const TensorItem&) override {
    ++count;
    return absl::CancelledError("enough");
  }
  int count = 0;
};

TEST_P(TensorSourceTest, StopsWhereTheSinkSaysSo) {
  const Source source = Open();
  ShortSink sink;
  EXPECT_EQ(source->Visit(sink), absl::CancelledError("enough"));
  EXPECT_EQ(sink.count, 1);
  EXPECT_EQ(Outputs(*source).size(), GetParam().tensors().size());
}

TEST_P(TensorSourceTest, IsComplete) {
  EXPECT_THAT(Open()->CheckComplete(), IsOk());
}

TEST_P(TensorSourceTest, DamagedFileIsNamed) {
  if (GetParam().file[0] == '\0') GTEST_SKIP() << "has no file";
  (void)Open();
  const std::string path = folder_ + "/" + GetParam().file;
  std::string bytes = ReadWhole(path);
  for (size_t i = 4; i < bytes.size(); ++i) bytes[i] = '\xEE';
  WriteWhole(path, bytes);
  const auto source = GetParam().open(folder_);
  TensorCollector collector;
  const absl::Status status =
      source.ok() ? (*source)->Visit(collector) : source.status();
  EXPECT_THAT(status,
              FailsWith(StatusCode::kDataLoss, HasSubstr(GetParam().file)));
}

INSTANTIATE_TEST_SUITE_P(All, TensorSourceTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

std::string EmptyFolder(const std::string& name) {
  const std::string folder = testing::TempDir() + "open_source_" + name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(OpenTensorSourceTest, SaysWhatWasFoundAndExpected) {
  const std::string folder = EmptyFolder("refused");
  EXPECT_THAT(OpenTensorSource(folder),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(folder + ": is a folder without"),
                              HasSubstr("expected a dump"))));
  EXPECT_THAT(OpenTensorSource(folder + "/none.npz"),
              FailsWith(StatusCode::kNotFound, HasSubstr("none.npz")));
  WriteWhole(folder + "/notes.txt", "text");
  EXPECT_THAT(OpenTensorSource(folder + "/notes.txt"),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("extension is \".txt\", expected .npy")));
}

TEST(OpenTensorSourceTest, ADumpsFileOfTensorsIsTheDump) {
  const std::string folder = EmptyFolder("dump_file");
  WriteDump(folder);
  const std::string inner = folder + "/_tvmdbg_device_CPU_0";
  const auto source = OpenTensorSource(inner + "/output_tensors.params");
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->name(), inner);
  EXPECT_TRUE(VisitAll(**source)[0].stats.has_value());
}

TEST(OpenTensorSourceTest, ADumpsKeysAreTakenApartInAnyFile) {
  const std::string path = EmptyFolder("keys") + "/copy.npz";
  const std::string x = DumpKeyOf("x", NodeId{0}, 0);
  const std::string first = DumpKeyOf("f", NodeId{1}, 1);
  const std::string second = DumpKeyOf("f", NodeId{2}, 0);
  const NDArray tensor = Floats({1});
  ASSERT_THAT(
      WriteTensorFile(path, {{x, tensor}, {first, tensor}, {second, tensor}}),
      IsOk());
  const Source source = OpenTensorSource(path).value();
  EXPECT_THAT(NamesOf(VisitAll(*source)),
              testing::ElementsAre("x", "f#1:1", "f#2"));
  EXPECT_THAT(source->Find({"f#1", 1}), IsOk());
}

TEST(OpenTensorSourceTest, OutputZeroMayBeWrittenWithItsNumber) {
  const std::string path = EmptyFolder("zero") + "/until.npz";
  ASSERT_THAT(WriteTensorFile(path, {{"conv:0", Floats({5})}}), IsOk());
  const Source source = OpenTensorSource(path).value();
  EXPECT_THAT(source->Find({"conv", 0}), IsOk());
  EXPECT_THAT(source->Find({"conv", 1}),
              FailsWith(StatusCode::kNotFound, HasSubstr("conv:1")));
}

}  // namespace
}  // namespace nodewise
