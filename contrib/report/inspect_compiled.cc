// The parts of a compiled network: the JSON of its graph, its library, and the
// bytecode that a library for virtual machines holds.
//
// Files are described as they are, damaged or hostile ones included: all that
// is shown has been bounded and checked by the reader of the format, and
// nothing is loaded or run. Lists in text are cut; the document has every item.

#include <algorithm>
#include <map>
#include <utility>

#include "contrib/report/writing.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/finding.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/vm/vm_graph.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
namespace {

// How much of an unknown attribute is shown: compilers keep whole documents in
// some of theirs.
constexpr size_t kShownBytes = 60;

// Functions are listed in the order of their first use, which is about that of
// the model.
void DescribeNodes(const Graph& graph, Inspection* inspection) {
  std::vector<std::string> names;
  std::map<std::string, uint64_t> uses;
  uint64_t calls = 0;
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == GraphNode::Kind::kInput) continue;
    ++calls;
    if (++uses[node.function] == 1) names.push_back(node.function);
  }
  AddFact(inspection, "nodes", "{}, {}", CountOf(calls, "function node"),
          CountOf(graph.nodes.size() - calls, "input"));
  AddMembers(inspection, "nodes", graph.nodes.size(), "function_nodes", calls);
  TextTable table;
  AddObjects(inspection, "functions", names, [&](const std::string& name) {
    table.AddRow({name, fmt::format("x{}", uses[name])});
    AddMembers(inspection, "name", name, "uses", uses[name]);
  });
  AddTable("functions", std::to_string(names.size()), table, inspection);
}

void AddEntry(const std::string& name, const GraphIndex& index, EntryId id,
              JsonWriter* json) {
  const GraphEntry& entry = index.graph().entry(id);
  AddMembers(json, "name", name, "dtype", ToString(entry.dtype), "shape",
             entry.shape, "bytes", index.BytesOf(id));
}

// Whether an input is a parameter is known from the params file alone: in a
// graph both are inputs.
void DescribeInputs(const GraphIndex& index, const ParamFileNames& params,
                    Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  uint64_t num_params = 0;
  uint64_t param_bytes = 0;
  AddObjects(inspection, "inputs", graph.arg_nodes, [&](uint32_t n) {
    const std::string& name = graph.nodes[n].name;
    const EntryId id = graph.EntryOf(NodeId{n}, 0);
    const GraphEntry& entry = graph.entry(id);
    const bool is_param = params.has_value() && params->count(name) > 0;
    num_params += is_param ? 1 : 0;
    param_bytes += is_param ? index.BytesOf(id) : 0;
    table.AddRow({name, TypeToString(entry.shape, entry.dtype),
                  is_param ? "parameter" : ""});
    AddEntry(name, index, id, &inspection->json);
    // Without a params file, inputs and parameters look alike.
    inspection->json.AddScalar("is_param", !params.has_value() ? "null"
                                           : is_param          ? "true"
                                                               : "false");
  });
  std::string count = std::to_string(graph.arg_nodes.size());
  if (params.has_value()) {
    count += fmt::format(", of which {} ({})", CountOf(num_params, "parameter"),
                         CountOf(param_bytes, "byte"));
    inspection->json.Add("param_bytes", param_bytes);
  } else {
    count += ", inputs and parameters (no params file to tell them apart)";
  }
  AddTable("inputs", count, table, inspection);
}

// A node with several outputs may be an output of the graph several times, so
// its name alone would not do.
void DescribeOutputs(const GraphIndex& index, Inspection* inspection) {
  const Graph& graph = index.graph();
  TextTable table;
  AddObjects(inspection, "outputs", graph.heads, [&](const EntryRef& head) {
    const EntryId id = graph.EntryOf(head);
    const GraphEntry& entry = graph.entry(id);
    std::string name = graph.nodes[head.node].name;
    if (graph.OutputsOf(NodeId{head.node}) > 1) {
      name += fmt::format(":{}", head.output);
    }
    table.AddRow({name, TypeToString(entry.shape, entry.dtype)});
    AddEntry(name, index, id, &inspection->json);
  });
  AddTable("outputs", std::to_string(graph.heads.size()), table, inspection);
}

