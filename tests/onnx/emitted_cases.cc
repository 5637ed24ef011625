#include "tests/onnx/emitted_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/own_attributes.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"
#include "tests/onnx/lowered_case.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNetworksAtOnce = 150;

// Adds the nodes of a graph to those of another, which computes both then.
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

EmittedCases::EmittedCases() {
  std::string folder = fs::temp_directory_path() / "nodewise_emitted_XXXXXX";
  if (mkdtemp(folder.data()) != nullptr) folder_ = folder;
}

EmittedCases::~EmittedCases() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::Status EmittedCases::Add(Network network, std::vector<NDArray> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, LowerFor(&network, &inputs));
  NODEWISE_ASSIGN_OR_RETURN(const EmittedC emitted,
                            EmitC(lowered.graph, AllOperators()));
  places_[WriteGraph(lowered.graph)].graph = lowered.graph;
  return absl::OkStatus();
}

absl::Status EmittedCases::Compile(const std::string& compiler) {
  std::vector<Place*> batch;
  for (auto& [text, place] : places_) {
    batch.push_back(&place);
    if (batch.size() < kNetworksAtOnce) continue;
    NODEWISE_RETURN_IF_ERROR(CompileBatch(batch, compiler));
    batch.clear();
  }
  if (batch.empty()) return absl::OkStatus();
  return CompileBatch(batch, compiler);
}

absl::Status EmittedCases::CompileBatch(const std::vector<Place*>& batch,
                                        const std::string& compiler) {
  Graph all;
  for (const Place* place : batch) Append(place->graph, &all);
  SetBuiltInFunctions(&all);
  NODEWISE_ASSIGN_OR_RETURN(const EmittedC emitted, EmitC(all, AllOperators()));
  size_t node = 0;
  for (Place* place : batch) {
    ClearBuiltInFunctions(&place->graph);
    place->library = libraries_.size();
    for (GraphNode& own : place->graph.nodes) {
      own.function = emitted.graph.nodes[node++].function;
    }
  }
  const std::string stem = fmt::format("{}/lib{}", folder_, libraries_.size());
  std::ofstream(stem + ".c") << emitted.source;
  const std::string command = fmt::format(
      "{0} -std=c99 -pedantic -Wall -Wextra -Werror -O1 -shared -fPIC "
      "'{1}.c' -o '{1}.so' -lm",
      compiler, stem);
  if (std::system(command.c_str()) != 0) {
    return absl::InternalError("the C does not compile");
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, LoadModule(stem + ".so"));
  libraries_.push_back(LibraryOf(std::move(module)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> EmittedCases::Run(
    Network network, std::vector<NDArray> inputs) const {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, LowerFor(&network, &inputs));
  const auto place = places_.find(WriteGraph(lowered.graph));
  if (place == places_.end()) {
    return absl::UnimplementedError("inputs of other types than the first");
  }
  return RunLowered(place->second.graph, libraries_[place->second.library],
                    lowered.params, inputs);
}

}  // namespace nodewise
