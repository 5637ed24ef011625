#include "nodewise/runner/mixed_target.h"

#include <string_view>
#include <unordered_map>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region.h"
#include "nodewise/lower/region_kernels.h"
#include "nodewise/runner/reference_kernels.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// A library is asked for functions by the nodes' attributes, and is not told
// which node asks. So graphs that are run with a library that must know have
// the key of each node among its attributes, in memory alone.
constexpr std::string_view kNodeAttribute = "nodewise.node";

// Gives each function node its GraphIndex::KeyOf(). A mark that is there
// already is replaced: the graph may be one that was marked before.
Graph WithNodeMarks(const GraphIndex& index) {
  Graph graph = index.graph();
  for (const NodeId id : FunctionNodesOf(graph)) {
    GraphNode& node = graph.nodes[Index(id)];
    std::erase_if(node.attrs, [](const auto& attribute) {
      return attribute.first == kNodeAttribute;
    });
    node.attrs.emplace_back(kNodeAttribute, index.KeyOf(id));
  }
  return graph;
}

// Returns the key of the node that asks; empty if its graph has no marks.
std::string MarkedNode(const KernelRequest& request) {
  const std::string* const key = FindAttribute(request.attrs, kNodeAttribute);
  return key == nullptr ? "" : *key;
}

// What a node of the candidate calls in the reference.
struct Partner {
  size_t node = 0;  // The candidate's number of it.
  std::string function;
  std::vector<std::pair<std::string, std::string>> attrs;
};
using Sides = std::shared_ptr<std::vector<char>>;           // By node.
using Partners = std::unordered_map<std::string, Partner>;  // By key.

// A function that is called with more or fewer tensors than it was compiled for
// would read past their list.
absl::Status CheckPair(const GraphNode& node, const GraphNode& partner) {
  if (node.inputs.size() == partner.inputs.size() &&
      node.num_outputs == partner.num_outputs &&
      node.flatten == partner.flatten) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "has {} inputs and {} outputs, expected {} and {}, as in the reference",
      node.inputs.size(), node.num_outputs, partner.inputs.size(),
      partner.num_outputs);
}

absl::StatusOr<Partners> PairNodes(const GraphTarget& candidate,
                                   const GraphTarget& reference) {
  const Graph& expected = reference.graph();
  Partners partners;
  for (const NodeId node : FunctionNodesOf(candidate.graph())) {
    const std::string& key = candidate.index().KeyOf(node);
    // FindNode() takes names and numbers too, which do not make a pair.
    const auto found = reference.index().FindNode(key);
    if (!found.ok() || reference.index().KeyOf(*found) != key ||
        !expected.IsFunction(*found)) {
      return InvalidArgument(
          "node {}: is not in {}, expected two builds of one network", key,
          reference.name());
    }
    const GraphNode& partner = expected.node(*found);
    NODEWISE_RETURN_IF_ERROR(
        At("node " + key, CheckPair(candidate.graph().node(node), partner)));
    partners[key] = {Index(node), partner.function, partner.attrs};
  }
  return partners;
}

class MixedLibrary : public Library {
 public:
  MixedLibrary(Ref<Library> candidate, Ref<Library> reference,
               Partners partners, Sides sides)
      : candidate_(std::move(candidate)),
        reference_(std::move(reference)),
        partners_(std::move(partners)),
        sides_(std::move(sides)) {}

  // Functions that are found by name alone, such as parameters in the library,
  // are the candidate's.
  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return candidate_->Find(name);
  }

  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    const auto found = partners_.find(MarkedNode(request));
    if (found == partners_.end()) return candidate_->Bind(request);
    const Partner& partner = found->second;
    // The tensors and their layout are the candidate's; only the function and
    // its attributes are those of the reference.
    KernelRequest other = request;
    other.function = partner.function;
    other.attrs = partner.attrs;
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc ours, candidate_->Bind(request));
    // Both are bound now, so that a build that cannot run here is found out
    // before the first run.
    auto theirs = reference_->Bind(other);
    if (!theirs.ok()) return At("the reference", theirs.status());
    return PackedFunc::FromBody([ours = std::move(ours),
                                 theirs = *std::move(theirs), sides = sides_,
                                 node = partner.node](const PackedArgs& args) {
      return ((*sides)[node] != 0 ? ours : theirs).CallPacked(args);
    });
  }

 private:
  const Ref<Library> candidate_;
  const Ref<Library> reference_;
  const Partners partners_;
  const Sides sides_;
};

class StandInLibrary : public Library {
 public:
  StandInLibrary(Ref<Library> library, const OpSet& ops, NodeChoice replaces)
      : library_(std::move(library)),
        ops_(ops),
        reference_(
            MakeRef<LoweredLibrary>(ops, std::vector{ReferenceKernels()})),
        replaces_(std::move(replaces)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return library_->Find(name);
  }

  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    const std::string name = NameOfNode(request);
    if (name.empty() || !replaces_(name)) return library_->Bind(request);
    // A chosen node must not fall back to its own function in silence: a search
    // would take the result for that of the reference.
    auto function = reference_->Bind(request);
    if (function.ok()) return function;
    return Unimplemented("node {}: the reference cannot stand in for it: {}",
                         name, MessageOf(function.status()));
  }

 private:
  std::string NameOfNode(const KernelRequest& request) const {
    const std::string marked = MarkedNode(request);
    if (!marked.empty()) return marked;
    // A graph that was not marked says the name in the text of the region.
    const auto region = RegionOf(request, ops_);
    return region.ok() ? region->network.name() : "";
  }

  const Ref<Library> library_;
  const OpSet ops_;
  const Ref<Library> reference_;
  const NodeChoice replaces_;
};

}  // namespace

absl::StatusOr<MixedTarget> MixedTarget::Create(const GraphTarget& candidate,
                                                const GraphTarget& reference) {
  NODEWISE_ASSIGN_OR_RETURN(Partners partners, PairNodes(candidate, reference));
  // Not a vector of bool: functions read it in a run, each its own byte.
  auto sides =
      std::make_shared<std::vector<char>>(candidate.graph().nodes.size(), 0);
  const Artefact& artefact = candidate.artefact();
  NODEWISE_ASSIGN_OR_RETURN(
      auto target,
      GraphTarget::FromArtefact(
          fmt::format("{} mixed with {}", candidate.name(), reference.name()),
          {WithNodeMarks(candidate.index()),
           MakeRef<MixedLibrary>(artefact.library, reference.artefact().library,
                                 std::move(partners), sides),
           artefact.params},
          candidate.devices()));
  return MixedTarget(std::move(target), std::move(sides));
}

void MixedTarget::Choose(const ByNode<bool>& from_candidate) {
  for (size_t n = 0; n < sides_->size(); ++n) {
    (*sides_)[n] = from_candidate[NodeId{static_cast<uint32_t>(n)}] ? 1 : 0;
  }
}

Ref<Library> WithStandIns(Ref<Library> library, const OpSet& ops,
                          NodeChoice replaces) {
  return MakeRef<StandInLibrary>(std::move(library), ops, std::move(replaces));
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> WithStandIns(
    const GraphTarget& target, const OpSet& ops, NodeChoice replaces) {
  const Artefact& artefact = target.artefact();
  return target.WithArtefact(
      {WithNodeMarks(target.index()),
       WithStandIns(artefact.library, ops, std::move(replaces)),
       artefact.params});
}

}  // namespace nodewise
