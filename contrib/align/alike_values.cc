#include "contrib/align/alike_values.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "nodewise/op/op_def.h"

namespace nodewise {
namespace {

using Constants = std::vector<const NetworkValue*>;
using Key =
    std::tuple<const OperatorDef*, std::vector<ValueId>, size_t /* outputs */>;

bool AreEqual(const NDArray& a, const NDArray& b) {
  return a.data() == b.data() ||
         (a.bytes() == b.bytes() &&
          std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// Finds for each value the first one that is made like it.
class FirstsFinder {
 public:
  explicit FirstsFinder(const Network& network)
      : network_(network), first_(network.data().values.size(), kNoValue) {}

  std::vector<ValueId> Run() {
    for (const OperationId id : network_.order()) {
      const Operation& operation = network_.operation(id);
      std::vector<ValueId> inputs;
      for (const ValueId input : operation.inputs) {
        inputs.push_back(input == kNoValue ? kNoValue : FirstOf(input));
      }
      std::vector<OperationId>& others =
          made_[{&operation.def(), inputs, operation.outputs.size()}];
      const auto like =
          std::find_if(others.begin(), others.end(), [&](OperationId other) {
            return network_.operation(other).attrs == operation.attrs;
          });
      if (like == others.end()) {
        others.push_back(id);
        continue;
      }
      const Operation& first = network_.operation(*like);
      for (size_t i = 0; i < operation.outputs.size(); ++i) {
        const ValueId output = operation.outputs[i];
        if (output == kNoValue || first.outputs[i] == kNoValue) continue;
        first_[Index(output)] = first.outputs[i];
      }
    }
    return std::move(first_);
  }

 private:
  ValueId FirstOf(ValueId id) {
    ValueId& first = first_[Index(id)];
    if (first != kNoValue) return first;
    const NetworkValue& value = network_.value(id);
    first =
        value.kind == NetworkValue::Kind::kConstant ? FirstConstant(value) : id;
    return first;
  }

  // Most constants of one shape differ in their first bytes.
  ValueId FirstConstant(const NetworkValue& value) {
    const NDArray& data = value.data;
    if (!data.defined() || data.device().device_type != kDLCPU) {
      return value.id;
    }
    const absl::Span<const int64_t> shape = data.shape();
    Constants& others =
        constants_[{{data.dtype().code, data.dtype().bits},
                    std::vector<int64_t>(shape.begin(), shape.end())}];
    for (const NetworkValue* const other : others) {
      if (AreEqual(data, other->data)) return other->id;
    }
    others.push_back(&value);
    return value.id;
  }

  const Network& network_;
  std::vector<ValueId> first_;  // By value.
  std::map<Key, std::vector<OperationId>> made_;
  std::map<std::pair<std::pair<int, int>, std::vector<int64_t>>, Constants>
      constants_;
};

}  // namespace

AlikeValues::AlikeValues(const Network& network) {
  const std::vector<ValueId> first = FirstsFinder(network).Run();
  std::map<ValueId, std::vector<ValueId>> alike;
  for (const OperationId id : network.order()) {
    for (const ValueId output : network.operation(id).outputs) {
      if (output == kNoValue) continue;
      const ValueId one = first[Index(output)];
      alike[one == kNoValue ? output : one].push_back(output);
    }
  }
  group_of_.assign(first.size(), alike.size());
  for (auto& [one, values] : alike) {
    if (values.size() < 2) continue;
    for (const ValueId id : values) group_of_[Index(id)] = groups_.size();
    groups_.push_back(std::move(values));
  }
}

std::vector<ValueId> AlikeValues::With(ValueId id) const {
  const size_t group = group_of_[Index(id)];
  if (group >= groups_.size()) return {};
  std::vector<ValueId> others = groups_[group];
  std::erase(others, id);
  return others;
}

}  // namespace nodewise
