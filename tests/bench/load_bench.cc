#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/cpu/cpu.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/params.h"
#include "nodewise/module/module.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/memory.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr double kLimit = 1.25;
// Tensors below 2 MiB get no huge pages, however the baseline has them.
constexpr double kHugePagesLimit = 1.5;
constexpr double kMemoryLimitMib = 16;
constexpr int kRounds = 15;

// Sizes in the proportions of a convolutional network: most of the bytes are in
// few tensors, most of the tensors are small.
std::vector<size_t> TensorSizes(size_t bytes) {
  constexpr size_t kCycle[] = {8 * kMib, 4 * kMib, 2 * kMib, kMib, kMib / 2,
                               kMib / 4, 8192,     8192,     1024, 1024};
  std::vector<size_t> sizes;
  for (size_t i = 0; bytes > 0; ++i) {
    sizes.push_back(std::min(kCycle[i % std::size(kCycle)], bytes));
    bytes -= sizes.back();
  }
  return sizes;
}

// A graph that has nothing but parameters, and the file with them.
class ParamsOnDisk {
 public:
  explicit ParamsOnDisk(size_t bytes)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("nodewise_bench_{}.params", getpid())) {
    std::vector<NamedTensor> tensors;
    for (const size_t size : TensorSizes(bytes)) {
      const auto floats = static_cast<int64_t>(size / sizeof(float));
      tensors.push_back({fmt::format("p{}", tensors.size()),
                         NDArray::Empty({floats}, kFloat32, kCpu).value()});
      std::fill_n(tensors.back().tensor.As<float>(), floats, 0.5F);
      AddInput(tensors.back().name, floats);
    }
    graph_.node_row_ptr.push_back(static_cast<uint32_t>(graph_.nodes.size()));
    NODEWISE_CHECK(WriteParams(path_, tensors).ok());
  }
  ParamsOnDisk(const ParamsOnDisk&) = delete;
  ParamsOnDisk& operator=(const ParamsOnDisk&) = delete;
  ~ParamsOnDisk() { std::filesystem::remove(path_); }

  const Graph& graph() const { return graph_; }
  const std::string& path() const { return path_; }

 private:
  void AddInput(const std::string& name, int64_t floats) {
    const auto node = static_cast<uint32_t>(graph_.nodes.size());
    graph_.nodes.emplace_back().name = name;
    graph_.arg_nodes.push_back(node);
    graph_.node_row_ptr.push_back(node);
    graph_.heads.push_back({node, 0, 0});
    graph_.entries.push_back(
        {{floats}, kFloat32, static_cast<int32_t>(node), 0});
  }

  Graph graph_;
  std::string path_;
};

// An executor for `graph` with the file's parameters: what is measured.
std::unique_ptr<GraphExecutor> Load(Graph graph, const std::string& path) {
  const auto params = OpenParams(path);
  NODEWISE_CHECK(params.ok());
  auto executor = GraphExecutor::Create(std::move(graph), BuiltInLibrary({}));
  NODEWISE_CHECK(executor.ok());
  const auto loaded = (*executor)->LoadParams(*params);
  NODEWISE_CHECK(loaded.ok() && loaded->set == params->tensors.size());
  return *std::move(executor);
}

struct MemorySource {
  void* (*allocate)(size_t bytes);
  void (*free)(void* data);
};

constexpr MemorySource kMalloc = {&std::malloc, &std::free};

// Where madvise gives huge pages, touching fresh memory costs much less, and
// the executor's has them: this is the stricter baseline.
constexpr MemorySource kDevice = {
    [](size_t bytes) {
      return OpenCpuDevice()->Allocate(0, bytes, kTensorAlignment).value();
    },
    [](void* data) { OpenCpuDevice()->Free(0, data, 0); }};

bool BenchLoad(const std::string& name, size_t bytes,
               const MemorySource& memory, double limit = kLimit) {
  AlwaysFreshPages();
  const ParamsOnDisk file(bytes);
  const std::string source(bytes, 'x');
  // What was allocated is freed outside of the times.
  const auto ours = [&] {
    Graph graph = file.graph();
    std::unique_ptr<GraphExecutor> executor;
    return NanosecondsOf(
        [&] { executor = Load(std::move(graph), file.path()); });
  };
  const auto baseline = [&] {
    std::unique_ptr<void, decltype(memory.free)> copy(nullptr, memory.free);
    return NanosecondsOf([&] {
      copy.reset(memory.allocate(bytes));
      NODEWISE_CHECK(copy != nullptr);
      std::memcpy(copy.get(), source.data(), bytes);
      benchmark::DoNotOptimize(copy.get());
      benchmark::ClobberMemory();
    });
  };
  return RunContest({name, limit, kRounds, ours, baseline});
}

}  // namespace

bool BenchLoad40(const std::string& name) {
  return BenchLoad(name, 40 * kMib, kMalloc);
}

bool BenchLoad160(const std::string& name) {
  return BenchLoad(name, 160 * kMib, kMalloc);
}

bool BenchLoadHugePages(const std::string& name) {
  return BenchLoad(name, 160 * kMib, kDevice, kHugePagesLimit);
}

bool BenchLoadMemory(const std::string& name) {
  bool within_limit = true;
  for (const size_t mib : {40, 160}) {
    const ParamsOnDisk file(mib * kMib);
    std::unique_ptr<GraphExecutor> executor;
    const size_t growth = GrowthInChild(
        [] {}, [&] { executor = Load(file.graph(), file.path()); });
    const double beyond =
        (static_cast<double>(growth) - static_cast<double>(mib * kMib)) / kMib;
    within_limit &= ReportValue(fmt::format("{}_{}", name, mib), beyond,
                                kMemoryLimitMib, "MiB beyond the tensors");
  }
  return within_limit;
}

}  // namespace nodewise
