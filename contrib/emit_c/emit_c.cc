#include "nodewise/emit_c/emit_c.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "contrib/emit_c/helpers.h"
#include "contrib/emit_c/region_code.h"
#include "contrib/emit_c/shared_loops.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {

namespace emit_c {
namespace {

// A function, and what it covers of each node that calls it.
struct Function {
  std::string symbol;
  std::vector<std::string> comments;
  RegionCode code;
};

// A tensor without data, to tell its type. It points into itself.
struct TypeOnly {
  std::vector<int64_t> shape;
  DLTensor tensor{};

  explicit TypeOnly(const GraphEntry& entry) : shape(entry.shape) {
    tensor.device = {kDLCPU, 0};
    tensor.dtype = entry.dtype;
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.shape = shape.data();
  }
  TypeOnly(const TypeOnly&) = delete;
};

// The attributes of a node say what it computes; RegionOf() wants the types
// that it computes with beside them, as a runtime would pass them to the
// function.
absl::StatusOr<Region> RegionOfNode(const Graph& graph, NodeId id,
                                    const OpSet& ops) {
  const GraphNode& node = graph.node(id);
  std::deque<TypeOnly> types;
  for (const EntryRef& input : node.inputs) {
    types.emplace_back(graph.entry(graph.EntryOf(input)));
  }
  for (uint32_t i = 0; i < node.num_outputs; ++i) {
    types.emplace_back(graph.entry(graph.EntryOf(id, i)));
  }
  std::vector<const DLTensor*> arguments;
  for (const TypeOnly& type : types) arguments.push_back(&type.tensor);
  auto region =
      RegionOf({node.function, node.attrs, arguments, node.num_outputs}, ops);
  if (!region.ok()) return At(NodeTitle(graph, id), region.status());
  return region;
}

std::string CoveredBy(const Region& region) {
  const Network& network = region.network;
  const auto append = [&](std::string* text, OperationId id) {
    const Operation& operation = network.operation(id);
    *text +=
        CommentText(fmt::format("{} ({})", operation.name, operation.kind()));
  };
  return absl::StrJoin(network.order(), ",\n *   ", append);
}

// All tensors are "restrict", so that compilers may keep elements in registers
// while they write others. Scratch memory comes last, whether the code needs
// any or not, so that functions differ in their tensors alone.
std::string ParametersText(const RegionCode& code) {
  std::string text;
  for (const CTensor& in : code.inputs) {
    text += fmt::format("const {}* restrict {}, ", in.type(), in.name);
  }
  for (const CTensor& out : code.outputs) {
    text += fmt::format("{}* restrict {}, ", out.type(), out.name);
  }
  return text + "char* scratch";
}

std::vector<CTensor> TensorsOf(const RegionCode& code) {
  std::vector<CTensor> tensors = code.inputs;
  tensors.insert(tensors.end(), code.outputs.begin(), code.outputs.end());
  return tensors;
}

// The types that the function is called with, as tables of C. The sizes of all
// tensors are one table, into which each type points.
std::string TypesText(const RegionCode& code) {
  std::vector<std::string> sizes;
  std::string types;
  for (const CTensor& tensor : TensorsOf(code)) {
    types +=
        fmt::format("      {{{}, {}, {}, sizes + {}}},\n", tensor.dtype.code,
                    tensor.dtype.bits, tensor.sizes.size(), sizes.size());
    for (const int64_t size : tensor.sizes) sizes.push_back(IntegerText(size));
  }
  return fmt::format(
      "  static const int64_t sizes[] = {{{}}};\n"
      "  static const nw_type types[] = {{\n{}  }};\n",
      sizes.empty() ? "0" : absl::StrJoin(sizes, ", "), types);
}

std::string LoopsFunctionText(const SharedLoops::Function& loops,
                              const std::string& symbol, bool is_shared) {
  return fmt::format("{}static int {}_loops({}{}) {{\n{}  return 0;\n}}\n",
                     is_shared ? "NW_SHARED " : "", symbol, loops.parameters,
                     loops.takes_numbers ? ", const int64_t* numbers" : "",
                     loops.body);
}

// Returns the code with what it leaves unused, which compilers warn of.
LoopsText LoopsTextOf(const RegionCode& code) {
  std::string text;
  for (const CTensor& tensor : TensorsOf(code)) {
    if (HasWord(code.body, tensor.name)) continue;
    text += fmt::format("  (void){};\n", tensor.name);
  }
  if (!HasWord(code.body, "scratch")) text += "  (void)scratch;\n";
  return {ParametersText(code), text + code.body, code.keeps_sizes};
}

// A function without scratch memory passes a null pointer for it. Where there
// is some, it must be freed on every way out, so the result is kept until then.
std::string CallText(const RegionCode& code, const std::string& symbol,
                     const std::string& loops, bool takes_numbers) {
  std::string call = fmt::format("{}_loops(", loops);
  size_t at = 0;
  for (const CTensor& in : code.inputs) {
    call += fmt::format("(const {}*)data[{}], ", in.type(), at++);
  }
  for (const CTensor& out : code.outputs) {
    call += fmt::format("({}*)data[{}], ", out.type(), at++);
  }
  const char* const numbers = takes_numbers ? ", numbers" : "";
  if (code.scratch_bytes == 0) {
    return fmt::format("  return {}0{});\n", call, numbers);
  }
  return fmt::format(
      "  scratch = (char*)malloc({});\n"
      "  if (scratch == 0) return nw_fail(\"{}: there is no memory\");\n"
      "  result = {}scratch{});\n"
      "  free(scratch);\n"
      "  return result;\n",
      IntegerText(code.scratch_bytes), symbol, call, numbers);
}

// The function that the runtime calls. `loops` is the symbol that the function
// of its loops is named after.
std::string EntryText(const RegionCode& code, const std::string& symbol,
                      const std::string& loops,
                      const std::vector<std::string>& numbers) {
  const std::string table =
      numbers.empty()
          ? ""
          : fmt::format("  static const int64_t numbers[] = {{{}}};\n",
                        absl::StrJoin(numbers, ", "));
  // The signature is that of TVM 0.6 and later; what it returns through the
  // last three parameters is not used.
  const size_t count = code.inputs.size() + code.outputs.size();
  const std::string parameters =
      "(TVMValue* args, int* codes, int num_args, TVMValue* ret, int* "
      "ret_code, void* resource)";
  return fmt::format(
      "NW_EXPORT int {0}{1};\n"
      "int {0}{1} {{\n"
      "{2}  char* data[{3}];\n"
      "{4}  (void)ret, (void)ret_code, (void)resource;\n"
      "  if (nw_arguments(\"{0}\", args, codes, num_args, {3}, types, data) "
      "!= 0) return -1;\n"
      "{5}}}\n",
      symbol, parameters, TypesText(code) + table, count,
      code.scratch_bytes == 0 ? "" : "  char* scratch;\n  int result;\n",
      CallText(code, symbol, loops, !numbers.empty()));
}

// The functions of a graph. Nodes whose code, parameters and types are the same
// have one function, whose comment names them all. Its symbol is that of the
// first of these nodes.
class FunctionList {
 public:
  // Returns the symbol of the node's function, which it may share.
  std::string Add(const RegionCode& code, const GraphNode& node,
                  const Region& region) {
    const std::string key = ParametersText(code) + TypesText(code) + code.body;
    const auto [known, is_new] = by_code_.emplace(key, functions_.size());
    if (is_new) functions_.push_back({FreeSymbol(node.function), {}, code});
    Function& function = functions_[known->second];
    function.comments.push_back(CoveredBy(region));
    return function.symbol;
  }

