#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/regions/half_floats.h"
#include "contrib/regions/onednn_plan.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/regions/built_in_functions.h"
#include "nodewise/runner/reference_kernels.h"
#include "nodewise/support/memory_use.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

uint64_t HashOf(const NDArray& tensor) {
  return HashBytes(tensor.data(), tensor.bytes());
}

// A step of a region and, if oneDNN computes it, the kernel with the constants
// that it was made for. One thread at a time runs it; any thread may ask
// why_not and for a remark.
class OneDnnStep {
 public:
  OneDnnStep(const Region& region, PlannedStep planned)
      : planned_(std::move(planned)) {
    size_t place = 0;
    for (const PlannedInput& input : planned_.inputs) {
      if (input.is_kept) Keep(region, place, input.value);
      ++place;
    }
    for (const GeluPattern& gelu : planned_.gelus) {
      for (const ValueId number : gelu.numbers()) Keep(region, place++, number);
    }
  }

  const PlannedStep& planned() const { return planned_; }

  // Returns false if the step's operations are to be computed by their
  // definitions: oneDNN refuses these constants, which why_not() tells, or the
  // call's own operators or types are others, and not made for the numbers of
  // this run. `inputs` are as OneDnnKernel::Run takes them, and then the
  // numbers of PlannedStep::gelus. REQUIRES: the step is a call.
  absl::StatusOr<bool> Run(absl::Span<const NDArray> inputs,
                           const NDArray& output) {
    NODEWISE_RETURN_IF_ERROR(Prepare(inputs));
    if (kernel_ == nullptr) return false;
    const int64_t evaluated_before = kernel_->num_evaluated();
    inputs = inputs.first(planned_.inputs.size());
    if (!IsHalfFloat(planned_.float_type)) {
      NODEWISE_RETURN_IF_ERROR(kernel_->Run(inputs, {&output, 1}));
    } else {
      NODEWISE_RETURN_IF_ERROR(RunWide(inputs, output));
    }
    // The formulas of exporters make NaN of -infinity, which a Gelu does not,
    // and a half type has overflows where a float has none.
    const bool is_rewritten =
        !planned_.gelus.empty() || IsHalfFloat(planned_.float_type);
    if (is_rewritten && kernel_->num_evaluated() != evaluated_before) {
      return false;
    }
    if (!IsHalfFloat(output.dtype()) || !HasNaN(output)) return true;
    const std::lock_guard lock(mutex_);
    ++num_nans_;
    return false;
  }

  // Lets go all that a next run would be made faster by.
  void Forget() {
    threads_ = 0;
    const std::lock_guard lock(mutex_);
    if (kernel_ != nullptr) num_evaluated_before_ += kernel_->num_evaluated();
    kernel_ = nullptr;
  }

  // Why oneDNN does not compute the step, or not with these constants; "" if it
  // does.
  std::string why_not() const {
    if (!planned_.is_call()) return planned_.why_not;
    const std::lock_guard lock(mutex_);
    return why_not_;
  }

  // A remark about how the step runs that is worth knowing; "" if there is
  // none.
  std::string remark() const {
    const std::lock_guard lock(mutex_);
    const std::string remark = planned_.Remark();
    int64_t evaluated = num_evaluated_before_ + num_nans_;
    if (kernel_ != nullptr) evaluated += kernel_->num_evaluated();
    if (evaluated == 0) return remark;
    return fmt::format(
        "{}{}{} computed by the definitions, since there were NaNs or numbers "
        "beyond the range in which oneDNN is accurate",
        remark, remark.empty() ? "" : "; ",
        CountOf(static_cast<uint64_t>(evaluated), "run"));
  }

 private:
  struct Kept {
    size_t place;                                  // Among the inputs.
    std::shared_ptr<const TensorChanges> changes;  // May be null.
    uint64_t count = 0;
    uint64_t hash = 0;
  };

  void Keep(const Region& region, size_t place, ValueId value) {
    const auto inputs = region.network.inputs();
    const auto found = std::ranges::find(inputs, value);
    // Constants in the region's own text never change.
    if (found == inputs.end()) return;
    Kept& kept = kept_.emplace_back();
    kept.place = place;
    const auto k = static_cast<size_t>(found - inputs.begin());
    if (k < region.changes.size()) kept.changes = region.changes[k];
  }

  // Contents are compared where it is not known that they are unchanged.
  bool IsCurrent(absl::Span<const NDArray> inputs) {
    if (threads_ != OneDnnThreads::Count()) return false;
    for (Kept& kept : kept_) {
      const TensorChanges* const changes = kept.changes.get();
      // An executor counts the changes of a tensor that it makes itself, but
      // cannot see code that writes into its memory.
      const bool is_known = changes != nullptr && !changes->may_be_unseen();
      if (is_known && changes->count == kept.count) continue;
      if (kept.hash != HashOf(inputs[kept.place])) return false;
      if (changes != nullptr) kept.count = changes->count;
    }
    return true;
  }

