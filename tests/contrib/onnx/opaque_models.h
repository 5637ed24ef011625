#pragma once

// Models of which one operator is not known, and something that computes it.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/ops/opaque.h"
#include "nodewise/ops/ops.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/tensors.h"

namespace nodewise {

inline constexpr char kVendor[] = "vendor.ops";

inline absl::StatusOr<Network> ImportWhole(
    const std::string& bytes, DiagnosticList* diagnostics = nullptr,
    ImportOptions options = {.keep_opaque = true}) {
  DiagnosticList own;
  return ImportOnnx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      "model.onnx", "", AllOperators(), options,
      diagnostics == nullptr ? &own : diagnostics);
}

// A model that imports the vendor's domain.
inline ModelBuilder VendorModel(int opset = 13) {
  ModelBuilder builder(opset);
  auto* const import = builder.model().add_opset_import();
  import->set_domain(kVendor);
  import->set_version(3);
  return builder;
}

inline nodewise_onnx::Node& Vendor(nodewise_onnx::Node& node) {
  node.set_domain(kVendor);
  return node;
}

// x -> Relu -> a -> Magic -> b -> Neg -> y; a -> Abs -> z; all float32[2].
inline ModelBuilder MagicModel(bool states_types = true) {
  ModelBuilder builder = VendorModel();
  builder.Input("x", {2}).Output("y").Output("z");
  builder.Node("Relu", {"x"}, {"a"}, "relu");
  auto& magic = Vendor(builder.Node("Magic", {"a"}, {"b"}, "magic"));
  AddAttribute("strength", 1, &magic).set_f(2.5f);
  builder.Node("Neg", {"b"}, {"y"}, "neg");
  builder.Node("Abs", {"a"}, {"z"}, "abs");
  if (states_types) {
    ModelBuilder::SetInfo("b", {2}, kOnnxFloat,
                          builder.graph().add_value_info());
  }
  return builder;
}

inline std::string TypeTextOf(const Network& network,
                              const std::string& value) {
  return ToString(network.value(network.FindValue(value).value()).type);
}

inline const ops::Opaque& OpaqueNamed(const Network& network,
                                      const std::string& name) {
  const auto* const opaque =
      network.operation(network.FindOperation(name).value())
          .attrs.As<ops::Opaque>();
  EXPECT_NE(opaque, nullptr);
  return *opaque;
}

// Multiplies the first input by two, and keeps what it was asked for.
class Doubler : public OpaqueRunner {
 public:
  absl::StatusOr<std::vector<NDArray>> Run(
      const ops::Opaque& op, absl::Span<const NDArray> inputs,
      absl::Span<const bool> wanted) const override {
    last_ = NameOf(op);
    std::vector<float> values = ValuesOf(inputs[0]);
    for (float& value : values) value *= 2;
    std::vector<NDArray> outputs(wanted.size());
    outputs[0] = Floats(values);
    return outputs;
  }
  mutable std::string last_;
};

// Has the process run opaque operations while it exists.
class WithRunner {
 public:
  explicit WithRunner(std::shared_ptr<const OpaqueRunner> runner) {
    SetOpaqueRunner(std::move(runner));
  }
  ~WithRunner() { SetOpaqueRunner(nullptr); }
};

}  // namespace nodewise
