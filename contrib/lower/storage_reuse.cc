#include "contrib/lower/storage_reuse.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "nodewise/graph/graph_index.h"

namespace nodewise {
namespace {

struct Block {
  int32_t storage_id = 0;
  size_t bytes = 0;
};

// Walks over the nodes in their order, handing memory out and taking it back.
class StorageSharer {
 public:
  explicit StorageSharer(Graph* graph) : graph_(*graph), index_(*graph) {}

  void Share() {
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (!graph_.IsFunction(node)) continue;
      TakeBack(n);
      for (uint32_t i = 0; i < graph_.OutputsOf(node); ++i) {
        Place(graph_.EntryOf(node, i));
      }
    }
    Renumber();
  }

 private:
  // What is last read by an earlier node is free: a node that still reads it
  // must not write there.
  void TakeBack(int64_t node) {
    const auto end = used_.lower_bound(node);
    for (auto at = used_.begin(); at != end; ++at) {
      free_.emplace(at->second.bytes, at->second);
    }
    used_.erase(used_.begin(), end);
  }

  void Place(EntryId entry) {
    const size_t bytes = index_.BytesOf(entry);
    if (bytes == 0) return;
    const Lifetime& life = index_.LifetimeOf(entry);
    Block block{graph_.entries[Index(entry)].storage_id, bytes};
    // The smallest block that is large enough, or else the largest one, which
    // grows.
    auto found = free_.lower_bound(bytes);
    if (found == free_.end() && !free_.empty()) found = std::prev(found);
    if (found != free_.end()) {
      block = {found->second.storage_id, std::max(found->first, bytes)};
      free_.erase(found);
    }
    graph_.entries[Index(entry)].storage_id = block.storage_id;
    // What nothing reads is written all the same.
    used_.emplace(std::max(life.last_read, life.written), block);
  }

  // TVM's executor refuses a graph that leaves out a number: it allocates all
  // of them up to the largest.
  void Renumber() {
    std::map<int32_t, int32_t> numbers;
    for (GraphEntry& entry : graph_.entries) {
      const auto next = static_cast<int32_t>(numbers.size());
      entry.storage_id =
          numbers.try_emplace(entry.storage_id, next).first->second;
    }
  }

  Graph& graph_;
  const GraphIndex index_;
  std::multimap<int64_t, Block> used_;  // By the last node that needs it.
  std::multimap<size_t, Block> free_;   // By size.
};

}  // namespace

void ReuseStorage(Graph* graph) { StorageSharer(graph).Share(); }

}  // namespace nodewise
