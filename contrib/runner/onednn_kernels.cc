#include "nodewise/runner/onednn_kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "contrib/runner/onednn_plan.h"
#include "contrib/runner/onednn_step.h"
#include "contrib/runner/region_output.h"
#include "fmt/format.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Adds what computes the operations of a step. `why_not` and `remark` are
// those of the plan, or what runs have found since.
void AddChoices(const Region& region, const std::vector<OperationId>& shown,
                const PlannedStep& step, const std::string& why_not,
                const std::string& remark,
                std::vector<OperationChoice>* choices) {
  for (const OperationId id : step.operations) {
    if (std::find(shown.begin(), shown.end(), id) == shown.end()) continue;
    OperationChoice& choice = choices->emplace_back();
    const Operation& operation = region.network.operation(id);
    choice.operation = operation.name;
    choice.kernel = why_not.empty() ? "oneDNN" : "reference";
    // The reason for which a call is refused names its operator itself.
    choice.why_not = why_not.empty() || step.is_call()
                         ? why_not
                         : fmt::format("{}: {}", operation.kind(), why_not);
    choice.remark = remark;
  }
}

class OneDnnRegionKernel : public RegionKernel {
 public:
  OneDnnRegionKernel(const Region& region, std::vector<PlannedStep> planned)
      : region_(region),
        lasting_(region.network.data().values.size()),
        outputs_of_(lasting_.size()) {
    for (PlannedStep& step : planned) {
      is_plain_ = is_plain_ && step.is_plain();
      steps_.push_back(std::make_unique<OneDnnStep>(region_, std::move(step)));
    }
    for (size_t i = 0; i < network().outputs().size(); ++i) {
      outputs_of_[Index(network().outputs()[i])].push_back(i);
    }
    for (const auto& value : network().data().values) {
      if (value.has_value() && value->kind == NetworkValue::Kind::kConstant) {
        lasting_[Index(value->id)] = value->data;
      }
    }
  }

  absl::Status Run(absl::Span<const NDArray> inputs,
                   absl::Span<const NDArray> outputs) override {
    if (!has_results_) NODEWISE_RETURN_IF_ERROR(MakeResults());
    const absl::Status status = RunSteps(inputs, outputs);
    if (LittleMemory::IsWanted()) Forget();
    return status;
  }

  std::vector<OperationChoice> Operations() const override {
    std::vector<OperationChoice> choices;
    const std::vector<OperationId> shown = SourceOperations(region_);
    for (const auto& step : steps_) {
      AddChoices(region_, shown, step->planned(), step->why_not(),
                 step->remark(), &choices);
    }
    return choices;
  }

 private:
  using Values = std::vector<NDArray>;  // By value of the region.

  const Network& network() const { return region_.network; }
  bool IsOutput(ValueId value) const {
    return !outputs_of_[Index(value)].empty();
  }

  bool MakesInnerValue(const PlannedStep& step) const {
    return step.is_call() && !IsOutput(step.result);
  }

  // Makes the memory for the results of calls that are not outputs.
  absl::Status MakeResults() {
    for (const auto& step : steps_) {
      const PlannedStep& planned = step->planned();
      if (!MakesInnerValue(planned)) continue;
      NODEWISE_ASSIGN_OR_RETURN(lasting_[Index(planned.result)],
                                NDArray::Empty(*planned.call.output.sizes(),
                                               planned.OutputType(), kCpu));
    }
    has_results_ = true;
    return absl::OkStatus();
  }

  // Lets go what a next run can make again.
  void Forget() {
    for (const auto& step : steps_) {
      step->Forget();
      if (!MakesInnerValue(step->planned())) continue;
      lasting_[Index(step->planned().result)] = NDArray();
    }
    has_results_ = false;
  }

  absl::Status RunSteps(absl::Span<const NDArray> inputs,
                        absl::Span<const NDArray> outputs) {
    Values values = ValuesAtFirst(inputs, outputs);
    for (const auto& step : steps_) {
      NODEWISE_ASSIGN_OR_RETURN(const bool is_done,
                                RunCall(step.get(), values));
      if (is_done) continue;
      if (!is_plain_) {
        // Definitions know nothing of layouts, so they begin at the beginning.
        values = ValuesAtFirst(inputs, outputs);
        NODEWISE_RETURN_IF_ERROR(Evaluate(network().order(), outputs, &values));
        break;
      }
      NODEWISE_RETURN_IF_ERROR(
          Evaluate(step->planned().operations, outputs, &values));
    }
    return CopyOthers(values, outputs);
  }

