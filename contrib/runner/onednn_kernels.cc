#include "nodewise/runner/onednn_kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "contrib/runner/onednn_plan.h"
#include "contrib/runner/onednn_step.h"
#include "contrib/runner/region_output.h"
#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class OneDnnRegionKernel : public RegionKernel {
 public:
  OneDnnRegionKernel(const Region& region, std::vector<PlannedStep> planned)
      : region_(region),
        lasting_(region.network.data().values.size()),
        outputs_of_(lasting_.size()) {
    for (PlannedStep& step : planned) {
      steps_.push_back(std::make_unique<OneDnnStep>(region_, std::move(step)));
    }
    for (size_t i = 0; i < network().outputs().size(); ++i) {
      outputs_of_[Index(network().outputs()[i])].push_back(i);
    }
  }

  // Makes the memory of what calls make and is no output.
  absl::Status Init() {
    for (const auto& value : network().data().values) {
      if (value.has_value() && value->kind == NetworkValue::Kind::kConstant) {
        lasting_[Index(value->id)] = value->data;
      }
    }
    for (const auto& step : steps_) {
      const ValueId result = ResultOf(*step);
      if (!step->planned().is_call() || IsOutput(result)) continue;
      const TensorType& type = step->planned().call.output;
      NODEWISE_ASSIGN_OR_RETURN(
          lasting_[Index(result)],
          NDArray::Empty(*type.sizes(), step->planned().OutputType(), kCpu));
    }
    return absl::OkStatus();
  }

  absl::Status Run(absl::Span<const NDArray> inputs,
                   absl::Span<const NDArray> outputs) override {
    std::vector<NDArray> values = lasting_;
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[Index(network().outputs()[i])] = outputs[i];
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[Index(network().inputs()[i])] = inputs[i];
    }
    for (const auto& step : steps_) {
      NODEWISE_RETURN_IF_ERROR(RunStep(step.get(), outputs, &values));
    }
    return CopyOthers(values, outputs);
  }

  std::vector<OperationChoice> Operations() const override {
    std::vector<OperationChoice> choices;
    for (const auto& step : steps_) {
      const std::string why_not = step->why_not();
      for (const OperationId id : step->planned().operations) {
        OperationChoice& choice = choices.emplace_back();
        const Operation& operation = network().operation(id);
        choice.operation = operation.name;
        choice.kernel = why_not.empty() ? "oneDNN" : "reference";
        if (!why_not.empty()) {
          choice.why_not = fmt::format("{}: {}", operation.kind(), why_not);
        }
        choice.remark = step->remark();
      }
    }
    return choices;
  }

 private:
  using Values = std::vector<NDArray>;  // By value of the region.

  const Network& network() const { return region_.network; }
  ValueId ResultOf(const OneDnnStep& step) const {
    return network().operation(step.planned().operations.back()).outputs[0];
  }
  bool IsOutput(ValueId value) const {
    return !outputs_of_[Index(value)].empty();
  }

  absl::Status RunStep(OneDnnStep* step, absl::Span<const NDArray> outputs,
                       Values* values) const {
    if (step->planned().is_call()) {
      std::vector<NDArray> inputs;
      inputs.reserve(step->planned().inputs.size());
      for (const PlannedInput& input : step->planned().inputs) {
        inputs.push_back(ValueOf(input.value, *values));
      }
      for (const GeluPattern& gelu : step->planned().gelus) {
        for (const ValueId number : gelu.numbers()) {
          inputs.push_back(ValueOf(number, *values));
        }
      }
      NODEWISE_ASSIGN_OR_RETURN(bool is_done, step->Prepare(inputs));
      if (is_done) {
        const NDArray& output = (*values)[Index(ResultOf(*step))];
        NODEWISE_ASSIGN_OR_RETURN(is_done, step->Run(inputs, output));
      }
      if (is_done) return absl::OkStatus();
    }
    for (const OperationId id : step->planned().operations) {
      const Operation& operation = network().operation(id);
      NODEWISE_RETURN_IF_ERROR(
          At(operation.name, EvaluateOne(operation, outputs, values)));
    }
    return absl::OkStatus();
  }

  static NDArray ValueOf(ValueId value, const Values& values) {
    return value == kNoValue ? NDArray() : values[Index(value)];
  }

  // Computes an operation by its definition.
  absl::Status EvaluateOne(const Operation& operation,
                           absl::Span<const NDArray> outputs,
                           Values* values) const {
    // These are second holders of the tensors, which keeps the evaluation from
    // writing over them.
    Tensors inputs;
    for (const ValueId value : operation.inputs) {
      inputs.push_back(ValueOf(value, *values));
    }
    absl::InlinedVector<bool, 4> wanted;
    for (const ValueId value : operation.outputs) {
      wanted.push_back(value != kNoValue);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const Evaluated made,
        Evaluate(operation.attrs, std::move(inputs), wanted));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const ValueId value = operation.outputs[i];
      if (!IsOutput(value)) {
        (*values)[Index(value)] = made.outputs[i];
        continue;
      }
      for (const size_t output : outputs_of_[Index(value)]) {
        NODEWISE_RETURN_IF_ERROR(StoreRegionOutput(
            region_, output, made.outputs[i], outputs[output]));
      }
    }
    return absl::OkStatus();
  }

  // Fills outputs that are inputs or constants, and further ones of a value.
  absl::Status CopyOthers(const Values& values,
                          absl::Span<const NDArray> outputs) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const NDArray& value = values[Index(network().outputs()[i])];
      if (value.data() == outputs[i].data()) continue;
      NODEWISE_RETURN_IF_ERROR(
          StoreRegionOutput(region_, i, value, outputs[i]));
    }
    return absl::OkStatus();
  }

  const Region region_;
  std::vector<std::unique_ptr<OneDnnStep>> steps_;
  Values lasting_;  // Constants, and memory of what calls make.
  std::vector<std::vector<size_t>> outputs_of_;  // By value.
};

class OneDnnMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "oneDNN"; }
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const override {
    if (OneDnnOperators().empty()) {
      // One reason for all regions, which reports show once.
      return absl::UnimplementedError(OneDnnSupports({}).why_not);
    }
    NODEWISE_ASSIGN_OR_RETURN(std::vector<PlannedStep> steps,
                              PlanSteps(region));
    auto kernel =
        std::make_unique<OneDnnRegionKernel>(region, std::move(steps));
    NODEWISE_RETURN_IF_ERROR(kernel->Init());
    return kernel;
  }
};

}  // namespace

std::shared_ptr<const KernelMaker> OneDnnKernels() {
  return std::make_shared<const OneDnnMaker>();
}

}  // namespace nodewise