  absl::Status RunWide(absl::Span<const NDArray> inputs,
                       const NDArray& output) {
    std::vector<NDArray> read(inputs.begin(), inputs.end());
    // The kernel has these already, so that they need not be converted in each
    // run.
    for (size_t i = 0; i < read.size(); ++i) {
      if (planned_.inputs[i].is_kept) read[i] = NDArray();
    }
    NODEWISE_ASSIGN_OR_RETURN(read, WideInputs(read));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray made, WideOutput(output));
    NODEWISE_RETURN_IF_ERROR(kernel_->Run(read, {&made, 1}));
    if (IsHalfFloat(output.dtype())) Narrow(made, output);
    return absl::OkStatus();
  }

  absl::Status CheckGelus(absl::Span<const NDArray> inputs) const {
    size_t place = planned_.inputs.size();
    for (const GeluPattern& gelu : planned_.gelus) {
      std::vector<double> numbers;
      for (size_t i = 0; i < gelu.numbers().size(); ++i) {
        numbers.push_back(ToDoubles(inputs[place++])[0]);
      }
      if (gelu.Holds(numbers, 2 * UnitRoundoff(planned_.float_type))) continue;
      return Unimplemented("looks like one, but with other numbers in it");
    }
    return absl::OkStatus();
  }

  // Makes the kernel that fits the constants and the number of threads as they
  // are now, unless it is there.
  absl::Status Prepare(absl::Span<const NDArray> inputs) {
    if (IsCurrent(inputs)) return absl::OkStatus();
    threads_ = 0;
    for (Kept& kept : kept_) {
      const NDArray& given = inputs[kept.place];
      if (kept.changes != nullptr) kept.count = kept.changes->count;
      kept.hash = HashOf(given);
      if (kept.place >= planned_.inputs.size()) continue;
      OneDnnInput& input = InputOf(&planned_.call, kept.place);
      input.is_given_again = !IsHalfFloat(planned_.float_type);
      if (input.is_given_again) {
        input.constant = NDArray::Borrow(*given, nullptr);
      } else if (IsHalfFloat(given.dtype())) {
        NODEWISE_ASSIGN_OR_RETURN(input.constant, WideCopy(given));
      } else {
        NODEWISE_ASSIGN_OR_RETURN(input.constant, given.CopyToHost());
      }
    }
    // The call has the constants for as long as the kernel is made; holding
    // them longer would keep a second copy of all weights.
    const absl::Status gelus =
        At(planned_.call.op.def().name, CheckGelus(inputs));
    auto made = gelus.ok() ? MakeOneDnnKernel(planned_.call) : gelus;
    for (const Kept& kept : kept_) {
      if (kept.place >= planned_.inputs.size()) continue;
      InputOf(&planned_.call, kept.place).constant = NDArray();
    }
    // A refusal is an answer for these constants, and the step is computed by
    // its definitions from now on. Any other error ends the run.
    const absl::Status status = made.status();
    if (!status.ok() && !absl::IsUnimplemented(status)) return status;
    threads_ = OneDnnThreads::Count();
    const std::lock_guard lock(mutex_);
    if (kernel_ != nullptr) num_evaluated_before_ += kernel_->num_evaluated();
    why_not_ = MessageOf(status);
    kernel_ = made.ok() ? *std::move(made) : nullptr;
    return absl::OkStatus();
  }

  PlannedStep planned_;
  std::vector<Kept> kept_;
  int threads_ = 0;           // 0: nothing has been made.
  mutable std::mutex mutex_;  // Guards what follows against who asks.
  std::unique_ptr<OneDnnKernel> kernel_;
  std::string why_not_;
  int64_t num_evaluated_before_ = 0;  // By kernels that are gone.
  int64_t num_nans_ = 0;              // Runs computed again for a NaN.
};

// Adds what computes the operations of a step. `why_not` and `remark` are
// those of the plan, or what runs have found since.
void AddChoices(const Region& region, const std::vector<OperationId>& shown,
                const PlannedStep& step, const std::string& why_not,
                const std::string& remark,
                std::vector<OperationChoice>* choices) {
  for (const OperationId id : step.operations) {
    if (std::ranges::find(shown, id) == shown.end()) continue;
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
      // As long as all steps are plain, any of them can be computed by its
      // definition and the others stay as they are.
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
    // Also behind an error: the next node may need the memory.
    if (LowMemoryScope::IsWanted()) Forget();
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
    // Outputs are where their values are from the start, so that calls write
    // into them without a copy.
    Values values = InitialValues(inputs, outputs);
    for (const auto& step : steps_) {
      NODEWISE_ASSIGN_OR_RETURN(const bool is_done,
                                RunCall(step.get(), values));
      if (is_done) continue;
      if (!is_plain_) {
        // Definitions know nothing of layouts, so they begin at the beginning.
        values = InitialValues(inputs, outputs);
        NODEWISE_RETURN_IF_ERROR(Evaluate(network().order(), outputs, &values));
        break;
      }
      NODEWISE_RETURN_IF_ERROR(
          Evaluate(step->planned().operations, outputs, &values));
    }
    return CopyOthers(values, outputs);
  }

  Values InitialValues(absl::Span<const NDArray> inputs,
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
    return step->Run(inputs, values[Index(step->planned().result)]);
  }

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
      // A value may be an output several times over.
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
      // It was made in place.
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
      DropPlaceholders(region, &step);
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
  static void DropPlaceholders(const Region& region, PlannedStep* step) {
    const auto inputs = region.network.inputs();
    for (size_t i = 0; i < step->inputs.size(); ++i) {
      const PlannedInput& input = step->inputs[i];
      if (!input.is_kept ||
          std::ranges::find(inputs, input.value) == inputs.end()) {
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
