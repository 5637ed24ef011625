#include "contrib/repro/smaller_shapes.h"

#include <algorithm>
#include <utility>

#include "contrib/repro/simple_tensors.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/runner/node_graph.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

TensorType WithSizes(const TensorType& type,
                     const std::vector<int64_t>& sizes) {
  return TensorType(type.dtype, Shape(sizes.begin(), sizes.end()));
}

absl::Status SetOutputTypes(Region* region) {
  for (size_t i = 0; i < region->outputs.size(); ++i) {
    const ValueId id = region->network.outputs()[i];
    const auto sizes = region->network.value(id).type.sizes();
    if (!sizes.has_value()) {
      return absl::InvalidArgumentError("the size of an output is not known");
    }
    if (std::count(sizes->begin(), sizes->end(), 0) > 0) {
      return absl::InvalidArgumentError("an output would be empty");
    }
    region->outputs[i] = WithSizes(region->outputs[i], *sizes);
  }
  return absl::OkStatus();
}

// The attributes that say what the node computes, and all others as they are.
void SetAttributes(const Region& region, GraphNode* node) {
  auto attrs = AttributesOf(region);
  for (auto& attribute : node->attrs) {
    if (FindAttribute(attrs, attribute.first) == nullptr) {
      attrs.push_back(std::move(attribute));
    }
  }
  node->attrs = std::move(attrs);
}

}  // namespace

bool CanBeResized(const ReproCase& node_case) {
  return node_case.library_file.empty() && node_case.region.has_value() &&
         HasBuiltInFunctions(node_case.graph);
}

absl::StatusOr<ReproCase> Resized(
    const ReproCase& node_case,
    const std::vector<std::vector<int64_t>>& shapes) {
  ReproCase resized = node_case;
  Region& region = *resized.region;
  const std::vector<ValueId> inputs(region.network.inputs().begin(),
                                    region.network.inputs().end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    ReproInput& input = resized.inputs[i];
    if (absl::MakeConstSpan(shapes[i]) == input.tensor.shape()) continue;
    NODEWISE_RETURN_IF_ERROR(region.network.SetInputType(
        inputs[i], WithSizes(TensorType::Of(*input.tensor), shapes[i])));
    NODEWISE_ASSIGN_OR_RETURN(input.tensor,
                              BeginningOf(input.tensor, shapes[i]));
    if (!input.original.defined()) {
      input.original = node_case.inputs[i].tensor;
    }
  }
  NODEWISE_RETURN_IF_ERROR(SetOutputTypes(&region));
  Graph& graph = resized.graph;
  for (size_t i = 0; i < shapes.size(); ++i) graph.entries[i].shape = shapes[i];
  for (size_t i = 0; i < region.outputs.size(); ++i) {
    graph.entries[shapes.size() + i].shape = *region.outputs[i].sizes();
  }
  SetAttributes(region, &graph.nodes.back());
  NODEWISE_ASSIGN_OR_RETURN(resized.graph, ReadBack(graph));
  for (ReproOutput& output : resized.outputs) {
    output = {output.role, NDArray()};
  }
  return resized;
}

}  // namespace nodewise
