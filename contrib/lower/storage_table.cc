#include "contrib/lower/storage_table.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "nodewise/ndarray/ndarray.h"

namespace nodewise {
namespace {

struct Block {
  int32_t number = 0;
  size_t bytes = 0;
};

// Walks over the nodes in their order, handing memory out and taking it back.
class StorageSharer {
 public:
  StorageSharer(const Network& network, const NodeTable& nodes)
      : nodes_(nodes),
        table_(network.data().values.size(), kOwnStorage),
        last_read_(table_.size(), -1) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const ValueId input : nodes[n].inputs) {
        last_read_[Index(input)] = static_cast<int64_t>(n);
      }
    }
    for (const ValueId output : network.outputs()) {
      last_read_[Index(output)] = INT64_MAX;
    }
  }

  StorageTable Share() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const auto node = static_cast<int64_t>(n);
      TakeBack(node);
      for (size_t i = 0; i < nodes_[n].outputs.size(); ++i) {
        Place(nodes_[n].outputs[i], nodes_[n].region.outputs[i], node);
      }
    }
    return std::move(table_);
  }

 private:
  // A storage that is last read by an earlier node is free: a node that still
  // reads it must not write there.
  void TakeBack(int64_t node) {
    const auto end = used_.lower_bound(node);
    for (auto at = used_.begin(); at != end; ++at) {
      free_.emplace(at->second.bytes, at->second);
    }
    used_.erase(used_.begin(), end);
  }

  void Place(ValueId value, const TensorType& type, int64_t node) {
    const auto sizes = type.sizes();
    const auto count = sizes.has_value() ? TensorBytes(*sizes, type.dtype)
                                         : absl::StatusOr<size_t>(0);
    const size_t bytes = count.ok() ? *count : 0;
    if (bytes == 0) return;
    Block block{num_blocks_, bytes};
    // The smallest block that is large enough, or else the largest one, which
    // grows.
    auto found = free_.lower_bound(bytes);
    if (found == free_.end() && !free_.empty()) found = std::prev(found);
    if (found != free_.end()) {
      block = {found->second.number, std::max(found->first, bytes)};
      free_.erase(found);
    } else {
      ++num_blocks_;
    }
    table_[Index(value)] = block.number;
    // A value that nothing reads is written all the same.
    used_.emplace(std::max(last_read_[Index(value)], node), block);
  }

  const NodeTable& nodes_;
  StorageTable table_;
  std::vector<int64_t> last_read_;  // By value: the node; -1: none.
  int32_t num_blocks_ = 0;
  std::multimap<int64_t, Block> used_;  // By the last node that needs it.
  std::multimap<size_t, Block> free_;   // By size.
};

}  // namespace

StorageTable ShareStorage(const Network& network, const NodeTable& nodes) {
  return StorageSharer(network, nodes).Share();
}

}  // namespace nodewise