// Storage is planned here as an executor on a CPU would plan it. Where that
// cannot be done the rest of the graph is still worth showing, so the reason is
// a line of the list and not an error.
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
  uint32_t number = 0;
  AddObjects(inspection, "storage", plan->slots, [&](const StorageSlot& slot) {
    const auto tensors = index.TensorsIn(number++);
    for (const EntryId tensor : tensors) tensor_bytes += index.BytesOf(tensor);
    bytes += slot.bytes;
    const std::string device = DeviceTypeName(slot.device_type);
    table.AddRow({fmt::format("storage {}", slot.storage_id),
                  CountOf(slot.bytes, "byte"),
                  "for " + CountOf(tensors.size(), "tensor"), "on " + device,
                  slot.scope});
    AddMembers(inspection, "storage_id", slot.storage_id, "bytes", slot.bytes,
               "tensors", tensors.size(), "device", device, "scope",
               slot.scope);
  });
  AddMembers(inspection, "storage_bytes", bytes, "tensor_bytes", tensor_bytes);
  AddTable("storage",
           fmt::format("{}, {} ({} without sharing)",
                       CountOf(plan->slots.size(), "slot"),
                       CountOf(bytes, "byte"), CountOf(tensor_bytes, "byte")),
           table, inspection);
}

void DescribeAttributes(const Graph& graph, Inspection* inspection) {
  inspection->json.Add("has_device_index", graph.has_device_index);
  std::vector<std::string> lines;
  AddObjects(inspection, "other_attributes", graph.other_attrs,
             [&](const auto& attribute) {
               const auto& [key, value] = attribute;
               lines.push_back(key + " " + value.substr(0, kShownBytes) +
                               (value.size() > kShownBytes ? " ..." : ""));
               AddMembers(inspection, "key", key, "json", value);
             });
  if (!lines.empty()) AddList("other attributes", lines, inspection);
}

// Adds a line for the function, and one for each reason why it is not a graph.
void AddFunction(const VmLibrary& library, const VmFunction& function,
                 TextTable* table, JsonWriter* json) {
  DiagnosticList reasons;
  const auto made = ReadVmGraph(library, function, {}, &reasons);
  if (!made.ok()) reasons.Add(DiagnosticOf(made.status()));
  const bool is_bytecode = function.kind == VmFunction::Kind::kBytecode;
  const auto instructions =
      static_cast<uint64_t>(is_bytecode ? function.end - function.first : 0);
  const bool is_graph = reasons.items().empty();
  json->BeginObject();
  // The reader of libraries checks the number of registers of bytecode alone;
  // that of a compiled function may be negative.
  AddMembers(
      json, "name", function.name, "kind",
      is_bytecode ? "bytecode" : "compiled", "params",
      std::vector<std::string>(function.params.begin(), function.params.end()),
      "instructions", instructions, "registers",
      std::max<int64_t>(0, function.num_registers), "is_graph", is_graph);
  AddFindings("reasons",
              FindingsOf(reasons.items(), finding_kinds::kFaultyFile), json);
  json->EndObject();
  std::string what = "compiled";
  if (is_bytecode) {
    what = fmt::format("{}, {}", CountOf(instructions, "instruction"),
                       is_graph ? CountOf(made->graph.nodes.size(), "node")
                                : "no static graph:");
  }
  table->AddRow({fmt::format("{}({})  {}", function.name,
                             fmt::join(function.params, ", "), what)});
  for (Diagnostic diagnostic : reasons.items()) {
    diagnostic.file.clear();
    table->AddRow({"  " + diagnostic.ToString()});
  }
}

template <typename Tensors>
ParamFileNames NamesIn(const Tensors& tensors) {
  std::set<std::string> names;
  for (const auto& tensor : tensors) names.insert(tensor.name);
  return names;
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
  // The line of the function has said why it has no graph.
  if (!reasons.items().empty()) return absl::OkStatus();
  AddText(inspection, "the graph of {}:\n", Printable((*function)->name));
  for (const std::string& note : made.notes) {
    AddLine("note", Printable(note), inspection);
  }
  inspection->json.BeginObject("graph");
  AddMembers(inspection, "function", (*function)->name, "notes", made.notes);
  DescribeGraph(made.graph, NamesIn(made.params.tensors), inspection);
  inspection->json.EndObject();
  return absl::OkStatus();
}

