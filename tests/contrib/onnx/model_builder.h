#pragma once

#include <string>
#include <vector>

#include "contrib/onnx/onnx.pb.h"
#include "nodewise/onnx/onnx_model.h"
#include "tests/contrib/onnx/test_operators.h"

namespace nodewise {

// ONNX's numbers.
inline constexpr int kOnnxFloat = 1;
inline constexpr int kOnnxInt64 = 7;

// Builds a model; everything that is not set has a simple default.
class ModelBuilder {
 public:
  explicit ModelBuilder(int opset = 13) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    model_.mutable_graph()->set_name("net");
  }

  nodewise_onnx::Model& model() { return model_; }
  nodewise_onnx::Graph& graph() { return *model_.mutable_graph(); }

  ModelBuilder& Input(const std::string& name,
                      const std::vector<int64_t>& shape,
                      int type = kOnnxFloat) {
    SetInfo(name, shape, type, graph().add_input());
    return *this;
  }
  ModelBuilder& Output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  // Returns the node, which may be changed further; adding others moves it.
  nodewise_onnx::Node& Node(const std::string& op,
                            const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs,
                            const std::string& name = "") {
    return SetNode(op, inputs, outputs, name, graph().add_node());
  }
  nodewise_onnx::Tensor& Floats(const std::string& name,
                                const std::vector<float>& values) {
    nodewise_onnx::Tensor& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(kOnnxFloat);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    tensor.mutable_float_data()->Add(values.begin(), values.end());
    return tensor;
  }
  nodewise_onnx::Tensor& Ints(const std::string& name,
                              const std::vector<int64_t>& values) {
    nodewise_onnx::Tensor& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(kOnnxInt64);
    tensor.add_dims(static_cast<int64_t>(values.size()));
    tensor.mutable_int64_data()->Add(values.begin(), values.end());
    return tensor;
  }

  static void SetInfo(const std::string& name,
                      const std::vector<int64_t>& shape, int type,
                      nodewise_onnx::ValueInfo* info) {
    info->set_name(name);
    auto* const tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const int64_t dim : shape) {
      tensor->mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }
  static nodewise_onnx::Node& SetNode(const std::string& op,
                                      const std::vector<std::string>& inputs,
                                      const std::vector<std::string>& outputs,
                                      const std::string& name,
                                      nodewise_onnx::Node* node) {
    node->set_op_type(op);
    if (!name.empty()) node->set_name(name);
    for (const std::string& input : inputs) node->add_input(input);
    for (const std::string& output : outputs) node->add_output(output);
    return *node;
  }

  std::string Bytes() const { return model_.SerializeAsString(); }
  absl::StatusOr<Network> Import(const ImportOptions& options = {},
                                 DiagnosticList* diagnostics = nullptr,
                                 const std::string& folder = "") const {
    DiagnosticList own;
    const std::string bytes = Bytes();
    return ImportOnnx(
        {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
        "model.onnx", folder, TestOperators(), options,
        diagnostics == nullptr ? &own : diagnostics);
  }

 private:
  nodewise_onnx::Model model_;
};

// x -> Neg -> y, both float32[2].
inline ModelBuilder NegModel(int opset = 13) {
  ModelBuilder builder(opset);
  builder.Input("x", {2}).Output("y").Node("Neg", {"x"}, {"y"}, "n");
  return builder;
}

inline nodewise_onnx::Attribute& AddAttribute(const std::string& name, int type,
                                              nodewise_onnx::Node* node) {
  nodewise_onnx::Attribute& attribute = *node->add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

}  // namespace nodewise
