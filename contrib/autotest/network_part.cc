#include "contrib/autotest/network_part.h"

#include <algorithm>

#include "nodewise/op/tensor_loops.h"

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

CaseInput InputOfType(const TensorType& type) {
  const InputDomain domain =
      IsFloat(type.dtype) ? InputDomain() : InputDomain::Whole(0, 1);
  return {true, type.dtype, *type.sizes(), domain};
}

}  // namespace nodewise