  // Helpers are chosen by the code of all functions, so that none is written
  // which nothing calls: compilers warn of that.
  std::string Source() const {
    std::vector<LoopsText> texts;
    std::string code;
    for (const Function& one : functions_) {
      texts.push_back(LoopsTextOf(one.code));
      code += one.code.body;
    }
    std::string source =
        "/* The functions of a network, for TVM's runtime. Compile this file "
        "with\n *   ";
    source += kHowToCompileC;
    source += "\n */\n\n";
    source += Prologue();
    if (!functions_.empty()) source += ArgumentCheck();
    source += HelpersOf(code);
    AddFunctions(ShareLoops(texts), &source);
    return source;
  }

 private:
  // Adds all functions, each behind the one of its loops.
  // Loops that several functions share stand behind the comment of the first of
  // them, whose name they have.
  void AddFunctions(const SharedLoops& shared, std::string* source) const {
    std::vector<size_t> users(shared.functions.size());
    for (const auto& call : shared.calls) ++users[call.function];
    std::vector<std::string> written(shared.functions.size());
    for (size_t i = 0; i < functions_.size(); ++i) {
      const Function& function = functions_[i];
      const SharedLoops::Call& call = shared.calls[i];
      std::string& loops = written[call.function];
      *source +=
          fmt::format("\n/* {} computes\n *   {}\n */\n", function.symbol,
                      absl::StrJoin(function.comments, ",\n * and\n *   "));
      if (loops.empty()) {
        loops = function.symbol;
        *source += LoopsFunctionText(shared.functions[call.function], loops,
                                     users[call.function] > 1);
      }
      *source += EntryText(function.code, function.symbol, loops, call.numbers);
    }
  }

  // Names of different nodes may have the same letters and digits.
  std::string FreeSymbol(const std::string& name) {
    const std::string symbol = SymbolOf(name);
    std::string free = symbol;
    // "_loops" ends the names of the functions that the symbols call.
    for (int n = 1;
         symbols_.contains(free + "_loops") || !symbols_.insert(free).second;
         ++n) {
      free = fmt::format("{}_{}", symbol, n);
    }
    symbols_.insert(free + "_loops");
    return free;
  }

