#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/report.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/vm/vm_graph.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

// How much of an unknown attribute is shown.
constexpr size_t kShownBytes = 60;

// Adds the title of a list and the list.
void AddTable(const std::string& title, const std::string& count,
              const TextTable& table, Inspection* inspection) {
  AddLine(title, count, inspection);
  inspection->text.Add(table, 4, inspection->max_lines);
}

void DescribeNodes(const Graph& graph, Inspection* inspection) {
  // Functions in the order of their first use.
  std::vector<std::string> names;
  std::map<std::string, uint64_t> uses;
  uint64_t calls = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    ++calls;
    if (++uses[node.function] == 1) names.push_back(node.function);
  }
  AddLine("nodes",
          CountOf(calls, "function node") + ", " +
              CountOf(graph.nodes.size() - calls, "input"),
          inspection);
  AddMembers(&inspection->json, "nodes", graph.nodes.size(), "function_nodes",
             calls);
  TextTable table;
  inspection->json.BeginArray("functions");
  for (const std::string& name : names) {
    table.AddRow({name, fmt::format("x{}", uses[name])});
    AddObject(&inspection->json, {}, "name", name, "uses", uses[name]);
  }
  inspection->json.EndArray();
  AddTable("functions", fmt::format("{}", names.size()), table, inspection);
}

void AddEntry(const std::string& name, const GraphIndex& index, EntryId id,
              Inspection* inspection) {
  const GraphEntry& entry = index.graph().entry(id);
  inspection->json.BeginObject();
  AddMembers(&inspection->json, "name", name, "dtype", ToString(entry.dtype),
             "shape", entry.shape, "bytes", index.BytesOf(id));
}

void DescribeInputs(const GraphIndex& index, const ParamNames& params,
                    Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  uint64_t num_params = 0;
  uint64_t param_bytes = 0;
  inspection->json.BeginArray("inputs");
  for (const uint32_t n : graph.arg_nodes) {
    const std::string& name = graph.nodes[n].name;
    const EntryId id = graph.EntryOf(NodeId{n}, 0);
    const GraphEntry& entry = graph.entry(id);
    const bool is_param = params.has_value() && params->count(name) > 0;
    num_params += is_param ? 1 : 0;
    param_bytes += is_param ? index.BytesOf(id) : 0;
    table.AddRow({name, TypeToString(entry.shape, entry.dtype),
                  is_param ? "parameter" : ""});
    AddEntry(name, index, id, inspection);
    // Without a params file, inputs and parameters look alike.
    inspection->json.AddScalar("is_param", !params.has_value() ? "null"
                                           : is_param          ? "true"
                                                               : "false");
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  std::string count = fmt::format("{}", graph.arg_nodes.size());
  if (params.has_value()) {
    count += fmt::format(", of which {} ({})", CountOf(num_params, "parameter"),
                         CountOf(param_bytes, "byte"));
    inspection->json.Add("param_bytes", param_bytes);
  } else {
    count += ", inputs and parameters (no params file to tell them apart)";
  }
  AddTable("inputs", count, table, inspection);
}

void DescribeOutputs(const GraphIndex& index, Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  inspection->json.BeginArray("outputs");
  for (const EntryRef& head : graph.heads) {
    const EntryId id = graph.EntryOf(head);
    const GraphEntry& entry = graph.entry(id);
    std::string name = graph.nodes[head.node].name;
    if (graph.OutputsOf(NodeId{head.node}) > 1) {
      name += fmt::format(":{}", head.output);
    }
    table.AddRow({name, TypeToString(entry.shape, entry.dtype)});
    AddEntry(name, index, id, inspection);
    inspection->json.EndObject();
  }
  inspection->json.EndArray();
  AddTable("outputs", fmt::format("{}", graph.heads.size()), table, inspection);
}

void AddSlot(const StorageSlot& slot, uint64_t users, TextTable* table,
             Inspection* inspection) {
  const std::string device = DeviceTypeName(slot.device_type);
  table->AddRow({fmt::format("storage {}", slot.storage_id),
                 CountOf(slot.bytes, "byte"), "for " + CountOf(users, "tensor"),
                 "on " + device, slot.scope});
  inspection->json.BeginObject();
  inspection->json.AddScalar("storage_id", fmt::format("{}", slot.storage_id));
  AddMembers(&inspection->json, "bytes", slot.bytes, "tensors", users, "device",
             device, "scope", slot.scope);
  inspection->json.EndObject();
}

void DescribeStorage(const Graph& graph, Inspection* inspection) {
  const auto plan = PlanStorage(graph, kDLCPU);
  if (!plan.ok()) {
    AddLine("storage", Printable(MessageOf(plan.status())), inspection);
    return;
  }
  const GraphIndex index(graph, *plan);
  TextTable table;
  uint64_t bytes = 0;
  uint64_t tensor_bytes = 0;
  inspection->json.BeginArray("storage");
  for (uint32_t s = 0; s < plan->slots.size(); ++s) {
    const auto tensors = index.TensorsIn(s);
    for (const EntryId tensor : tensors) tensor_bytes += index.BytesOf(tensor);
    bytes += plan->slots[s].bytes;
    AddSlot(plan->slots[s], tensors.size(), &table, inspection);
  }
  inspection->json.EndArray();
  AddMembers(&inspection->json, "storage_bytes", bytes, "tensor_bytes",
             tensor_bytes);
  AddTable("storage",
           fmt::format("{}, {} ({} without sharing)",
                       CountOf(plan->slots.size(), "slot"),
                       CountOf(bytes, "byte"), CountOf(tensor_bytes, "byte")),
           table, inspection);
}

void DescribeAttributes(const Graph& graph, Inspection* inspection) {
  inspection->json.Add("has_device_index", graph.has_device_index);
  inspection->json.BeginArray("other_attributes");
  std::vector<std::string> lines;
  for (const auto& [key, value] : graph.other_attrs) {
    lines.push_back(key + " " + value.substr(0, kShownBytes) +
                    (value.size() > kShownBytes ? " ..." : ""));
    AddObject(&inspection->json, {}, "key", key, "json", value);
  }
  inspection->json.EndArray();
  if (!lines.empty()) AddList("other attributes", lines, inspection);
}

}  // namespace

