#include "nodewise/vm/vm_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "runtime/vm/vm_reader.h"

namespace nodewise {
namespace {

// A message stays readable; the list of reasons itself has them all.
constexpr size_t kMostListed = 20;
// Short calls may each name a function whose name is as long as the file.
constexpr size_t kMostNameBytes = size_t{32} << 20;

// Builds the graph of a program in which nothing was refused. The order of the
// calls is that of the nodes. An entry's storage id says which part of a
// storage its tensor lies in, so that the executor shares memory as TVM's VM
// would; constants and inputs get storages of their own.
class GraphMaker {
 public:
  GraphMaker(const VmLibrary& library, const VmProgram& program, VmGraph* made)
      : library_(library), program_(program), made_(made) {}

  absl::Status Make(const std::string& name) {
    Graph& graph = made_->graph;
    graph.text.name = name;
    graph.node_row_ptr.push_back(0);
    refs_.resize(program_.tensors.size());
    NODEWISE_RETURN_IF_ERROR(CheckNames());
    PlaceStorages();
    for (const uint32_t input : program_.parameters) AddInputs(input);
    for (const VmCall& call : program_.calls) AddCall(call);
    for (const uint32_t head : program_.heads) {
      AddConstant(head);
      graph.heads.push_back(refs_[head]);
    }
    DiagnosticList diagnostics;
    CheckGraph(graph, &diagnostics);
    return diagnostics.ToStatus();
  }

 private:
  absl::Status CheckNames() const {
    size_t bytes = 0;
    for (const VmCall& call : program_.calls) bytes += call.function.size();
    for (const VmInput& input : program_.inputs) bytes += input.name.size();
    if (bytes <= kMostNameBytes) return absl::OkStatus();
    return Unimplemented(
        "{}: the names of its calls take {} bytes, expected at most {}",
        made_->graph.text.name, bytes, kMostNameBytes);
  }

  // Returns a name that no other node has; the first use keeps it unchanged.
  // The count of uses makes the next free number known, without trying all of
  // them.
  std::string Unique(std::string_view wanted) {
    std::string name(wanted);
    size_t& uses = uses_[name];
    for (; uses > 0 || taken_.contains(name); ++uses) {
      name = fmt::format("{}_{}", wanted, std::max<size_t>(uses, 1));
      if (!taken_.contains(name)) break;
    }
    ++uses;
    taken_.insert(name);
    return name;
  }

  uint32_t AddNode(GraphNode node) {
    Graph& graph = made_->graph;
    const auto number = static_cast<uint32_t>(graph.nodes.size());
    graph.node_row_ptr.push_back(graph.node_row_ptr.back() + node.num_outputs);
    graph.nodes.push_back(std::move(node));
    return number;
  }

  void AddEntry(uint32_t tensor, uint32_t node, uint32_t output,
                int32_t storage_id) {
    const VmTensor& from = program_.tensors[tensor];
    refs_[tensor] = {node, output, 0};
    made_->graph.entries.push_back({from.shape, from.dtype, storage_id});
  }

  // Constants are inputs, too, as in TVM's graphs, where parameters are.
  uint32_t AddInputNode(std::string name, uint32_t tensor) {
    GraphNode node;
    node.name = std::move(name);
    const uint32_t number = AddNode(std::move(node));
    made_->graph.arg_nodes.push_back(number);
    AddEntry(tensor, number, 0, next_storage_++);
    return number;
  }

  // The items of a tuple come in the place of the tuple.
  void AddInputs(uint32_t number) {
    const VmInput& input = program_.inputs[number];
    for (const auto& [item, inner] : input.items) AddInputs(inner);
    if (input.is_tuple) return;
    const VmTensor& tensor = program_.tensors[input.tensor];
    if (tensor.has_shape && tensor.has_dtype && !tensor.HasOpenDims()) {
      AddInputNode(Unique(input.name), input.tensor);
      return;
    }
    // Nothing reads an input whose type is unknown, or it would have been
    // refused.
    made_->notes.push_back(
        fmt::format("input {} is left out: it is not used, and its type is "
                    "not in the bytecode",
                    input.name));
  }