  std::map<std::string, size_t> by_code_;
  std::vector<Function> functions_;
  std::set<std::string> symbols_;
};

// Judges a region by writing its code, which is what EmitC() does.
class CPlan : public RegionPlan {
 public:
  // An operation is named by its name: a refusal is kept for each that there is
  // no C for, and all others have "C" for their kernel.
  explicit CPlan(const Region& region) {
    std::vector<Refusal> refusals;
    CodeOf(region, &refusals);
    for (const OperationId id : SourceOperations(region)) {
      const std::string& name = region.network.operation(id).name;
      OperationChoice choice{name, "C", "", ""};
      for (const Refusal& refusal : refusals) {
        if (refusal.operation != name) continue;
        choice.kernel.clear();
        choice.why_not = refusal.why;
      }
      choices_.push_back(std::move(choice));
    }
  }
  std::vector<OperationChoice> Operations() const override { return choices_; }
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region&) const override {
    return Unimplemented("is C, which a compiler makes a library of (EmitC)");
  }

 private:
  std::vector<OperationChoice> choices_;
};

class CMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "C"; }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region& region) const override {
    return std::make_unique<CPlan>(region);
  }
};

// Adds the nodes of a graph to those of another, which computes both then.
// Every number that counts nodes or entries moves behind those that are there.
// Each entry gets memory of its own: the graph is written, and never run.
void Append(const Graph& graph, Graph* all) {
  const auto nodes = static_cast<uint32_t>(all->nodes.size());
  const auto entries = static_cast<uint32_t>(all->entries.size());
  for (GraphNode node : graph.nodes) {
    for (EntryRef& input : node.inputs) input.node += nodes;
    for (uint32_t& dependency : node.control_deps) dependency += nodes;
    all->nodes.push_back(std::move(node));
  }
  for (const uint32_t node : graph.arg_nodes) {
    all->arg_nodes.push_back(nodes + node);
  }
  for (EntryRef head : graph.heads) {
    head.node += nodes;
    all->heads.push_back(head);
  }
  for (GraphEntry entry : graph.entries) {
    entry.storage_id = static_cast<int32_t>(all->entries.size());
    all->entries.push_back(std::move(entry));
  }
  if (all->node_row_ptr.empty()) all->node_row_ptr.push_back(0);
  for (size_t i = 1; i < graph.node_row_ptr.size(); ++i) {
    all->node_row_ptr.push_back(entries + graph.node_row_ptr[i]);
  }
}

}  // namespace
}  // namespace emit_c

std::shared_ptr<const KernelMaker> CKernels() {
  return std::make_shared<const emit_c::CMaker>();
}

absl::StatusOr<EmittedC> EmitC(const Graph& graph, const OpSet& ops) {
  EmittedC emitted;
  emitted.graph = graph;
  emit_c::FunctionList functions;
  std::vector<emit_c::Refusal> refusals;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeId id{n};
    if (!graph.IsFunction(id)) continue;
    const WorkingOn on(graph.node(id).name);
    NODEWISE_ASSIGN_OR_RETURN(const Region region,
                              emit_c::RegionOfNode(graph, id, ops));
    const emit_c::RegionCode code = emit_c::CodeOf(region, &refusals);
    emitted.graph.nodes[n].function =
        functions.Add(code, graph.node(id), region);
  }
  if (!refusals.empty()) {
    return emit_c::Refuse("there is no C for {}: {}",
                          CountOf(refusals.size(), "operation"),
                          emit_c::TextOf(refusals, "; "));
  }
  // Nodes that share a function now name the same one, and nothing that the
  // runtime has built in computes them.
  ClearBuiltInFunctions(&emitted.graph);
  emitted.source = functions.Source();
  // Faults that are found later are shown in the text that is written to a
  // file.
  NODEWISE_ASSIGN_OR_RETURN(emitted.graph,
                            ParseGraph(GraphText::FromString(
                                graph.text.name, WriteGraph(emitted.graph))));
  return emitted;
}

// Nodes of the joint graph are those of all graphs, one after the other, so
// each graph finds the names of its functions there in its own order.
absl::StatusOr<std::string> EmitTogether(absl::Span<Graph* const> graphs,
                                         const OpSet& ops) {
  Graph all;
  for (const Graph* graph : graphs) emit_c::Append(*graph, &all);
  SetBuiltInFunctions(&all);
  NODEWISE_ASSIGN_OR_RETURN(EmittedC emitted, EmitC(all, ops));
  size_t node = 0;
  for (Graph* graph : graphs) {
    ClearBuiltInFunctions(graph);
    for (GraphNode& own : graph->nodes) {
      own.function = emitted.graph.nodes[node++].function;
    }
  }
  return std::move(emitted.source);
}

}  // namespace nodewise
