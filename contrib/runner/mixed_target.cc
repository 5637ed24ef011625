#include "nodewise/runner/mixed_target.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "contrib/runner/node_marks.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// What a node of the candidate calls in the reference.
struct Partner {
  size_t node = 0;  // The candidate's number of it.
  std::string function;
  std::vector<std::pair<std::string, std::string>> attrs;
};
using Sides = std::shared_ptr<std::vector<char>>;           // By node.
using Partners = std::unordered_map<std::string, Partner>;  // By key.

absl::Status CheckPair(const GraphNode& node, const GraphNode& partner) {
  if (node.inputs.size() == partner.inputs.size() &&
      node.num_outputs == partner.num_outputs &&
      node.flatten == partner.flatten) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "has {} inputs and {} outputs, expected {} and {}, as in the reference",
      node.inputs.size(), node.num_outputs, partner.inputs.size(),
      partner.num_outputs));
}

absl::StatusOr<Partners> PairNodes(const GraphTarget& candidate,
                                   const GraphTarget& reference) {
  std::unordered_map<std::string, NodeId> known;
  const Graph& expected = reference.graph();
  for (uint32_t n = 0; n < expected.nodes.size(); ++n) {
    known.emplace(reference.index().KeyOf(NodeId{n}), NodeId{n});
  }
  Partners partners;
  for (uint32_t n = 0; n < candidate.graph().nodes.size(); ++n) {
    const NodeId node{n};
    if (!candidate.graph().IsFunction(node)) continue;
    const std::string& key = candidate.index().KeyOf(node);
    const auto found = known.find(key);
    if (found == known.end() || !expected.IsFunction(found->second)) {
      return absl::InvalidArgumentError(
          fmt::format("node {}: is not in {}, expected two builds of one "
                      "network",
                      key, reference.name()));
    }
    const GraphNode& partner = expected.node(found->second);
    NODEWISE_RETURN_IF_ERROR(
        At("node " + key, CheckPair(candidate.graph().node(node), partner)));
    partners[key] = {n, partner.function, partner.attrs};
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
    const auto found = partners_.find(std::string(MarkedNode(request)));
    if (found == partners_.end()) return candidate_->Bind(request);
    const Partner& partner = found->second;
    KernelRequest other = request;
    other.function = partner.function;
    other.attrs = partner.attrs;
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc ours, candidate_->Bind(request));
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

}  // namespace

absl::StatusOr<MixedTarget> MixedTarget::Create(const GraphTarget& candidate,
                                                const GraphTarget& reference) {
  NODEWISE_ASSIGN_OR_RETURN(Partners partners, PairNodes(candidate, reference));
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

}  // namespace nodewise
