#pragma once

// The primitives of gradients. A backward primitive is made with the forward
// one that it belongs to, which some must have run before.

#include <optional>

#include "absl/status/statusor.h"
#include "contrib/onednn/onednn_api.h"

namespace nodewise::onednn {

struct PlannedBackward {
  dnnl::primitive_desc_base forward;
  dnnl::primitive_desc_base backward;
};

// What reaches the source, and what reaches the weights and the bias.
absl::StatusOr<PlannedBackward> PlanConvSource(const ConvSpec& spec);
absl::StatusOr<PlannedBackward> PlanConvWeights(const ConvSpec& spec);
// The product [M, K] x [N, K] -> [M, N].
absl::StatusOr<PlannedBackward> PlanProductSource(const Desc& source,
                                                  const Desc& weights,
                                                  const Desc& output);
absl::StatusOr<PlannedBackward> PlanProductWeights(const Desc& source,
                                                   const Desc& weights,
                                                   const Desc& output);
absl::StatusOr<PlannedBackward> PlanPoolBackward(const PoolSpec& spec);
absl::StatusOr<PlannedBackward> PlanEltwiseBackward(const PostOp& op,
                                                    const Desc& data);
absl::StatusOr<PlannedBackward> PlanSoftmaxBackward(Algorithm algorithm,
                                                    const Desc& data, int side);
// With scale and shift; the statistics are those of the data, or given.
absl::StatusOr<PlannedBackward> PlanBatchNormBackward(const Desc& data,
                                                      float epsilon,
                                                      bool are_given);
absl::StatusOr<PlannedBackward> PlanLayerNormBackward(const Desc& data,
                                                      float epsilon);
// Whether these ask for the shift, which they do not use, and fail if it is
// given or missing.
bool NormBackwardReadsShift(bool is_batch_norm);
absl::StatusOr<PlannedBackward> PlanLrnBackward(const Desc& data,
                                                const LrnSpec& spec);

}  // namespace nodewise::onednn
