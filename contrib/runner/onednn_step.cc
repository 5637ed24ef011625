#include "contrib/runner/onednn_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

bool HaveSameBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

}  // namespace

OneDnnStep::OneDnnStep(const Region& region, PlannedStep planned)
    : planned_(std::move(planned)) {
  const auto inputs = region.network.inputs();
  for (size_t i = 0; i < planned_.inputs.size(); ++i) {
    const PlannedInput& input = planned_.inputs[i];
    const auto found = std::find(inputs.begin(), inputs.end(), input.value);
    // Constants in the region's own text never change.
    if (!input.is_kept || found == inputs.end()) continue;
    Kept& kept = kept_.emplace_back();
    kept.place = i;
    const auto k = static_cast<size_t>(found - inputs.begin());
    if (k < region.changes.size()) kept.changes = region.changes[k];
    // The memory of a plan's placeholder is not needed any more.
    InputOf(&planned_.call, i).constant = NDArray();
  }
}

// Bytes are compared where nobody can say that they are as they were.
bool OneDnnStep::IsCurrent(absl::Span<const NDArray> inputs) {
  if (threads_ != OneDnnThreads::Count()) return false;
  for (Kept& kept : kept_) {
    const TensorChanges* const changes = kept.changes.get();
    const bool is_known = changes != nullptr && !changes->may_be_unseen();
    if (is_known && changes->count == kept.count) continue;
    if (!HaveSameBytes(kept.copy, inputs[kept.place])) return false;
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
    if (kept.changes != nullptr) kept.count = kept.changes->count;
    NODEWISE_ASSIGN_OR_RETURN(kept.copy, inputs[kept.place].CopyToHost());
    InputOf(&planned_.call, kept.place).constant = kept.copy;
  }
  auto made = MakeOneDnnKernel(planned_.call);
  if (!made.ok() && !absl::IsUnimplemented(made.status())) return made.status();
  threads_ = OneDnnThreads::Count();
  const std::lock_guard lock(mutex_);
  if (kernel_ != nullptr) num_evaluated_before_ += kernel_->num_evaluated();
  why_not_ = made.ok() ? "" : std::string(MessageOf(made.status()));
  kernel_ = made.ok() ? *std::move(made) : nullptr;
  return absl::OkStatus();
}

absl::Status OneDnnStep::Run(absl::Span<const NDArray> inputs,
                             const NDArray& output) {
  return kernel_->Run(inputs, {&output, 1});
}

absl::Status OneDnnStep::Evaluate(absl::Span<const NDArray> inputs,
                                  const NDArray& output) const {
  return EvaluateOneDnnCall(planned_.call, inputs, output);
}

std::string OneDnnStep::why_not() const {
  if (!planned_.is_call()) return planned_.why_not;
  const std::lock_guard lock(mutex_);
  return why_not_;
}

std::string OneDnnStep::remark() const {
  const std::lock_guard lock(mutex_);
  std::string remark = planned_.penalty;
  int64_t evaluated = num_evaluated_before_;
  if (kernel_ != nullptr) evaluated += kernel_->num_evaluated();
  if (evaluated == 0) return remark;
  return fmt::format(
      "{}{}{} computed by the definitions, since there were NaNs or numbers "
      "beyond the range in which oneDNN is accurate",
      remark, remark.empty() ? "" : "; ",
      CountOf(static_cast<uint64_t>(evaluated), "run"));
}

}  // namespace nodewise
