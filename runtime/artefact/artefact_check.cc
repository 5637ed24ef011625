#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/artefact/artefact.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/dumped_graph.h"
#include "nodewise/graph/graph_inputs.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/vm/vm_graph.h"

namespace nodewise {
namespace {

// TVM calls the device's part of a function F F_kernel, F_kernel_1, ...; before
// 0.8 F_kernel0, F_kernel1, ...
constexpr std::string_view kKernelEnding = "_kernel";

// Modules are of kinds that are called like their devices, except for two.
std::optional<int> DeviceTypeOfKind(std::string_view kind) {
  if (kind == "hip") kind = "rocm";
  if (kind == "aocl_sw_emu") kind = "aocl";
  const auto type = ParseDeviceType(kind);
  if (!type.ok() || *type == kDLCPU) return std::nullopt;
  return *type;
}

// A kernel is launched through a function that the compiled code looks up by
// name. Code that looks up nothing only runs on the host, regardless of what
// its library carries.
bool LooksUpFunctions(const LibrarySummary& library) {
  const auto is_lookup = [](std::string_view name) {
    return name.ends_with("TVMBackendGetFuncFromEnv") ||
           name.ends_with("TVMFFIEnvModLookupFromImports");
  };
  const auto has_lookup = [&](const auto& names) {
    return std::ranges::any_of(names, is_lookup);
  };
  return has_lookup(library.context) || has_lookup(library.runtime_calls);
}

using Names = std::set<std::string_view>;

// The executor does itself what __nop and __copy ask for; all other functions
// are the library's.
bool CallsFunction(const GraphNode& node) {
  return node.kind == GraphNode::Kind::kFunction &&
         node.function != kNopFunction && node.function != kCopyFunction;
}

std::string_view LauncherOf(std::string_view kernel, const Names& functions) {
  const size_t end = kernel.rfind(kKernelEnding);
  if (end == std::string_view::npos) return "";
  const auto found = functions.find(kernel.substr(0, end));
  return found == functions.end() ? std::string_view() : *found;
}

Names FunctionsCalled(const Graph& graph) {
  Names called;
  for (const GraphNode& node : graph.nodes) {
    if (CallsFunction(node)) called.insert(node.function);
  }
  return called;
}

bool MayCall(const Names& called, const ModuleSummary& module,
             const Names& functions) {
  if (called.empty()) return false;
  // The summary does not know the kernels in a TVM-FFI library.
  if (module.functions.empty()) return true;
  return std::ranges::any_of(module.functions, [&](const std::string& kernel) {
    const auto launcher = LauncherOf(kernel, functions);
    return launcher.empty() || called.contains(launcher);
  });
}

// Returns the modules whose code a run of the graph calls, by their numbers,
// with the types of their devices. A module counts unless it is certain that
// nothing of it is called; without a graph, everything that the library's own
// code can call counts.
std::map<size_t, int> DeviceModulesUsed(const LibrarySummary& library,
                                        const Graph* graph) {
  std::map<size_t, int> used;
  if (!LooksUpFunctions(library)) return used;
  const Names functions(library.functions.begin(), library.functions.end());
  const Names called = graph == nullptr ? Names() : FunctionsCalled(*graph);
  for (size_t m = 0; m < library.modules.size(); ++m) {
    const ModuleSummary& module = library.modules[m];
    const std::optional<int> type = DeviceTypeOfKind(module.kind);
    if (!type.has_value()) continue;
    if (graph == nullptr || MayCall(called, module, functions)) used[m] = *type;
  }
  return used;
}

bool IsCountFault(const Diagnostic& diagnostic) {
  return diagnostic.path.starts_with("/nodes/") &&
         (diagnostic.path.ends_with("/num_inputs") ||
          diagnostic.path.ends_with("/num_outputs"));
}

// Gives each function node as many inputs and outputs as the lists have. The
// rows count only if they agree with the lists of entries.
void CorrectCounts(Graph* graph) {
  const auto& rows = graph->node_row_ptr;
  const bool rows_are_right =
      rows.size() == graph->nodes.size() + 1 && rows[0] == 0 &&
      rows.back() == graph->entries.size() && std::ranges::is_sorted(rows);
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    GraphNode& node = graph->nodes[n];
    if (node.kind == GraphNode::Kind::kInput) continue;
    node.num_inputs = static_cast<uint32_t>(node.inputs.size());
    if (rows_are_right) node.num_outputs = rows[n + 1] - rows[n];
  }
}

// Checks the corrected graph and adds what the lies kept from being found.
// Returns whether it is sound.
bool CheckAgain(const Graph& graph, DiagnosticList* found) {
  std::set<std::pair<std::string, std::string>> known;
  for (const Diagnostic& diagnostic : found->items()) {
    known.emplace(diagnostic.path, diagnostic.found);
  }
  DiagnosticList more;
  CheckGraph(graph, &more);
  LocateDiagnostics(graph.text, &more);
  const bool is_sound =
      !more.HasErrors() &&
      std::ranges::all_of(found->items(), [](const Diagnostic& diagnostic) {
        return diagnostic.severity != Severity::kError ||
               IsCountFault(diagnostic);
      });
  for (Diagnostic& diagnostic : more.items()) {
    if (known.contains({diagnostic.path, diagnostic.found})) continue;
    found->Add(std::move(diagnostic));
  }
  return is_sound;
}

// Parses and checks a graph as ParseGraph() does, but a node's wrong num_inputs
// or num_outputs is only reported, and corrected by the graph's lists. Returns
// whether nothing else is wrong with the graph.
bool ParseGraphBesideCounts(GraphText text, Graph* graph,
                            DiagnosticList* diagnostics) {
  DiagnosticList found;
  bool is_sound = ParseGraph(std::move(text), graph, &found);
  // Without entries the graph's lists are at odds, and none of them can be
  // trusted.
  if (!is_sound && !graph->entries.empty() &&
      std::ranges::any_of(found.items(), &IsCountFault)) {
    CorrectCounts(graph);
    is_sound = CheckAgain(*graph, &found);
  }
  diagnostics->Append(std::move(found));
  return is_sound;
}

constexpr size_t kMostUnread = 20;

class ArtefactChecker {
 public:
  ArtefactChecker(const ArtefactFiles& files, const VerifyOptions& options,
                  DiagnosticList* diagnostics)
      : files_(files), options_(options), diagnostics_(diagnostics) {}

