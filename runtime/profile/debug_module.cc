#include "nodewise/profile/debug_module.h"

#include <cstdlib>

#include "fmt/format.h"
#include "nodewise/func/time_repeats.h"
#include "nodewise/profile/profiler.h"
#include "nodewise/support/status.h"
#include "runtime/profile/tvm_report.h"

namespace nodewise {
namespace {

// Lets a host record without a change to it: one that was written for TVM has
// no call for a root.
constexpr char kDumpRootVariable[] = "NODEWISE_DUMP_ROOT";
// TVM's warm-up before it profiles. Another number would give other times than
// the host knows from TVM.
constexpr int kWarmUpRuns = 3;

// For TVM 0.9 and later: the number of nodes, then the seconds node by node.
// All are in the byte order and the width of this machine, since the host
// unpacks them in the process that made them.
Value SecondsOfNodesAsBytes(const std::vector<std::vector<double>>& seconds) {
  const auto nodes = static_cast<int64_t>(seconds.size());
  std::string bytes(reinterpret_cast<const char*>(&nodes), sizeof(nodes));
  for (const std::vector<double>& node : seconds) {
    bytes.append(reinterpret_cast<const char*>(node.data()),
                 node.size() * sizeof(double));
  }
  return Value(Value::Bytes{std::move(bytes)});
}

// For TVM 0.8 and before: the last repeat of each node, with commas. Hosts
// split the text at the commas, the last of which ends it.
Value SecondsAsText(const std::vector<std::vector<double>>& seconds) {
  std::string text;
  for (const std::vector<double>& node : seconds) {
    text += fmt::format("{:g},", node.back());
  }
  return Value(std::move(text));
}

// The number comes from a host, so it may be negative or past the last output.
absl::StatusOr<EntryId> OutputOf(const Graph& graph, NodeId node, int output) {
  const uint32_t count = graph.OutputsOf(node);
  if (output >= 0 && static_cast<uint32_t>(output) < count) {
    return graph.EntryOf(node, static_cast<uint32_t>(output));
  }
  return OutOfRange("output {} of {}, which has {}", output,
                    NodeTitle(graph, node), count);
}

DLDevice DeviceOf(const DebugExecutor& executor, NodeId node) {
  const auto outputs = executor.OutputsOf(node);
  if (!outputs.empty()) return outputs[0]->device;
  const auto inputs = executor.InputsOf(node);
  return inputs.empty() ? kCpu : inputs[0]->device;
}

// Hosts name a node or give its number; both must be in the graph.
absl::StatusOr<NodeId> NodeArgument(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(0));
  if (key.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    return self.debug().index().FindNode(name);
  }
  NODEWISE_ASSIGN_OR_RETURN(const int64_t number, key.AsInt());
  return self.debug().index().NodeAt(number);
}

// A host that gives no argument shares the memory of the entry, which the next
// node may write over; with an argument it gets a copy that stays.
Result Deliver(DebugModule& self, EntryId entry, PackedArgs args, int index) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray array, self.debug().ReadEntry(entry));
  if (args.size() <= index) return Value(std::move(array));
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(index));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* to, arg.AsTensor());
  NODEWISE_RETURN_IF_ERROR(CopyTensor(*array, *to));
  return Value();
}

// (node [, tensor]): output 0 of the node, or that of "node:1", after a run up
// to it.
Result DebugGetOutput(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView key, args.At(0));
  EntryId entry{};
  if (key.IsText()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view name, key.AsString());
    NODEWISE_ASSIGN_OR_RETURN(entry, self.debug().index().FindEntry(name));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(const NodeId node, NodeArgument(self, args));
    NODEWISE_ASSIGN_OR_RETURN(entry, OutputOf(self.debug().graph(), node, 0));
  }
  NODEWISE_RETURN_IF_ERROR(self.RunUntil(self.debug().index().NodeOf(entry)));
  return Deliver(self, entry, args, 1);
}

absl::StatusOr<EntryId> EntryArguments(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const NodeId node, NodeArgument(self, args));
  NODEWISE_ASSIGN_OR_RETURN(const int output, args.SmallIntAt(1));
  return OutputOf(self.debug().graph(), node, output);
}

// (node, output): what lies there now, runs nothing.
Result GetOutputByLayer(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const EntryId entry, EntryArguments(self, args));
  return Deliver(self, entry, args, 2);
}

Result ExecuteNode(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const NodeId node, NodeArgument(self, args));
  NODEWISE_RETURN_IF_ERROR(self.RunUntil(node));
  return Value();
}

Result GetNodeOutput(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const EntryId entry, EntryArguments(self, args));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray array, self.debug().ReadEntry(entry));
  NODEWISE_ASSIGN_OR_RETURN(NDArray copy, array.CopyToHost());
  return Value(std::move(copy));
}

// TVM until 0.8 passes three arguments and expects text; later ones pass more
// and expect bytes. The count tells the two apart.
Result RunIndividual(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const RepeatOptions options,
                            TakeRepeatOptions(args));
  NODEWISE_ASSIGN_OR_RETURN(const auto seconds,
                            Profiler(&self.debug()).TimeNodes(options));
  return args.size() == 3 ? SecondsAsText(seconds)
                          : SecondsOfNodesAsBytes(seconds);
}

Result RunIndividualNode(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const NodeId node, NodeArgument(self, args));
  NODEWISE_ASSIGN_OR_RETURN(const RepeatOptions options,
                            TakeRepeatOptions(args.From(1)));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                            Profiler(&self.debug()).TimeNode(node, options));
  return SecondsAsBytes(seconds);
}

