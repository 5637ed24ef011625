#include "tests/bench/debug_networks.h"

#include <filesystem>
#include <numeric>
#include <utility>

#include "nodewise/artefact/artefact.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/support/check.h"
#include "tests/bench/chain.h"
#include "tests/support/fixtures.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

class EmptyFunctions : public Library {
 public:
  absl::StatusOr<PackedFunc> Find(std::string_view) override {
    return PackedFunc::FromAddress(&ReturnAtOnce, nullptr, {});
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    return Find(request.function);
  }

 private:
  static int ReturnAtOnce(TVMValue*, int*, int, TVMValue*, int*, void*) {
    return 0;
  }
};

Ref<Library> BenchKernels() {
  const auto module = LoadModule(NODEWISE_BENCH_KERNELS);
  NODEWISE_CHECK(module.ok());
  return LibraryOf(*module);
}

// The folder; "" if there is none.
std::string LargestFixtureFolder() {
  std::string largest;
  size_t most = 0;
  for (const std::string& folder : FixtureFolders("tvm-0.14")) {
    const auto text = GraphText::FromFile(folder + "/graph.json");
    NODEWISE_CHECK(text.ok());
    const auto graph = ParseGraph(*text);
    NODEWISE_CHECK(graph.ok());
    const size_t bytes = EntryBytes(*graph);
    if (bytes > most) {
      most = bytes;
      largest = folder;
    }
  }
  return largest;
}

TimedNetwork FixtureNetwork(const std::string& folder) {
  auto artefact = LoadArtefact({folder + "/graph.json", folder + "/lib.so",
                                folder + "/params.params", folder});
  auto inputs = OpenParams(folder + "/inputs.params");
  NODEWISE_CHECK(artefact.ok() && inputs.ok());
  TimedNetwork network;
  network.graph = std::move(artefact->graph);
  network.library = artefact->library;
  const auto params = std::make_shared<Params>(std::move(artefact->params));
  const auto values = std::make_shared<Params>(*std::move(inputs));
  network.set_inputs = [params, values](GraphExecutor& executor) {
    NODEWISE_CHECK(executor.LoadParams(*params).ok());
    for (const NamedTensor& input : values->tensors) {
      NODEWISE_CHECK(executor.SetInput(input.name, *input.tensor).ok());
    }
  };
  network.work = fs::path(folder).filename();
  network.rounds = 101;
  return network;
}

}  // namespace

std::unique_ptr<GraphExecutor> MakePlain(const TimedNetwork& network) {
  auto executor = GraphExecutor::Create(network.graph, network.library);
  NODEWISE_CHECK(executor.ok());
  network.set_inputs(**executor);
  return *std::move(executor);
}

std::unique_ptr<DebugExecutor> MakeDebug(const TimedNetwork& network,
                                         std::optional<RecordOptions> record) {
  DebugExecutor::DebugOptions options;
  options.records = record.has_value();
  if (options.records) options.record = *std::move(record);
  auto executor =
      DebugExecutor::Create(network.graph, network.library, options);
  NODEWISE_CHECK(executor.ok());
  network.set_inputs(**executor);
  return *std::move(executor);
}

TimedNetwork SmallChain(uint32_t nodes) {
  TimedNetwork network;
  network.graph =
      ChainGraph({nodes, /*floats=*/16, /*reads_parameter=*/true,
                  [](uint32_t call) { return AddFunction(call, 1000); }});
  network.library = BenchKernels();
  network.set_inputs = FillWithOnes;
  network.work = "0.25 FLOP per byte";
  network.rounds = 101;
  network.repeats = 20;
  network.is_fine_grained = true;
  return network;
}

TimedNetwork LargeChain() {
  TimedNetwork network;
  network.graph =
      ChainGraph({200, /*floats=*/640'000, /*reads_parameter=*/false,
                  [](uint32_t) { return "bench_steps"; }});
  network.library = BenchKernels();
  network.set_inputs = FillWithOnes;
  network.work = "2 FLOP per byte";
  network.rounds = 11;
  return network;
}

std::optional<TimedNetwork> LargestFixture() {
  const std::string folder = LargestFixtureFolder();
  if (folder.empty()) return std::nullopt;
  return FixtureNetwork(folder);
}

TimedNetwork WithEmptyFunctions(TimedNetwork network) {
  network.library = Ref<Library>(new EmptyFunctions);
  return network;
}

size_t EntryBytes(const Graph& graph) {
  const std::vector<size_t> sizes = EntrySizes(graph);
  return std::accumulate(sizes.begin(), sizes.end(), size_t{0});
}

std::vector<size_t> EntrySizes(const Graph& graph) {
  const GraphIndex index(graph);
  std::vector<size_t> sizes;
  for (uint32_t e = 0; e < graph.entries.size(); ++e) {
    sizes.push_back(index.BytesOf(EntryId{e}));
  }
  return sizes;
}

}  // namespace nodewise
