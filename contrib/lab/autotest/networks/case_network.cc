#include "contrib/lab/autotest/networks/case_network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {

ValueIds OutputsOf(const Operation& operation) {
  ValueIds outputs = operation.outputs;
  std::erase(outputs, kNoValue);
  return outputs;
}

// The inputs are in the order of the part's operations, so that a part has the
// same ones each time.
ValueIds InputsFromOutside(const Network& network, const OperationSet& part) {
  ValueIds read;
  for (const OperationId id : part) {
    for (const ValueId input : network.operation(id).inputs) {
      if (input == kNoValue) continue;
      const NetworkValue& value = network.value(input);
      const bool is_outside = value.kind == NetworkValue::Kind::kOutput
                                  ? part.count(value.producer) == 0
                                  : value.kind == NetworkValue::Kind::kInput;
      if (is_outside && std::ranges::count(read, input) == 0) {
        read.push_back(input);
      }
    }
  }
  return read;
}

// Values are copied before what reads them: inputs, constants, and operations
// in their order. `values` says what has become of each.
absl::StatusOr<ValueIds> AddCopy(const Network& network,
                                 const std::string& prefix,
                                 const NetworkChanges& changes, Network* to) {
  ValueIds values(network.data().values.size(), kNoValue);
  const auto of = [&](ValueId id) {
    return id == kNoValue ? kNoValue : values[Index(id)];
  };
  for (const ValueId id : network.inputs()) {
    const NetworkValue& value = network.value(id);
    const auto type = changes.inputs.find(id);
    NODEWISE_ASSIGN_OR_RETURN(
        values[Index(id)],
        to->AddInput(prefix + value.name,
                     type == changes.inputs.end() ? value.type : type->second));
  }
  for (const auto& value : network.data().values) {
    if (!value.has_value() || value->kind != NetworkValue::Kind::kConstant) {
      continue;
    }
    const auto data = changes.constants.find(value->id);
    NODEWISE_ASSIGN_OR_RETURN(
        values[Index(value->id)],
        to->AddConstant(prefix + value->name, data == changes.constants.end()
                                                  ? value->data
                                                  : data->second));
  }
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    NewOperation copy{operation.attrs, {}, prefix + operation.name};
    copy.origin = operation.origin;
    if (changes.attributes != nullptr) {
      NODEWISE_ASSIGN_OR_RETURN(copy.attrs, changes.attributes(copy.attrs));
    }
    for (const ValueId input : operation.inputs) {
      copy.inputs.push_back(of(input));
    }
    for (const ValueId output : operation.outputs) {
      copy.outputs.push_back(
          output == kNoValue ? "" : prefix + network.value(output).name);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId made,
                              to->AddOperation(std::move(copy)));
    for (size_t k = 0; k < operation.outputs.size(); ++k) {
      if (operation.outputs[k] == kNoValue) continue;
      values[Index(operation.outputs[k])] = to->operation(made).outputs[k];
    }
  }
  ValueIds outputs;
  for (const ValueId output : network.outputs()) outputs.push_back(of(output));
  return outputs;
}

absl::Status RemoveUnusedInputs(Network* network) {
  const auto outputs = network->outputs();
  const ValueIds inputs(network->inputs().begin(), network->inputs().end());
  for (const ValueId id : inputs) {
    if (network->value(id).uses.empty() &&
        std::ranges::count(outputs, id) == 0) {
      NODEWISE_RETURN_IF_ERROR(network->RemoveInput(id));
    }
  }
  return absl::OkStatus();
}

void SetNetwork(Network network, OperatorCase* made) {
  made->network = std::make_shared<const Network>(std::move(network));
  made->exact = ExactSource::Create(*made->network);
}

// Where a network comes from a model, nothing is known of its inputs but types.
CaseInput InputOfType(const TensorType& type) {
  const InputDomain domain =
      IsFloat(type.dtype) ? InputDomain() : InputDomain::Whole(0, 1);
  return {true, type.dtype, *type.sizes(), domain};
}

// A finding about a gradient is cut, counted and named by what it is the
// gradient of.
const Network& SubjectOf(const OperatorCase& made) {
  return made.backward != nullptr ? made.backward->forward : *made.network;
}

}  // namespace nodewise