  // The library comes first, since it may hold the graph. A fault of one file
  // does not keep the others from being checked.
  absl::Status Check() {
    if (!files_.library.empty()) {
      NODEWISE_ASSIGN_OR_RETURN(library_, SummariseLibrary(files_.library));
      has_library_ = true;
      AddStatus(files_.library, library_.blob_status);
      AddStatus(files_.library, library_.run_status);
      if (files_.graph.empty() && library_.has_bytecode) return CheckBytecode();
    }
    NODEWISE_ASSIGN_OR_RETURN(GraphText text, FindGraph());
    NODEWISE_RETURN_IF_ERROR(ReadParams());
    if (text.name.empty()) return absl::OkStatus();  // The blob is at fault.
    Graph graph;
    if (LooksLikeDumpedGraph(text.text)) {
      // The inputs of a dumped graph do not say enough to check its plan.
      if (ParseDumpedGraph(text, &graph, diagnostics_) && has_params_) {
        CheckParams(graph);
      }
      LocateDiagnostics(text, diagnostics_);
      return absl::OkStatus();
    }
    if (ParseGraphBesideCounts(std::move(text), &graph, diagnostics_)) {
      CheckSoundGraph(graph);
    }
    return absl::OkStatus();
  }

 private:
  void Add(std::string file, std::string path, std::string found,
           std::string expected, std::string hint = "",
           Severity severity = Severity::kError) {
    diagnostics_->Add({severity, std::move(file), std::move(path), 0, 0,
                       std::move(found), std::move(expected), std::move(hint)});
  }
  void AddStatus(const std::string& file, const absl::Status& status) {
    if (!status.ok()) diagnostics_->Add(DiagnosticIn(file, status));
  }

