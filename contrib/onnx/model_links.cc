// Finds what is wrong with the links between nodes, and brings the nodes of
// each list into an order in which they can run.

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "contrib/onnx/graph_importer.h"
#include "contrib/onnx/opaque_node.h"
#include "fmt/format.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More cycles than this in one graph are not looked for: each costs a walk.
constexpr size_t kMostCycles = 100;

using NameViews = std::unordered_set<std::string_view>;

// The nodes of a graph, a body or a function, and what they are given.
struct NodeList {
  const Nodes& nodes;
  // Inputs and initializers: these names win over nodes' outputs.
  NameViews given;
  std::vector<std::string_view> outputs;
  std::vector<std::string_view> constants;  // Initializers.
  const Opsets& opsets;
};

// Sparse initializers are not among them: the import refuses them, and a reader
// of one has a fault already.
NodeList ListOfGraph(const proto::Graph& graph, const Opsets& opsets) {
  NodeList list{graph.node(), {}, {}, {}, opsets};
  for (const auto& input : graph.input()) list.given.insert(input.name());
  for (const auto& tensor : graph.initializer()) {
    list.given.insert(tensor.name());
    list.constants.push_back(tensor.name());
  }
  for (const auto& output : graph.output()) {
    list.outputs.push_back(output.name());
  }
  return list;
}

// Looks at one list of nodes by the names of its values alone. A body counts as
// a part of its node: the node reads what the body reads from around it, so
// that cycles through bodies are found too. Bodies are then looked at by
// checkers of their own, which see the lists around them.
class LinkChecker {
 public:
  // `outer` are the links around a body, read by its node `at_of_outer`.
  LinkChecker(NodeList list, const LinkChecker* outer, uint32_t at_of_outer,
              ImportState* state)
      : list_(std::move(list)),
        outer_(outer),
        at_of_outer_(at_of_outer),
        state_(*state),
        reads_(static_cast<size_t>(list_.nodes.size())),
        is_in_cycle_(reads_.size()) {
    for (uint32_t i = 0; i < reads_.size(); ++i) {
      for (const std::string& output : NodeAt(i).output()) {
        if (!output.empty()) makers_.emplace(output, i);
      }
      for (const std::string& input : NodeAt(i).input()) {
        if (!input.empty()) reads_[i].push_back(input);
      }
      if (!HasBodies(NodeAt(i))) continue;
      for (std::string& name : CapturesOf(NodeAt(i))) {
        reads_[i].push_back(std::move(name));
      }
    }
  }

