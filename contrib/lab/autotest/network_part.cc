#include "contrib/lab/autotest/network_part.h"

#include <algorithm>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

std::vector<ValueId> ReadFromOutside(const Network& network,
                                     const std::set<OperationId>& part) {
  std::vector<ValueId> read;
  for (const OperationId id : part) {
    for (const ValueId input : network.operation(id).inputs) {
      if (input == kNoValue) continue;
      const NetworkValue& value = network.value(input);
      const bool is_outside = value.kind == NetworkValue::Kind::kOutput
                                  ? part.count(value.producer) == 0
                                  : value.kind == NetworkValue::Kind::kInput;
      if (is_outside &&
          std::find(read.begin(), read.end(), input) == read.end()) {
        read.push_back(input);
      }
    }
  }
  return read;
}

absl::StatusOr<std::vector<ValueId>> AddCopy(const Network& network,
                                             const std::string& prefix,
                                             const NetworkChanges& changes,
                                             Network* to) {
  std::vector<ValueId> values(network.data().values.size(), kNoValue);
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
      NODEWISE_ASSIGN_OR_RETURN(copy.attrs,
                                changes.attributes(operation.attrs));
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
  std::vector<ValueId> outputs;
  for (const ValueId output : network.outputs()) outputs.push_back(of(output));
  return outputs;
}

CaseInput InputOfType(const TensorType& type) {
  const InputDomain domain =
      IsFloat(type.dtype) ? InputDomain() : InputDomain::Whole(0, 1);
  return {true, type.dtype, *type.sizes(), domain};
}

}  // namespace nodewise
