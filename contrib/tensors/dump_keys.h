#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/tensors/tensor_key.h"

namespace nodewise {

// What the nodes of a dump are called, where the graph itself is not at hand.

// A node of _tvmdbg_graph_dump.json (docs/formats/dump.md).
struct DumpNode {
  std::string name;
  bool is_input = false;  // An input or a parameter.
};

// Returns the nodes by their numbers. Fails with kDataLoss for text that is not
// a graph as a debug run writes it. `where` names it in messages.
absl::StatusOr<std::vector<DumpNode>> ParseGraphDump(std::string_view text,
                                                     const std::string& where);

// The keys of nodes some of whose names are known, by the rule of GraphIndex.
// Which names are unique is judged by those.
class DumpNodeKeys {
 public:
  // Takes the names by the nodes' numbers.
  explicit DumpNodeKeys(std::map<uint32_t, std::string> names);

  // Returns "#7" for node 7 if its name is not known.
  std::string KeyOf(uint32_t node) const;
  // Returns the only node of that name; none if there are more or fewer.
  std::optional<uint32_t> Find(const std::string& name) const;
  // Returns whether the node's name is known to be another.
  bool IsCalledOtherwise(uint32_t node, const std::string& name) const;

 private:
  std::map<uint32_t, std::string> names_;
  std::map<std::string, std::vector<uint32_t>> nodes_;  // By name.
};

// Returns the keys of a file's tensors. If all of them are called as in a dump
// (of TVM 0.9 and later), these names are taken apart; otherwise each is the
// key as a whole.
std::vector<TensorKey> KeysOfNames(absl::Span<const std::string> names,
                                   const std::string& source);

}  // namespace nodewise
