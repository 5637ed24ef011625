#include "nodewise/autotest/configuration.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

TensorType TypeOf(const CaseInput& input) {
  return TensorType(input.dtype, Shape(input.shape.begin(), input.shape.end()));
}

// A text for messages: long lists and tensors are cut.
struct AttrText {
  std::string operator()(int64_t x) const { return fmt::format("{}", x); }
  std::string operator()(float x) const { return fmt::format("{}", x); }
  std::string operator()(const std::string& x) const { return x; }
  std::string operator()(const NDArray& x) const {
    return x.defined() ? ToString(TensorType::Of(*x)) : "?";
  }
  std::string operator()(const Subgraph& x) const {
    return fmt::format("a body of {}", x.body->order().size());
  }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    constexpr size_t kShown = 8;
    const auto shown =
        absl::MakeConstSpan(list).first(std::min(list.size(), kShown));
    return fmt::format("[{}{}]", fmt::join(shown, ", "),
                       list.size() > kShown ? ", ..." : "");
  }
};

}  // namespace

absl::StatusOr<Network> NetworkOf(const Configuration& configuration) {
  const OperatorDef& def = *configuration.def;
  Network network("case");
  NODEWISE_RETURN_IF_ERROR(
      network.SetOpset(std::string(def.domain), configuration.opset));
  NewOperation operation;
  NODEWISE_ASSIGN_OR_RETURN(operation.attrs,
                            MakeAttrs(def, configuration.attributes));
  for (size_t i = 0; i < configuration.inputs.size(); ++i) {
    const CaseInput& input = configuration.inputs[i];
    ValueId& id = operation.inputs.emplace_back(kNoValue);
    if (!input.is_given) continue;
    std::string name = fmt::format("x{}", i);
    if (input.is_constant) {
      NODEWISE_ASSIGN_OR_RETURN(
          id, network.AddConstant(std::move(name), input.fixed));
    } else {
      NODEWISE_ASSIGN_OR_RETURN(
          id, network.AddInput(std::move(name), TypeOf(input)));
    }
  }
  for (size_t i = 0; i < configuration.outputs.size(); ++i) {
    operation.outputs.push_back(configuration.outputs[i] ? fmt::format("y{}", i)
                                                         : "");
  }
  operation.name = "op";
  NODEWISE_ASSIGN_OR_RETURN(const OperationId id,
                            network.AddOperation(std::move(operation)));
  std::vector<ValueId> outputs;
  for (const ValueId output : network.operation(id).outputs) {
    if (output != kNoValue) outputs.push_back(output);
  }
  NODEWISE_RETURN_IF_ERROR(network.SetOutputs(std::move(outputs)));
  return network;
}

absl::StatusOr<std::vector<NDArray>> DrawInputs(
    const Configuration& configuration, Choices* choices, SpecialKind special) {
  std::vector<NDArray> inputs;
  inputs.reserve(configuration.inputs.size());
  for (const CaseInput& input : configuration.inputs) {
    if (!input.is_given || input.is_constant) continue;
    if (input.fixed.defined()) {
      inputs.push_back(input.fixed);
      continue;
    }
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray drawn,
        DrawTensor(input.dtype, input.shape, input.domain, choices, special));
    inputs.push_back(std::move(drawn));
  }
  return inputs;
}

std::string ToString(const Configuration& configuration) {
  std::vector<std::string> attributes;
  for (const NamedAttr& attr : configuration.attributes) {
    attributes.push_back(
        fmt::format("{}={}", attr.name, std::visit(AttrText(), attr.value)));
  }
  std::vector<std::string> inputs;
  for (const CaseInput& input : configuration.inputs) {
    inputs.push_back(input.is_given ? ToString(TypeOf(input)) : "none");
  }
  return fmt::format("{} {} ({}) {}", configuration.def->name,
                     configuration.opset, fmt::join(attributes, ", "),
                     fmt::join(inputs, ", "));
}

}  // namespace nodewise