  Values ValuesAtFirst(absl::Span<const NDArray> inputs,
                       absl::Span<const NDArray> outputs) const {
    std::vector<NDArray> values = lasting_;
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[Index(network().outputs()[i])] = outputs[i];
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      values[Index(network().inputs()[i])] = inputs[i];
    }
    return values;
  }

  // Returns false if oneDNN does not compute this step, or not this time.
  static absl::StatusOr<bool> RunCall(OneDnnStep* step, const Values& values) {
    if (!step->planned().is_call()) return false;
    std::vector<NDArray> inputs;
    inputs.reserve(step->planned().inputs.size());
    for (const PlannedInput& input : step->planned().inputs) {
      inputs.push_back(ValueOf(input.value, values));
    }
    for (const GeluPattern& gelu : step->planned().gelus) {
      for (const ValueId number : gelu.numbers()) {
        inputs.push_back(ValueOf(number, values));
      }
    }
    NODEWISE_ASSIGN_OR_RETURN(const bool can, step->Prepare(inputs));
    if (!can) return false;
    return step->Run(inputs, values[Index(step->planned().result)]);
  }

  // Computes operations by their definitions.
  absl::Status Evaluate(absl::Span<const OperationId> operations,
                        absl::Span<const NDArray> outputs,
                        Values* values) const {
    for (const OperationId id : operations) {
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
        nodewise::Evaluate(operation.attrs, std::move(inputs), wanted));
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
  bool is_plain_ = true;  // No step has its channels last.
  bool has_results_ = false;
  Values lasting_;  // Constants, and memory of what calls make.
  std::vector<std::vector<size_t>> outputs_of_;  // By value.
};

class OneDnnRegionPlan : public RegionPlan {
 public:
  OneDnnRegionPlan(const Region& region, std::vector<PlannedStep> steps)
      : steps_(std::move(steps)) {
    const std::vector<OperationId> shown = SourceOperations(region);
    for (PlannedStep& step : steps_) {
      AddChoices(region, shown, step, step.why_not, step.Remark(), &choices_);
      LetPlaceholdersGo(region, &step);
    }
  }

  std::vector<OperationChoice> Operations() const override { return choices_; }
  absl::StatusOr<std::unique_ptr<RegionKernel>> Make(
      const Region& region) const override {
    return std::make_unique<OneDnnRegionKernel>(region, steps_);
  }

 private:
  // A plan may live as long as its network: constants that each kernel is given
  // anew need no memory in it.
  static void LetPlaceholdersGo(const Region& region, PlannedStep* step) {
    const auto inputs = region.network.inputs();
    for (size_t i = 0; i < step->inputs.size(); ++i) {
      const PlannedInput& input = step->inputs[i];
      if (!input.is_kept || std::find(inputs.begin(), inputs.end(),
                                      input.value) == inputs.end()) {
        continue;
      }
      InputOf(&step->call, i).constant = NDArray();
    }
  }

  std::vector<PlannedStep> steps_;
  std::vector<OperationChoice> choices_;
};

class OneDnnMaker : public KernelMaker {
 public:
  std::string_view name() const override { return "oneDNN"; }
  absl::StatusOr<std::unique_ptr<RegionPlan>> Plan(
      const Region& region) const override {
    if (OneDnnOperators().empty()) {
      // One reason for all regions, which reports show once.
      return absl::UnimplementedError(OneDnnSupports({}).why_not);
    }
    NODEWISE_ASSIGN_OR_RETURN(std::vector<PlannedStep> steps,
                              PlanSteps(region));
    return std::make_unique<OneDnnRegionPlan>(region, std::move(steps));
  }
};

}  // namespace

std::shared_ptr<const KernelMaker> OneDnnKernels() {
  return std::make_shared<const OneDnnMaker>();
}

}  // namespace nodewise
