#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "contrib/two_models/model_side.h"
#include "nodewise/two_models/compare_models.h"

namespace nodewise {

// Runs the network with layers of one model and all others of the other one.
//
// A tensor has the target's form, such as 8 bits, as soon as the layer that
// makes it or one that reads it is the target's, and then for all that read it:
// so the tools do it that make such models. Only where operators take integers
// themselves (QLinearConv) is a float put into integers for its reader alone.
class MixedModels {
 public:
  // Outputs in the reference's form, by set and then by output.
  using Outputs = std::vector<std::vector<NDArray>>;

  // `reads` are the pairs that each pair's layer reads. Both models have been
  // given the same inputs, and nothing else is pinned in them. All outlives
  // this.
  MixedModels(const ModelPairing& pairing,
              const std::vector<std::vector<size_t>>& reads,
              RunningModel* reference, RunningModel* target);

  // Runs with the target's layers where `is_target` says so, by pair. With a
  // seed, as by tools that round otherwise: floats change in their last bits
  // before they become coarse, by chance, and some take another step then.
  absl::StatusOr<Outputs> RunMixed(const std::vector<bool>& is_target,
                                   std::optional<uint64_t> seed = std::nullopt);

 private:
  struct Mixture;

  absl::Status PinTarget();
  absl::Status Follow(size_t number, bool is_target, bool has_form,
                      Mixture* mixture);

  const ModelPairing& pairing_;
  const std::vector<std::vector<size_t>>& reads_;
  RunningModel& reference_;
  RunningModel& target_;
  // Whether a tensor is put into the target's form for each reader.
  const bool has_form_by_reader_ = target_.side->takes_integers();
  // The target with the reference's numbers at every pair, once it was needed.
  std::optional<RunningModel> on_reference_;
};

// Returns the outputs of the model in their order, by set.
absl::StatusOr<MixedModels::Outputs> OutputsOf(RunningModel* model);

}  // namespace nodewise