absl::Status InspectBytecode(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const auto library, OpenVmLibrary(path));
  if (library == nullptr) return absl::OkStatus();
  const VmExecutable& executable = library->executable;
  // Constants that are not tensors, as texts and shapes, have no size worth
  // telling.
  uint64_t bytes = 0;
  for (const VmConstant& constant : executable.constants) {
    const auto* tensor = std::get_if<TensorRecord>(&constant);
    if (tensor != nullptr) bytes += tensor->data.size();
  }
  AddFact(inspection, "bytecode", "version {}, {}, {} in tensors",
          Printable(executable.version),
          CountOf(executable.constants.size(), "constant"),
          CountOf(bytes, "byte"));
  inspection->json.BeginObject("bytecode");
  AddMembers(inspection, "version", executable.version, "constants",
             executable.constants.size(), "constant_bytes", bytes);
  inspection->json.BeginArray("functions");
  TextTable table;
  uint64_t count = 0;
  for (const VmFunction& function : executable.functions) {
    // Kernels, and functions of TVM's runtime, which have no code of their own.
    if (function.kind == VmFunction::Kind::kPacked) continue;
    ++count;
    AddFunction(*library, function, &table, &inspection->json);
  }
  inspection->json.EndArray();
  inspection->json.EndObject();
  AddTable("VM functions", std::to_string(count), table, inspection);
  return AddGraph(*library, inspection);
}

// Modules below this depth are indented no further: a hostile file can nest
// them so deep that its lines would be all blanks.
constexpr size_t kMostIndent = 40;

void AddHead(const LibrarySummary& library, Inspection* inspection) {
  const auto line = [&](const char* title, std::string_view value) {
    if (!value.empty()) AddLine(title, Printable(value), inspection);
  };
  // Every line is below the path already.
  std::string_view why_not_run = MessageOf(library.run_status);
  if (why_not_run.starts_with(library.path + ": ")) {
    why_not_run.remove_prefix(library.path.size() + 2);
  }
  AddText(inspection, "{}: {}, {}, {} bits, {}\n", Printable(library.path),
          library.type, library.machine, library.bits,
          CountOf(library.bytes, "byte"));
  line("abi", library.abi);
  line("target", library.target);
  line("TVM", library.era.empty() ? "" : library.era + ", as told by:");
  for (const std::string& evidence : library.era_evidence) {
    inspection->text += "    " + Printable(evidence) + "\n";
  }
  line("cannot run", why_not_run);
  line("build id", library.build_id);
  line("needs", fmt::format("{}", fmt::join(library.needed, ", ")));
  AddMembers(inspection, "kind", "library", "bytes", library.bytes, "type",
             library.type, "machine", library.machine, "bits", library.bits,
             "abi", library.abi, "target", library.target, "era", library.era,
             "era_evidence", library.era_evidence, "cannot_run",
             IfAny{why_not_run}, "build_id", library.build_id, "needed",
             library.needed, "functions", library.functions, "context",
             library.context, "runtime_calls", library.runtime_calls);
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
  if (module.tensors.empty()) return line;
  uint64_t bytes = 0;
  for (const ModuleSummary::Tensor& tensor : module.tensors) {
    bytes += TensorBytes(tensor.shape, tensor.dtype).value_or(0);
  }
  return fmt::format("{}, {} of {}", line,
                     CountOf(module.tensors.size(), "tensor"),
                     CountOf(bytes, "byte"));
}

