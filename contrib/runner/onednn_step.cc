#include "contrib/runner/onednn_step.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

uint64_t HashOf(const NDArray& tensor) {
  return HashBytes(tensor.data(), tensor.bytes());
}

}  // namespace

OneDnnStep::OneDnnStep(const Region& region, PlannedStep planned)
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

void OneDnnStep::Keep(const Region& region, size_t place, ValueId value) {
  const auto inputs = region.network.inputs();
  const auto found = std::find(inputs.begin(), inputs.end(), value);
  // Constants in the region's own text never change.
  if (found == inputs.end()) return;
  Kept& kept = kept_.emplace_back();
  kept.place = place;
  const auto k = static_cast<size_t>(found - inputs.begin());
  if (k < region.changes.size()) kept.changes = region.changes[k];
  // The memory of a plan's placeholder is not needed any more.
  if (place < planned_.inputs.size()) {
    InputOf(&planned_.call, place).constant = NDArray();
  }
}

// Contents are compared where it is not known that they are unchanged.
bool OneDnnStep::IsCurrent(absl::Span<const NDArray> inputs) {
  if (threads_ != OneDnnThreads::Count()) return false;
  for (Kept& kept : kept_) {
    const TensorChanges* const changes = kept.changes.get();
    const bool is_known = changes != nullptr && !changes->may_be_unseen();
    if (is_known && changes->count == kept.count) continue;
    if (kept.hash != HashOf(inputs[kept.place])) return false;
    if (changes != nullptr) kept.count = changes->count;
  }
  return true;
}

absl::StatusOr<bool> OneDnnStep::Prepare(absl::Span<const NDArray> inputs) {
  if (!IsCurrent(inputs)) NODEWISE_RETURN_IF_ERROR(Make(inputs));
  return kernel_ != nullptr;
}

absl::Status OneDnnStep::Make(absl::Span<const NDArray> inputs) {
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
  auto made = MakeKernel(inputs);
  for (const Kept& kept : kept_) {
    if (kept.place >= planned_.inputs.size()) continue;
    InputOf(&planned_.call, kept.place).constant = NDArray();
  }
  if (!made.ok() && !absl::IsUnimplemented(made.status())) return made.status();
  threads_ = OneDnnThreads::Count();
  const std::lock_guard lock(mutex_);
  if (kernel_ != nullptr) num_evaluated_before_ += kernel_->num_evaluated();
  why_not_ = made.ok() ? "" : std::string(MessageOf(made.status()));
  kernel_ = made.ok() ? *std::move(made) : nullptr;
  return absl::OkStatus();
}

void OneDnnStep::Forget() {
  threads_ = 0;
  const std::lock_guard lock(mutex_);
  if (kernel_ != nullptr) num_evaluated_before_ += kernel_->num_evaluated();
  kernel_ = nullptr;
}

absl::StatusOr<std::unique_ptr<OneDnnKernel>> OneDnnStep::MakeKernel(
    absl::Span<const NDArray> inputs) const {
  NODEWISE_RETURN_IF_ERROR(At(planned_.call.op.def().name, CheckGelus(inputs)));
  return MakeOneDnnKernel(planned_.call);
}

absl::Status OneDnnStep::CheckGelus(absl::Span<const NDArray> inputs) const {
  size_t place = planned_.inputs.size();
  for (const GeluPattern& gelu : planned_.gelus) {
    std::vector<double> numbers;
    for (size_t i = 0; i < gelu.numbers().size(); ++i) {
      numbers.push_back(ToDoubles(inputs[place++])[0]);
    }
    if (gelu.Holds(numbers, 2 * UnitRoundoff(planned_.float_type))) continue;
    return absl::UnimplementedError(
        "looks like one, but with other numbers in it");
  }
  return absl::OkStatus();
}

bool OneDnnStep::IsRewritten() const {
  return !planned_.gelus.empty() || IsHalfFloat(planned_.float_type);
}

absl::StatusOr<bool> OneDnnStep::Run(absl::Span<const NDArray> inputs,
                                     const NDArray& output) {
  const int64_t evaluated_before = kernel_->num_evaluated();
  inputs = inputs.first(planned_.inputs.size());
  if (!IsHalfFloat(planned_.float_type)) {
    NODEWISE_RETURN_IF_ERROR(kernel_->Run(inputs, {&output, 1}));
  } else {
    NODEWISE_RETURN_IF_ERROR(RunWide(inputs, output));
  }
  // The formulas of exporters make NaN of -infinity, which a Gelu does not, and
  // a half type has overflows where a float has none.
  if (IsRewritten() && kernel_->num_evaluated() != evaluated_before) {
    return false;
  }
  if (!IsHalfFloat(output.dtype()) || !HasNaN(output)) return true;
  const std::lock_guard lock(mutex_);
  ++num_nans_;
  return false;
}

absl::Status OneDnnStep::RunWide(absl::Span<const NDArray> inputs,
                                 const NDArray& output) {
  std::vector<NDArray> read(inputs.begin(), inputs.end());
  for (size_t i = 0; i < read.size(); ++i) {
    if (planned_.inputs[i].is_kept) read[i] = NDArray();
  }
  NODEWISE_ASSIGN_OR_RETURN(read, WideInputs(read));
  NODEWISE_ASSIGN_OR_RETURN(const NDArray made, WideOutput(output));
  NODEWISE_RETURN_IF_ERROR(kernel_->Run(read, {&made, 1}));
  if (IsHalfFloat(output.dtype())) Narrow(made, output);
  return absl::OkStatus();
}

std::string OneDnnStep::why_not() const {
  if (!planned_.is_call()) return planned_.why_not;
  const std::lock_guard lock(mutex_);
  return why_not_;
}

std::string OneDnnStep::remark() const {
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

}  // namespace nodewise