  // A VM library is its own graph, so all of its functions and parameters are
  // there by construction.
  absl::Status CheckBytecode() {
    const auto library = OpenVmLibrary(files_.library);
    if (!library.ok() || *library == nullptr) {
      // If the summary could not read the library, that is reported already.
      if (library_.blob_status.ok())
        AddStatus(files_.library, library.status());
      return absl::OkStatus();
    }
    NODEWISE_ASSIGN_OR_RETURN(const VmFunction* function,
                              FindVmFunction(**library, files_.function));
    const auto made = ReadVmGraph(**library, *function, {}, diagnostics_);
    AddStatus(files_.library, made.status());
    if (made.ok()) AddParams(made->params, files_.library);
    NODEWISE_RETURN_IF_ERROR(ReadParams());
    if (!made.ok() || made->graph.nodes.empty()) {
      CheckLibraryDevices(nullptr);
      return absl::OkStatus();
    }
    for (const std::string& note : made->notes)
      Warn(params_name_, "", note, "");
    has_params_ = true;
    functions_are_known_ = true;
    CheckSoundGraph(made->graph);
    return absl::OkStatus();
  }

  const ModuleSummary* Factory() const {
    for (const ModuleSummary& module : library_.modules) {
      if (!module.graph_json.empty()) return &module;
    }
    return nullptr;
  }

  absl::StatusOr<GraphText> FindGraph() {
    if (!files_.graph.empty()) return GraphText::FromFile(files_.graph);
    if (const ModuleSummary* factory = Factory()) {
      return GraphText::FromString(files_.library + ": graph JSON",
                                   factory->graph_json);
    }
    if (!library_.blob_status.ok()) return GraphText();
    return InvalidArgument(
        "{}: holds no graph (it is compiled code alone; open its graph JSON, "
        "with this as {})",
        files_.library, NameOf(Way::kLibraryFile));
  }

  // A malformed params file is a fault; an unreadable one is an error.
  absl::Status ReadParams() {
    params_name_ = files_.params.empty() ? files_.library : files_.params;
    if (files_.graph.empty() && has_library_) AddFactoryParams();
    if (files_.params.empty()) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(CheckReadable(files_.params));
    const auto params = OpenParams(files_.params);
    if (absl::IsUnavailable(params.status()) ||
        absl::IsResourceExhausted(params.status())) {
      return params.status();
    }
    AddStatus(files_.params, params.status());
    if (!params.ok()) return absl::OkStatus();
    AddParams(*params, files_.params);
    if (params->trailing_bytes > 0) {
      Warn(params_name_, "",
           fmt::format("{} bytes behind the last tensor",
                       params->trailing_bytes),
           "the end of the file");
    }
    return absl::OkStatus();
  }

  void AddFactoryParams() {
    const ModuleSummary* const factory = Factory();
    if (factory == nullptr) return;
    has_params_ = true;
    for (const ModuleSummary::Tensor& tensor : factory->tensors) {
      params_[tensor.name] = {files_.library, tensor.shape, tensor.dtype};
    }
  }

  // If the library has a parameter of that name too, the file's counts.
  void AddParams(const Params& params, const std::string& file) {
    has_params_ = true;
    std::set<std::string_view> seen;
    for (const NamedTensor& entry : params.tensors) {
      const absl::Span<const int64_t> shape = entry.tensor.shape();
      params_[entry.name] = {
          file, {shape.begin(), shape.end()}, entry.tensor.dtype()};
      if (seen.insert(entry.name).second) continue;
      Warn(params_name_, entry.name, "a second tensor of that name",
           "one (the last counts)");
    }
  }

  // Warnings are for what changes no result, or may be intended.
  void Warn(std::string file, std::string path, std::string found,
            std::string expected, std::string hint = "") {
    Add(std::move(file), std::move(path), std::move(found), std::move(expected),
        std::move(hint), Severity::kWarning);
  }

  // Everything from here on may use indices without a check.
  void CheckSoundGraph(const Graph& graph) {
    const auto plan = PlanStorage(graph, kDLCPU);
    if (plan.ok()) {
      CheckPlan(graph, *plan, diagnostics_);
    } else {
      AddStatus(graph.text.name, plan.status());
    }
    CheckDevices(graph);
    CheckLibraryDevices(&graph);
    CheckLanes(graph);
    CheckRead(graph);
    if (has_library_ && !functions_are_known_) CheckFunctions(graph);
    if (!has_library_ && HasBuiltInFunctions(graph)) CheckBuiltIns(graph);
    if (has_params_) CheckParams(graph);
    LocateDiagnostics(graph.text, diagnostics_);
  }

  // The CPU is always there: the host itself runs on it.
  bool HasDevice(int type) const {
    if (type == kDLCPU) return true;
    if (options_.device_types.empty()) {
      return FindDevice(MakeDevice(type, 0)).ok();
    }
    const auto& types = options_.device_types;
    return std::ranges::find(types, type) != types.end();
  }

