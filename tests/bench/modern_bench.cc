// A network that today's TVM compiled: here, in TVM's own VM, and as calls by
// hand, in turns.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/artefact/artefact.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/debug_networks.h"
#include "tests/bench/debug_sides.h"
#include "tests/bench/ratio.h"
#include "tests/bench/tvm_process.h"
#include "tests/support/fixtures.h"

namespace nodewise {
namespace {

constexpr int kOperators = 1000;
constexpr int kRounds = 101;
constexpr int kRepeats = 20;
// Each round takes TVM tens of milliseconds.
constexpr int kCopyRounds = 21;

constexpr double kVmLimit = 1.0 / 8;
constexpr double kDirectLimit = 1.15;
constexpr double kChainDumpLimit = 1.0 / 10;
constexpr double kConvnetDumpLimit = 1;

TimedNetwork NetworkIn(const std::string& folder) {
  auto artefact = LoadArtefact({"", folder + "/vm.so", "", folder});
  auto inputs = OpenParams(folder + "/inputs.params");
  NODEWISE_CHECK(artefact.ok() && inputs.ok());
  TimedNetwork network;
  network.graph = std::move(artefact->graph);
  network.library = artefact->library;
  network.set_inputs = [params = std::move(artefact->params),
                        values = *std::move(inputs)](GraphExecutor& executor) {
    NODEWISE_CHECK(executor.LoadParams(params).ok());
    for (const NamedTensor& input : values.tensors) {
      NODEWISE_CHECK(executor.SetInput(input.name, *input.tensor).ok());
    }
  };
  network.rounds = kRounds;
  network.repeats = kRepeats;
  return network;
}

// The calls of a graph without views, with nothing around them. The tensors are
// those of an executor of its own.
class DirectCalls {
 public:
  explicit DirectCalls(const TimedNetwork& network)
      : memory_(MakeDebug(network, std::nullopt)) {
    const Graph& graph = network.graph;
    size_t count = 0;
    for (const GraphNode& node : graph.nodes) {
      count += node.inputs.size() + node.num_outputs;
    }
    args_.reserve(count);
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      if (node.kind != GraphNode::Kind::kFunction) continue;
      PackedFunc function = network.library->Find(node.function).value();
      const auto* ffi =
          dynamic_cast<const FfiFunction*>(function.object().get());
      NODEWISE_CHECK(ffi != nullptr);
      const TVMFFIAny* const first = args_.data() + args_.size();
      for (const EntryRef& input : node.inputs) Add(graph.EntryOf(input));
      for (uint32_t o = 0; o < node.num_outputs; ++o) {
        Add(graph.EntryOf(NodeId{n}, o));
      }
      const auto num_args =
          static_cast<int32_t>(node.inputs.size() + node.num_outputs);
      calls_.push_back({ffi->safe_call(), ffi->self(), first, num_args});
      functions_.push_back(std::move(function));
    }
  }

  void Run() const {
    for (const Call& call : calls_) {
      TVMFFIAny result;
      result.type_index = kTVMFFINone;
      result.small_len = 0;
      const int rc =
          call.function(call.self, call.args, call.num_args, &result);
      NODEWISE_CHECK(rc == 0);
    }
  }

 private:
  struct Call {
    TVMFFISafeCallType function;
    void* self;
    const TVMFFIAny* args;
    int32_t num_args;
  };

  void Add(EntryId entry) {
    TVMFFIAny arg{kTVMFFIDLTensorPtr, 0, {0}};
    arg.v_ptr = const_cast<DLTensor*>(&memory_->TensorOf(entry));
    args_.push_back(arg);
  }

  std::unique_ptr<DebugExecutor> memory_;
  std::vector<TVMFFIAny> args_;
  std::vector<Call> calls_;
  std::vector<PackedFunc> functions_;
};

struct Repeats {
  int ours;
  int theirs;
};

bool BenchAgainstVm(const std::string& name, const std::string& folder,
                    TvmProcess& tvm, double limit, Repeats repeats) {
  const auto plain = MakePlain(NetworkIn(folder));
  return RunContest({name, limit, kRounds, RunsOf(*plain, repeats.ours),
                     [&] { return tvm.Run(folder, repeats.theirs); }});
}

bool BenchAgainstDirectCalls(const std::string& name,
                             const TimedNetwork& network) {
  const auto plain = MakePlain(network);
  const DirectCalls calls(network);
  return RunContest(
      {name, kDirectLimit, kRounds, RunsOf(*plain, kRepeats),
       [&] { return NanosecondsOfEach(kRepeats, [&] { calls.Run(); }); }});
}

// Ours hashes and writes inputs, constants and outputs to a file; theirs keeps
// the outputs in memory.
bool BenchDumpAgainstVm(const std::string& name, const std::string& folder,
                        TvmProcess& tvm, double limit) {
  DumpPlace place;
  const auto dump = MakeDebug(NetworkIn(folder), DumpTo(place));
  return RunContest({name, limit, kCopyRounds, RecordedRun(*dump, place),
                     [&] { return tvm.RunWithCopies(folder, 1); }});
}

// About as long for both: what is longer is interrupted more often.
constexpr Repeats kChainRepeats = {kRepeats, 3};

// The newest fixture of TVM that is a convolution net; "" if there is none.
std::string ConvnetFolder() {
  for (const std::string& folder : FixtureFolders("tvm-0.27")) {
    if (std::filesystem::path(folder).filename() == "convnet") return folder;
  }
  return "";
}

bool All(std::initializer_list<bool> results) {
  for (const bool result : results) {
    if (!result) return false;
  }
  return true;
}

}  // namespace

bool BenchModernChain(const std::string& name) {
  const auto tvm = TvmProcess::Start(name);
  if (tvm == nullptr) return true;
  const std::string folder = tvm->Chain(kOperators);
  const TimedNetwork network = NetworkIn(folder);
  return All({
      BenchAgainstVm(name + "_vs_vm", folder, *tvm, kVmLimit, kChainRepeats),
      BenchAgainstDirectCalls(name + "_vs_direct_calls", network),
      BenchEveryTime(name + "_timing", network),
      BenchDumpAgainstVm(name + "_dump_vs_vm", folder, *tvm, kChainDumpLimit),
  });
}

bool BenchModernConvnet(const std::string& name) {
  const std::string folder = ConvnetFolder();
  if (folder.empty()) {
    std::printf("%s: skipped, there are no fixtures of tvm-0.27\n",
                name.c_str());
    return true;
  }
  const auto tvm = TvmProcess::Start(name);
  if (tvm == nullptr) return true;
  return All({
      BenchAgainstVm(name + "_vs_vm", folder, *tvm, kNoLimit, {1, 1}),
      BenchDumpAgainstVm(name + "_dump_vs_vm", folder, *tvm, kConvnetDumpLimit),
  });
}

}  // namespace nodewise
