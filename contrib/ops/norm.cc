#include "nodewise/ops/norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/field_lists.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/norm_rows.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

// Most operators here bring rows to a mean of 0 and a variance of 1
// (norm_rows.h) and differ in what a row is: a channel of one image, a group of
// channels, or, where BatchNormalization trains, a channel of all images. With
// statistics that are given BatchNormalization is a factor and a summand for
// each channel. Channels are side 1 of the input.

// In a list each element is an item of one channel.
int64_t ChannelsOf(absl::Span<const int64_t> shape) {
  return shape.size() < 2 ? 1 : shape[1];
}
int64_t SpatialOf(absl::Span<const int64_t> shape) {
  return shape.size() < 2 ? 1 : Product(shape.subspan(2));
}
Dim ChannelDim(const TensorType& type) {
  if (!type.has_rank()) return Dim();
  return type.rank() < 2 ? Dim(1) : (*type.shape)[1];
}

// Lists are checked against the channels as far as both are known; the
// evaluation relies on it.
absl::Status RequireList(const Inputs& in, size_t i, const Dim& count) {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, i), RequireRank(in, i, 1)));
  const Dim found = SideOf(in, i, 0);
  if (!found.is_known() || !count.is_known() || found == count) {
    return absl::OkStatus();
  }
  return WrongInput(i, "has {} numbers, expected {}", found.size(),
                    count.size());
}

// A row is a channel of one image: its elements are neighbours, and scale and
// bias repeat from image to image.
struct InstanceNorm : NormRules<ops::InstanceNormalization, 6> {
  static constexpr auto Fields() {
    return FieldList(Field<&InstanceNorm::epsilon>("epsilon"));
  }
  absl::Status Check(const Inputs& in) const {
    const Dim channels = ChannelDim(in.type(0));
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20),
               RequireList(in, 1, channels), RequireList(in, 2, channels));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(0);
    NormRows rule;
    rule.rows = shape[0] * shape[1];
    rule.run = SpatialOf(shape);
    rule.epsilon = epsilon;
    rule.period = std::max<int64_t>(shape[1], 1);
    rule.scale = ToDoubles(args.in(1));
    rule.bias = ToDoubles(args.in(2));
    return NormalizeRows(args, rule, args.dtype(0));
  }
};

// A row is a group of channels of one image. Up to opset 20 a group had one
// scale and one bias, since then each of its channels has its own, which makes
// the channels the parts of a row.
template <typename Class>
struct GroupNorm : NormRules<Class, 6> {
  using Class::epsilon;
  using Class::num_groups;
  static constexpr bool kByChannel =
      std::is_same_v<Class, ops::GroupNormalization>;

  static constexpr auto Fields() {
    if constexpr (kByChannel) {
      return FieldList(Field<&Class::epsilon>("epsilon"),
                       RequiredField<&Class::num_groups>("num_groups"),
                       Field<&Class::stash_type>("stash_type"));
    } else {
      return FieldList(Field<&Class::epsilon>("epsilon"),
                       RequiredField<&Class::num_groups>("num_groups"));
    }
  }
  absl::Status Check(const Inputs& in) const {
    if (num_groups < 1) {
      return WrongAttribute("num_groups", "is {}, expected at least 1",
                            num_groups.get());
    }
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20)));
    const Dim channels = ChannelDim(in.type(0));
    if (channels.is_known() && channels.size() % num_groups != 0) {
      return WrongInput(0,
                        "has {} channels, expected a multiple of the {} groups",
                        channels.size(), num_groups.get());
    }
    const Dim count = kByChannel ? channels : Dim(num_groups.get());
    return All(RequireList(in, 1, count), RequireList(in, 2, count));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(0);
    const int64_t channels = shape[1] / num_groups;
    NormRows rule;
    // In an empty input nothing is to be normalized, though it may have images.
    rule.rows = CountOf(args.in(0)) == 0 ? 0 : shape[0] * num_groups;
    rule.run = channels * SpatialOf(shape);
    rule.epsilon = epsilon;
    rule.parts = kByChannel ? channels : 1;
    rule.period = num_groups;
    rule.scale = ToDoubles(args.in(1));
    rule.bias = ToDoubles(args.in(2));
    if constexpr (kByChannel) rule.stash_type = StashType(this->stash_type);
    return NormalizeRows(args, rule, args.dtype(0));
  }
};

