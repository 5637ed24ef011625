#include "contrib/lab/planter/spoiling.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A kernel gets all tensors in one list; only the request says how many of them
// are outputs. They are lent by the caller, so that nothing may keep them after
// the call.
absl::StatusOr<NodeCall> ReadCall(const PackedArgs& args, size_t num_outputs) {
  const auto count = static_cast<size_t>(args.size());
  if (count < num_outputs) {
    return InvalidArgument("is called with {} tensors, expected at least {}",
                           count, num_outputs);
  }
  NodeCall call;
  for (size_t i = 0; i < count; ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(static_cast<int>(i)));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor, arg.AsTensor());
    auto& list = i < count - num_outputs ? call.inputs : call.outputs;
    list.push_back(NDArray::Borrow(*tensor, nullptr));
  }
  return call;
}

// Binds the sound function, and does `body` with it and the tensors of a call.
Spoiling SpoilAroundCall(
    std::string what,
    std::function<absl::Status(const PackedFunc& sound, const NodeCall& call)>
        body) {
  return {std::move(what),
          [body = std::move(body)](Library& sound, const KernelRequest& request)
              -> absl::StatusOr<PackedFunc> {
            NODEWISE_ASSIGN_OR_RETURN(const PackedFunc function,
                                      sound.Bind(request));
            return NodeFunction(request.num_outputs,
                                [function, body](const NodeCall& call) {
                                  return body(function, call);
                                });
          }};
}

}  // namespace

absl::Status CallNode(const PackedFunc& function, const NodeCall& call) {
  std::vector<TVMValue> values;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const NDArray& tensor : *list) {
      values.emplace_back().v_handle = tensor.tensor();
    }
  }
  const std::vector<int> codes(values.size(), kTVMDLTensorHandle);
  return function
      .CallPacked({values.data(), codes.data(), static_cast<int>(codes.size())})
      .status();
}

PackedFunc NodeFunction(size_t num_outputs, NodeBody body) {
  return PackedFunc::FromBody(
      [num_outputs, body = std::move(body)](
          const PackedArgs& args) -> absl::StatusOr<Value> {
        NODEWISE_ASSIGN_OR_RETURN(const auto call, ReadCall(args, num_outputs));
        NODEWISE_RETURN_IF_ERROR(body(call));
        return Value();
      });
}

std::vector<const DLTensor*> ArgumentsOf(const NodeCall& call) {
  std::vector<const DLTensor*> arguments;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const NDArray& tensor : *list) arguments.push_back(tensor.tensor());
  }
  return arguments;
}

// Nothing says that the two lie apart, so the bytes are moved.
void CopyBytes(const NDArray& from, const NDArray& to) {
  const size_t bytes = std::min(from.bytes(), to.bytes());
  if (bytes > 0) std::memmove(to.data(), from.data(), bytes);
}

// By way of double, which holds all numbers of short types. Of an int64 above
// 2^53 the last bits may change as well.
void ChangeNumbers(const NDArray& tensor,
                   absl::FunctionRef<void(Numbers& numbers)> change) {
  Numbers numbers = ToDoubles(tensor);
  change(numbers);
  StoreDoubles(numbers.data(), 0, static_cast<int64_t>(numbers.size()), tensor);
}

double LargestOf(const NDArray& tensor) {
  double largest = 0;
  for (const double value : ToDoubles(tensor)) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

bool ComputesSomething(const Graph& graph, NodeId id) {
  const GraphNode& node = graph.node(id);
  return graph.IsFunction(id) && node.function != kNopFunction &&
         node.function != kCopyFunction;
}

std::vector<NodeId> ComputingNodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (ComputesSomething(graph, NodeId{n})) nodes.push_back(NodeId{n});
  }
  return nodes;
}

absl::Status NotPlantable(std::string what) {
  return absl::FailedPreconditionError(std::move(what));
}

FoundWays Found(Spoilings made, std::string lacks, RandomSource* random) {
  if (made.empty()) return NotPlantable(std::move(lacks));
  if (random != nullptr) Shuffle(&made, *random);
  return made;
}

// The sound function is bound all the same, so that a node that cannot be bound
// fails as it does without the fault.
Spoiling ReplaceCall(std::string what, NodeBody body) {
  return SpoilAroundCall(
      std::move(what),
      [body = std::move(body)](const PackedFunc&, const NodeCall& call) {
        return body(call);
      });
}

Spoiling SpoilAfterCall(std::string what, NodeBody spoil) {
  return SpoilAroundCall(
      std::move(what),
      [spoil = std::move(spoil)](const PackedFunc& sound,
                                 const NodeCall& call) -> absl::Status {
        NODEWISE_RETURN_IF_ERROR(CallNode(sound, call));
        return spoil(call);
      });
}

Spoiling ChangedOutput(std::string what, size_t output,
                       std::function<void(Numbers& numbers)> change) {
  return SpoilAfterCall(std::move(what), [output, change = std::move(change)](
                                             const NodeCall& call) {
    ChangeNumbers(call.outputs[output], change);
    return absl::OkStatus();
  });
}

Spoiling SpoilBeforeCall(std::string what,
                         std::function<absl::Status(NodeCall* call)> replace) {
  Spoiling made = SpoilAroundCall(
      std::move(what),
      [replace = std::move(replace)](const PackedFunc& sound,
                                     const NodeCall& call) -> absl::Status {
        NodeCall changed = call;
        NODEWISE_RETURN_IF_ERROR(replace(&changed));
        return CallNode(sound, changed);
      });
  // The kernel reads copies, which are made anew in each call: what it is told
  // about changes of the originals says nothing about them.
  made.bind = [bind = std::move(made.bind)](Library& sound,
                                            const KernelRequest& request) {
    KernelRequest blind = request;
    blind.changes = {};
    return bind(sound, blind);
  };
  return made;
}

// Attributes are replaced by name, and all others stay: among them the mark of
// a fault that was planted before this one.
Spoiling WithRegion(std::string what, const Region& region) {
  return {std::move(what), [changed = AttributesOf(region)](
                               Library& sound, const KernelRequest& request) {
            std::vector<std::pair<std::string, std::string>> attrs(
                request.attrs.begin(), request.attrs.end());
            for (auto& [name, value] : attrs) {
              for (const auto& [changed_name, changed_value] : changed) {
                if (name == changed_name) value = changed_value;
              }
            }
            KernelRequest other = request;
            other.attrs = attrs;
            return sound.Bind(other);
          }};
}

}  // namespace nodewise
