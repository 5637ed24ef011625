#include "tests/bench/debug_sides.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "nodewise/support/machine.h"
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
  path_ = folder / fmt::format("nodewise_bench_{}", getpid());
  Clear();
}

void DumpPlace::Clear() { fs::remove_all(path_); }

std::vector<DumpPlace::File> DumpPlace::Files() const {
  std::vector<File> files;
  for (const auto& file : fs::recursive_directory_iterator(path_)) {
    if (file.is_regular_file()) {
      files.push_back({file.path().string(), file.file_size()});
    }
  }
  return files;
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

TimedSide WritesOf(std::vector<DumpPlace::File> files, DumpPlace& place) {
  std::set<std::string> folders;  // Those around others come first.
  for (const DumpPlace::File& file : files) {
    fs::path folder = fs::path(file.path).parent_path();
    for (; folder.string().size() >= place.path().size();
         folder = folder.parent_path()) {
      folders.insert(folder.string());
    }
  }
  return [files = std::move(files), folders, &place,
          block = std::string(kMib, 'x')] {
    const double time = NanosecondsOf([&] {
      for (const std::string& folder : folders) mkdir(folder.c_str(), 0700);
      for (const DumpPlace::File& file : files) {
        const int opened = open(file.path.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        NODEWISE_CHECK(opened >= 0);
        for (size_t left = file.bytes; left > 0;) {
          const ssize_t written =
              write(opened, block.data(), std::min(left, block.size()));
          NODEWISE_CHECK(written > 0);
          left -= static_cast<size_t>(written);
        }
        // As a dump is at its end.
        NODEWISE_CHECK(fsync(opened) == 0);
        NODEWISE_CHECK(close(opened) == 0);
      }
    });
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