// Channels are worked on as whole planes: the sum of squares of neighbouring
// channels is a plane as well, and the inner loops run along it.
struct LocalResponseNorm : NormRules<ops::LRN, 4> {
  static constexpr auto Fields() {
    return FieldList(Field<&LocalResponseNorm::alpha>("alpha"),
                     Field<&LocalResponseNorm::beta>("beta"),
                     Field<&LocalResponseNorm::bias>("bias"),
                     RequiredField<&LocalResponseNorm::size>("size"));
  }
  absl::Status Check(const Inputs& in) const {
    if (size < 1) {
      return WrongAttribute("size", "is {}, expected 1 or more", size.get());
    }
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, shape, args.dtype(0)));
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    if (CountOf(y) == 0) return absl::OkStatus();
    const int64_t run = Product(shape.subspan(2));
    const auto instance = static_cast<double>(shape[1] * run);
    ParallelFor(shape[0], 30 * instance, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        RunInstance(args.in(0), n, shape[1], run, y, bounds);
      }
    });
    return absl::OkStatus();
  }

 private:
  // Elements that leave the window are not subtracted from the sum, which is
  // calculated anew for each channel, so that no error stays.
  void RunInstance(const NDArray& x, int64_t n, int64_t channels, int64_t run,
                   const NDArray& y, Bounds* bounds) const {
    const auto count = static_cast<size_t>(channels * run);
    std::vector<double> values(count);
    std::vector<double> sums(static_cast<size_t>(run));
    std::vector<double> results(static_cast<size_t>(run));
    const int64_t begin = n * channels * run;
    LoadDoubles(x, begin, begin + channels * run, values.data());
    // A window larger than all channels reaches all of them, so it is cut
    // before sums with it could overflow.
    const int64_t before = (std::min(size.get(), 2 * channels) - 1) / 2;
    const int64_t behind = std::min(size.get(), 2 * channels) - 1 - before;
    for (int64_t c = 0; c < channels; ++c) {
      std::fill(sums.begin(), sums.end(), 0);
      const int64_t first = std::max<int64_t>(c - before, 0);
      const int64_t last = std::min(c + behind, channels - 1);
      for (int64_t k = first; k <= last; ++k) {
        const double* const row = values.data() + k * run;
        for (int64_t i = 0; i < run; ++i) {
          sums[static_cast<size_t>(i)] += row[i] * row[i];
        }
      }
      const double* const row = values.data() + c * run;
      for (size_t i = 0; i < results.size(); ++i) {
        const double base =
            bias + alpha / static_cast<double>(size.get()) * sums[i];
        results[i] = row[i] / std::pow(base, beta);
      }
      const int64_t at = begin + c * run;
      StoreDoubles(results.data(), at, at + run, y);
      if (bounds != nullptr) FillBounds(results, sums, at, y.dtype(), bounds);
    }
  }
  // The relative error of the base is carried through the power, whose
  // derivative multiplies it by beta.
  void FillBounds(const std::vector<double>& results,
                  const std::vector<double>& sums, int64_t at, DLDataType dtype,
                  Bounds* bounds) const {
    // All terms have one sign unless alpha or bias is negative. Room for the
    // error of the power itself, which each kernel calculates in its own way.
    constexpr double kFunctionRoundings = 24;
    const auto terms = static_cast<double>(size.get());
    const double u =
        alpha >= 0 && bias >= 0 ? UnitRoundoff(dtype) : kUnknownError;
    const double power = std::fabs(beta);
    const OverflowRule overflows(dtype);
    const double alone = std::max(1.0, std::fabs(double{alpha}));
    for (size_t i = 0; i < results.size(); ++i) {
      const size_t out = static_cast<size_t>(at) + i;
      if (overflows(alone * sums[i])) {
        SumBound{kAnyError, kAnyError}.SetAt(out, bounds);
        continue;
      }
      const double y = 1.01 * u * std::fabs(results[i]);
      const double rounding = 2 * HalfUlp(dtype, results[i]);
      bounds->proved[out] =
          y * (power * (terms + 6) + kFunctionRoundings) + rounding;
      bounds->expected[out] =
          y * (power *
                   (std::min(terms, kExpectedFactor * std::sqrt(terms)) + 6) +
               kFunctionRoundings) +
          rounding;
    }
  }
};

// A rank of 1 is one channel. Below opset 9 the statistics may be those of each
// element instead, in any shape that has as many numbers.
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

// BatchNormalization without training is y = (x - mean) * factor + bias.
struct ChannelRule {
  double mean;
  double factor;   // scale / sqrt(var + epsilon)
  double inverse;  // 1 / sqrt(var + epsilon)
  double bias;
};
// The order of the lists is that of the inputs from 1 on.
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
// size are rounded, and may overflow. The rest is bias - mean * factor, in
// which both parts may be far larger than the result.
void BoundChannel(const std::vector<double>& x, const ChannelRule& rule,
                  DLDataType dtype, size_t first, Bounds* bounds) {
  // Each of the constants of a channel is rounded, the root and the quotient
  // too, and so are the steps from x to y.
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
      SumBound{kAnyError, kAnyError}.SetAt(first + i, bounds);
      continue;
    }
    // The factor itself, and what it is multiplied by, may be subnormal.
    const double lost = tiny * (4 + distance + std::fabs(rule.factor));
    SumBound{kProved * u * size + lost, kExpected * u * size + lost}.SetAt(
        first + i, bounds);
  }
}

