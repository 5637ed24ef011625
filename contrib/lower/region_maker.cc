#include "contrib/lower/region_maker.h"

#include <unordered_map>
#include <utility>

#include "nodewise/ops/layout.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/channels_last.h"

namespace nodewise {
namespace {

// Returns what the operation tells of its outputs, given these inputs.
absl::StatusOr<OutputInfos> Infer(const Operation& operation,
                                  const std::vector<InputInfo>& infos) {
  const OperatorDef& def = operation.def();
  const Inputs inputs(infos);
  NODEWISE_RETURN_IF_ERROR(def.check(operation.attrs.get(), inputs));
  return def.infer(operation.attrs.get(), inputs, operation.outputs.size());
}

bool HaveSameTypes(const OutputInfos& a, const OutputInfos& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i].type == b[i].type)) return false;
  }
  return true;
}

// The operator itself is asked: without what the constant holds, does it tell
// less of its outputs?
bool DecidesTypes(const Network& network, const Operation& operation,
                  size_t slot) {
  std::vector<InputInfo> infos = network.InputsOf(operation.id);
  const auto with = Infer(operation, infos);
  infos[slot].constant = nullptr;
  infos[slot].elements = nullptr;
  const auto without = Infer(operation, infos);
  return !with.ok() || !without.ok() || !HaveSameTypes(*with, *without);
}

class RegionMaker {
 public:
  RegionMaker(const Network& source, const std::string& name,
              const RegionLayouts& layouts)
      : source_(source),
        layouts_(layouts),
        made_{{Network(name), {}, {}, {}}, {}, {}, {}} {}

  absl::StatusOr<PlannedNode> Make(absl::Span<const OperationId> operations,
                                   absl::Span<const ValueId> outputs) {
    for (const auto& [domain, version] : source_.data().opsets) {
      NODEWISE_RETURN_IF_ERROR(network().SetOpset(domain, version));
    }
    made_.operations.assign(operations.begin(), operations.end());
    for (const OperationId id : operations) {
      NODEWISE_RETURN_IF_ERROR(Add(source_.operation(id)));
    }
    if (outputs.empty()) {
      outputs = source_.operation(operations.back()).outputs;
    }
    NODEWISE_RETURN_IF_ERROR(SetOutputs(outputs));
    return std::move(made_);
  }

 private:
  Network& network() { return made_.region.network; }

  absl::Status Add(const Operation& operation) {
    NewOperation added;
    added.attrs = operation.attrs;
    added.name = operation.name;
    added.origin = operation.origin;
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(const ValueId input, Input(operation, i));
      added.inputs.push_back(input);
    }
    for (const ValueId output : operation.outputs) {
      added.outputs.push_back(output == kNoValue ? ""
                                                 : source_.value(output).name);
    }
    NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                              network().AddOperation(std::move(added)));
    const std::vector<ValueId>& outputs = network().operation(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != kNoValue) values_[operation.outputs[i]] = outputs[i];
    }
    made_.region.covers.push_back(operation.name);
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> Input(const Operation& operation, size_t slot) {
    const ValueId id = operation.inputs[slot];
    if (id == kNoValue) return kNoValue;
    const NetworkValue& value = source_.value(id);
    const bool is_constant = value.kind == NetworkValue::Kind::kConstant;
    if (is_constant && DecidesTypes(source_, operation, slot)) {
      return InnerConstant(value);
    }
    const auto known = values_.find(id);
    if (known != values_.end()) return known->second;
    const bool is_last = layouts_.IsLast(id);
    NODEWISE_ASSIGN_OR_RETURN(
        ValueId input,
        network().AddInput(is_last ? NameOfLast(value) : FreeName(value.name),
                           layouts_.TypeOf(value)));
    made_.region.is_constant.push_back(is_constant);
    made_.inputs.push_back(id);
    if (is_last) {
      NODEWISE_ASSIGN_OR_RETURN(
          input, Transposed(input, value, FreeName(value.name), false));
    }
    values_[id] = input;
    return input;
  }

  // It may be the name of another value, by bad luck.
  std::string NameOfLast(const NetworkValue& value) {
    std::string name = value.name + ".channels_last";
    while (source_.HasValue(name)) name += '_';
    return FreeName(name);
  }

  // Adds the operation by which the region says how `value` lies outside.
  absl::StatusOr<ValueId> Transposed(ValueId from, const NetworkValue& value,
                                     std::string name, bool to_last) {
    const int rank = value.type.rank();
    const ops::Transpose op{to_last ? SidesToChannelsLast(rank)
                                    : SidesToChannelsFirst(rank)};
    std::string operation = NameOfLast(value);
    while (source_.HasOperation(operation)) operation += '_';
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId made,
        network().Add(*layouts_.operators, op, {from}, operation));
    NODEWISE_RETURN_IF_ERROR(network().Rename(made, std::move(name)));
    return made;
  }

  // A constant may be needed in both ways.
  absl::StatusOr<ValueId> InnerConstant(const NetworkValue& value) {
    const auto known = constants_.find(value.id);
    if (known != constants_.end()) return known->second;
    NODEWISE_ASSIGN_OR_RETURN(
        const ValueId constant,
        network().AddConstant(FreeName(value.name), value.data));
    constants_[value.id] = constant;
    return constant;
  }

  // Names of values that come later must not be taken either.
  std::string FreeName(std::string name) {
    if (!network().HasValue(name)) return name;
    do {
      name += '_';
    } while (network().HasValue(name) || source_.HasValue(name));
    return name;
  }

  absl::Status SetOutputs(absl::Span<const ValueId> wanted) {
    std::vector<ValueId> outputs;
    for (const ValueId output : wanted) {
      if (output == kNoValue) continue;
      const NetworkValue& value = source_.value(output);
      made_.outputs.push_back(output);
      made_.region.outputs.push_back(layouts_.TypeOf(value));
      outputs.push_back(values_.at(output));
      if (!layouts_.IsLast(output)) continue;
      NODEWISE_ASSIGN_OR_RETURN(
          outputs.back(),
          Transposed(outputs.back(), value, NameOfLast(value), true));
    }
    return network().SetOutputs(std::move(outputs));
  }

  const Network& source_;
  const RegionLayouts& layouts_;
  PlannedNode made_;
  std::unordered_map<ValueId, ValueId> values_;     // From the source's.
  std::unordered_map<ValueId, ValueId> constants_;  // Those inside.
};

}  // namespace

absl::StatusOr<PlannedNode> MakeRegion(const Network& source,
                                       absl::Span<const OperationId> operations,
                                       const std::string& name,
                                       const RegionLayouts& layouts,
                                       absl::Span<const ValueId> outputs) {
  return RegionMaker(source, name, layouts).Make(operations, outputs);
}

}  // namespace nodewise
