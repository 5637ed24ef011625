#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "nodewise/debug/debug_executor.h"
#include "nodewise/support/thread_pool.h"
#include "tests/runtime/dump/dump_support.h"
#include "tests/support/graph_builder.h"
#include "tests/support/kernels.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// No thread can have a stack of the whole address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes = before_;
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);
    pthread_setattr_default_np(&attributes);
  }
  ~NoMoreThreads() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_;
};

TEST(DumpFaultTest, WithoutThreadsTheDumpIsWrittenByTheRunItself) {
  const TensorSpec big{{1 << 19}};  // Two chunks of the writer's.
  const Graph graph = GraphBuilder()
                          .Input("x", big)
                          .Op("f", "inc", {"x"}, {big})
                          .Head("f")
                          .Build();
  const RecordOptions options{.root = Folder()};
  {
    const NoMoreThreads no_threads;
    ASSERT_EQ(StartQuietThread([] {}), nullptr);
    ASSERT_THAT(WriteDump(graph, options), IsOk());
  }
  const auto dump = OpenDump(options.root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_FALSE(dump->is_cut);
  EXPECT_EQ(dump->tensors.tensors.size(), 2u);
}

TEST(DumpFaultTest, CallOutOfOrderEndsTheRecordingAndIsReported) {
  const Graph graph = AddThenRelu().Build();
  const RecordOptions options{.root = Folder()};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
  const NDArray tensor = Floats({1, 2, 3, 4});
  writer->Input(NodeId{0}, *tensor);
  const DLTensor* output = tensor.tensor();
  writer->DidRun(NodeId{3}, {&output, 1}, {});
  writer->Input(NodeId{1}, *tensor);
  EXPECT_THAT(writer->Close(TimesOf(graph)),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("node 3 was recorded as item 3 of the plan, "
                                  "expected item 1")));
  EXPECT_EQ(OpenDump(options.root)->tensors.tensors.size(), 1u);
}

TEST(DumpFaultTest, WriterThatIsDroppedLeavesWhatItRecorded) {
  const Graph graph = AddThenRelu().Build();
  const RecordOptions options{.root = Folder()};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  {
    auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
    const NDArray tensor = Floats({1, 2, 3, 4});
    const DLTensor* output = tensor.tensor();
    writer->Input(NodeId{0}, *tensor);
    writer->Input(NodeId{1}, *tensor);
    writer->DidRun(NodeId{2}, {&output, 1}, {1'000, 2'000});
  }
  const auto dump = OpenDump(options.root);
  ASSERT_THAT(dump, IsOk());
  EXPECT_TRUE(dump->is_cut);
  EXPECT_EQ(dump->tensors.tensors.size(), 3u);
  EXPECT_THAT(dump->missing,
              ElementsAre("relu0____topo-index:3____output-num:0"));
}

TEST(DumpFaultTest, RootThatCannotHoldAFolderIsNamed) {
  const Graph graph = AddThenRelu().Build();
  const std::string file = Folder() + "/file";
  WriteText(file, "x");
  EXPECT_THAT(WriteDump(graph, {.root = file}),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr(file), HasSubstr("is not a folder"))));
  EXPECT_THAT(WriteDump(graph, {.root = file + "/below"}).message(),
              HasSubstr("file/below: cannot make the folder"));
  EXPECT_THAT(WriteDump(graph, {.root = "/proc/nodewise"}).message(),
              HasSubstr("/proc/nodewise: cannot make the folder"));
}

TEST(DumpFaultTest, UnwritableRootIsNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const std::string root = Folder();
  chmod(root.c_str(), 0500);
  EXPECT_THAT(WriteDump(AddThenRelu().Build(), {.root = root}),
              FailsWith(StatusCode::kPermissionDenied, HasSubstr(root)));
  chmod(root.c_str(), 0700);
}

// Forks after a node, once; both processes run on.
class Forker : public NodeObserver {
 public:
  explicit Forker(NodeId node) : node_(node) {}
  absl::Status AfterNode(const NodeRun& node) override {
    if (node.node == node_) child = fork();
    if (child == 0) alarm(60);  // Where it would hang.
    return absl::OkStatus();
  }

  pid_t child = -1;

 private:
  const NodeId node_;
};

