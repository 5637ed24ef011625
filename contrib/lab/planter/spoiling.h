#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "nodewise/func/packed_func.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/lower/region.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"

namespace nodewise {

// A call of a node's function: tensors that are lent for the call alone.
struct NodeCall {
  std::vector<NDArray> inputs;
  std::vector<NDArray> outputs;
};

// Calls the function of a node with these tensors.
absl::Status CallNode(const PackedFunc& function, const NodeCall& call);

// Returns a function that does what `body` does with the tensors that it is
// called with, of which the last `num_outputs` are the outputs.
using NodeBody = std::function<absl::Status(const NodeCall& call)>;
PackedFunc NodeFunction(size_t num_outputs, NodeBody body);

// The arguments as a kernel gets them: the inputs, then the outputs.
std::vector<const DLTensor*> ArgumentsOf(const NodeCall& call);

// Writes the bytes of one compact tensor into another of the same size.
void CopyBytes(const NDArray& from, const NDArray& to);
using Numbers = std::vector<double>;
// Calls `change` with all elements, and writes them back.
void ChangeNumbers(const NDArray& tensor,
                   absl::FunctionRef<void(Numbers& numbers)> change);
inline bool IsNumeric(DLDataType dtype) {
  return IsFloat(dtype) || IsInteger(dtype);
}
// Returns the largest absolute number that is finite; 0 if there is none.
double LargestOf(const NDArray& tensor);

// A node of the sound network, for the kinds to find out what they can do to
// it.
struct FaultPlace {
  const Graph& graph;
  NodeId node;
  NodeCall sound = {};  // What it read and made in a run.
  // By input: it is a parameter.
  std::vector<bool> is_constant = {};
  // What it computes; null if that is not known, for the reason `why_unknown`.
  const Region* region = nullptr;
  std::string why_unknown = {};
  // Its function is made of what its attributes say.
  bool is_bound_by_attributes = false;
};

// One way to spoil a node's function.
struct Spoiling {
  std::string what;  // PlantedFault::what
  // Returns the faulty function of the node, made with the sound library.
  std::function<absl::StatusOr<PackedFunc>(Library& sound,
                                           const KernelRequest& request)>
      bind;
  // Returns the function to try where that of `bind` is not to be tried as it
  // is: one that is faulty in all calls. Null: that of `bind` is tried.
  decltype(bind) bind_for_trial = nullptr;
  double factor = 1;  // PlantedFault::factor
};

// Returns ways to spoil the node, drawn in their order; the first one that has
// an effect is taken. Fails with kFailedPrecondition, saying what the node
// lacks, if there is none.
using Spoilings = std::vector<Spoiling>;
using FoundWays = absl::StatusOr<Spoilings>;
using SpoilingsOf = FoundWays (*)(const FaultPlace& place,
                                  RandomSource& random);

// Those that change what the node has made (call_faults.cc, where
// all stand that need not know what the node computes).
Spoiling ScalingOfFloats(RandomSource& random);  // By a drawn factor.
FoundWays ScaledOutputs(const FaultPlace&, RandomSource&);
FoundWays SpoiledChannel(const FaultPlace&, RandomSource&);
FoundWays TransposedOutput(const FaultPlace&, RandomSource&);
FoundWays ShiftedOutput(const FaultPlace&, RandomSource&);
FoundWays DroppedLane(const FaultPlace&, RandomSource&);
FoundWays UnmaskedTail(const FaultPlace&, RandomSource&);
FoundWays StaleBlock(const FaultPlace&, RandomSource&);
FoundWays OneNan(const FaultPlace&, RandomSource&);
// Those that change what it reads.
FoundWays MissingBias(const FaultPlace&, RandomSource&);
FoundWays WrongWeight(const FaultPlace&, RandomSource&);
FoundWays SwappedInputs(const FaultPlace&, RandomSource&);
// Those that bind the node's own kernel for another region (region_faults.cc).
FoundWays WrongOrder(const FaultPlace&, RandomSource&);
FoundWays WrongPadding(const FaultPlace&, RandomSource&);
FoundWays WrongAttribute(const FaultPlace&, RandomSource&);
// Those that compute the region in another arithmetic.
FoundWays Float16Sums(const FaultPlace&, RandomSource&);
FoundWays TruncatedResults(const FaultPlace&, RandomSource&);
FoundWays ApproximatedFunction(const FaultPlace&, RandomSource&);
// Those that do not show in what the node makes, or not always
// (call_faults.cc).
FoundWays Overrun(const FaultPlace&, RandomSource&);
FoundWays FlakyOutput(const FaultPlace&, RandomSource&);
FoundWays Crash(const FaultPlace&, RandomSource&);
FoundWays Hang(const FaultPlace&, RandomSource&);

// What kinds have in common.

// A node that only copies or renames cannot compute anything wrong.
bool ComputesSomething(const Graph& graph, NodeId id);
std::vector<NodeId> ComputingNodes(const Graph& graph);
// Fails with what the node lacks.
absl::Status NotPlantable(std::string what);
// Draws one of the list. REQUIRES: it is not empty.
template <typename T>
const T& OneOf(const std::vector<T>& list, RandomSource& random) {
  return list[static_cast<size_t>(random.Between(0, std::ssize(list) - 1))];
}
// Puts the list into a drawn order.
template <typename T>
void Shuffle(std::vector<T>* list, RandomSource& random) {
  for (size_t i = list->size(); i > 1; --i) {
    std::swap((*list)[i - 1], (*list)[static_cast<size_t>(random.Between(
                                  0, static_cast<int64_t>(i) - 1))]);
  }
}
// Returns the ways that were found; if there are none, fails with what the node
// lacks. With a source of chance they come in a drawn order.
FoundWays Found(Spoilings made, std::string lacks,
                RandomSource* random = nullptr);
// Calls this function in the place of the sound one.
Spoiling ReplaceCall(std::string what, NodeBody body);
// Spoils what the sound function makes.
Spoiling SpoilAfterCall(std::string what, NodeBody spoil);
// Spoils numbers of one output.
Spoiling ChangedOutput(std::string what, size_t output,
                       std::function<void(Numbers& numbers)> change);
// Calls the sound function with other inputs.
Spoiling SpoilBeforeCall(std::string what,
                         std::function<absl::Status(NodeCall* call)> replace);
// Binds the library's own kernel for another region.
Spoiling WithRegion(std::string what, const Region& region);

}  // namespace nodewise
