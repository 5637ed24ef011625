#include "nodewise/demo/silent_build.h"

#include <cctype>
#include <map>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;

// The function and the attributes of a node before they are withheld, which
// tell what it computes.
struct Withheld {
  std::string function;
  Attributes attrs;
};

using WithheldByName = std::map<std::string, Withheld, std::less<>>;

// Stands in front of a library that makes functions from the attributes of
// nodes: it takes the new names, and asks the library with the old names and
// attributes.
class RenamingLibrary : public Library {
 public:
  RenamingLibrary(Ref<Library> library, WithheldByName withheld)
      : library_(std::move(library)), withheld_(std::move(withheld)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    if (withheld_.contains(name)) return PackedFunc();
    return library_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    const auto known = withheld_.find(request.function);
    if (known == withheld_.end()) return library_->Bind(request);
    KernelRequest told = request;
    told.function = known->second.function;
    told.attrs = known->second.attrs;
    return library_->Bind(told);
  }
  size_t NeededAlignment() const override {
    return library_->NeededAlignment();
  }

 private:
  const Ref<Library> library_;
  const WithheldByName withheld_;
};

// __nop and __copy are the executor's own, which knows them by these names.
bool IsCalled(const GraphNode& node) {
  return node.kind == GraphNode::Kind::kFunction && !node.function.empty() &&
         !node.function.starts_with("__");
}

// Renames the nodes, and returns their attributes by number. Inputs keep their
// names, by which callers set them. The graph no longer promises functions that
// are built in, since these are found by the attributes.
std::vector<Attributes> StripNodeAttributes(Graph* graph) {
  std::vector<Attributes> taken(graph->nodes.size());
  size_t number = 0;
  for (size_t n = 0; n < graph->nodes.size(); ++n) {
    GraphNode& node = graph->nodes[n];
    if (node.kind == GraphNode::Kind::kInput) continue;
    node.name = fmt::format("fused_{}", number++);
    taken[n] = std::exchange(node.attrs, {});
  }
  ClearBuiltInFunctions(graph);
  return taken;
}

// Replaces whole names only: one may be the beginning of another.
void ReplaceName(std::string_view from, std::string_view to,
                 std::string* text) {
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::string replaced;
  size_t at = 0;
  for (size_t found = text->find(from); found != std::string::npos;
       found = text->find(from, at)) {
    const size_t end = found + from.size();
    const bool is_whole = (found == 0 || !is_of_name((*text)[found - 1])) &&
                          (end == text->size() || !is_of_name((*text)[end]));
    replaced.append(*text, at, found - at);
    replaced += is_whole ? to : from;
    at = end;
  }
  replaced.append(*text, at);
  *text = std::move(replaced);
}

}  // namespace

SilentBuild MakeSilentBuild(Graph graph, Ref<Library> library) {
  std::vector<Attributes> words = StripNodeAttributes(&graph);
  WithheldByName withheld;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    GraphNode& node = graph.nodes[n];
    if (!IsCalled(node)) continue;
    withheld[node.name] = {std::exchange(node.function, node.name),
                           std::move(words[n])};
  }
  // The old text would still say all that is withheld.
  graph.text = GraphText::FromString(graph.text.name, WriteGraph(graph));
  return {std::move(graph),
          MakeRef<RenamingLibrary>(std::move(library), std::move(withheld)),
          ""};
}

absl::StatusOr<SilentBuild> SilencedC(const Graph& graph, const OpSet& ops) {
  NODEWISE_ASSIGN_OR_RETURN(EmittedC emitted, EmitC(graph, ops));
  SilentBuild build{std::move(emitted.graph), nullptr,
                    std::move(emitted.source)};
  StripNodeAttributes(&build.graph);
  // Nodes that compute the same share a function.
  std::map<std::string, std::string> names;
  for (GraphNode& node : build.graph.nodes) {
    if (!IsCalled(node)) continue;
    const auto [at, is_new] =
        names.emplace(node.function, fmt::format("function_{}", names.size()));
    if (is_new) ReplaceName(node.function, at->second, &build.source);
    node.function = at->second;
  }
  build.graph.text =
      GraphText::FromString(build.graph.text.name, WriteGraph(build.graph));
  return build;
}

}  // namespace nodewise