// A dump of ten nodes with a quarter of a chunk each. The thread starts when
// the first chunk is full.
TEST(DumpFaultTest, ForkedChildThatRunsOnLeavesTheDumpToItsParent) {
  constexpr int64_t kElements = 1 << 16;
  const TensorSpec spec{{kElements}};
  GraphBuilder builder;
  builder.Input("n0", spec);
  for (int i = 1; i <= 10; ++i) {
    builder.Op(absl::StrCat("n", i), "inc", {absl::StrCat("n", i - 1)}, {spec});
  }
  builder.Head("n10");
  for (const NodeId at : {NodeId{1}, NodeId{8}}) {
    DebugExecutor::DebugOptions options;
    options.record.root = Folder();
    auto executor =
        DebugExecutor::Create(builder.Build(), TestKernels(), options).value();
    ASSERT_THAT(
        executor->SetInput(0, *Floats(std::vector<float>(kElements, 0.0F))),
        IsOk());
    Forker forker(at);
    executor->AddObserver(&forker);
    const absl::Status status = executor->Run();
    const bool was_refused =
        executor->dump_status().code() == StatusCode::kFailedPrecondition;
    if (forker.child == 0) {
      executor.reset();
      _exit(status.ok() && was_refused ? 0 : 1);
    }
    int ended = -1;
    waitpid(forker.child, &ended, 0);
    EXPECT_EQ(ended, 0);
    ASSERT_THAT(executor->dump_status(), IsOk());
    const auto dump = OpenDump(executor->dump_folder());
    ASSERT_THAT(dump, IsOk());
    ASSERT_EQ(dump->tensors.tensors.size(), 11u);
    for (size_t i = 0; i <= 10; ++i) {
      EXPECT_THAT(ValuesOf(*dump->tensors.tensors[i].tensor),
                  Each(static_cast<double>(i)));
    }
  }
}

// Runs `body` in a child whose files may not grow beyond `bytes`, as if the
// disk were full, and returns what it exits with.
template <typename Body>
int WithFullDisk(rlim_t bytes, Body body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(DumpFaultTest, FullDiskIsReportedOnCloseAndTheRestCanBeRecovered) {
  const Graph graph = LargeChain(100);
  const std::string root = Folder();
  const int rc = WithFullDisk(10 << 20, [&] {
    const absl::Status status = WriteDump(graph, {.root = root});
    const std::string message(status.message());
    return status.code() == StatusCode::kResourceExhausted &&
                   message.find(root) != message.npos &&
                   message.find("inspect --recover") != message.npos
               ? 0
               : 1;
  });
  EXPECT_EQ(rc, 0);
  const std::string path = root + kSubfolder + "/output_tensors.params";
  ASSERT_THAT(RecoverParams(path, root + "/recovered"), IsOk());
  const auto params = OpenParams(root + "/recovered");
  ASSERT_THAT(params, IsOk());
  EXPECT_EQ(params->tensors.size(), 39u);  // 40 MiB / 4, less the heads.
}

TEST(DumpFaultTest, FullDiskWhileTheHeaderIsCorrectedLeavesThePartialFile) {
  const Graph graph = LargeChain(20);
  const std::string root = Folder();
  const RecordOptions options{.root = root};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  auto writer = DumpWriter::Create(graph, plan, options, kCpu).value();
  Record(graph, writer.get(), 10);
  // A folder of this name cannot be made beside the file.
  const std::string folder = root + kSubfolder;
  fs::rename(folder, root + "/moved");
  EXPECT_THAT(writer->Close(TimesOf(graph)),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr(folder), HasSubstr("--recover"))));
  const auto dump = OpenDump(root + "/moved");
  ASSERT_THAT(dump, IsOk());
  EXPECT_EQ(dump->tensors.tensors.size(), 10u);
  EXPECT_EQ(dump->missing.size(), 11u);
}

TEST(DumpFaultTest, FailedStartLeavesNothingBehind) {
  const std::string root = Folder();
  const Graph graph = LargeChain(20);
  const int rc = WithFullDisk(100, [&] {
    const absl::Status status = WriteDump(graph, {.root = root + "/new"});
    return status.code() == StatusCode::kResourceExhausted ? 0 : 1;
  });
  EXPECT_EQ(rc, 0);
  EXPECT_TRUE(fs::is_empty(root));
}

}  // namespace
}  // namespace nodewise
