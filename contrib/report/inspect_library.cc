#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/module/library_summary.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/report/inspection.h"
#include "nodewise/report/report.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
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
  inspection->text += fmt::format(
      "{}: {}, {}, {} bits, {}\n", Printable(library.path), library.type,
      library.machine, library.bits, CountOf(library.bytes, "byte"));
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
  json->Add("kind", "library");
  json->Add("bytes", uint64_t{library.bytes});
  json->Add("type", library.type);
  json->Add("machine", library.machine);
  json->Add("bits", static_cast<uint64_t>(library.bits));
  json->Add("abi", library.abi);
  json->Add("target", library.target);
  json->Add("era", library.era);
  json->Add("era_evidence", library.era_evidence);
  if (!library.run_status.ok()) json->Add("cannot_run", WhyNotRun(library));
  json->Add("build_id", library.build_id);
  json->Add("needed", library.needed);
  json->Add("functions", library.functions);
  json->Add("context", library.context);
  json->Add("runtime_calls", library.runtime_calls);
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
  json->Add("kind", module.kind);
  json->Add("imports",
            std::vector<int64_t>(module.imports.begin(), module.imports.end()));
  json->Add("module_name", module.module_name);
  json->Add("format", module.format);
  json->Add("functions", module.functions);
  json->Add("code_bytes", uint64_t{module.code_bytes});
  json->BeginArray("tensors");
  for (const ModuleSummary::Tensor& tensor : module.tensors) {
    json->BeginObject();
    json->Add("name", tensor.name);
    json->Add("dtype", ToString(tensor.dtype));
    json->Add("shape", tensor.shape);
    json->EndObject();
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
