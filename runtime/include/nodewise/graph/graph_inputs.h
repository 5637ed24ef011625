#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/module/module.h"

namespace nodewise {

// Facts about a graph's inputs before there is an executor: enough to refuse
// what would not fit. Any thread may call these functions.

// An input of a graph. Valid while the graph is.
struct GraphInput {
  std::string_view name;  // Several inputs may have one name.
  NodeId node{};
  bool is_read = false;    // By a node, or as an output of the graph.
  bool is_param = false;   // See MarkParams().
  bool is_linked = false;  // Its data is in the library and cannot be set.
};

// Returns the inputs in the order of arg_nodes. None is marked as a parameter
// or as linked.
std::vector<GraphInput> InputsOf(const Graph& graph);

// Returns which input a name means: the only one of that name, or of several
// the only one that is not a parameter; `name#node` means one for certain.
// Fails with kNotFound, suggesting the nearest name, or with kInvalidArgument
// if the name is that of several.
absl::StatusOr<size_t> FindInput(absl::Span<const GraphInput> inputs,
                                 std::string_view name);

// Returns what means this input for certain: `name#node`, and "#node" again
// while another input has that very name.
std::string KeyOfInput(absl::Span<const GraphInput> inputs, size_t input);

// Marks the inputs that the parameters are for (ParamNames). Returns the names
// that mean nothing. REQUIRES: these are all inputs, as InputsOf() returns
// them.
std::vector<std::string> MarkParams(const Graph& graph, const Params& params,
                                    std::vector<GraphInput>* inputs);

// Marks the inputs whose data TVM 0.8 has linked into the library as linked,
// and as parameters. Calls the library's lookup function, if it has one.
absl::Status MarkLinked(const Graph& graph, Library& library,
                        std::vector<GraphInput>* inputs);

// Returns OK unless the input's data is linked into the library.
absl::Status CheckSettable(const GraphInput& input);

// The constant data of a storage id in the library; null if there is none.
// `lookup` keeps it alive.
struct LinkedData {
  void* data = nullptr;
  PackedFunc lookup;
};
absl::StatusOr<LinkedData> FindLinkedData(Library& library, int64_t storage_id);

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