void DescribeGraph(const Graph& graph, const ParamNames& params,
                   Inspection* inspection) {
  DescribeNodes(graph, inspection);
  const GraphIndex index(graph);
  DescribeInputs(index, params, inspection);
  DescribeOutputs(index, inspection);
  DescribeStorage(graph, inspection);
  DescribeAttributes(graph, inspection);
}

absl::Status InspectGraph(const std::string& path, const ParamNames& params,
                          Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(GraphText text, GraphText::FromFile(path));
  const uint64_t bytes = text.text.size();
  NODEWISE_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(std::move(text)));
  AddText(inspection, "{}: graph JSON, {}\n", Printable(path),
          CountOf(bytes, "byte"));
  AddMembers(&inspection->json, "kind", "graph", "bytes", bytes);
  DescribeGraph(graph, params, inspection);
  return absl::OkStatus();
}

namespace {

// "main(x, w)".
std::string SignatureOf(const VmFunction& function) {
  std::string text = std::string(function.name) + "(";
  for (size_t i = 0; i < function.params.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(function.params[i]);
  }
  return text + ")";
}

// The numbers of a compiled function are not checked elsewhere.
uint64_t NumInstructions(const VmFunction& function) {
  if (function.kind != VmFunction::Kind::kBytecode) return 0;
  return static_cast<uint64_t>(function.end - function.first);
}
uint64_t NumRegisters(const VmFunction& function) {
  return static_cast<uint64_t>(std::max<int64_t>(0, function.num_registers));
}

void AddMembers(const VmFunction& function, JsonWriter* json) {
  const bool is_bytecode = function.kind == VmFunction::Kind::kBytecode;
  std::vector<std::string> params(function.params.begin(),
                                  function.params.end());
  AddMembers(json, "name", function.name, "kind",
             is_bytecode ? "bytecode" : "compiled", "params", params,
             "instructions", NumInstructions(function), "registers",
             NumRegisters(function));
}

// Adds a line for the function, and one for each reason why it is not a graph.
void AddFunction(const VmLibrary& library, const VmFunction& function,
                 TextTable* table, Inspection* inspection) {
  DiagnosticList reasons;
  const auto made = ReadVmGraph(library, function, {}, &reasons);
  if (!made.ok()) {
    const Diagnostic diagnostic = DiagnosticOf(made.status());
    reasons.Add(diagnostic);
  }
  inspection->json.BeginObject();
  AddMembers(function, &inspection->json);
  const bool is_graph = reasons.items().empty();
  inspection->json.Add("is_graph", is_graph);
  AddFindings("reasons",
              FindingsOf(reasons.items(), finding_kinds::kFaultyFile),
              &inspection->json);
  inspection->json.EndObject();
  std::string what = "compiled";
  if (function.kind == VmFunction::Kind::kBytecode) {
    what =
        fmt::format("{}, {}", CountOf(NumInstructions(function), "instruction"),
                    is_graph ? CountOf(made->graph.nodes.size(), "node")
                             : "no static graph:");
  }
  table->AddRow({SignatureOf(function) + "  " + what});
  for (Diagnostic diagnostic : reasons.items()) {
    diagnostic.file.clear();
    table->AddRow({"  " + diagnostic.ToString()});
  }
}

uint64_t ConstantBytes(const VmExecutable& executable) {
  uint64_t bytes = 0;
  for (const VmConstant& constant : executable.constants) {
    const auto* tensor = std::get_if<TensorRecord>(&constant);
    if (tensor != nullptr) bytes += tensor->data.size();
  }
  return bytes;
}

absl::Status AddGraph(const VmLibrary& library, Inspection* inspection) {
  const auto function = FindVmFunction(library, inspection->function);
  // If no function was chosen, there need not be a graph.
  if (!function.ok()) {
    return inspection->function.empty() ? absl::OkStatus() : function.status();
  }
  DiagnosticList reasons;
  NODEWISE_ASSIGN_OR_RETURN(const VmGraph made,
                            ReadVmGraph(library, **function, {}, &reasons));
  if (!reasons.items().empty()) return absl::OkStatus();
  ParamNames params = std::set<std::string>();
  for (const NamedTensor& tensor : made.params.tensors) {
    params->insert(tensor.name);
  }
  AddText(inspection, "the graph of {}:\n", Printable((*function)->name));
  for (const std::string& note : made.notes) {
    AddLine("note", Printable(note), inspection);
  }
  inspection->json.BeginObject("graph");
  AddMembers(&inspection->json, "function", (*function)->name, "notes",
             made.notes);
  DescribeGraph(made.graph, params, inspection);
  inspection->json.EndObject();
  return absl::OkStatus();
}

}  // namespace

