#include "contrib/onnx/renumber.h"

#include <utility>
#include <vector>

namespace nodewise {
namespace {

// By old number; kNoValue and kNoOperation for what is gone.
struct Numbers {
  std::vector<ValueId> values;
  std::vector<OperationId> operations;
  size_t num_values = 0;
  bool is_same = true;  // No number changes.

  ValueId Of(ValueId id) const {
    return id == kNoValue ? id : values[Index(id)];
  }
  OperationId Of(OperationId id) const {
    return id == kNoOperation ? id : operations[Index(id)];
  }
  void Add(ValueId id) {
    if (id == kNoValue) return;
    is_same = is_same && Index(id) == num_values;
    values[Index(id)] = ValueId(num_values++);
  }
};

// Returns constants in the order in which they are first read, unread ones
// last. Their order in a file would not be stable: a body's initializers come
// before what it reads from around it, whichever is read first.
std::vector<ValueId> ConstantsOf(const NetworkData& data) {
  std::vector<ValueId> constants;
  std::vector<bool> is_listed(data.values.size(), false);
  const auto add = [&](ValueId id) {
    if (id == kNoValue || is_listed[Index(id)] ||
        data.values[Index(id)]->kind != NetworkValue::Kind::kConstant) {
      return;
    }
    is_listed[Index(id)] = true;
    constants.push_back(id);
  };
  for (const OperationId id : data.order) {
    for (const ValueId input : data.operations[Index(id)]->inputs) add(input);
  }
  for (const ValueId output : data.outputs) add(output);
  for (const auto& value : data.values) {
    if (value.has_value()) add(value->id);
  }
  return constants;
}

Numbers NumbersOf(const NetworkData& data) {
  Numbers numbers;
  numbers.values.assign(data.values.size(), kNoValue);
  numbers.operations.assign(data.operations.size(), kNoOperation);
  for (const ValueId id : data.inputs) numbers.Add(id);
  for (const ValueId id : ConstantsOf(data)) numbers.Add(id);
  for (size_t i = 0; i < data.order.size(); ++i) {
    const OperationId id = data.order[i];
    numbers.is_same = numbers.is_same && Index(id) == i;
    numbers.operations[Index(id)] = OperationId(i);
    const Operation& operation = *data.operations[Index(id)];
    for (const ValueId output : operation.outputs) numbers.Add(output);
    numbers.Add(operation.barrier);
  }
  numbers.is_same = numbers.is_same && numbers.num_values == data.values.size();
  return numbers;
}

void Renumber(const Numbers& numbers, std::vector<ValueId>* ids) {
  for (ValueId& id : *ids) id = numbers.Of(id);
}

}  // namespace

Network Renumbered(Network network) {
  const NetworkData& data = network.data();
  const Numbers numbers = NumbersOf(data);
  if (numbers.is_same) return network;
  NetworkData made;
  made.name = data.name;
  made.opsets = data.opsets;
  made.inputs = data.inputs;
  made.outputs = data.outputs;
  Renumber(numbers, &made.inputs);
  Renumber(numbers, &made.outputs);
  made.values.resize(numbers.num_values);
  for (const auto& value : data.values) {
    if (!value.has_value()) continue;
    NetworkValue copy = *value;
    copy.id = numbers.Of(value->id);
    copy.producer = numbers.Of(value->producer);
    for (Use& use : copy.uses) use.user = numbers.Of(use.user);
    made.values[Index(copy.id)] = std::move(copy);
  }
  for (const OperationId id : data.order) {
    Operation copy = *data.operations[Index(id)];
    copy.id = numbers.Of(id);
    Renumber(numbers, &copy.inputs);
    Renumber(numbers, &copy.outputs);
    Renumber(numbers, &copy.after);
    copy.barrier = numbers.Of(copy.barrier);
    made.order.push_back(copy.id);
    made.operations.emplace_back(std::move(copy));
  }
  auto renumbered = Network::FromData(std::move(made));
  return renumbered.ok() ? *std::move(renumbered) : std::move(network);
}

}  // namespace nodewise