  // Constants come before their first use, as in TVM's graph executor.
  void AddConstant(uint32_t tensor) {
    const VmTensor& from = program_.tensors[tensor];
    if (from.origin != VmTensor::Origin::kConstant || has_node_[tensor]) return;
    has_node_[tensor] = true;
    std::string name;
    do {
      name = fmt::format("p{}", next_constant_++);
    } while (taken_.contains(name));
    taken_.insert(name);
    AddInputNode(name, tensor);
    const auto& record =
        std::get<TensorRecord>(library_.executable.constants[from.source]);
    made_->params.tensors.push_back(
        {std::move(name),
         NDArray::Map(record.data, record.shape, from.dtype, library_.file)});
  }

  // Nodes are called after their functions: bytecode has no names of its own
  // for them.
  void AddCall(const VmCall& call) {
    GraphNode node;
    node.kind = GraphNode::Kind::kFunction;
    for (const uint32_t input : call.inputs) {
      AddConstant(input);
      node.inputs.push_back(refs_[input]);
    }
    const bool is_view = call.function.empty();
    node.name = Unique(is_view ? "reshape_nop" : call.function);
    node.function = std::string(is_view ? kNopFunction : call.function);
    node.num_inputs = static_cast<uint32_t>(call.inputs.size());
    node.num_outputs = static_cast<uint32_t>(call.outputs.size());
    if (!call.numbers.empty()) {
      node.attrs.emplace_back(kCallNumbers, CallNumbersText(call.numbers));
    }
    const uint32_t number = AddNode(std::move(node));
    for (uint32_t o = 0; o < call.outputs.size(); ++o) {
      const uint32_t tensor = call.outputs[o];
      AddEntry(tensor, number, o,
               is_view ? StorageOfEntry(call.inputs[0]) : StorageOf(tensor));
    }
  }

  // A view lies where its tensor does.
  int32_t StorageOfEntry(uint32_t tensor) const {
    const Graph& graph = made_->graph;
    return graph.entry(graph.EntryOf(refs_[tensor])).storage_id;
  }

  int32_t StorageOf(uint32_t tensor) {
    const auto [place, is_new] = storage_ids_.try_emplace(part_of_[tensor], 0);
    if (is_new) place->second = next_storage_++;
    return place->second;
  }

  // A graph only has whole storages, so each part of one that is used on its
  // own becomes a storage; tensors at one offset keep sharing it.
  void PlaceStorages() {
    has_node_.resize(program_.tensors.size(), false);
    part_of_.resize(program_.tensors.size());
    std::vector<std::vector<uint32_t>> tensors(program_.storages.size());
    for (uint32_t t = 0; t < program_.tensors.size(); ++t) {
      const VmTensor& tensor = program_.tensors[t];
      part_of_[t] = t;
      if (tensor.origin == VmTensor::Origin::kStorage) {
        tensors[tensor.source].push_back(t);
      }
    }
    for (size_t s = 0; s < tensors.size(); ++s) PlaceTensors(s, &tensors[s]);
  }

  // Sorted by offset, tensors that overlap without sharing their beginning
  // stand next to each other.
  void PlaceTensors(size_t storage, std::vector<uint32_t>* tensors) {
    const auto offset_of = [this](uint32_t tensor) {
      return program_.tensors[tensor].offset;
    };
    std::ranges::stable_sort(*tensors, {}, offset_of);
    uint64_t end = 0;
    bool overlaps = false;
    for (size_t i = 0; i < tensors->size(); ++i) {
      const uint32_t tensor = (*tensors)[i];
      if (i > 0 && offset_of(tensor) == offset_of((*tensors)[i - 1])) {
        part_of_[tensor] = part_of_[(*tensors)[i - 1]];
      } else {
        overlaps = overlaps || offset_of(tensor) < end;
      }
      const VmTensor& from = program_.tensors[tensor];
      end = std::max(
          end, from.offset + TensorBytes(from.shape, from.dtype).value_or(0));
    }
    if (!overlaps) return;
    made_->notes.push_back(
        fmt::format("storage {} of the VM holds tensors that overlap at "
                    "several offsets: they get storages of their own",
                    storage));
  }

