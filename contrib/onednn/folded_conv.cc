#include "contrib/onednn/folded_conv.h"

#include <algorithm>
#include <cmath>

#include "contrib/onednn/rows.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise::onednn {

bool HasBatchNorm(const Call& call) {
  if (call.get().post_ops.empty()) return false;
  const OperatorDef& def = call.get().post_ops[0].op.def();
  return def.domain.empty() && def.name == "BatchNormalization";
}

absl::StatusOr<ChannelRules> ReadBatchNorm(ProgramBuilder& program) {
  const Call& call = program.call();
  NODEWISE_ASSIGN_OR_RETURN(const float epsilon,
                            BatchNormEpsilon(call.get().post_ops[0].op));
  const auto channels = static_cast<size_t>(call.output_sizes()[1]);
  std::vector<double> lists[4];
  for (size_t i = 0; i < 4; ++i) {
    const size_t input = call.first_other(0) + i;
    NODEWISE_ASSIGN_OR_RETURN(const NDArray* const list,
                              call.RequireConstant(input));
    lists[i] = ToDoubles(*list);
    program.SetParameter(input);
    if (lists[i].size() == channels) continue;
    return Refuse(fmt::format("a list has {} elements, expected {}",
                              lists[i].size(), channels));
  }
  const auto& [scale, shift, mean, variance] = lists;
  ChannelRules rules;
  for (size_t c = 0; c < channels; ++c) {
    const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
    rules.channels.push_back({mean[c], factor, shift[c]});
    const double most =
        (1 + std::fabs(mean[c])) * std::fabs(factor) + std::fabs(shift[c]);
    if (!std::isfinite(most)) return Refuse("has numbers that are not finite");
    rules.most = std::max(rules.most, most);
  }
  return rules;
}

absl::StatusOr<NDArray> FoldedWeights(
    const NDArray& weights, const ChannelRules& rules,
    std::optional<int64_t> transposed_groups) {
  NODEWISE_ASSIGN_OR_RETURN(
      NDArray folded, NDArray::Empty(weights.shape(), weights.dtype(), kCpu));
  const int64_t rows = weights.shape()[0];
  const int64_t columns = weights.shape()[1];
  const int64_t run = CountOf(weights) / (rows * columns);
  const auto* from = weights.As<const float>();
  auto* to = folded.As<float>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      int64_t channel = row;
      if (transposed_groups.has_value()) {
        channel = row / (rows / *transposed_groups) * columns + column;
      }
      const double factor = rules.channels[static_cast<size_t>(channel)].factor;
      for (const auto* const end = from + run; from != end;) {
        *to++ = static_cast<float>(*from++ * factor);
      }
    }
  }
  return folded;
}

std::vector<float> FoldedBias(const NDArray* bias, const ChannelRules& rules) {
  std::vector<double> values(rules.channels.size());
  if (bias != nullptr) values = ToDoubles(*bias);
  std::vector<float> folded;
  for (size_t c = 0; c < values.size(); ++c) {
    const auto& [mean, factor, shift] = rules.channels[c];
    folded.push_back(static_cast<float>((values[c] - mean) * factor + shift));
  }
  return folded;
}

}  // namespace nodewise::onednn
