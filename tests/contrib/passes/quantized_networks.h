#pragma once

// Quantised networks for tests of passes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "nodewise/interp/interpreter.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/ops.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/passes/quantization.h"
#include "tests/support/matchers.h"
#include "tests/support/random_cases.h"
#include "tests/support/tensors.h"

namespace nodewise {

inline NDArray Float(float value) { return MakeTensor<float>({}, {value}); }
inline NDArray Byte(uint8_t value) { return MakeTensor<uint8_t>({}, {value}); }
inline NDArray SignedByte(int8_t value) {
  return MakeTensor<int8_t>({}, {value});
}

// A scale and a zero point, which may be missing.
struct Scaling {
  NDArray scale = Float(0.5F);
  NDArray zero = NDArray();
  int64_t axis = 1;
};

// Builds a network; everything that fails ends the test.
class QuantizedBuilder {
 public:
  explicit QuantizedBuilder(int opset = 21) {
    EXPECT_THAT(net.SetOpset("", opset), IsOk());
  }

  ValueId Input(const char* name, const std::string& type) {
    return net.AddInput(name, ParseTensorType(type).value()).value();
  }
  ValueId Constant(const NDArray& data) {
    return net.AddConstant("", data).value();
  }
  template <typename Class>
  ValueId Add(const Class& op, std::vector<ValueId> inputs, const char* name) {
    return net.Add(AllOperators(), op, std::move(inputs), name).value();
  }
  template <typename Class>
  ValueId AddScaled(Class op, ValueId x, const Scaling& scaling,
                    const char* name) {
    op.axis = scaling.axis;
    std::vector<ValueId> inputs = {x, Constant(scaling.scale)};
    if (scaling.zero.defined()) inputs.push_back(Constant(scaling.zero));
    return Add(op, std::move(inputs), name);
  }
  ValueId Dequantize(ValueId x, const Scaling& scaling, const char* name) {
    return AddScaled(ops::DequantizeLinear{}, x, scaling, name);
  }
  ValueId Quantize(ValueId x, const Scaling& scaling, const char* name) {
    return AddScaled(ops::QuantizeLinear{}, x, scaling, name);
  }
  Network Finish(std::vector<ValueId> outputs) {
    EXPECT_THAT(net.SetOutputs(std::move(outputs)), IsOk());
    return std::move(net);
  }

  Network net{"net"};
};

// A Conv or MatMul of dequantised tensors, whose result is quantised: input
// "x", constant weights, output "q"; the operation is "product".
struct ProductSetup {
  bool is_conv = true;
  int opset = 21;
  std::string x_type = "uint8[1, 1, 3]";
  NDArray w_data = MakeTensor<int8_t>({2, 1, 2}, {1, -2, 3, 4});
  // If not empty, the weights are the input "w" of this type.
  std::string w_type = {};
  Scaling x = {};
  Scaling w = {};
  Scaling y = {};
  ops::Conv conv = {};
  ops::DequantizeLinear dequantize = {};  // For x.
  ops::QuantizeLinear quantize = {};
  std::function<ValueId(QuantizedBuilder&)> bias = nullptr;
  // Adds what stands between the product and QuantizeLinear.
  std::function<ValueId(QuantizedBuilder&, ValueId)> after = nullptr;

  Network Make() const {
    QuantizedBuilder net(opset);
    return Finish(net);
  }
  Network Finish(QuantizedBuilder& net) const {
    const ValueId x_in = net.Input("x", x_type);
    const ValueId w_in =
        w_type.empty() ? net.Constant(w_data) : net.Input("w", w_type);
    const ValueId x_floats = net.AddScaled(dequantize, x_in, x, "x_floats");
    const ValueId w_floats = net.Dequantize(w_in, w, "w_floats");
    std::vector<ValueId> inputs = {x_floats, w_floats};
    if (bias != nullptr) inputs.push_back(bias(net));
    ValueId result = is_conv ? net.Add(conv, inputs, "product")
                             : net.Add(ops::MatMul{}, inputs, "product");
    if (after != nullptr) result = after(net, result);
    return net.Finish({net.AddScaled(quantize, result, y, "q")});
  }
};

// A product of matrices.
inline ProductSetup MatMulSetup() {
  ProductSetup setup;
  setup.is_conv = false;
  setup.x_type = "uint8[2, 3]";
  setup.w_data = MakeTensor<int8_t>({3, 2}, {1, -2, 3, 4, 5, 6});
  return setup;
}

// Returns the kinds of a network's operations, in order.
inline std::vector<std::string> KindsOf(const Network& net) {
  std::vector<std::string> kinds;
  for (const OperationId id : net.order()) {
    kinds.emplace_back(net.operation(id).kind());
  }
  return kinds;
}

// Returns the network as text with new numbers, so that networks that were
// edited in different ways can be compared.
inline std::string RenumberedText(const Network& net) {
  const auto outputs = net.outputs();
  const auto part = ExtractNetwork(net, {}, outputs);
  EXPECT_THAT(part, IsOk());
  return part.ok() ? NetworkToText(part->data(), {1 << 20}) : "";
}

// Run the pass, and check that the network is sound afterwards.
inline QuantizationReport Merge(Network& net) {
  QuantizationReport report;
  EXPECT_THAT(RunPasses({MergeQuantizationPass(&report)}, {}, net), IsOk());
  return report;
}
inline QuantizationReport Split(Network& net) {
  QuantizationReport report;
  EXPECT_THAT(RunPasses({SplitQuantizationPass(&report)}, {}, net), IsOk());
  return report;
}

// Returns the reason why nothing was merged; "" if something was.
inline std::string ReasonOf(Network net) {
  const std::string before = RenumberedText(net);
  const QuantizationReport report = Merge(net);
  if (!report.changes.empty() || report.left_alone.size() != 1) {
    return report.ToString();
  }
  EXPECT_EQ(RenumberedText(net), before);
  return report.left_alone[0].reason;
}

// Returns the elements of the network's only output.
template <typename T>
std::vector<T> OutputOf(const Network& net, std::vector<NDArray> inputs) {
  const auto outputs = Interpret(net, std::move(inputs));
  EXPECT_THAT(outputs, IsOk());
  return outputs.ok() ? ValuesOf<T>((*outputs)[0]) : std::vector<T>();
}

}  // namespace nodewise
