#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {

// The names of the nodes of a dump, for callers that do not have the graph
// itself.

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
  bool HasOtherName(uint32_t node, const std::string& name) const;

 private:
  std::map<uint32_t, std::string> names_;
  std::map<std::string, std::vector<uint32_t>> nodes_;  // By name.
};

// Returns the keys of a file's tensors. If all of them are called as in a dump
// (of TVM 0.9 and later), these names are taken apart; otherwise each is the
// key as a whole.
std::vector<TensorKey> KeysOfNames(absl::Span<const std::string> names,
                                   const std::string& source);

// Returns kNotFound: the source `where`, which has tensors of these names, does
// not have `key`.
absl::Status TensorNotFound(const std::string& where, const TensorKey& key,
                            const std::vector<std::string>& names);

// Returns whether a tensor that a file calls `name` is `key`. Output 0 of conv1
// may be called "conv1", or "conv1:0" as a run that is stopped there writes it.
bool IsNameOf(const std::string& name, const TensorKey& key);

// Opens a dump, named as OpenDump takes it; fails as that does.
absl::StatusOr<std::unique_ptr<TensorSource>> OpenDumpSource(
    const std::string& path);

}  // namespace nodewise
