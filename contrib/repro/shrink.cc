#include "nodewise/repro/shrink.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "contrib/repro/node_trial.h"
#include "contrib/repro/same_failure.h"
#include "contrib/repro/simple_tensors.h"
#include "contrib/repro/smaller_shapes.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class Shrinker {
 public:
  Shrinker(const ShrinkOptions& options, ReproCase* node_case)
      : most_runs_(std::min(AffordedRuns(options, *node_case),
                            AffordedHangs(options, *node_case))),
        original_(*node_case),
        case_(*node_case),
        kind_(node_case->failure.has_value() ? FailureKind()
                                             : KindOf(*node_case)) {}

  absl::Status Run() {
    NODEWISE_RETURN_IF_ERROR(Bind());
    if (!Try(TensorsOf(case_.inputs))) return GiveUp();
    // Half of the runs are left for the values.
    if (CanBeResized(case_)) ShrinkShapes(most_runs_ / 2);
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      if (MayChange(i)) ShrinkValues(i, runs_ + runs_left() / 2 + 1);
    }
    if (!Try(TensorsOf(case_.inputs), kEvenIfNoRunsAreLeft)) return GiveUp();
    case_.shrink_runs = runs_;
    return absl::OkStatus();
  }

 private:
  static constexpr bool kEvenIfNoRunsAreLeft = true;

  uint64_t runs_left() const {
    return runs_ < most_runs_ ? most_runs_ - runs_ : 0;
  }

  bool MayChange(size_t input) const {
    return !case_.inputs[input].is_param && !case_.region->is_constant[input];
  }

  absl::Status Bind() {
    NODEWISE_ASSIGN_OR_RETURN(trial_, NodeTrial::Create(case_));
    return absl::OkStatus();
  }

  absl::Status GiveUp() {
    case_ = original_;
    case_.shrink_runs = runs_;
    return absl::OkStatus();
  }

  // Inputs that cannot be run do not show the same failure.
  bool Try(const std::vector<NDArray>& inputs, bool always = false) {
    if (runs_left() == 0 && !always) return false;
    ++runs_;
    auto outputs = trial_->Run(inputs);
    if (!outputs.ok() || !ShowsWith(inputs, *outputs)) return false;
    case_.outputs = *std::move(outputs);
    return true;
  }

  bool ShowsWith(const std::vector<NDArray>& inputs,
                 const std::vector<ReproOutput>& outputs) const {
    if (!case_.failure.has_value()) return Shows(outputs, kind_);
    return FailsAsBefore(case_, inputs).value_or(false);
  }

  bool TryInput(size_t index, absl::StatusOr<NDArray> tensor) {
    if (!tensor.ok()) return false;
    std::vector<NDArray> inputs = TensorsOf(case_.inputs);
    inputs[index] = *tensor;
    if (!Try(inputs)) return false;
    ReproInput& input = case_.inputs[index];
    if (!input.original.defined()) input.original = input.tensor;
    input.tensor = *std::move(tensor);
    return true;
  }

  void ShrinkValues(size_t index, uint64_t most_runs) {
    const NDArray& tensor = case_.inputs[index].tensor;
    auto elements = NonZeroElements(tensor);
    if (!elements.ok() || elements->empty()) return;
    if (TryInput(index, FilledLike(tensor, 0))) return;
    const bool are_ones = TryInput(index, FilledLike(tensor, 1));
    if (are_ones) elements = NonZeroElements(tensor);
    DropElements(index, most_runs, *std::move(elements));
    if (are_ones || TryInput(index, WithOnes(tensor))) return;
    TryInput(index, WithSmallIntegers(tensor));
  }

  // Zeros halves of what is left, then quarters, and so on: each time that a
  // part may go, it goes.
  void DropElements(size_t index, uint64_t most_runs,
                    std::vector<uint64_t> left) {
    size_t parts = 2;
    while (left.size() > 1 && parts <= 2 * left.size() && runs_ < most_runs) {
      const size_t size = (left.size() + parts - 1) / parts;
      bool has_dropped = false;
      for (size_t begin = 0; begin < left.size() && runs_ < most_runs;) {
        const size_t end = std::min(begin + size, left.size());
        const auto part = absl::MakeConstSpan(left).subspan(begin, end - begin);
        const NDArray& tensor = case_.inputs[index].tensor;
        if (part.size() < left.size() &&
            TryInput(index, WithZerosAt(tensor, part))) {
          left.erase(left.begin() + static_cast<ptrdiff_t>(begin),
                     left.begin() + static_cast<ptrdiff_t>(end));
          has_dropped = true;
        } else {
          begin = end;
        }
      }
      if (!has_dropped || size == 1) parts *= 2;
    }
  }

  std::vector<std::vector<int64_t>> Shapes() const {
    std::vector<std::vector<int64_t>> shapes;
    for (const ReproInput& input : case_.inputs) {
      const absl::Span<const int64_t> shape = input.tensor.shape();
      shapes.emplace_back(shape.begin(), shape.end());
    }
    return shapes;
  }

  // First what all inputs have in common, such as the batch, then each input's
  // sides for themselves.
  void ShrinkShapes(uint64_t most_runs) {
    for (size_t side = 0; side < static_cast<size_t>(kMostDims); ++side) {
      int64_t size = 0;
      bool is_any = false;
      for (size_t i = 0; i < case_.inputs.size(); ++i) {
        const absl::Span<const int64_t> shape = case_.inputs[i].tensor.shape();
        if (!MayChange(i) || side >= shape.size()) continue;
        is_any = true;
        size = std::max(size, shape[side]);
      }
      if (!is_any) break;
      ShrinkSide(side, size, most_runs, std::nullopt);
    }
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      if (!MayChange(i)) continue;
      const size_t rank = case_.inputs[i].tensor.shape().size();
      for (size_t side = 0; side < rank; ++side) {
        ShrinkSide(side, case_.inputs[i].tensor.shape()[side], most_runs, i);
      }
    }
  }

  // To 1, or else by halves as long as that works.
  void ShrinkSide(size_t side, int64_t size, uint64_t most_runs,
                  std::optional<size_t> input) {
    if (size <= 1 || TrySide(side, size, 1, most_runs, input)) return;
    while (size > 2 && TrySide(side, size, size / 2, most_runs, input)) {
      size /= 2;
    }
  }

  // Shortens that side of one input, or of all that have this size there.
  bool TrySide(size_t side, int64_t from, int64_t to, uint64_t most_runs,
               std::optional<size_t> input) {
    if (runs_ >= most_runs) return false;
    std::vector<std::vector<int64_t>> shapes = Shapes();
    for (size_t i = 0; i < shapes.size(); ++i) {
      const bool is_meant = MayChange(i) && input.value_or(i) == i &&
                            side < shapes[i].size() && shapes[i][side] == from;
      if (is_meant) shapes[i][side] = to;
    }
    auto resized = Resized(case_, shapes);
    if (!resized.ok()) return false;
    ReproCase larger = std::exchange(case_, *std::move(resized));
    auto larger_trial = std::move(trial_);
    if (Bind().ok() && Try(TensorsOf(case_.inputs))) return true;
    case_ = std::move(larger);
    trial_ = std::move(larger_trial);
    return false;
  }

  const uint64_t most_runs_;
  const ReproCase original_;
  ReproCase& case_;
  const FailureKind kind_;
  std::unique_ptr<NodeTrial> trial_;  // Runs the node of `case_`.
  uint64_t runs_ = 0;
};

}  // namespace

absl::Status ShrinkCase(const ShrinkOptions& options, ReproCase* node_case) {
  if (options.most_runs == 0 || !node_case->region.has_value()) {
    return absl::OkStatus();
  }
  if (node_case->failure.has_value()) {
    // Two runs are for the beginning and the end.
    const bool can_be_tried = node_case->fails_alone.value_or(false) &&
                              AffordedHangs(options, *node_case) > 2;
    if (!can_be_tried) return absl::OkStatus();
  } else if (!node_case->may_run || node_case->FindWrong() == nullptr) {
    return absl::OkStatus();
  }
  return Shrinker(options, node_case).Run();
}

}  // namespace nodewise
