#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/storage_plan.h"

namespace nodewise {
namespace {

class PlanChecker {
 public:
  PlanChecker(const Graph& graph, const StoragePlan& plan,
              DiagnosticList* diagnostics)
      : graph_(graph),
        plan_(plan),
        index_(graph, plan),
        diagnostics_(diagnostics) {}

  void Check() {
    for (uint32_t slot = 0; slot < plan_.slots.size(); ++slot) CheckSlot(slot);
  }

 private:
  // Names may be as long as the file.
  template <typename Id>
  std::string TitleOf(Id id) const {
    return std::string(Shortened(index_.TitleOf(id)));
  }

  void CheckSlot(uint32_t slot) {
    // The tensors are in the order in which they are written, so each need only
    // be compared with the earlier one that lives longest.
    const absl::Span<const EntryId> tensors = index_.TensorsIn(slot);
    if (tensors.empty()) return;
    EntryId holder = tensors[0];
    for (const EntryId tensor : tensors.subspan(1)) {
      CheckPair(holder, tensor);
      if (index_.LifetimeOf(tensor).last_read >=
          index_.LifetimeOf(holder).last_read) {
        holder = tensor;
      }
      CheckReuse(tensors[0], tensor);
    }
  }

  // Checks `later`, which is written to the slot that `earlier` is in.
  void CheckPair(EntryId earlier, EntryId later) {
    const Lifetime& first = index_.LifetimeOf(earlier);
    const Lifetime& second = index_.LifetimeOf(later);
    if (second.written == first.written && first.last_read < 0) {
      // Two inputs, or two outputs of one node: either may be written last.
      if (second.last_read >= 0) CheckPair(later, earlier);
      return;
    }
    if (second.written > first.last_read) return;
    if (const std::optional<uint32_t> output = OutputOfGraph(earlier)) {
      Add(later,
          fmt::format("{} overwrites {}, which is the graph's output {}",
                      TitleOf(later), TitleOf(earlier), *output),
          "a storage of its own for an output of the graph");
      return;
    }
    if (second.written == first.last_read && second.written >= 0) {
      // The node reads the one and writes the other. Compilers of TVM 0.6 do
      // that on purpose for operators that work in place.
      Add(later,
          fmt::format("{} is written over {}, which the same node reads",
                      TitleOf(later), TitleOf(earlier)),
          "another storage, unless the operator works in place",
          Severity::kWarning);
      return;
    }
    const NodeId last_reader{static_cast<uint32_t>(first.last_read)};
    Add(later,
        fmt::format("{} overwrites {}, which {} reads later", TitleOf(later),
                    TitleOf(earlier), TitleOf(last_reader)),
        "another storage");
  }

  // Returns which output of the graph the tensor is, the first if it is
  // several.
  std::optional<uint32_t> OutputOfGraph(EntryId base) const {
    const auto head = std::find_if(
        graph_.heads.begin(), graph_.heads.end(), [&](const EntryRef& ref) {
          return index_.BaseOf(graph_.EntryOf(ref)) == base;
        });
    if (head == graph_.heads.end()) return std::nullopt;
    return static_cast<uint32_t>(head - graph_.heads.begin());
  }

  // An input is lost after one run if a node reuses its storage once it is
  // read.
  void CheckReuse(EntryId input, EntryId later) {
    const Lifetime& first = index_.LifetimeOf(input);
    const Lifetime& second = index_.LifetimeOf(later);
    if (first.written >= 0 || second.written < 0) return;
    if (second.written <= first.last_read) return;
    const std::string& name = graph_.node(index_.NodeOf(input)).name;
    Add(later,
        fmt::format("{} overwrites the input {}", TitleOf(later),
                    Shortened(name)),
        "another storage, or a second run needs the input set again",
        Severity::kWarning);
  }

  void Add(EntryId later, const std::string& found, std::string expected,
           Severity severity = Severity::kError) {
    diagnostics_->Add({severity, graph_.text.name,
                       fmt::format("/attrs/storage_id/1/{}", Index(later)), 0,
                       0,
                       fmt::format("storage {}, where {}",
                                   graph_.entry(later).storage_id, found),
                       std::move(expected), ""});
  }

  const Graph& graph_;
  const StoragePlan& plan_;
  const GraphIndex index_;
  DiagnosticList* diagnostics_;
};

}  // namespace

void CheckPlan(const Graph& graph, const StoragePlan& plan,
               DiagnosticList* diagnostics) {
  PlanChecker(graph, plan, diagnostics).Check();
  LocateDiagnostics(graph.text, diagnostics);
}

std::vector<LostOutput> LostOutputs(const GraphIndex& index) {
  const Graph& graph = index.graph();
  std::vector<LostOutput> lost;
  for (uint32_t h = 0; h < graph.heads.size(); ++h) {
    const EntryId entry = graph.EntryOf(graph.heads[h]);
    const EntryId base = index.BaseOf(entry);
    const int64_t written = index.LifetimeOf(base).written;
    // The tensors are in the order in which they are written: the last one is
    // what the storage holds in the end.
    const EntryId last =
        index.TensorsIn(index.plan().slot_of[Index(base)]).back();
    if (index.LifetimeOf(last).written > written) {
      lost.push_back({h, entry, last});
    }
  }
  return lost;
}

}  // namespace nodewise