// Rows of one channel are contiguous, so each is loaded, calculated and stored
// as a whole.
absl::Status RunBatchNorm(EvalArgs& args, float epsilon, bool by_channel) {
  const absl::Span<const int64_t> shape = args.shape(0);
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, shape, args.dtype(0)));
  const std::vector<ChannelRule> rules = ChannelRules(args, epsilon);
  const int64_t count = CountOf(y);
  if (count == 0) return absl::OkStatus();
  const int64_t run = by_channel ? SpatialOf(shape) : 1;
  const auto channels = static_cast<int64_t>(rules.size());
  Bounds* const bounds = SizedBounds(args, 0, count);
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
// the statistic of x. A statistic of the batch is mixed into the one that the
// network carries along: old * momentum + new * (1 - momentum).
struct RunningStatistic {
  size_t input;
  const std::vector<double>& batch;
  double RowError::*error;
};

// In training a row is a channel of all images, which lies in as many pieces as
// there are images. The statistics are an input without training and an output
// with it.
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
      return InvalidArgument(
          "has {} outputs, expected 1, since it does not train", outputs);
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
  absl::Status Train(EvalArgs& args) const {
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
  // The bound joins that of a sum of two products, each of a rounded factor,
  // with the error of the new statistic.
  absl::Status Mix(EvalArgs& args, size_t output, const RunningStatistic& of,
                   const RowStatistics& statistics) const {
    if (!args.wants(output)) return absl::OkStatus();
    const DLDataType dtype = args.dtype(of.input);
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray y, args.MakeOutput(output, args.shape(of.input), dtype));
    const std::vector<double> before = ToDoubles(args.in(of.input));
    const double kept = momentum;
    std::vector<double> after(before.size());
    Bounds* const bounds = SizedBounds(args, output, CountOf(y));
    for (size_t c = 0; c < after.size(); ++c) {
      const double old = before[c] * kept;
      const double fresh = of.batch[c] * (1 - kept);
      after[c] = old + fresh;
      if (bounds == nullptr) continue;
      const SumBound sum =
          BoundSum(dtype, {4, std::fabs(old) + std::fabs(fresh),
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
};

// Before opset 14 nothing is trained here; `Class` is the public class of one
// version.
template <typename Class>
struct OldBatchNorm : NormRules<Class, 2> {
  static constexpr auto Fields() {
    const auto fields = FieldList(Field<&Class::epsilon>("epsilon"),
                                  Field<&Class::momentum>("momentum"));
    if constexpr (requires { &Class::is_test; }) {
      return JoinedFields(fields, FieldList(Field<&Class::spatial>("spatial"),
                                            Field<&Class::is_test>("is_test")));
    } else if constexpr (requires { &Class::spatial; }) {
      return JoinedFields(fields, FieldList(Field<&Class::spatial>("spatial")));
    } else {
      return fields;
    }
  }
  absl::Status Check(const Inputs& in) const {
    return CheckBatchNorm(in, by_channel());
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in, size_t outputs) const {
    if constexpr (requires { &Class::is_test; }) {
      if (this->is_test == 0) {
        return Unimplemented(
            "attribute is_test: is 0, which means training, expected 1 (export "
            "it for inference, or in opset 14 or more)");
      }
    }
    if (outputs < 2) return LikeInput(in);
    return Unimplemented(
        "has {} outputs, which means training before opset 14, expected 1 "
        "(export it for inference, or in opset 14 or more)",
        outputs);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return RunBatchNorm(args, this->epsilon, by_channel());
  }

 private:
  bool by_channel() const {
    if constexpr (requires { &Class::spatial; }) {
      return this->spatial;
    } else {
      return true;
    }
  }
};

template <typename Class>
constexpr OperatorDef OldBatchNormRow(int since) {
  return Row<Class, OldBatchNorm<Class>>(
      "BatchNormalization", since, {"X", "scale", "B", "mean", "var"},
      {"Y", Optional("mean"), Optional("var"), Optional("saved_mean"),
       Optional("saved_var")},
      kSum, kElementwise);
}

constexpr OperatorDef kNormOperators[] = {
    Row<ops::InstanceNormalization, InstanceNorm>(
        "InstanceNormalization", 1, {"input", "scale", "B"}, {"output"}, kSum),
    Row<ops::GroupNormalization18, GroupNorm<ops::GroupNormalization18>>(
        "GroupNormalization", 18, {"X", "scale", "bias"}, {"Y"}, kSum),
    Row<ops::GroupNormalization, GroupNorm<ops::GroupNormalization>>(
        "GroupNormalization", 21, {"X", "scale", "bias"}, {"Y"}, kSum),
    Row<ops::LRN, LocalResponseNorm>("LRN", 1, {"X"}, {"Y"}, kSum),
    OldBatchNormRow<ops::BatchNormalization1>(1),
    OldBatchNormRow<ops::BatchNormalization7>(7),
    OldBatchNormRow<ops::BatchNormalization9>(9),
    Row<ops::BatchNormalization, BatchNormalization>(
        "BatchNormalization", 14,
        {"X", "scale", "B", "input_mean", "input_var"},
        {"Y", Optional("running_mean"), Optional("running_var")}, kSum,
        kElementwise),
};

}  // namespace

absl::Span<const OperatorDef> NormOperators() { return kNormOperators; }

}  // namespace nodewise
