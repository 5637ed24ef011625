#include "nodewise/ops/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/norm_channels.h"
#include "contrib/ops/util/norm_rows.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"

namespace nodewise {
namespace {

absl::Status CheckBatchNorm(const Inputs& in, bool by_channel) {
  NODEWISE_RETURN_IF_ERROR(
      All(RequireFloat(in, 0), RequireRank(in, 0, 1, 1 << 20)));
  for (size_t i = 1; i < 5; ++i) {
    if (by_channel) {
      NODEWISE_RETURN_IF_ERROR(RequireList(in, i, ChannelDim(in.type(0))));
      continue;
    }
    NODEWISE_RETURN_IF_ERROR(RequireFloat(in, i));
    const auto x = in.type(0).sizes();
    const auto list = in.type(i).sizes();
    if (!x.has_value() || !list.has_value()) continue;
    NODEWISE_ASSIGN_OR_RETURN(const int64_t found, NumElements(*list));
    if (found == ChannelsOf(*x) * SpatialOf(*x)) continue;
    return InputError(i, "expected a number for each element of an instance");
  }
  return absl::OkStatus();
}

// Before opset 14, having more than one output means training.
absl::StatusOr<OutputInfos> InferOldBatchNorm(const Inputs& in,
                                              size_t outputs) {
  if (outputs < 2) return LikeInput(in);
  return absl::UnimplementedError(fmt::format(
      "has {} outputs, which means training before opset 14, expected 1 "
      "(export it for inference, or in opset 14 or more)",
      outputs));
}

struct ChannelRule {
  double mean;
  double factor;   // scale / sqrt(var + epsilon)
  double inverse;  // 1 / sqrt(var + epsilon)
  double bias;
};
std::vector<ChannelRule> ChannelRules(const EvalArgs& args, float epsilon) {
  std::vector<double> lists[4];
  for (size_t i = 0; i < 4; ++i) lists[i] = ToDoubles(args.in(i + 1));
  const auto& [scale, bias, mean, variance] = lists;
  std::vector<ChannelRule> rules(scale.size());
  for (size_t c = 0; c < rules.size(); ++c) {
    const double deviation = std::sqrt(variance[c] + epsilon);
    rules[c] = {mean[c], scale[c] / deviation, 1 / deviation, bias[c]};
  }
  return rules;
}

// Kernels may multiply x by the factor and add the rest, so numbers of that
// size are rounded, and may overflow.
void BoundChannel(const std::vector<double>& x, const ChannelRule& rule,
                  DLDataType dtype, size_t first, Bounds* bounds) {
  constexpr double kProved = 8;
  constexpr double kExpected = 4;
  const double u = UnitRoundoff(dtype);
  const double tiny = HalfUlp(dtype, 0);
  const OverflowRule overflows(dtype);
  for (size_t i = 0; i < x.size(); ++i) {
    const double size = std::fabs(x[i] * rule.factor) +
                        std::fabs(rule.mean * rule.factor) +
                        std::fabs(rule.bias);
    const double distance = std::fabs(x[i]) + std::fabs(rule.mean);
    if (overflows(size) || overflows(std::fabs(rule.factor)) ||
        overflows(distance) || overflows(distance * rule.inverse) ||
        !std::isfinite(rule.mean * rule.factor)) {
      bounds->proved[first + i] = std::numeric_limits<double>::infinity();
      bounds->expected[first + i] = bounds->proved[first + i];
      continue;
    }
    // The factor itself, and what it is multiplied by, may be subnormal.
    const double lost = tiny * (4 + distance + std::fabs(rule.factor));
    bounds->proved[first + i] = kProved * u * size + lost;
    bounds->expected[first + i] = kExpected * u * size + lost;
  }
}

absl::Status RunBatchNorm(EvalArgs& args, float epsilon, bool by_channel) {
  const absl::Span<const int64_t> shape = args.shape(0);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, shape, args.dtype(0)));
  const std::vector<ChannelRule> rules = ChannelRules(args, epsilon);
  const int64_t count = CountOf(y);
  if (count == 0) return absl::OkStatus();
  const int64_t run = by_channel ? SpatialOf(shape) : 1;
  const auto channels = static_cast<int64_t>(rules.size());
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.resize(static_cast<size_t>(count));
    bounds->expected.resize(static_cast<size_t>(count));
  }
  const double work = 3 * static_cast<double>(run);
  ParallelFor(count / run, work, [&](int64_t begin, int64_t end) {
    std::vector<double> x(static_cast<size_t>(run));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * run;
      const ChannelRule& rule = rules[static_cast<size_t>(row % channels)];
      LoadDoubles(args.in(0), first, first + run, x.data());
      if (bounds != nullptr) {
        BoundChannel(x, rule, args.dtype(0), static_cast<size_t>(first),
                     bounds);
      }
      for (double& value : x) {
        value = (value - rule.mean) * rule.factor + rule.bias;
      }
      StoreDoubles(x.data(), first, first + run, y);
    }
  });
  return absl::OkStatus();
}

