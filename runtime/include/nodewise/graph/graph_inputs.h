#pragma once

#include <string>
#include <string_view>
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

}  // namespace nodewise
