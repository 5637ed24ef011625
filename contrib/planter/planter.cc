#include "nodewise/planter/planter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nodewise/graph/own_attributes.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Marks the node for the library. A library is asked for functions by the
// node's attributes, and is not told its name.
constexpr std::string_view kFaultAttribute = "nodewise.planted";

absl::Status ScaleTensor(const DLTensor& tensor, double factor) {
  if (!IsFloat(tensor.dtype)) return absl::OkStatus();
  const NDArray borrowed = NDArray::Borrow(tensor, nullptr);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray copy, borrowed.CopyToHost());
  std::vector<double> values = ToDoubles(copy);
  for (double& value : values) value *= factor;
  StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()), copy);
  return CopyTensor(*copy, tensor);
}

// Returns a function that does what `sound` does and then scales its outputs,
// which are the last arguments.
PackedFunc Scaled(PackedFunc sound, size_t num_outputs, double factor) {
  return PackedFunc::FromBody(
      [sound = std::move(sound), num_outputs,
       factor](const PackedArgs& args) -> absl::StatusOr<Value> {
        NODEWISE_ASSIGN_OR_RETURN(Value result, sound.CallPacked(args));
        const auto first = args.size() - static_cast<int>(num_outputs);
        for (int i = std::max(first, 0); i < args.size(); ++i) {
          NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
          NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor,
                                    arg.AsTensor());
          NODEWISE_RETURN_IF_ERROR(ScaleTensor(*tensor, factor));
        }
        return result;
      });
}

// Has the functions of another library, and spoils that of the marked node.
class PlantedLibrary : public Library {
 public:
  PlantedLibrary(Ref<Library> sound, double factor)
      : sound_(std::move(sound)), factor_(factor) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    if (FindAttribute(request.attrs, kFaultAttribute) == nullptr) {
      return function;
    }
    return Scaled(std::move(function), request.num_outputs, factor_);
  }

 private:
  const Ref<Library> sound_;
  const double factor_;
};

bool CanBeScaled(const Graph& graph, NodeId id) {
  const GraphNode& node = graph.node(id);
  if (!graph.IsFunction(id) || node.function == kNopFunction ||
      node.function == kCopyFunction) {
    return false;
  }
  for (uint32_t slot = 0; slot < graph.OutputsOf(id); ++slot) {
    if (IsFloat(graph.entry(graph.EntryOf(id, slot)).dtype)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<PlantedGraph> PlantScale(Graph graph, Ref<Library> library,
                                        uint64_t seed) {
  std::vector<NodeId> choices;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (CanBeScaled(graph, NodeId{n})) choices.push_back(NodeId{n});
  }
  if (choices.empty()) {
    return absl::InvalidArgumentError(
        "plant: the graph has no node that makes floats, expected one");
  }
  RandomSource random(seed, "planter");
  const auto chosen = static_cast<size_t>(
      random.Between(0, static_cast<int64_t>(choices.size()) - 1));
  const double size = 0.015 + 0.005 * random.Symmetric();
  PlantedFault fault{choices[chosen], graph.node(choices[chosen]).name,
                     random.Between(0, 1) == 0 ? 1 - size : 1 + size};
  graph.nodes[Index(fault.node)].attrs.emplace_back(kFaultAttribute, "scale");
  Ref<Library> planted =
      MakeRef<PlantedLibrary>(std::move(library), fault.factor);
  return PlantedGraph{std::move(graph), std::move(planted), std::move(fault)};
}

}  // namespace nodewise