// The value of a statistic after a training step: `input` is its input, `batch`
// the statistic of x.
struct RunningStatistic {
  size_t input;
  const std::vector<double>& batch;
  double RowError::*error;
};

struct BatchNormalization : ops::BatchNormalization {
  static constexpr auto Fields() {
    return FieldList(
        Field<&BatchNormalization::epsilon>("epsilon"),
        Field<&BatchNormalization::momentum>("momentum"),
        Field<&BatchNormalization::training_mode>("training_mode"));
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBatchNorm(in, true);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    if (outputs > 1 && !training_mode) {
      return absl::InvalidArgumentError(fmt::format(
          "has {} outputs, expected 1, since it does not train", outputs));
    }
    OutputInfos infos = LikeInput(in);
    const Dim channels = ChannelDim(in.type(0));
    for (size_t i = 1; i < outputs; ++i) {
      infos.push_back(TensorType(in.type(i + 2).dtype, {channels}));
    }
    return infos;
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return training_mode ? Train(args) : RunBatchNorm(args, epsilon, true);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return (training_mode ? 6 : 2) * CountOf(out[0]);
  }

 private:
  absl::Status Train(EvalArgs& args) const;
  absl::Status Mix(EvalArgs& args, size_t output, const RunningStatistic& of,
                   const RowStatistics& statistics) const;
};

absl::Status BatchNormalization::Train(EvalArgs& args) const {
  const absl::Span<const int64_t> shape = args.shape(0);
  NormRows rule;
  rule.rows = ChannelsOf(shape);
  rule.pieces = shape[0];
  rule.run = shape[0] * SpatialOf(shape);
  rule.epsilon = epsilon;
  rule.period = std::max<int64_t>(rule.rows, 1);
  rule.scale = ToDoubles(args.in(1));
  rule.bias = ToDoubles(args.in(2));
  RowStatistics statistics;
  NODEWISE_RETURN_IF_ERROR(
      NormalizeRows(args, rule, args.dtype(0), &statistics));
  if (rule.run == 0) {  // The mean of no elements is NaN.
    statistics.mean.assign(statistics.mean.size(),
                           std::numeric_limits<double>::quiet_NaN());
    statistics.variance = statistics.mean;
  }
  NODEWISE_RETURN_IF_ERROR(
      Mix(args, 1, {3, statistics.mean, &RowError::mean}, statistics));
  return Mix(args, 2, {4, statistics.variance, &RowError::variance},
             statistics);
}

