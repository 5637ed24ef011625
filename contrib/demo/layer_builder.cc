#include "nodewise/demo/layer_builder.h"

#include "nodewise/device/device.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/layout.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/ops/softmax.h"
#include "nodewise/random/random.h"

namespace nodewise {

absl::StatusOr<Network> LayerBuilder::Finish(std::vector<ValueId> outputs) {
  if (status_.ok()) status_ = network_.SetOutputs(std::move(outputs));
  if (!status_.ok()) return status_;
  return std::move(network_);
}

// Scales and variances lie around 1, so that no channel is lost or drowns the
// others.
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
  return Op(name, ops::Transpose{std::move(order)}, {x});
}

ValueId LayerBuilder::Reshaped(const std::string& name, ValueId x,
                               const std::vector<int64_t>& sizes) {
  return Op(name, ops::Reshape(), {x, Sizes(name, sizes)});
}

// The width of a head is a side of its own after the split, and the order says
// where it stands.
ValueId LayerBuilder::Heads(const std::string& name, ValueId x, int64_t places,
                            int64_t width, int64_t heads,
                            std::vector<int64_t> order) {
  x = Dense(name, x, width, width);
  x = Reshaped(name + "_split", x, {1, places, heads, width / heads});
  return Transposed(name + "_heads", x, std::move(order));
}

ValueId LayerBuilder::MeanOver(const std::string& name, ValueId x,
                               const std::vector<int64_t>& axes) {
  ops::ReduceMean mean;
  mean.keepdims = false;
  return Op(name, mean, {x, Sizes(name, axes)});
}

ValueId LayerBuilder::Classes(ValueId x, int64_t from, int64_t classes) {
  x = Op("classes", ops::Gemm(),
         {x, Weights("classes_weight", {from, classes}, from),
          Random("classes_bias", {classes}, 0.1)});
  return Op("probabilities", ops::Softmax(), {x});
}

ValueId LayerBuilder::Random(const std::string& name,
                             std::vector<int64_t> shape, double range,
                             double middle) {
  // A name's numbers do not depend on what else is made, nor in which order.
  RandomSource source(seed_, name);
  auto tensor = RandomTensor(source, shape, kDemoFloat);
  if (!tensor.ok()) return Fail(tensor.status());
  auto* const data = tensor->As<float>();
  for (size_t i = 0; i < tensor->bytes() / sizeof(float); ++i) {
    data[i] = static_cast<float>(middle + range * double{data[i]});
  }
  return Checked(network_.AddConstant(name, *std::move(tensor)));
}

// After an error outputs are kNoValue, which all that reads them passes on, so
// that networks are built without a check at each step.
std::vector<ValueId> LayerBuilder::AddNamed(const std::string& name,
                                            OpAttrs attrs,
                                            std::vector<ValueId> inputs,
                                            std::vector<std::string> outputs) {
  const std::vector<ValueId> none(outputs.size(), kNoValue);
  if (!status_.ok()) return none;
  const auto id = network_.AddOperation({.attrs = std::move(attrs),
                                         .inputs = std::move(inputs),
                                         .name = name,
                                         .outputs = std::move(outputs)});
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
  auto tensor = NDArray::Empty(shape, dtype, kCpu);
  if (!tensor.ok()) return Fail(tensor.status());
  const absl::Status copied = CopyFromBytes(data, bytes, **tensor);
  if (!copied.ok()) return Fail(copied);
  return Checked(network_.AddConstant(name, *std::move(tensor)));
}

}  // namespace nodewise