  const VmLibrary& library_;
  const VmProgram& program_;
  VmGraph* made_;
  std::vector<EntryRef> refs_;     // By tensor.
  std::vector<bool> has_node_;     // By tensor; only for constants.
  std::vector<uint32_t> part_of_;  // By tensor: the first tensor of its part.
  std::unordered_map<uint32_t, int32_t> storage_ids_;  // By part.
  int32_t next_storage_ = 0;
  size_t next_constant_ = 0;
  std::unordered_map<std::string, size_t> uses_;
  std::unordered_set<std::string> taken_;
};

absl::Status Refusal(const VmLibrary& library, const VmFunction& function,
                     const DiagnosticList& reasons) {
  std::string text;
  const size_t count = reasons.items().size();
  for (size_t i = 0; i < std::min(count, kMostListed); ++i) {
    const Diagnostic& diagnostic = reasons.items()[i];
    text += "; " + diagnostic.path + ": " + diagnostic.found;
    if (!diagnostic.hint.empty()) text += " (" + diagnostic.hint + ")";
  }
  if (count > kMostListed) {
    text += fmt::format("; and {} more", count - kMostListed);
  }
  return Unimplemented(
      "{}: function {} is not a static graph, for {} reason{}: {}",
      library.path, Shortened(function.name), count, count == 1 ? "" : "s",
      std::string_view(text).substr(2));
}

}  // namespace

// Kernels are listed in the bytecode as well, but cannot be asked for.
std::vector<std::string> VmFunctionNames(const VmExecutable& executable) {
  std::vector<std::string> names;
  for (const VmFunction& function : executable.functions) {
    if (function.kind == VmFunction::Kind::kPacked) continue;
    names.emplace_back(function.name);
  }
  return names;
}

// A network has one function, as a rule; a library with several names one
// "main".
absl::StatusOr<const VmFunction*> FindVmFunction(const VmLibrary& library,
                                                 const std::string& name) {
  const VmFunction* main = nullptr;
  const VmFunction* last = nullptr;
  for (const VmFunction& function : library.executable.functions) {
    if (function.kind == VmFunction::Kind::kPacked) continue;
    last = &function;
    if (!name.empty() && function.name == name) return last;
    if (function.name == "main") main = &function;
  }
  const std::vector<std::string> names = VmFunctionNames(library.executable);
  if (!name.empty()) {
    return NotFound("{}: has no function {}, expected one of: {}{}",
                    library.path, name, ListOf(names), DidYouMean(name, names));
  }
  if (main != nullptr) return main;
  if (names.size() == 1) return last;
  return InvalidArgument(
      "{}: has {} functions and none is called main, expected a choice of: {} "
      "({})",
      library.path, names.size(), ListOf(names), NameOf(Way::kFunction));
}

absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const VmFunction& function,
                                    const VmBinding& binding,
                                    DiagnosticList* reasons) {
  // Earlier reasons, of another function, must not keep the graph from being
  // made.
  DiagnosticList found;
  VmReader reader(library, function, binding, &found);
  NODEWISE_RETURN_IF_ERROR(reader.Read());
  VmGraph made;
  if (found.items().empty()) {
    GraphMaker maker(library, reader.program(), &made);
    NODEWISE_RETURN_IF_ERROR(maker.Make(fmt::format(
        "{}: function {}", library.path, Shortened(function.name))));
  }
  reasons->Append(std::move(found));
  return made;
}

absl::StatusOr<VmGraph> ReadVmGraph(const VmLibrary& library,
                                    const std::string& function_name,
                                    const VmBinding& binding) {
  NODEWISE_ASSIGN_OR_RETURN(const VmFunction* function,
                            FindVmFunction(library, function_name));
  DiagnosticList reasons;
  auto made = ReadVmGraph(library, *function, binding, &reasons);
  if (!made.ok()) return made.status();
  if (reasons.items().empty()) return made;
  return Refusal(library, *function, reasons);
}

}  // namespace nodewise