absl::Status BatchNormalization::Mix(EvalArgs& args, size_t output,
                                     const RunningStatistic& of,
                                     const RowStatistics& statistics) const {
  if (!args.wants(output)) return absl::OkStatus();
  const DLDataType dtype = args.dtype(of.input);
  NODEWISE_ASSIGN_OR_RETURN(
      const NDArray y, args.MakeOutput(output, args.shape(of.input), dtype));
  const std::vector<double> before = ToDoubles(args.in(of.input));
  const double kept = momentum;
  std::vector<double> after(before.size());
  Bounds* const bounds = args.bounds(output);
  if (bounds != nullptr) {
    bounds->proved.resize(after.size());
    bounds->expected.resize(after.size());
  }
  for (size_t c = 0; c < after.size(); ++c) {
    const double old = before[c] * kept;
    const double fresh = of.batch[c] * (1 - kept);
    after[c] = old + fresh;
    if (bounds == nullptr) continue;
    const SumBound sum = BoundSum(dtype, {4, std::fabs(old) + std::fabs(fresh),
                                          old * old + fresh * fresh, after[c]});
    // 1 - momentum is calculated too, and may be rounded.
    const double share = 1.01 * std::fabs(1 - kept) + UnitRoundoff(dtype);
    bounds->proved[c] = sum.proved + share * statistics.proved[c].*of.error;
    const double expected =
        sum.expected + share * statistics.expected[c].*of.error;
    bounds->expected[c] = std::min(expected, bounds->proved[c]);
  }
  StoreDoubles(after.data(), 0, CountOf(y), y);
  return absl::OkStatus();
}

struct BatchNormalization9 : ops::BatchNormalization9 {
  static constexpr auto Fields() {
    return FieldList(Field<&BatchNormalization9::epsilon>("epsilon"),
                     Field<&BatchNormalization9::momentum>("momentum"));
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBatchNorm(in, true);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    return InferOldBatchNorm(in, outputs);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return RunBatchNorm(args, epsilon, true);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 2 * CountOf(out[0]);
  }
};

struct BatchNormalization7 : ops::BatchNormalization7 {
  static constexpr auto Fields() {
    return FieldList(Field<&BatchNormalization7::epsilon>("epsilon"),
                     Field<&BatchNormalization7::momentum>("momentum"),
                     Field<&BatchNormalization7::spatial>("spatial"));
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBatchNorm(in, spatial);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    return InferOldBatchNorm(in, outputs);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return RunBatchNorm(args, epsilon, spatial);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 2 * CountOf(out[0]);
  }
};

struct BatchNormalization1 : ops::BatchNormalization1 {
  static constexpr auto Fields() {
    return FieldList(Field<&BatchNormalization1::epsilon>("epsilon"),
                     Field<&BatchNormalization1::momentum>("momentum"),
                     Field<&BatchNormalization1::spatial>("spatial"),
                     Field<&BatchNormalization1::is_test>("is_test"));
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBatchNorm(in, spatial);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    if (is_test != 0) return InferOldBatchNorm(in, outputs);
    return absl::UnimplementedError(
        "attribute is_test: is 0, which means training, expected 1 (export it "
        "for inference, or in opset 14 or more)");
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return RunBatchNorm(args, epsilon, spatial);
  }
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 2 * CountOf(out[0]);
  }
};

constexpr OperatorDef kBatchNormOperators[] = {
    Row<ops::BatchNormalization1, BatchNormalization1>(
        {.name = "BatchNormalization",
         .inputs = {"X", "scale", "B", "mean", "var"},
         .outputs = {"Y", Optional("mean"), Optional("var"),
                     Optional("saved_mean"), Optional("saved_var")},
         .bound = kSum}),
    Row<ops::BatchNormalization7, BatchNormalization7>(
        {.name = "BatchNormalization",
         .since = 7,
         .inputs = {"X", "scale", "B", "mean", "var"},
         .outputs = {"Y", Optional("mean"), Optional("var"),
                     Optional("saved_mean"), Optional("saved_var")},
         .bound = kSum}),
    Row<ops::BatchNormalization9, BatchNormalization9>(
        {.name = "BatchNormalization",
         .since = 9,
         .inputs = {"X", "scale", "B", "mean", "var"},
         .outputs = {"Y", Optional("mean"), Optional("var"),
                     Optional("saved_mean"), Optional("saved_var")},
         .bound = kSum}),
    Row<ops::BatchNormalization, BatchNormalization>(
        {.name = "BatchNormalization",
         .since = 14,
         .inputs = {"X", "scale", "B", "input_mean", "input_var"},
         .outputs = {"Y", Optional("running_mean"), Optional("running_var")},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> BatchNormOperators() {
  return kBatchNormOperators;
}

}  // namespace nodewise
