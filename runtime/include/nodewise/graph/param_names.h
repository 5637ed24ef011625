#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/types/span.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// What a name in a params file means: the one rule for all who load
// parameters, mark them or check them. Any thread may ask.
class ParamNames {
 public:
  enum class Kind {
    kInput,     // An input or parameter of the graph.
    kComputed,  // The key that a dump gives to what another node makes.
    kUnknown,
  };
  struct Meaning {
    Kind kind = Kind::kUnknown;
    size_t input = 0;  // kInput: which of Graph::arg_nodes.
  };

  // REQUIRES: the graph outlives this.
  explicit ParamNames(const Graph& graph);

  // A name means the input of that name; of several, the one that
  // ChooseParam() chooses. If there is none, it may be a dump's key.
  Meaning Find(std::string_view name, absl::Span<const int64_t> shape,
               DLDataType dtype) const;

 private:
  const Graph& graph_;
  std::unordered_map<std::string_view, std::vector<size_t>> by_name_;
  std::unordered_map<uint32_t, size_t> by_node_;
};

// Chooses among inputs of one name, which are given in the order of
// Graph::arg_nodes, the one that a parameter of this type is for. REQUIRES:
// there is one.
size_t ChooseParam(const Graph& graph, absl::Span<const size_t> inputs,
                   absl::Span<const int64_t> shape, DLDataType dtype);

}  // namespace nodewise
