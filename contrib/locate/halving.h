#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// Searches that ask few questions, and the cuts through a network that are
// asked about.

// Answers need not be monotone: what is found was asked about, and holds for
// that place.

// Returns a number for which `asks` says true, while it says false for the one
// before. REQUIRES: low < high; the answer for low is known to be false, and
// for high to be true. Asks about log2(high - low) times, always for the middle
// of what is left. An error ends the search and is returned as it is.
absl::StatusOr<size_t> BisectFirstTrue(
    size_t low, size_t high,
    absl::FunctionRef<absl::StatusOr<bool>(size_t)> asks);

// Returns items, in their order, for which together `holds` says true, while it
// says false if any one of them is left out. REQUIRES: it holds for all of
// `items`, and does not for none of them. Asks about log2(items) times for each
// item that is returned.
absl::StatusOr<std::vector<size_t>> SmallestSet(
    const std::vector<size_t>& items,
    absl::FunctionRef<absl::StatusOr<bool>(const std::vector<size_t>&)> holds);

// The function nodes that some outputs of a graph depend on, in the graph's
// order, and the cuts between them: cut k has the first k nodes before it and
// all others behind it.
struct BisectPath {
  // `heads` are places in Graph::heads. The index must outlive this.
  BisectPath(const GraphIndex& index, const std::vector<size_t>& heads);

  size_t size() const { return nodes.size(); }

  // Returns what nodes before one of the cuts made and nodes behind it read, or
  // is an output. The cuts are sorted.
  std::vector<EntryId> LiveAt(const std::vector<size_t>& cuts) const;

  // Returns the cuts that halving may ask for first between `low` and `high`:
  // as many halvings deep as fit, with all that is live at one of them, into
  // this memory; never fewer than the middle. Sorted.
  // REQUIRES: high - low > 1.
  std::vector<size_t> CutsBetween(size_t low, size_t high,
                                  size_t most_bytes) const;

  // An entry is live at the cuts `from` to `to`.
  struct Live {
    EntryId entry{};
    size_t from = 0, to = 0;
  };

  const GraphIndex* index;
  std::vector<NodeId> nodes;
  std::vector<EntryId>
      outputs;  // The entries of those outputs, in their order.
  // The inputs and parameters of the graph that the nodes read, or that are
  // among the outputs.
  std::vector<EntryId> given;
  std::vector<Live> live;  // By entry.
};

}  // namespace nodewise
