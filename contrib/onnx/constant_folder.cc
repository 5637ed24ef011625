#include <algorithm>
#include <utility>

#include "contrib/onnx/graph_importer.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/op_def.h"
#include "nodewise/ops/opaque.h"

namespace nodewise {
namespace {

// What is folded has to be small: an import is to take seconds, and a network
// that holds results instead of calculations grows in memory and says less of
// where an error comes from. Larger constants are data, not shapes, and are
// calculated at run time. Results are held for good, so fewer of them are.
constexpr int64_t kMostInputElements = 65'536;
constexpr int64_t kMostOutputElements = 4'096;
// The cost per element of an operator that does not state its own: more than
// elementwise ones have, so that the budget ends early rather than late.
constexpr double kUnknownCost = 64;

template <typename T>
void Fill(const Shape& elements, const NDArray& tensor) {
  T* out = tensor.As<T>();
  for (const Dim& element : elements) *out++ = static_cast<T>(element.size());
}

std::optional<NDArray> TensorOfElements(const NetworkValue& value) {
  if (!value.elements.has_value() || !value.type.is_static()) {
    return std::nullopt;
  }
  const Shape& elements = *value.elements;
  if (!std::ranges::all_of(
          elements, [](const Dim& element) { return element.is_known(); })) {
    return std::nullopt;
  }
  auto tensor = NDArray::Empty(*value.type.sizes(), value.type.dtype, kCpu);
  if (!tensor.ok() ||
      tensor->bytes() != elements.size() * ElementBytes(value.type.dtype)) {
    return std::nullopt;
  }
  if (value.type.dtype == kInt64) {
    Fill<int64_t>(elements, *tensor);
  } else if (value.type.dtype == DLDataType{kDLInt, 32, 1}) {
    Fill<int32_t>(elements, *tensor);
  } else {
    return std::nullopt;
  }
  return *std::move(tensor);
}

std::optional<std::vector<NDArray>> OutputsOfElements(
    const Network& network, const Operation& operation) {
  std::vector<NDArray> outputs;
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue) {
      outputs.emplace_back();
      continue;
    }
    auto tensor = TensorOfElements(network.value(id));
    if (!tensor.has_value()) return std::nullopt;
    outputs.push_back(*std::move(tensor));
  }
  return outputs;
}

std::optional<int64_t> Elements(const TensorType& type) {
  const auto sizes = type.sizes();
  if (!type.has_dtype() || !sizes.has_value()) return std::nullopt;
  const auto elements = NumElements(*sizes);
  if (!elements.ok()) return std::nullopt;
  return *elements;
}

bool HasBody(const OpAttrs& attrs) {
  return std::ranges::any_of(attrs.def().fields, [&](const AttrField& field) {
    const auto value = field.get(attrs.get());
    return value.has_value() && std::holds_alternative<Subgraph>(*value);
  });
}

double CostOf(const Network& network, const Operation& operation,
              double elements) {
  const OperatorDef& def = operation.def();
  if (def.flops == nullptr) return kUnknownCost * elements;
  const std::vector<InputInfo> inputs = network.InputsOf(operation.id);
  std::vector<OutputInfo> outputs;
  for (const ValueId id : operation.outputs) {
    outputs.emplace_back(id == kNoValue ? TensorType()
                                        : network.value(id).type);
  }
  const double flops =
      def.flops(operation.attrs.get(), Inputs(inputs), outputs);
  return elements + (flops > 0 ? flops : kUnknownCost * elements);
}

// Returns true, and reduces the budget, if the operation reads nothing but
// constants and costs little.
bool IsCheapToFold(const Network& network, const Operation& operation,
                   double* work_left) {
  int64_t read = 0;
  bool reads_any = false;
  for (const ValueId id : operation.inputs) {
    if (id == kNoValue) continue;
    const NetworkValue& value = network.value(id);
    if (value.kind != NetworkValue::Kind::kConstant) return false;
    read += Elements(value.type).value_or(kMostInputElements + 1);
    if (read > kMostInputElements) return false;
    reads_any = true;
  }
  // What reads nothing is a generator, such as RandomNormal, and a body may
  // loop for ever.
  if (!reads_any || HasBody(operation.attrs) ||
      DrawsRandomNumbers(operation.def(), operation.inputs.size())) {
    return false;
  }
  int64_t written = 0;
  for (const ValueId id : operation.outputs) {
    if (id == kNoValue) continue;
    // A size that depends on the data (NonZero) cannot exceed that of the data.
    written +=
        Elements(network.value(id).type)
            .value_or(read <= kMostOutputElements ? kMostOutputElements / 4
                                                  : kMostOutputElements + 1);
    if (written > kMostOutputElements) return false;
  }
  const double cost =
      CostOf(network, operation, static_cast<double>(read + written));
  if (cost > *work_left) return false;
  *work_left -= cost;
  return true;
}

}  // namespace

std::optional<std::vector<NDArray>> FoldOperation(const Network& network,
                                                  OperationId id,
                                                  double* work_left) {
  const Operation& operation = network.operation(id);
  // The program that may compute it is asked only when the network runs.
  if (operation.attrs.As<ops::Opaque>() != nullptr) return std::nullopt;
  // Inferred elements cost nothing, and are known of values that are not
  // constant, too: the shape of an input whose sides are.
  auto known = OutputsOfElements(network, operation);
  if (known.has_value()) return known;
  if (!IsCheapToFold(network, operation, work_left)) return std::nullopt;
  Tensors inputs;
  for (const ValueId input : operation.inputs) {
    inputs.push_back(input == kNoValue ? NDArray() : network.value(input).data);
  }
  absl::InlinedVector<bool, 4> wanted;
  for (const ValueId output : operation.outputs) {
    wanted.push_back(output != kNoValue);
  }
  // An operator that fails will say so when the network runs.
  auto result = Evaluate(operation.attrs, std::move(inputs), wanted);
  if (!result.ok()) return std::nullopt;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    if (i >= result->outputs.size() || !result->outputs[i].defined()) {
      return std::nullopt;
    }
  }
  return std::vector<NDArray>(result->outputs.begin(), result->outputs.end());
}

}  // namespace nodewise