  void CheckDevices(const Graph& graph) {
    if (!graph.has_device_index) return;
    std::map<int, std::vector<size_t>> missing;  // The entries on each.
    for (size_t e = 0; e < graph.entries.size(); ++e) {
      const int type = graph.entries[e].device_type;
      if (!HasDevice(type)) missing[type].push_back(e);
    }
    for (const auto& [type, entries] : missing) {
      const std::string name = DeviceTypeName(type);
      AddMissingDevice(
          graph.text.name, fmt::format("/attrs/device_index/1/{}", entries[0]),
          type,
          entries.size() == 1
              ? fmt::format("an entry on {}", name)
              : fmt::format("{} entries on {}", entries.size(), name));
    }
  }

  // What a VM library or a graph without device_index needs shows only in the
  // library's code.
  void CheckLibraryDevices(const Graph* graph) {
    for (const auto& [number, type] : DeviceModulesUsed(library_, graph)) {
      if (HasDevice(type)) continue;
      AddMissingDevice(
          files_.library,
          fmt::format("module {} ({})", number, library_.modules[number].kind),
          type, fmt::format("code for {}", DeviceTypeName(type)));
    }
  }

  void AddMissingDevice(const std::string& file, std::string path, int type,
                        std::string found) {
    if (!missing_devices_.insert(type).second) return;
    Add(file, std::move(path), std::move(found),
        options_.device_types.empty() ? "a device that this build has"
                                      : "one of the devices of the target",
        fmt::format("{} {} verifies for a machine that has it",
                    NameOf(Way::kMachine), DeviceTypeName(type)));
  }

  // Compiled functions refuse tensors whose elements are vectors: TVM makes
  // vectors inside of a function only.
  void CheckLanes(const Graph& graph) {
    std::set<EntryId> used;
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      if (!CallsFunction(node)) continue;
      for (const EntryRef& input : node.inputs) {
        used.insert(graph.EntryOf(input));
      }
      for (uint32_t o = 0; o < node.num_outputs; ++o) {
        used.insert(graph.EntryOf(NodeId{n}, o));
      }
    }
    for (const EntryId id : used) {
      const DLDataType dtype = graph.entry(id).dtype;
      if (dtype.lanes == 1) continue;
      Add(graph.text.name, fmt::format("/attrs/dltype/1/{}", Index(id)),
          ToString(dtype),
          "a type without lanes, as compiled functions have them");
    }
  }

