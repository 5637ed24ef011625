#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/report/inspection.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/vm/vm_graph.h"
#include "nodewise/vm/vm_library.h"

namespace nodewise {
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
  json->Add("name", function.name);
  json->Add("kind", is_bytecode ? "bytecode" : "compiled");
  json->Add("params", params);
  json->Add("instructions", NumInstructions(function));
  json->Add("registers", NumRegisters(function));
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
  inspection->text +=
      fmt::format("the graph of {}:\n", Printable((*function)->name));
  for (const std::string& note : made.notes) {
    AddLine("note", Printable(note), inspection);
  }
  inspection->json.BeginObject("graph");
  inspection->json.Add("function", (*function)->name);
  inspection->json.Add("notes", made.notes);
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
  inspection->json.Add("version", executable.version);
  inspection->json.Add("constants", uint64_t{executable.constants.size()});
  inspection->json.Add("constant_bytes", bytes);
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

}  // namespace nodewise
