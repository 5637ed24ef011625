// A runtime of one's own, with a fault in it, and the operation that is named.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/diagnose/diagnose.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"

namespace {

using nodewise::NDArray;

// Runs networks of a few operators on floats; its Abs does nothing.
class MyRuntime : public nodewise::Runner {
 public:
  explicit MyRuntime(nodewise::ProgramRequest request)
      : network_(std::move(request.network)),
        inputs_(nodewise::ListInputs(*network_)) {
    for (const nodewise::ValueId id : network_->outputs()) {
      outputs_.push_back(network_->value(id).name);
    }
  }

  const std::string& name() const override { return name_; }
  const nodewise::InputList& inputs() const override { return *inputs_; }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  bool Can(nodewise::Capability capability) const override {
    return capability == nodewise::Capability::kTensors ||
           capability == nodewise::Capability::kPatches;
  }

 protected:
  absl::StatusOr<nodewise::RunResult> RunChecked(
      std::vector<NDArray> tensors,
      const nodewise::RunOptions& options) override {
    std::map<std::string, NDArray> values;
    for (size_t i = 0; i < tensors.size(); ++i) {
      values[network_->value(network_->inputs()[i]).name] = tensors[i];
    }
    for (const auto& [name, tensor] : values) {
      NODEWISE_RETURN_IF_ERROR(Emit(options, name, tensor));
    }
    for (const nodewise::OperationId id : network_->order()) {
      const nodewise::Operation& operation = network_->operation(id);
      const std::string& from = network_->value(operation.inputs[0]).name;
      const std::string& to = network_->value(operation.outputs[0]).name;
      NODEWISE_ASSIGN_OR_RETURN(values[to],
                                Compute(operation.kind(), values[from]));
      for (const nodewise::TensorPatch& patch : options.patches) {
        if (patch.entry == to) values[to] = patch.tensor;
      }
      NODEWISE_RETURN_IF_ERROR(Emit(options, to, values[to]));
    }
    nodewise::RunResult result;
    for (const std::string& name : outputs_) {
      result.outputs.push_back({name, values[name]});
    }
    result.durations_ns = {0};
    return result;
  }

 private:
  static absl::Status Emit(const nodewise::RunOptions& options,
                           const std::string& name, const NDArray& tensor) {
    if (options.sink == nullptr) return absl::OkStatus();
    const nodewise::TensorKey key{name};
    nodewise::TensorItem item{key};
    item.tensor = tensor.tensor();
    return options.sink->Consume(item);
  }

  static absl::StatusOr<NDArray> Compute(std::string_view kind,
                                         const NDArray& x) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray y, x.CopyToHost());
    auto* const numbers = static_cast<float*>(y.data());
    for (size_t i = 0; i < y.bytes() / sizeof(float); ++i) {
      if (kind == "Neg") numbers[i] = -numbers[i];
      if (kind == "Exp") numbers[i] = std::exp(numbers[i]);
    }
    return y;
  }

  const std::string name_ = "mine";
  const std::shared_ptr<const nodewise::Network> network_;
  const std::unique_ptr<const nodewise::InputList> inputs_;
  std::vector<std::string> outputs_;
};

constexpr std::string_view kModel = R"(
version 2;
network "mine" {
  opset "" 21;
  input %0 "x": float32[4];
  #0 "turn" = Neg@13(%0) -> %1 "t": float32[4] barrier %2;
  #1 "size" = Abs@13(%1) -> %3 "s": float32[4] barrier %4;
  #2 "grow" = Exp@13(%3) -> %5 "y": float32[4] barrier %6;
  output %5;
}
)";

absl::Status Ask() {
  NODEWISE_ASSIGN_OR_RETURN(
      nodewise::NetworkData data,
      nodewise::ParseNetworkText(kModel, nodewise::AllOperators(), "model"));
  NODEWISE_ASSIGN_OR_RETURN(nodewise::Network network,
                            nodewise::Network::FromData(std::move(data)));
  nodewise::NetworkProgram mine{
      "mine",
      [](nodewise::ProgramRequest request)
          -> absl::StatusOr<std::unique_ptr<nodewise::Runner>> {
        return std::make_unique<MyRuntime>(std::move(request));
      }};
  nodewise::TargetSpec spec;
  spec.network = std::make_shared<const nodewise::Network>(std::move(network));
  spec.program = std::make_shared<const nodewise::NetworkProgram>(mine);
  spec.inputs.seed = 1;
  nodewise::DiagnosticList faults;
  nodewise::Question question;
  NODEWISE_ASSIGN_OR_RETURN(question.target,
                            nodewise::OpenTarget(spec, &faults));
  NODEWISE_ASSIGN_OR_RETURN(const nodewise::Answer answer,
                            nodewise::Diagnose(question));
  for (const nodewise::NamedCulprit& culprit : answer.culprits) {
    std::puts(culprit.finding.ToString().c_str());
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Ask();
  if (!status.ok()) std::puts(status.ToString().c_str());
  return status.ok() ? 0 : 2;
}
