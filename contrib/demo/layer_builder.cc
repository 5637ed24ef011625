#include "nodewise/demo/layer_builder.h"

#include <cmath>
#include <utility>

#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/random/random.h"

namespace nodewise {

absl::StatusOr<Network> LayerBuilder::Finish(std::vector<ValueId> outputs) {
  if (status_.ok()) status_ = network_.SetOutputs(std::move(outputs));
  if (!status_.ok()) return status_;
  return std::move(network_);
}

ValueId LayerBuilder::ConvAndNorm(const std::string& name, ValueId x,
                                  int64_t from, int64_t to, int64_t kernel,
                                  int64_t stride) {
  ops::Conv conv;
  conv.kernel_shape = {kernel, kernel};
  conv.strides = {stride, stride};
  conv.pads = std::vector<int64_t>(4, kernel / 2);
  x = Op(name + "_conv", conv,
         {x, Weights(name + "_weight", {to, from, kernel, kernel},
                     from * kernel * kernel)});
  return Op(
      name + "_norm", ops::BatchNormalization(),
      {x, Random(name + "_scale", {to}, 0.3, 1),
       Random(name + "_shift", {to}, 0.3), Random(name + "_mean", {to}, 0.1),
       Random(name + "_variance", {to}, 0.3, 1)});
}

ValueId LayerBuilder::LayerNorm(const std::string& name, ValueId x,
                                int64_t width) {
  return Op(name, ops::LayerNormalization(),
            {x, Random(name + "_scale", {width}, 0.3, 1),
             Random(name + "_shift", {width}, 0.3)});
}

ValueId LayerBuilder::Dense(const std::string& name, ValueId x, int64_t from,
                            int64_t to) {
  x = Op(name + "_product", ops::MatMul(),
         {x, Weights(name + "_weight", {from, to}, from)});
  return Op(name, ops::Add(), {x, Random(name + "_bias", {to}, 0.1)});
}

ValueId LayerBuilder::Transposed(const std::string& name, ValueId x,
                                 std::vector<int64_t> order) {
  ops::Transpose transpose;
  transpose.perm = std::move(order);
  return Op(name, transpose, {x});
}

ValueId LayerBuilder::Reshaped(const std::string& name, ValueId x,
                               const std::vector<int64_t>& sizes) {
  return Op(name, ops::Reshape(), {x, Sizes(name, sizes)});
}

ValueId LayerBuilder::Weights(const std::string& name,
                              std::vector<int64_t> shape, int64_t terms) {
  return Random(name, std::move(shape),
                std::sqrt(6.0 / static_cast<double>(terms)));
}

ValueId LayerBuilder::Random(const std::string& name,
                             std::vector<int64_t> shape, double range,
                             double middle) {
  RandomSource source(seed_, name);
  auto tensor = RandomTensor(source, shape, kDemoFloat);
  if (!tensor.ok()) return Fail(tensor.status());
  auto* const data = tensor->As<float>();
  for (size_t i = 0; i < tensor->bytes() / sizeof(float); ++i) {
    data[i] = static_cast<float>(middle + range * double{data[i]});
  }
  return Take(network_.AddConstant(name, *std::move(tensor)));
}

ValueId LayerBuilder::Number(const std::string& name, float value) {
  return Floats(name, {}, {value});
}

ValueId LayerBuilder::Floats(const std::string& name,
                             const std::vector<int64_t>& shape,
                             const std::vector<float>& values) {
  return Constant(name, shape, kDemoFloat, values.data(),
                  values.size() * sizeof(float));
}

ValueId LayerBuilder::Sizes(const std::string& name,
                            const std::vector<int64_t>& sizes) {
  return Constant(name + "_sizes", {static_cast<int64_t>(sizes.size())},
                  kDemoInt, sizes.data(), sizes.size() * sizeof(int64_t));
}

std::vector<ValueId> LayerBuilder::AddNamed(const std::string& name,
                                            OpAttrs attrs,
                                            std::vector<ValueId> inputs,
                                            std::vector<std::string> outputs) {
  const std::vector<ValueId> none(outputs.size(), kNoValue);
  if (!status_.ok()) return none;
  NewOperation operation;
  operation.attrs = std::move(attrs);
  operation.name = name;
  operation.inputs = std::move(inputs);
  operation.outputs = std::move(outputs);
  const auto id = network_.AddOperation(std::move(operation));
  if (!id.ok()) {
    Fail(id.status());
    return none;
  }
  return network_.operation(*id).outputs;
}

ValueId LayerBuilder::Constant(const std::string& name,
                               const std::vector<int64_t>& shape,
                               DLDataType dtype, const void* data,
                               size_t bytes) {
  auto tensor = NDArray::Empty(shape, dtype, {kDLCPU, 0});
  if (!tensor.ok()) return Fail(tensor.status());
  const absl::Status copied = CopyFromBytes(data, bytes, **tensor);
  if (!copied.ok()) return Fail(copied);
  return Take(network_.AddConstant(name, *std::move(tensor)));
}

}  // namespace nodewise