  void Check() {
    CheckCycles();
    Sort();
    for (uint32_t i = 0; i < reads_.size(); ++i) NoteLateMakers(i);
    if (state_.options.report_unused) ReportUnused();
    for (uint32_t i = 0; i < reads_.size(); ++i) CheckBodies(i);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  static bool HasBodies(const proto::Node& node) {
    return std::ranges::any_of(
        node.attribute(), [](const proto::Attribute& attribute) {
          return TypeOf(attribute) == AttributeType::kGraph;
        });
  }

  const proto::Node& NodeAt(uint32_t i) const {
    return list_.nodes.Get(static_cast<int>(i));
  }
  std::string NameAt(uint32_t i) const { return NameOf(NodeAt(i), i); }
  std::string NodeLocationAt(uint32_t i) const {
    return NodeLocation(NodeAt(i), NameAt(i),
                        KnownOpset(list_.opsets, DomainOf(NodeAt(i).domain())));
  }

  bool IsHere(const std::string& name) const {
    return list_.given.contains(name) || makers_.contains(name);
  }
  uint32_t MakerOf(const std::string& name) const {
    if (list_.given.contains(name)) return kNone;
    const uint32_t* const maker = FindOrNull(makers_, name);
    return maker == nullptr ? kNone : *maker;
  }

  // A name that is made nowhere makes no cycle; the import reports it.
  void CheckCycles() {
    std::vector<std::vector<uint32_t>> makers(reads_.size());
    for (uint32_t i = 0; i < reads_.size(); ++i) {
      for (const std::string& name : reads_[i]) {
        const uint32_t maker = MakerOf(name);
        if (maker != kNone) makers[i].push_back(maker);
      }
    }
    for (const auto& cycle : FindCycles(std::move(makers), kMostCycles)) {
      std::vector<std::string> path;
      for (const uint32_t i : cycle) {
        is_in_cycle_[i] = true;
        path.push_back(NameAt(i));
      }
      path.push_back(path.front());
      state_.StructureError(NodeLocationAt(cycle.front()),
                            "depends on itself: " + PathText(path), "no cycle");
    }
  }

  // Whether a value around a body has this name: what stands in the body before
  // the node that makes the name reads that value.
  bool IsInOuterScope(const std::string& name) const {
    for (const LinkChecker* at = outer_; at != nullptr; at = at->outer_) {
      if (at->IsHere(name)) return true;
    }
    return false;
  }

  // The node that must run before a reader of that name, or none.
  uint32_t NeededBy(uint32_t reader, const std::string& name) const {
    const uint32_t maker = MakerOf(name);
    if (maker == kNone || maker == reader || is_in_cycle_[maker]) return kNone;
    return maker > reader && IsInOuterScope(name) ? kNone : maker;
  }

  // Keeps nodes where they stand as far as that can be, so that a network looks
  // like its file: of the nodes that could run next, the first one does.
  void Sort() {
    std::vector<std::vector<uint32_t>> readers(reads_.size());
    std::vector<size_t> open(reads_.size());
    std::vector<std::pair<uint32_t, std::string>> early;
    for (uint32_t i = 0; i < reads_.size(); ++i) {
      bool is_early = false;
      for (const std::string& name : reads_[i]) {
        const uint32_t maker = NeededBy(i, name);
        if (maker == kNone) continue;
        readers[maker].push_back(i);
        ++open[i];
        if (maker > i && !is_early) early.emplace_back(i, name);
        is_early = is_early || maker > i;
      }
    }
    if (early.empty()) return;
    state_.orders[&list_.nodes] = OrderOf(readers, std::move(open));
    ReportUnsorted(early);
  }

  // Nodes in cycles, and those that depend on one, are never ready; they come
  // last, as they stand, for what else is wrong with them.
  static std::vector<int> OrderOf(
      const std::vector<std::vector<uint32_t>>& readers,
      std::vector<size_t> open) {
    std::vector<int> order;
    std::set<uint32_t> ready;
    for (uint32_t i = 0; i < open.size(); ++i) {
      if (open[i] == 0) ready.insert(i);
    }
    while (!ready.empty()) {
      const uint32_t next = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(static_cast<int>(next));
      for (const uint32_t reader : readers[next]) {
        if (--open[reader] == 0) ready.insert(reader);
      }
    }
    for (uint32_t i = 0; i < open.size(); ++i) {
      if (open[i] > 0) order.push_back(static_cast<int>(i));
    }
    return order;
  }

  void ReportUnsorted(
      const std::vector<std::pair<uint32_t, std::string>>& early) {
    const auto& [reader, name] = early.front();
    const bool is_error = state_.options.refuse_unsorted;
    const std::string more =
        early.size() == 1 ? ""
                          : fmt::format(" ({} read what is made further on)",
                                        CountOf(early.size(), "node"));
    state_.Add(
        network_kinds::kInvalidStructure,
        is_error ? Severity::kError : Severity::kWarning,
        NodeLocationAt(reader),
        fmt::format("reads {}, which is made further on, by node {}{}",
                    Shortened(name), Shortened(NameAt(MakerOf(name))), more),
        "nodes in an order in which they can run",
        is_error ? "sort them" : "the import sorts them");
  }

  // A body reads what is around it, too, when the node that it belongs to runs.
  void NoteLateMakers(uint32_t reader) {
    for (const std::string& name : reads_[reader]) {
      const LinkChecker* at = this;
      uint32_t place = reader;
      while (!at->IsHere(name) && at->outer_ != nullptr) {
        place = at->at_of_outer_;
        at = at->outer_;
      }
      const uint32_t maker = at->MakerOf(name);
      if (maker == kNone || maker < place) continue;
      state_.late_makers.emplace(
          std::pair(&NodeAt(reader), name),
          LateMaker{at->NameAt(maker),
                    at->is_in_cycle_[maker] && at->is_in_cycle_[place]});
    }
  }

  void CheckBodies(uint32_t i) {
    for (const proto::Attribute& attribute : NodeAt(i).attribute()) {
      if (TypeOf(attribute) != AttributeType::kGraph) continue;
      const InBody in_body(&state_, fmt::format("{}: {}", NodeLocationAt(i),
                                                Shortened(attribute.name())));
      LinkChecker(ListOfGraph(attribute.g(), list_.opsets), this, i, &state_)
          .Check();
    }
  }

  // Walks backwards from the outputs, so the order of the nodes does not
  // matter.
  void ReportUnused() {
    std::unordered_set<std::string> read;
    for (const std::string_view name : list_.outputs) read.emplace(name);
    std::vector<std::string> open(read.begin(), read.end());
    std::vector<bool> is_needed(reads_.size());
    while (!open.empty()) {
      const uint32_t maker = MakerOf(open.back());
      open.pop_back();
      if (maker == kNone || is_needed[maker]) continue;
      is_needed[maker] = true;
      for (const std::string& name : reads_[maker]) {
        if (read.insert(name).second) open.push_back(name);
      }
    }
    for (uint32_t i = 0; i < reads_.size(); ++i) {
      if (!is_needed[i] && !is_in_cycle_[i]) ReportUnused(NodeLocationAt(i));
    }
    for (const std::string_view name : list_.constants) {
      if (read.contains(std::string(name))) continue;
      ReportUnused(fmt::format("initializer {}", Shortened(name)));
    }
  }
  void ReportUnused(const std::string& where) {
    state_.Add(network_kinds::kUnreached, Severity::kWarning, where,
               outer_ == nullptr ? "no output depends on it"
                                 : "no output of the body depends on it",
               "", "the import leaves it out");
  }

  const NodeList list_;
  const LinkChecker* outer_;
  const uint32_t at_of_outer_;
  ImportState& state_;
  std::unordered_map<std::string_view, uint32_t> makers_;
  std::vector<std::vector<std::string>> reads_;  // By node, its bodies' too.
  std::vector<bool> is_in_cycle_;                // By node.
};

}  // namespace

void CheckLinks(const proto::Model& model, ImportState* state) {
  LinkChecker(ListOfGraph(model.graph(), state->opsets), nullptr, 0, state)
      .Check();
  for (const proto::Function& function : model.functions()) {
    const InBody in_function(
        state, fmt::format("function {}", Shortened(function.name())));
    NodeList list{
        function.node(), {}, {}, {}, state->function_opsets.at(&function)};
    list.given.insert(function.input().begin(), function.input().end());
    list.outputs.assign(function.output().begin(), function.output().end());
    LinkChecker(std::move(list), nullptr, 0, state).Check();
  }
}

}  // namespace nodewise
