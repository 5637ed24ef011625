#include <algorithm>
#include <vector>

#include "fmt/format.h"
#include "nodewise/graph/storage_plan.h"

namespace nodewise {
namespace {

// When a tensor is written and when it is last read, as node numbers. Inputs
// are there before node 0 runs, outputs are read after the last node.
struct Life {
  int64_t written = -1;
  int64_t last_read = -1;
  bool is_head = false;
  uint32_t head = 0;
  uint32_t last_reader = 0;
};

// Returns the lives of all tensors; an entry that shares another's tensor
// extends its life.
std::vector<Life> LivesOf(const Graph& graph, const StoragePlan& plan) {
  std::vector<Life> lives(graph.entries.size());
  const auto read = [&](const EntryRef& ref, int64_t when) -> Life& {
    Life& life = lives[plan.base_of[Index(graph.EntryOf(ref))]];
    life.last_read = std::max(life.last_read, when);
    return life;
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    if (node.kind == GraphNode::Kind::kInput) continue;
    for (const EntryRef& ref : node.inputs) {
      Life& life = read(ref, n);
      if (life.last_read == n) life.last_reader = n;
    }
    for (uint32_t o = 0; o < node.num_outputs; ++o) {
      const uint32_t entry = Index(graph.EntryOf(NodeId{n}, o));
      if (plan.base_of[entry] == entry) lives[entry].written = n;
    }
  }
  const auto end = static_cast<int64_t>(graph.nodes.size());
  for (uint32_t h = 0; h < graph.heads.size(); ++h) {
    Life& life = read(graph.heads[h], end);
    if (!life.is_head) life.head = h;
    life.is_head = true;
  }
  return lives;
}

class PlanChecker {
 public:
  PlanChecker(const Graph& graph, const StoragePlan& plan, FaultList* faults)
      : graph_(graph),
        plan_(plan),
        lives_(LivesOf(graph, plan)),
        faults_(faults) {}

  void Check() {
    // The tensors of each slot, in the order in which they are written.
    std::vector<std::vector<uint32_t>> tensors(plan_.slots.size());
    for (uint32_t e = 0; e < graph_.entries.size(); ++e) {
      if (plan_.base_of[e] == e) tensors[plan_.slot_of[e]].push_back(e);
    }
    for (const auto& slot : tensors) CheckSlot(slot);
  }

 private:
  std::string Describe(uint32_t entry) const {
    const NodeId node = graph_.NodeOf(EntryId{entry});
    const uint32_t output = entry - Index(graph_.EntryOf(node, 0));
    return fmt::format("output {} of node {} ({})", output, Index(node),
                       Shortened(graph_.node(node).name));
  }

  void CheckSlot(const std::vector<uint32_t>& tensors) {
    // Entries are numbered in the order of their nodes, so each tensor need
    // only be compared with the earlier one that lives longest.
    int64_t holder = -1;
    for (const uint32_t tensor : tensors) {
      if (holder >= 0) CheckPair(static_cast<uint32_t>(holder), tensor);
      if (holder < 0 || lives_[tensor].last_read >=
                            lives_[static_cast<uint32_t>(holder)].last_read) {
        holder = tensor;
      }
      CheckReuse(tensors, tensor);
    }
  }

  // Checks `later`, which is written to the slot that `earlier` is in.
  void CheckPair(uint32_t earlier, uint32_t later) {
    const Life& first = lives_[earlier];
    const Life& second = lives_[later];
    if (second.written == first.written && first.last_read < 0) {
      // Two inputs, or two outputs of one node: either may be written last.
      if (second.last_read >= 0) CheckPair(later, earlier);
      return;
    }
    if (second.written > first.last_read) return;
    const std::string path = fmt::format("/attrs/storage_id/1/{}", later);
    const int32_t id = graph_.entries[later].storage_id;
    if (first.is_head) {
      Add(path,
          fmt::format("storage {}, where {} overwrites {}, which is the "
                      "graph's output {}",
                      id, Describe(later), Describe(earlier), first.head),
          "a storage of its own for an output of the graph");
      return;
    }
    if (second.written == first.last_read && second.written >= 0) {
      // The node reads the one and writes the other. Compilers of TVM 0.6 do
      // that on purpose for operators that work in place.
      Add(path,
          fmt::format("storage {}, where {} is written over {}, which the "
                      "same node reads",
                      id, Describe(later), Describe(earlier)),
          "another storage, unless the operator works in place",
          Fault::Severity::kWarning);
      return;
    }
    Add(path,
        fmt::format("storage {}, where {} overwrites {}, which node {} "
                    "({}) reads later",
                    id, Describe(later), Describe(earlier), first.last_reader,
                    Shortened(graph_.nodes[first.last_reader].name)),
        "another storage");
  }

  // An input is lost after one run if a node reuses its storage once it is
  // read.
  void CheckReuse(const std::vector<uint32_t>& tensors, uint32_t tensor) {
    if (lives_[tensor].written < 0 || tensors.size() < 2) return;
    const uint32_t first = tensors[0];
    if (first == tensor || lives_[first].written >= 0) return;
    if (lives_[tensor].written <= lives_[first].last_read) return;
    Add(fmt::format("/attrs/storage_id/1/{}", tensor),
        fmt::format("storage {}, where {} overwrites the input {}",
                    graph_.entries[tensor].storage_id, Describe(tensor),
                    Shortened(graph_.node(graph_.NodeOf(EntryId{first})).name)),
        "another storage, or a second run needs the input set again",
        Fault::Severity::kWarning);
  }

  void Add(std::string path, std::string found, std::string expected,
           Fault::Severity severity = Fault::Severity::kError) {
    faults_->Add({severity, graph_.text.name, std::move(path), 0, 0,
                  std::move(found), std::move(expected), ""});
  }

  const Graph& graph_;
  const StoragePlan& plan_;
  std::vector<Life> lives_;
  FaultList* faults_;
};

}  // namespace

void CheckPlan(const Graph& graph, const StoragePlan& plan, FaultList* faults) {
  PlanChecker(graph, plan, faults).Check();
  LocateFaults(graph.text, faults);
}

}  // namespace nodewise
