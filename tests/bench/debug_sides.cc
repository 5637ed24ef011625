#include "tests/bench/debug_sides.h"

#include <benchmark/benchmark.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_format.h"
#include "nodewise/support/check.h"
#include "runtime/debug/node_clock.h"
#include "tests/bench/memory.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

bool IsTmpfsWithSpace(const char* folder) {
  constexpr size_t kSpace = 1536 * kMib;
  struct statfs status;
  return statfs(folder, &status) == 0 && status.f_type == TMPFS_MAGIC &&
         status.f_bavail * static_cast<size_t>(status.f_bsize) >= kSpace;
}

}  // namespace

size_t NumCalls(const Graph& graph) {
  size_t calls = 0;
  for (const GraphNode& node : graph.nodes) {
    const bool is_called = node.kind == GraphNode::Kind::kFunction &&
                           node.function != kNopFunction;
    calls += is_called ? 1 : 0;
  }
  return calls;
}

DumpPlace::DumpPlace() {
  fs::path folder = "/dev/shm";
  if (!IsTmpfsWithSpace(folder.c_str())) {
    folder = fs::temp_directory_path();
    std::printf("no tmpfs with 1.5 GiB free at /dev/shm: dumps go to %s\n",
                folder.c_str());
  }
  path_ = folder / absl::StrFormat("nodewise_bench_%d", getpid());
  Clear();
}

void DumpPlace::Clear() { fs::remove_all(path_); }

size_t DumpPlace::Bytes() const {
  size_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(path_)) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  return bytes;
}

RecordOptions StatsTo(const DumpPlace& place) {
  RecordOptions record;
  record.tensors = false;
  record.stats = true;
  record.root = place.path();
  return record;
}

RecordOptions DumpTo(const DumpPlace& place) {
  RecordOptions record;
  record.root = place.path();
  return record;
}

TimedSide RunsOf(GraphExecutor& executor, int repeats) {
  return [&executor, repeats] {
    return NanosecondsOfEach(repeats,
                             [&] { NODEWISE_CHECK(executor.Run().ok()); });
  };
}

TimedSide RecordedRun(DebugExecutor& executor, DumpPlace& place) {
  return [&executor, &place] {
    const double time =
        NanosecondsOf([&] { NODEWISE_CHECK(executor.Run().ok()); });
    NODEWISE_CHECK(executor.dump_status().ok());
    place.Clear();
    return time;
  };
}

TimedSide ClockReadings(size_t count, int repeats) {
  return [count, repeats] {
    return NanosecondsOfEach(repeats, [&] {
      for (size_t i = 0; i < count; ++i) {
        benchmark::DoNotOptimize(ClockNanoseconds());
      }
    });
  };
}

}  // namespace nodewise
