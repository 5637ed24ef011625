// Runs in which some layers are of one model and all others of the other one.
//
// Both models run at once, pair by pair in the reference's order, each with
// numbers pinned where the other one has made them. A layer of the target reads
// the tensors of the pairs before it in the target's form, and its result goes
// back in the reference's. What no change reaches is not computed again: the
// numbers of the reference's own run are there.

#include "contrib/two_models/mixed_models.h"

#include <algorithm>
#include <utility>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// How far two tools that round otherwise are apart in a float32, of itself.
constexpr double kRoundings = 1e-6;

bool HaveSameBytes(absl::Span<const NDArray> a, absl::Span<const NDArray> b) {
  return std::ranges::equal(a, b, &HaveOneContent);
}

}  // namespace

// Both models in a run, and at which pairs the numbers differ from those of the
// reference's own run.
struct MixedModels::Mixture {
  RunningModel reference;
  RunningModel target;
  std::vector<bool> is_changed;
  std::optional<uint64_t> seed = std::nullopt;  // To round otherwise.

  absl::StatusOr<std::vector<NDArray>> Rounded(
      const ValuePair& pair, std::vector<NDArray> tensors) const {
    if (!seed.has_value()) return tensors;
    const ValueId id = pair.reference.made;
    return MovedBy(tensors, kRoundings, *seed,
                   reference.side->network().value(id).name);
  }
};

absl::StatusOr<MixedModels::Outputs> OutputsOf(RunningModel* model) {
  MixedModels::Outputs outputs;
  for (const ValueId id : model->side->network().outputs()) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, model->Tensors(id));
    outputs.resize(tensors.size());
    for (size_t set = 0; set < tensors.size(); ++set) {
      outputs[set].push_back(tensors[set]);
    }
  }
  return outputs;
}

MixedModels::MixedModels(const ModelPairing& pairing,
                         const std::vector<std::vector<size_t>>& reads,
                         RunningModel* reference, RunningModel* target)
    : pairing_(pairing),
      reads_(reads),
      reference_(*reference),
      target_(*target) {}

// A layer of the target may read a pair that no other layer has touched. Its
// numbers are the reference's then, in the target's form.
absl::Status MixedModels::PinTarget() {
  if (on_reference_.has_value()) return absl::OkStatus();
  RunningModel pinned = target_;
  for (const ValuePair& pair : pairing_.pairs) {
    NODEWISE_ASSIGN_OR_RETURN(const auto like,
                              target_.Tensors(pair.target.made));
    NODEWISE_ASSIGN_OR_RETURN(const auto read,
                              reference_.Tensors(pair.reference.read));
    NODEWISE_ASSIGN_OR_RETURN(
        auto tensors, InFormOf(WhichModel::kTarget, pair, *reference_.side,
                               *target_.side, read, like));
    pinned.values.Pin(pair.target.made, std::move(tensors));
  }
  on_reference_.emplace(std::move(pinned));
  return absl::OkStatus();
}

// Makes the numbers at a pair anew, and puts them where they are read.
absl::Status MixedModels::Follow(size_t number, bool is_target, bool has_form,
                                 Mixture* mixture) {
  const ValuePair& pair = pairing_.pairs[number];
  const ModelSide& reference_side = *reference_.side;
  const ModelSide& target_side = *target_.side;
  RunningModel& reference = mixture->reference;
  RunningModel& target = mixture->target;
  NODEWISE_ASSIGN_OR_RETURN(const auto own,
                            reference_.Tensors(pair.reference.made));
  if (is_target) {
    target.values.Unpin(pair.target.made);
    if (mixture->seed.has_value()) {
      NODEWISE_ASSIGN_OR_RETURN(auto made, target.Tensors(pair.target.made));
      NODEWISE_ASSIGN_OR_RETURN(made, mixture->Rounded(pair, std::move(made)));
      target.values.Pin(pair.target.made, std::move(made));
    }
  } else if (has_form) {
    // Layers of the target read these numbers in the target's form.
    NODEWISE_ASSIGN_OR_RETURN(const auto form,
                              target_.Tensors(pair.target.made));
    NODEWISE_ASSIGN_OR_RETURN(auto made,
                              reference.Tensors(pair.reference.read));
    NODEWISE_ASSIGN_OR_RETURN(made, mixture->Rounded(pair, std::move(made)));
    NODEWISE_ASSIGN_OR_RETURN(
        auto tensors, InFormOf(WhichModel::kTarget, pair, reference_side,
                               target_side, made, form));
    target.values.Pin(pair.target.made, std::move(tensors));
  }
  if (is_target || (has_form && !has_form_by_reader_)) {
    NODEWISE_ASSIGN_OR_RETURN(const auto read,
                              target.Tensors(pair.target.read));
    NODEWISE_ASSIGN_OR_RETURN(
        auto tensors, InFormOf(WhichModel::kReference, pair, reference_side,
                               target_side, read, own));
    NODEWISE_ASSIGN_OR_RETURN(const auto now,
                              reference.Tensors(pair.reference.made));
    // Where the numbers are as they were, nothing behind them need be made
    // anew.
    if (!HaveSameBytes(now, tensors)) {
      reference.values.Pin(pair.reference.made, std::move(tensors));
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto now,
                            reference.Tensors(pair.reference.made));
  mixture->is_changed[number] = !HaveSameBytes(now, own);
  return absl::OkStatus();
}

absl::StatusOr<MixedModels::Outputs> MixedModels::RunMixed(
    const std::vector<bool>& is_target, std::optional<uint64_t> seed) {
  NODEWISE_RETURN_IF_ERROR(PinTarget());
  const size_t count = pairing_.pairs.size();
  std::vector<bool> has_form = is_target;
  for (size_t i = 0; i < count; ++i) {
    if (!is_target[i]) continue;
    for (const size_t read : reads_[i]) has_form[read] = true;
  }
  Mixture mixture{reference_, *on_reference_, std::vector<bool>(count), seed};
  for (size_t i = 0; i < count; ++i) {
    const bool reads_changed = std::ranges::any_of(
        reads_[i], [&](size_t read) { return mixture.is_changed[read]; });
    if (!is_target[i] && !has_form[i] && !reads_changed) continue;
    // An input is made by neither model.
    const bool is_made = pairing_.pairs[i].way != ValuePair::Way::kInput;
    NODEWISE_RETURN_IF_ERROR(
        Follow(i, is_target[i] && is_made, has_form[i], &mixture));
  }
  return OutputsOf(&mixture.reference);
}

}  // namespace nodewise
