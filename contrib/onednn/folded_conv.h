#pragma once

// A batch normalization that is computed once, with the weights of the
// convolution in front of it, instead of in each run.

#include <optional>
#include <vector>

#include "contrib/onednn/program.h"

namespace nodewise::onednn {

// What a batch normalization behind a product makes of it: (x - mean) factor +
// shift, channel by channel.
struct ChannelRules {
  struct Rule {
    double mean;
    double factor;
    double shift;
  };
  std::vector<Rule> channels;
  double most = 1;  // A bound of what they make of 1.
};

// Whether the call's first post-operation is a batch normalization.
bool HasBatchNorm(const Call& call);
// Reads it. Refuses lists that are not constant, and numbers that are not
// finite.
absl::StatusOr<ChannelRules> ReadBatchNorm(ProgramBuilder& program);

// Returns the weights of a convolution, each rounded once, and its bias, with
// the rules in them. The weights are [out, in / groups, ...], or of a
// transposed one [in, out / groups, ...].
absl::StatusOr<NDArray> FoldedWeights(const NDArray& weights,
                                      const ChannelRules& rules,
                                      std::optional<int64_t> transposed_groups);
std::vector<float> FoldedBias(const NDArray* bias, const ChannelRules& rules);

}  // namespace nodewise::onednn
