#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>
#include <vector>

#include "nodewise/dump/dump.h"
#include "tests/support/graph_builder.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr int kNodes = 300;

// A chain whose tensors have sizes of all kinds, 9 MiB in all.
Graph ManyEntries() {
  GraphBuilder builder;
  builder.Input("n0");
  for (int i = 1; i <= kNodes; ++i) {
    const int64_t bytes = i % 10 == 0 ? 300'000 + i : 1 + (i * 37) % 500;
    builder.Op("n" + std::to_string(i), "f", {"n" + std::to_string(i - 1)},
               {{.shape = {bytes}, .dtype = "uint8"}});
  }
  return builder.Head("n" + std::to_string(kNodes)).Build();
}

uint8_t ByteOf(uint32_t entry, size_t i) {
  return static_cast<uint8_t>(entry * 131 + i * 7 + (i >> 8));
}

std::vector<NDArray> ContentsOf(const Graph& graph) {
  std::vector<NDArray> tensors;
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    const GraphEntry& entry = graph.entries[e];
    auto tensor = NDArray::Empty(entry.shape, entry.dtype, kCpu).value();
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      tensor.As<uint8_t>()[i] = ByteOf(e, i);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Records what a run of the first `entries` entries would.
void RecordFirst(uint32_t entries, const std::vector<NDArray>& tensors,
                 DumpWriter* writer) {
  writer->Input(NodeId{0}, *tensors[0]);
  for (uint32_t i = 1; i < entries; ++i) {
    const DLTensor* input = tensors[i - 1].tensor();
    const DLTensor* output = tensors[i].tensor();
    writer->WillRun(NodeId{i}, {&input, 1}, /*is_untouched=*/false);
    writer->DidRun(NodeId{i}, {&output, 1}, {i, i + 1});
  }
}

// Writes dump after dump, until it is killed.
[[noreturn]] void WriteForEver(const Graph& graph, const DumpPlan& plan,
                               const RecordOptions& options,
                               const std::vector<NDArray>& tensors) {
  while (true) {
    auto writer = DumpWriter::Create(graph, plan, options, kCpu);
    if (!writer.ok()) _exit(1);
    RecordFirst(static_cast<uint32_t>(tensors.size()), tensors, writer->get());
    if (!(*writer)->Close({}).ok()) _exit(2);
  }
}

// What a killed writer left in one run's folder: tensors that are whole.
void CheckLeftover(const std::string& folder,
                   const std::vector<NDArray>& tensors) {
  const std::string file = folder + "/output_tensors.params";
  if (!fs::exists(file)) return;  // Killed before it was made.
  const auto dump = OpenDump(folder);
  ASSERT_THAT(dump, IsOk());
  EXPECT_THAT(dump->records_status, IsOk());
  const std::vector<NamedTensor>& found = dump->tensors.tensors;
  for (size_t e = 0; e < found.size(); ++e) {
    EXPECT_EQ(found[e].name, DumpKeyOf("n" + std::to_string(e),
                                       NodeId{static_cast<uint32_t>(e)}, 0));
    ASSERT_EQ(found[e].tensor.bytes(), tensors[e].bytes());
    EXPECT_EQ(std::memcmp(found[e].tensor.data(), tensors[e].data(),
                          tensors[e].bytes()),
              0)
        << "entry " << e;
  }
  const std::string recovered = folder + "/recovered";
  ASSERT_THAT(RecoverParams(file, recovered), IsOk());
  const auto params = OpenParams(recovered);
  ASSERT_THAT(params, IsOk());
  EXPECT_EQ(params->tensors.size(), found.size());
}

// Kills a writer after about `delay` and looks at all that it left.
void KillOne(const Graph& graph, const DumpPlan& plan,
             const RecordOptions& options, const std::vector<NDArray>& tensors,
             std::chrono::microseconds delay) {
  fs::remove_all(options.root);
  fs::create_directories(options.root);
  const pid_t child = fork();
  if (child == 0) WriteForEver(graph, plan, options, tensors);
  usleep(static_cast<useconds_t>(delay.count()));
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;
  for (const auto& entry : fs::recursive_directory_iterator(options.root)) {
    if (entry.path().filename() == "_tvmdbg_device_CPU_0") {
      CheckLeftover(entry.path().string(), tensors);
    }
  }
}

// The dump that a child is writing into `root`, or "".
std::string FolderIn(const std::string& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "_tvmdbg_device_CPU_0") return entry.path();
  }
  return "";
}

size_t TensorsIn(const std::string& root) {
  const std::string folder = FolderIn(root);
  if (folder.empty()) return 0;
  const auto dump = OpenDump(folder);
  return dump.ok() ? dump->tensors.tensors.size() : 0;
}

TEST(DumpKillTest, WhatCameBeforeANodeThatHangsIsThere) {
  const Graph graph = ManyEntries();
  const RecordOptions options{.root = testing::TempDir() + "dump_hang_" +
                                      std::to_string(getpid())};
  fs::create_directories(options.root);
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  const std::vector<NDArray> tensors = ContentsOf(graph);
  const pid_t child = fork();
  if (child == 0) {
    auto writer = DumpWriter::Create(graph, plan, options, kCpu);
    if (!writer.ok()) _exit(1);
    RecordFirst(3, tensors, writer->get());
    while (true) pause();
  }
  // A tenth of a second, where there are processors for it.
  constexpr int kTries = 2000;
  for (int i = 0; i < kTries && TensorsIn(options.root) < 3; ++i) {
    usleep(10'000);
  }
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(TensorsIn(options.root), 3u);
  CheckLeftover(FolderIn(options.root), tensors);
  fs::remove_all(options.root);
}

uint64_t Seed() {
  const char* given = std::getenv("NODEWISE_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10)
                          : std::random_device()();
}

TEST(DumpKillTest, KilledWriterLeavesWholeTensors) {
  const char* full = std::getenv("NODEWISE_TEST_FULL");
  const int kills = full != nullptr && std::string(full) == "1" ? 1000 : 20;
  const uint64_t seed = Seed();
  std::cout << kills << " kills; repeat with NODEWISE_SEED=" << seed
            << " nodewise_tests --gtest_filter=DumpKillTest.*\n";
  const Graph graph = ManyEntries();
  const RecordOptions options{.root = testing::TempDir() + "dump_kill_" +
                                      std::to_string(getpid())};
  const DumpPlan plan = PlanDump(GraphIndex(graph), options).value();
  const std::vector<NDArray> tensors = ContentsOf(graph);
  std::mt19937_64 random(seed);
  for (int i = 0; i < kills && !testing::Test::HasFailure(); ++i) {
    const std::chrono::microseconds delay(random() % 30'000);
    KillOne(graph, plan, options, tensors, delay);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "kill " << i << " after " << delay.count() << " us";
    }
  }
  fs::remove_all(options.root);
}

}  // namespace
}  // namespace nodewise