absl::Status InspectBytecode(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const auto library, OpenVmLibrary(path));
  if (library == nullptr) return absl::OkStatus();
  const VmExecutable& executable = library->executable;
  const uint64_t bytes = ConstantBytes(executable);
  AddLine("bytecode",
          fmt::format("version {}, {}, {} in tensors",
                      Printable(executable.version),
                      CountOf(executable.constants.size(), "constant"),
                      CountOf(bytes, "byte")),
          inspection);
  inspection->json.BeginObject("bytecode");
  AddMembers(&inspection->json, "version", executable.version, "constants",
             executable.constants.size(), "constant_bytes", bytes);
  inspection->json.BeginArray("functions");
  TextTable table;
  uint64_t count = 0;
  for (const VmFunction& function : executable.functions) {
    if (function.kind == VmFunction::Kind::kPacked) continue;
    ++count;
    AddFunction(*library, function, &table, inspection);
  }
  inspection->json.EndArray();
  inspection->json.EndObject();
  AddLine("VM functions", fmt::format("{}", count), inspection);
  inspection->text.Add(table, 4, inspection->max_lines);
  return AddGraph(*library, inspection);
}

namespace {

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    joined += (joined.empty() ? "" : ", ") + text;
  }
  return joined;
}

// Returns the reason without the library's path; "" if it can run.
std::string WhyNotRun(const LibrarySummary& library) {
  std::string_view reason = MessageOf(library.run_status);
  if (reason.starts_with(library.path + ": ")) {
    reason.remove_prefix(library.path.size() + 2);
  }
  return std::string(reason);
}

void AddHead(const LibrarySummary& library, Inspection* inspection) {
  const auto line = [&](const char* title, const std::string& value) {
    if (!value.empty()) AddLine(title, Printable(value), inspection);
  };
  AddText(inspection, "{}: {}, {}, {} bits, {}\n", Printable(library.path),
          library.type, library.machine, library.bits,
          CountOf(library.bytes, "byte"));
  line("abi", library.abi);
  line("target", library.target);
  line("TVM", library.era.empty() ? "" : library.era + ", as told by:");
  for (const std::string& evidence : library.era_evidence) {
    inspection->text += "    " + Printable(evidence) + "\n";
  }
  line("cannot run", WhyNotRun(library));
  line("build id", library.build_id);
  line("needs", Joined(library.needed));
}

void AddHeadMembers(const LibrarySummary& library, JsonWriter* json) {
  AddMembers(json, "kind", "library", "bytes", library.bytes, "type",
             library.type, "machine", library.machine, "bits", library.bits,
             "abi", library.abi, "target", library.target, "era", library.era,
             "era_evidence", library.era_evidence);
  if (!library.run_status.ok()) json->Add("cannot_run", WhyNotRun(library));
  AddMembers(json, "build_id", library.build_id, "needed", library.needed,
             "functions", library.functions, "context", library.context,
             "runtime_calls", library.runtime_calls);
}

constexpr size_t kMostIndent = 40;

uint64_t BytesOf(const ModuleSummary& module) {
  uint64_t bytes = 0;
  for (const ModuleSummary::Tensor& tensor : module.tensors) {
    bytes += TensorBytes(tensor.shape, tensor.dtype).value_or(0);
  }
  return bytes;
}