// One run is enough, since the report has one time for each call, as TVM's has.
absl::StatusOr<Ref<TvmReport>> ReportOfRun(DebugModule& self) {
  Profiler::Options options;
  options.runs = 1;
  options.warm_up = kWarmUpRuns;
  NODEWISE_ASSIGN_OR_RETURN(const auto profile,
                            Profiler(&self.debug()).Run(options));
  const Graph& graph = self.debug().graph();
  std::vector<DLDevice> devices;
  for (const NodeId node : AllNodes(graph)) {
    devices.push_back(DeviceOf(self.debug(), node));
  }
  return MakeTvmReport(graph, profile.runs[0], devices, profile.threads);
}

Result ProfileHere(DebugModule& self, PackedArgs args) {
  NODEWISE_RETURN_IF_ERROR(RefuseCollectors(args, 0));
  NODEWISE_ASSIGN_OR_RETURN(Ref<TvmReport> report, ReportOfRun(self));
  return Value(std::move(report));
}

// A report cannot cross a connection as an object, so this one is JSON.
// Collectors could not either, and are not asked for.
Result ProfileRpc(DebugModule& self, PackedArgs) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<TvmReport> report, ReportOfRun(self));
  return Value(ReportJson(*report));
}

// (folder): what `run` records its dumps below from now on; null or "" ends it.
Result SetDumpRoot(DebugModule& self, PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(0));
  RecordOptions record;
  if (!arg.IsNull()) {
    NODEWISE_ASSIGN_OR_RETURN(const std::string_view root, arg.AsString());
    record.root = std::string(root);
  }
  if (record.root.empty()) {
    self.debug().StopRecording();
  } else {
    NODEWISE_RETURN_IF_ERROR(self.debug().StartRecording(std::move(record)));
  }
  return Value();
}

Result GetDumpFolder(DebugModule& self, PackedArgs) {
  NODEWISE_RETURN_IF_ERROR(self.debug().dump_status());
  return Value(self.debug().dump_folder());
}

// The names are TVM's, but for those that begin with ours.
struct MethodRow {
  std::string_view name;
  Result (*method)(DebugModule& self, PackedArgs args);
};
constexpr MethodRow kMethods[] = {
    {"debug_get_output", &DebugGetOutput},
    {"get_output_by_layer", &GetOutputByLayer},
    {"execute_node", &ExecuteNode},
    {"get_node_output", &GetNodeOutput},
    {"run_individual", &RunIndividual},
    {"run_individual_node", &RunIndividualNode},
    {"profile", &ProfileHere},
    {"profile_rpc", &ProfileRpc},
    {"nodewise.set_dump_root", &SetDumpRoot},
    {"nodewise.get_dump_folder", &GetDumpFolder},
};

}  // namespace

// Continues a pass only while its results are not out of date. An input that
// was set since, or one in the memory of the host, makes all that has run out
// of date, and a node that the pass has left behind runs again only in a new
// one.
absl::Status DebugModule::RunUntil(NodeId node) {
  const bool is_current = debug().InputChanges() == seen_changes_ &&
                          !debug().InputsMayChangeUnseen();
  if (!is_current || Index(node) < Index(debug().Position())) {
    NODEWISE_RETURN_IF_ERROR(debug().Restart());
    seen_changes_ = debug().InputChanges();
  }
  return debug().RunUntil(node);
}

std::vector<std::string> DebugModule::FunctionNames() const {
  std::vector<std::string> names = ExecutorModule::FunctionNames();
  for (const MethodRow& row : kMethods) names.emplace_back(row.name);
  return names;
}

// The function keeps the module alive: hosts hold functions for longer than the
// module that they came from.
absl::StatusOr<PackedFunc> DebugModule::GetFunction(std::string_view name) {
  for (const MethodRow& row : kMethods) {
    if (name != row.name) continue;
    return PackedFunc::FromBody(
        [self = Ref<DebugModule>(this), method = row.method](PackedArgs args) {
          return method(*self, args);
        });
  }
  return ExecutorModule::GetFunction(name);
}

namespace {

// TVM's create(json, library, device type, number, ...), where the root in the
// environment decides whether runs are recorded.
Result CreateDebugExecutor(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(CreateArguments create, TakeCreateArguments(args));
  DebugExecutor::DebugOptions options;
  static_cast<GraphExecutor::Options&>(options) = std::move(create.options);
  const char* const root = std::getenv(kDumpRootVariable);
  options.records = root != nullptr && *root != '\0';
  if (options.records) options.record.root = root;
  NODEWISE_ASSIGN_OR_RETURN(
      std::unique_ptr<DebugExecutor> executor,
      DebugExecutor::Create(std::move(create.graph), std::move(create.library),
                            std::move(options)));
  return Value(MakeRef<DebugModule>(std::move(executor)));
}

}  // namespace

// Made once and never destroyed: the registry may be asked while the process
// ends.
absl::Span<const FunctionRow> DebugFunctions() {
  static const std::vector<FunctionRow>* const rows = [] {
    auto* all = new std::vector<FunctionRow>{
        {"tvm.graph_executor_debug.create", &CreateDebugExecutor},
        {"tvm.graph_runtime_debug.create", &CreateDebugExecutor},
    };
    const auto more = ProfilingFunctions();
    all->insert(all->end(), more.begin(), more.end());
    return all;
  }();
  return *rows;
}

}  // namespace nodewise