  // Nothing that this finds makes a result wrong, hence warnings.
  void CheckRead(const Graph& graph) {
    const std::string& file = graph.text.name;
    if (graph.heads.empty()) {
      return Warn(file, "/heads", "no outputs",
                  "one or more, or nothing can be got from it");
    }
    std::vector<bool> is_read(graph.nodes.size(), false);
    for (const EntryRef& head : graph.heads) is_read[head.node] = true;
    for (const GraphNode& node : graph.nodes) {
      for (const EntryRef& input : node.inputs) is_read[input.node] = true;
      for (const uint32_t before : node.control_deps) is_read[before] = true;
    }
    size_t count = 0;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (is_read[n] || ++count > kMostUnread) continue;
      Warn(file, fmt::format("/nodes/{}", n),
           fmt::format("{} {}, whose outputs nothing reads",
                       graph.nodes[n].kind == GraphNode::Kind::kInput ? "input"
                                                                      : "node",
                       Shortened(graph.nodes[n].name)),
           "a node that reads them, or none of them");
    }
    if (count <= kMostUnread) return;
    Warn(file, "/nodes",
         fmt::format("{} more that nothing reads", count - kMostUnread), "");
  }

  // Functions may be in the library itself or in a module that it imports.
  void CheckFunctions(const Graph& graph) {
    std::vector<std::string> names = library_.functions;
    for (const ModuleSummary& module : library_.modules) {
      names.insert(names.end(), module.functions.begin(),
                   module.functions.end());
    }
    const std::set<std::string_view> known(names.begin(), names.end());
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      if (!CallsFunction(node) || known.contains(node.function)) continue;
      const std::string nearest = NearestName(node.function, names);
      Add(graph.text.name, fmt::format("/nodes/{}/attrs/func_name", n),
          fmt::format("function {}, which {} lacks", node.function,
                      files_.library),
          fmt::format("one of its {} functions", names.size()),
          nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
    }
  }

  // A built-in function is checked by making its kernel, which does not run it.
  void CheckBuiltIns(const Graph& graph) {
    if (!options_.built_ins) {
      return Warn(graph.text.name, "/attrs",
                  "functions that are nodewise's own, which this program has "
                  "none of",
                  "", "they were not checked");
    }
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      if (!CallsFunction(node)) continue;
      const absl::Status status = Bind(graph, NodeId{n});
      if (status.ok()) continue;
      Add(graph.text.name, fmt::format("/nodes/{}/attrs", n),
          fmt::format("node {}: {}", Shortened(node.name), MessageOf(status)),
          "");
    }
  }

  // The tensors have a type and no memory: making a kernel must not need their
  // contents.
  absl::Status Bind(const Graph& graph, NodeId id) const {
    const GraphNode& node = graph.node(id);
    std::vector<DLTensor> tensors;
    const auto add = [&](EntryId entry) {
      tensors.push_back(TensorOfEntry(graph.entry(entry), kCpu));
    };
    for (const EntryRef& input : node.inputs) add(graph.EntryOf(input));
    for (uint32_t i = 0; i < node.num_outputs; ++i) add(graph.EntryOf(id, i));
    std::vector<const DLTensor*> arguments;
    arguments.reserve(tensors.size());
    for (const DLTensor& tensor : tensors) arguments.push_back(&tensor);
    return options_.built_ins
        ->Bind({node.function, node.attrs, arguments, node.num_outputs})
        .status();
  }

  void CheckParams(const Graph& graph) {
    const ParamNames names(graph);
    std::vector<std::string> inputs;
    for (const uint32_t node : graph.arg_nodes) {
      inputs.push_back(graph.nodes[node].name);
    }
    for (const auto& [name, type] : params_) {
      const ParamNames::Meaning meaning =
          names.Find(name, type.shape, type.dtype);
      if (meaning.kind == ParamNames::Kind::kUnknown) {
        Warn(params_name_, name, "a parameter that the graph does not have",
             "the name of one of its inputs" + DidYouMean(name, inputs));
      }
      if (meaning.kind != ParamNames::Kind::kInput) continue;
      const NodeId node{graph.arg_nodes[meaning.input]};
      given_.insert(Index(node));
      const GraphEntry& entry = graph.entry(graph.EntryOf(node, 0));
      if (entry.shape == type.shape && IsSameType(entry.dtype, type.dtype)) {
        continue;
      }
      Add(type.file, name, TypeToString(type.shape, type.dtype),
          TypeToString(entry.shape, entry.dtype) + ", as the graph has it");
    }
    CheckMissing(graph);
  }

  struct Type {
    std::string file;  // The file that has the parameter.
    std::vector<int64_t> shape;
    DLDataType dtype{};
  };

  // Relay calls its constants p0, p1, ...; nothing but the file sets those.
  void CheckMissing(const Graph& graph) {
    for (const uint32_t node : graph.arg_nodes) {
      const std::string& name = graph.nodes[node].name;
      const bool is_constant =
          name.size() > 1 && name[0] == 'p' &&
          name.find_first_not_of("0123456789", 1) == std::string::npos;
      if (!is_constant || params_.contains(name) || given_.contains(node)) {
        continue;
      }
      Warn(graph.text.name, fmt::format("/nodes/{}", node),
           fmt::format("constant {}, which {} lacks", name, params_name_),
           "a tensor for it (or is it an input?)");
    }
  }

  const ArtefactFiles& files_;
  const VerifyOptions& options_;
  DiagnosticList* diagnostics_;
  LibrarySummary library_;
  bool has_library_ = false;
  bool functions_are_known_ = false;  // All are in the library.
  std::map<std::string, Type> params_;
  bool has_params_ = false;
  std::string params_name_;
  std::set<int> missing_devices_;  // The types that were reported.
  std::set<uint32_t> given_;       // The inputs that there are parameters for.
};

}  // namespace

absl::StatusOr<DiagnosticList> VerifyArtefact(const ArtefactFiles& files,
                                              const VerifyOptions& options) {
  DiagnosticList diagnostics;
  NODEWISE_RETURN_IF_ERROR(
      ArtefactChecker(files, options, &diagnostics).Check());
  return diagnostics;
}

}  // namespace nodewise