// "opencl: cl, 3 functions, 2,345 bytes".
std::string LineOf(const ModuleSummary& module) {
  std::string line = module.kind;
  if (!module.module_name.empty()) line += " \"" + module.module_name + "\"";
  if (!module.format.empty()) line += ", " + module.format;
  if (!module.functions.empty()) {
    line += ", " + CountOf(module.functions.size(), "function");
  }
  if (module.code_bytes > 0) line += ", " + CountOf(module.code_bytes, "byte");
  if (!module.graph_json.empty()) {
    line += ", graph JSON of " + CountOf(module.graph_json.size(), "byte");
  }
  if (!module.tensors.empty()) {
    line += ", " + CountOf(module.tensors.size(), "tensor") + " of " +
            CountOf(BytesOf(module), "byte");
  }
  return line;
}

// The modules as lines, imports indented below those that import them. Each
// module is shown once, even if a damaged file has circles.
class ModuleTree {
 public:
  explicit ModuleTree(const std::vector<ModuleSummary>& modules)
      : modules_(modules), is_shown_(modules.size()) {
    std::vector<bool> is_imported(modules.size());
    for (const ModuleSummary& module : modules) {
      for (const uint32_t import : module.imports) {
        if (import < modules.size()) is_imported[import] = true;
      }
    }
    for (size_t i = 0; i < modules.size(); ++i) {
      if (!is_imported[i]) ShowFrom(i);
    }
    for (size_t i = 0; i < modules.size(); ++i) ShowFrom(i);
  }

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  // Uses its own stack: a file can make the tree arbitrarily deep.
  void ShowFrom(size_t root) {
    std::vector<std::pair<size_t, size_t>> left = {{root, 0}};
    while (!left.empty()) {
      const auto [at, depth] = left.back();
      left.pop_back();
      if (is_shown_[at]) continue;
      is_shown_[at] = true;
      const std::string indent(std::min(2 * depth, kMostIndent), ' ');
      lines_.push_back(indent + LineOf(modules_[at]));
      for (const std::string& function : modules_[at].functions) {
        lines_.push_back(fmt::format("{}    {}", indent, function));
      }
      const std::vector<uint32_t>& imports = modules_[at].imports;
      for (auto it = imports.rbegin(); it != imports.rend(); ++it) {
        if (*it < modules_.size()) left.emplace_back(*it, depth + 1);
      }
    }
  }

  const std::vector<ModuleSummary>& modules_;
  std::vector<bool> is_shown_;
  std::vector<std::string> lines_;
};

void AddModuleMembers(const ModuleSummary& module, JsonWriter* json) {
  json->BeginObject();
  AddMembers(json, "kind", module.kind, "imports",
             std::vector<int64_t>(module.imports.begin(), module.imports.end()),
             "module_name", module.module_name, "format", module.format,
             "functions", module.functions, "code_bytes", module.code_bytes);
  json->BeginArray("tensors");
  for (const ModuleSummary::Tensor& tensor : module.tensors) {
    AddObject(json, {}, "name", tensor.name, "dtype", ToString(tensor.dtype),
              "shape", tensor.shape);
  }
  json->EndArray();
  json->EndObject();
}

void AddModules(const LibrarySummary& library, Inspection* inspection) {
  inspection->json.BeginArray("modules");
  for (const ModuleSummary& module : library.modules) {
    AddModuleMembers(module, &inspection->json);
  }
  inspection->json.EndArray();
  if (library.modules.empty()) return;
  const ModuleTree tree(library.modules);
  AddLine("modules", fmt::format("{}", library.modules.size()), inspection);
  TextTable table;
  for (const std::string& line : tree.lines()) table.AddRow({line});
  inspection->text.Add(table, 4, inspection->max_lines);
}

// The graph that a factory holds.
absl::Status AddGraph(const LibrarySummary& library, Inspection* inspection) {
  for (const ModuleSummary& module : library.modules) {
    if (module.graph_json.empty()) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const Graph graph,
        ParseGraph(GraphText::FromString(library.path + ": graph JSON",
                                         module.graph_json)));
    ParamNames params = std::set<std::string>();
    for (const auto& tensor : module.tensors) params->insert(tensor.name);
    inspection->text += "its graph:\n";
    inspection->json.BeginObject("graph");
    DescribeGraph(graph, params, inspection);
    inspection->json.EndObject();
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status InspectLibrary(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const LibrarySummary library,
                            SummariseLibrary(path));
  AddHead(library, inspection);
  AddHeadMembers(library, &inspection->json);
  AddList("functions", library.functions, inspection);
  if (!library.context.empty()) {
    AddList("filled in by the runtime", library.context, inspection);
  }
  if (!library.runtime_calls.empty()) {
    AddList("calls into the runtime", library.runtime_calls, inspection);
  }
  AddModules(library, inspection);
  if (!library.blob_status.ok()) return library.blob_status;
  if (library.has_bytecode) return InspectBytecode(path, inspection);
  return AddGraph(library, inspection);
}

}  // namespace nodewise
