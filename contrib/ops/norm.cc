#include "nodewise/ops/norm.h"

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/norm_channels.h"
#include "contrib/ops/util/norm_rows.h"
#include "contrib/ops/util/sum_bounds.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

struct InstanceNorm : ops::InstanceNormalization {
  static constexpr auto Fields() {
    return FieldList(Field<&InstanceNorm::epsilon>("epsilon"));
  }
  absl::Status Check(const Inputs& in) const {
    const Dim channels = ChannelDim(in.type(0));
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20),
               RequireList(in, 1, channels), RequireList(in, 2, channels));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
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
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 6 * CountOf(out[0]);
  }
};

template <typename Class>
struct GroupNorm : Class {
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
      return AttributeError(
          "num_groups",
          fmt::format("is {}, expected at least 1", num_groups.get()));
    }
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20)));
    const Dim channels = ChannelDim(in.type(0));
    if (channels.is_known() && channels.size() % num_groups != 0) {
      return InputError(
          0, fmt::format("has {} channels, expected a multiple of the {} "
                         "groups",
                         channels.size(), num_groups.get()));
    }
    const Dim count = kByChannel ? channels : Dim(num_groups.get());
    return All(RequireList(in, 1, count), RequireList(in, 2, count));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(0);
    const int64_t channels = shape[1] / num_groups;
    NormRows rule;
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
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 6 * CountOf(out[0]);
  }
};

struct LocalResponseNorm : ops::LRN {
  static constexpr auto Fields() {
    return FieldList(Field<&LocalResponseNorm::alpha>("alpha"),
                     Field<&LocalResponseNorm::beta>("beta"),
                     Field<&LocalResponseNorm::bias>("bias"),
                     RequiredField<&LocalResponseNorm::size>("size"));
  }
  absl::Status Check(const Inputs& in) const {
    if (size < 1) {
      return AttributeError(
          "size", fmt::format("is {}, expected 1 or more", size.get()));
    }
    return All(RequireFloat(in, 0), RequireRank(in, 0, 2, 1 << 20));
  }
  OutputInfos Infer(const Inputs& in) const { return LikeInput(in); }
  absl::Status Evaluate(EvalArgs& args) const {
    const absl::Span<const int64_t> shape = args.shape(0);
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                              args.MakeOutput(0, shape, args.dtype(0)));
    Bounds* const bounds = args.bounds(0);
    if (bounds != nullptr) {
      bounds->proved.resize(static_cast<size_t>(CountOf(y)));
      bounds->expected.resize(bounds->proved.size());
    }
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
  double Flops(const Inputs&, absl::Span<const OutputInfo> out) const {
    return 4 * CountOf(out[0]);
  }

 private:
  // The sum slides over the channels; elements that leave it are not
  // subtracted; the sum is calculated anew, so that no error stays.
  void RunInstance(const NDArray& x, int64_t n, int64_t channels, int64_t run,
                   const NDArray& y, Bounds* bounds) const {
    const auto count = static_cast<size_t>(channels * run);
    std::vector<double> values(count);
    std::vector<double> sums(static_cast<size_t>(run));
    std::vector<double> results(static_cast<size_t>(run));
    const int64_t begin = n * channels * run;
    LoadDoubles(x, begin, begin + channels * run, values.data());
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
  void FillBounds(const std::vector<double>& results,
                  const std::vector<double>& sums, int64_t at, DLDataType dtype,
                  Bounds* bounds) const {
    // All terms have one sign unless alpha or bias is negative.
    constexpr double kFunctionRoundings = 24;
    const auto terms = static_cast<double>(size.get());
    const double u = alpha >= 0 && bias >= 0
                         ? UnitRoundoff(dtype)
                         : std::numeric_limits<double>::quiet_NaN();
    const double power = std::fabs(beta);
    const OverflowRule overflows(dtype);
    const double alone = std::max(1.0, std::fabs(double{alpha}));
    for (size_t i = 0; i < results.size(); ++i) {
      const size_t out = static_cast<size_t>(at) + i;
      if (overflows(alone * sums[i])) {
        bounds->proved[out] = std::numeric_limits<double>::infinity();
        bounds->expected[out] = bounds->proved[out];
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

constexpr OperatorDef kNormOperators[] = {
    Row<ops::InstanceNormalization, InstanceNorm>(
        {.name = "InstanceNormalization",
         .inputs = {"input", "scale", "B"},
         .outputs = {"output"},
         .bound = kSum}),
    Row<ops::GroupNormalization18, GroupNorm<ops::GroupNormalization18>>(
        {.name = "GroupNormalization",
         .since = 18,
         .inputs = {"X", "scale", "bias"},
         .outputs = {"Y"},
         .bound = kSum}),
    Row<ops::GroupNormalization, GroupNorm<ops::GroupNormalization>>(
        {.name = "GroupNormalization",
         .since = 21,
         .inputs = {"X", "scale", "bias"},
         .outputs = {"Y"},
         .bound = kSum}),
    Row<ops::LRN, LocalResponseNorm>(
        {.name = "LRN", .inputs = {"X"}, .outputs = {"Y"}, .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> NormOperators() { return kNormOperators; }

}  // namespace nodewise
