#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/graph_index.h"

namespace nodewise {

// The function nodes that some outputs of a graph depend on, in the graph's
// order, and the cuts between them: cut k has the first k nodes before it and
// all others behind it.
class BisectPath {
 public:
  // `heads` are places in Graph::heads. The index must outlive this.
  BisectPath(const GraphIndex& index, const std::vector<size_t>& heads);

  size_t size() const { return nodes_.size(); }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  // The entries of those outputs, in their order.
  const std::vector<EntryId>& outputs() const { return outputs_; }
  // The inputs and parameters of the graph that the nodes read, or that are
  // among the outputs.
  const std::vector<EntryId>& given() const { return given_; }

  // Returns what nodes before the cut made and nodes behind it read, or is an
  // output.
  std::vector<EntryId> LiveAt(size_t cut) const;

  // Returns the cuts that halving may ask for first between `low` and `high`:
  // as many halvings deep as fit, with all that is live at one of them, into
  // this memory; never fewer than the middle. Sorted.
  // REQUIRES: high - low > 1.
  std::vector<size_t> CutsBetween(size_t low, size_t high,
                                  size_t most_bytes) const;
  // Returns all that is live at one of the cuts, which are sorted.
  std::vector<EntryId> LiveAtAny(const std::vector<size_t>& cuts) const;

 private:
  // An entry is live at the cuts `from` to `to`.
  struct Live {
    EntryId entry{};
    size_t from = 0, to = 0;
  };

  void FindNodes();
  void FindLive();
  size_t BytesAtAny(const std::vector<size_t>& cuts) const;

  const GraphIndex* index_;
  std::vector<EntryId> outputs_;
  std::vector<NodeId> nodes_;
  std::vector<EntryId> given_;
  std::vector<Live> live_;  // By entry.
};

}  // namespace nodewise
