#include <algorithm>
#include <utility>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/runner/input_files.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A type that is not even known by its element type has come from an operator
// that tells nothing of its outputs.
bool IsOpen(const Network& network, ValueId id) {
  if (id == kNoValue) return false;
  const TensorType& type = network.value(id).type;
  return !type.has_dtype() || !type.is_static();
}

bool MakesOpenSizes(const Network& network, const Operation& operation) {
  return std::ranges::any_of(operation.outputs,
                             [&](ValueId id) { return IsOpen(network, id); });
}

// What the run made of the values whose sizes are open, in their order.
using FoundTypes = std::vector<std::pair<ValueId, TensorType>>;

// The run ends behind the last operation that makes something of an open size:
// what comes later is known without it and may be most of the work.
absl::StatusOr<FoundTypes> TypesOfRun(const Network& network,
                                      std::vector<NDArray> inputs) {
  OperationId last = kNoOperation;
  for (const OperationId id : network.order()) {
    if (MakesOpenSizes(network, network.operation(id))) last = id;
  }
  FoundTypes types;
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    const auto& outputs = run.operation.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!IsOpen(network, outputs[i])) continue;
      types.emplace_back(outputs[i], TensorType::From(*run.result.outputs[i]));
    }
    // True ends the run.
    return run.operation.id == last;
  };
  NODEWISE_RETURN_IF_ERROR(
      Interpret(network, std::move(inputs), options).status());
  return types;
}

}  // namespace

// A side with a name is bound in all inputs at once, since one name means one
// number. A size that contradicts another is left out here: the code that
// checks the inputs can say which file it is from.
void BindSizes(absl::Span<const VmInputType> given, Network* network) {
  for (const VmInputType& type : given) {
    const auto id = network->FindValue(type.name);
    if (!id.ok()) continue;
    // Asked anew for each side: a name that was bound just now may have given
    // others of this input their sizes.
    const auto is_open = [&](size_t side) {
      const TensorType& known = network->value(*id).type;
      return network->value(*id).kind == NetworkValue::Kind::kInput &&
             known.has_rank() && known.shape->size() == type.shape.size() &&
             !(*known.shape)[side].is_known();
    };
    for (size_t i = 0; i < type.shape.size(); ++i) {
      if (!is_open(i)) continue;
      TensorType wanted = network->value(*id).type;
      const std::string name = (*wanted.shape)[i].name();
      (*wanted.shape)[i] = Dim(type.shape[i]);
      if (name.empty()) {
        network->SetInputType(*id, std::move(wanted)).IgnoreError();
      } else {
        network->BindDim(name, type.shape[i]).IgnoreError();
      }
    }
  }
}

void BindSizes(absl::Span<const NamedTensor> given, Network* network) {
  std::vector<VmInputType> types;
  for (const NamedTensor& each : given) {
    types.push_back(InputTypeOf(each.name, each.tensor));
  }
  BindSizes(types, network);
}

bool HasOpenSizes(const Network& network) {
  return std::ranges::any_of(network.order(), [&](OperationId id) {
    return MakesOpenSizes(network, network.operation(id));
  });
}

absl::StatusOr<std::vector<NDArray>> InputsInOrder(
    const Network& network, absl::Span<const NamedTensor> given) {
  std::vector<NDArray> inputs;
  for (const ValueId id : network.inputs()) {
    const std::string& name = network.value(id).name;
    const NDArray* const found = FindTensor(given, name);
    if (found == nullptr) {
      return InvalidArgument("input {}: was not given, expected a tensor",
                             name);
    }
    inputs.push_back(*found);
  }
  return inputs;
}

absl::Status FindSizes(absl::Span<const NamedTensor> inputs, Network* network) {
  NODEWISE_ASSIGN_OR_RETURN(std::vector<NDArray> tensors,
                            InputsInOrder(*network, inputs));
  NODEWISE_ASSIGN_OR_RETURN(const FoundTypes types,
                            TypesOfRun(*network, std::move(tensors)));
  for (const auto& [id, type] : types) {
    // Types that were found before may tell the rest: one Reshape, say, tells
    // the sizes of all that follows.
    if (!IsOpen(*network, id)) continue;
    NODEWISE_RETURN_IF_ERROR(network->SetFoundType(id, type));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