// Adds lines for a module and for those that it imports, indented below it,
// unless they have been shown. It keeps a stack of its own: a file can make the
// tree arbitrarily deep.
void AddModulesFrom(size_t root, const std::vector<ModuleSummary>& modules,
                    std::vector<bool>* is_shown, TextTable* table) {
  std::vector<std::pair<size_t, size_t>> left = {{root, 0}};
  while (!left.empty()) {
    const auto [at, depth] = left.back();
    left.pop_back();
    if ((*is_shown)[at]) continue;
    (*is_shown)[at] = true;
    const std::string indent(std::min(2 * depth, kMostIndent), ' ');
    table->AddRow({indent + LineOf(modules[at])});
    for (const std::string& function : modules[at].functions) {
      table->AddRow({fmt::format("{}    {}", indent, function)});
    }
    const std::vector<uint32_t>& imports = modules[at].imports;
    for (auto it = imports.rbegin(); it != imports.rend(); ++it) {
      if (*it < modules.size()) left.emplace_back(*it, depth + 1);
    }
  }
}

// Trees begin at the modules that none imports. A damaged file has circles that
// nothing leads into; these are shown from their first module in a second turn.
TextTable TreeOf(const std::vector<ModuleSummary>& modules) {
  std::vector<bool> is_imported(modules.size());
  for (const ModuleSummary& module : modules) {
    for (const uint32_t import : module.imports) {
      if (import < modules.size()) is_imported[import] = true;
    }
  }
  std::vector<bool> is_shown(modules.size());
  TextTable table;
  for (const bool shows_all : {false, true}) {
    for (size_t i = 0; i < modules.size(); ++i) {
      if (shows_all || !is_imported[i]) {
        AddModulesFrom(i, modules, &is_shown, &table);
      }
    }
  }
  return table;
}

void AddModules(const LibrarySummary& library, Inspection* inspection) {
  AddObjects(inspection, "modules", library.modules, [&](const auto& module) {
    AddMembers(
        inspection, "kind", module.kind, "imports",
        std::vector<int64_t>(module.imports.begin(), module.imports.end()),
        "module_name", module.module_name, "format", module.format, "functions",
        module.functions, "code_bytes", module.code_bytes);
    AddObjects(inspection, "tensors", module.tensors, [&](const auto& tensor) {
      AddMembers(inspection, "name", tensor.name, "dtype",
                 ToString(tensor.dtype), "shape", tensor.shape);
    });
  });
  if (library.modules.empty()) return;
  AddTable("modules", std::to_string(library.modules.size()),
           TreeOf(library.modules), inspection);
}

// A factory holds a graph of its own.
absl::Status AddGraph(const LibrarySummary& library, Inspection* inspection) {
  for (const ModuleSummary& module : library.modules) {
    if (module.graph_json.empty()) continue;
    NODEWISE_ASSIGN_OR_RETURN(
        const Graph graph,
        ParseGraph(GraphText::FromString(library.path + ": graph JSON",
                                         module.graph_json)));
    inspection->text += "its graph:\n";
    inspection->json.BeginObject("graph");
    DescribeGraph(graph, NamesIn(module.tensors), inspection);
    inspection->json.EndObject();
    break;
  }
  return absl::OkStatus();
}

}  // namespace

void DescribeGraph(const Graph& graph, const ParamFileNames& params,
                   Inspection* inspection) {
  DescribeNodes(graph, inspection);
  const GraphIndex index(graph);
  DescribeInputs(index, params, inspection);
  DescribeOutputs(index, inspection);
  DescribeStorage(graph, inspection);
  DescribeAttributes(graph, inspection);
}

// The size is that of the text, before parsing takes it.
absl::Status InspectGraph(const std::string& path, const ParamFileNames& params,
                          Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(GraphText text, GraphText::FromFile(path));
  const uint64_t bytes = text.text.size();
  NODEWISE_ASSIGN_OR_RETURN(const Graph graph, ParseGraph(std::move(text)));
  AddText(inspection, "{}: graph JSON, {}\n", Printable(path),
          CountOf(bytes, "byte"));
  AddMembers(inspection, "kind", "graph", "bytes", bytes);
  DescribeGraph(graph, params, inspection);
  return absl::OkStatus();
}

// Damage of the modules comes last, so that the rest of the library has been
// shown by then.
absl::Status InspectLibrary(const std::string& path, Inspection* inspection) {
  NODEWISE_ASSIGN_OR_RETURN(const auto library, SummariseLibrary(path));
  AddHead(library, inspection);
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
