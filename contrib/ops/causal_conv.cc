#include "nodewise/ops/causal_conv.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/sum_bounds.h"
#include "nodewise/op/shape_rules.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

using ops::CausalActivation;
template <>
struct Words<CausalActivation> {
  static constexpr std::pair<CausalActivation, std::string_view> kAll[] = {
      {CausalActivation::kNone, "none"},
      {CausalActivation::kSilu, "silu"},
      {CausalActivation::kSwish, "swish"}};
};

namespace {

constexpr size_t kInput = 0, kWeight = 1, kBias = 2, kPast = 3;

struct CausalConvWithState : ops::CausalConvWithState {
  static constexpr auto Fields() {
    return FieldList(Field<&CausalConvWithState::activation>("activation"));
  }
  absl::Status Check(const Inputs& in) const;
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const;
  absl::Status Evaluate(EvalArgs& args) const;
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const;
};

Dim StateLength(const Inputs& in) {
  const Dim taps = SideOf(in, kWeight, 2);
  return taps.is_known() ? Dim(taps.size() - 1) : SideOf(in, kPast, 2);
}

absl::Status CausalConvWithState::Check(const Inputs& in) const {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, kInput), RequireSameType(in),
                               RequireRank(in, kInput, 3),
                               RequireRank(in, kWeight, 3)));
  const Dim taps = SideOf(in, kWeight, 2);
  if (taps == Dim(0)) {
    return InputError(kWeight, "has kernels of 0 taps, expected 1 or more");
  }
  const Dim channels = SideOf(in, kInput, 1);
  return All(RequireShape(in, kWeight, {channels, 1, taps}),
             RequireShape(in, kBias, {channels}),
             RequireShape(in, kPast,
                          {SideOf(in, kInput, 0), channels, StateLength(in)}));
}

OutputInfos CausalConvWithState::Infer(const Inputs& in,
                                       size_t num_outputs) const {
  Dim channels = SideOf(in, kInput, 1);
  if (!channels.is_known()) channels = SideOf(in, kWeight, 0);
  const Dim batch = SideOf(in, kInput, 0);
  const DLDataType dtype = in.type(kInput).dtype;
  OutputInfos out;
  out.push_back(TensorType(dtype, {batch, channels, SideOf(in, kInput, 2)}));
  if (num_outputs < 2) return out;
  out.push_back(TensorType(dtype, {batch, channels, StateLength(in)}));
  return out;
}

double CausalConvWithState::Flops(const Inputs& in,
                                  absl::Span<const OutputInfo> out) const {
  const auto sizes = out[0].type.sizes();
  const Dim taps = SideOf(in, kWeight, 2);
  if (!sizes.has_value() || !taps.is_known()) return 0;
  return 2 * static_cast<double>(Product(*sizes)) *
         static_cast<double>(taps.size());
}

double Silu(double x) {
  // The exponential must not overflow: 0 times infinity is NaN.
  const double small = std::exp(-std::fabs(x));
  return x * (x < 0 ? small : 1) / (1 + small);
}

// Bounds x sigmoid(x) of a sum; its slope is below 1.1.
SumBound BoundSilu(const SumBound& sum, DLDataType dtype, double x, double y) {
  constexpr double kSlope = 1.1;
  constexpr double kRoundings = 6;
  const double u = UnitRoundoff(dtype);
  // A kernel may round the sum before.
  const double rounding = kSlope * HalfUlp(dtype, x) +
                          kRoundings * u * std::fabs(y) + 2 * HalfUlp(dtype, y);
  return {kSlope * sum.proved + rounding, kSlope * sum.expected + rounding};
}

// Channels of all items, one after the other.
class ChannelRunner {
 public:
  ChannelRunner(const EvalArgs& args, bool with_silu, const NDArray& y,
                const NDArray& present, Bounds* bounds)
      : args_(args),
        with_silu_(with_silu),
        y_(y),
        present_(present),
        bounds_(bounds),
        channels_(args.shape(kInput)[1]),
        length_(args.shape(kInput)[2]),
        taps_(args.shape(kWeight)[2]),
        weights_(ToDoubles(args.in(kWeight))),
        bias_(args.has(kBias) ? ToDoubles(args.in(kBias))
                              : std::vector<double>()) {}

  void Run(int64_t row) const {
    const int64_t kept = taps_ - 1;
    std::vector<double> x(static_cast<size_t>(kept + length_));
    if (args_.has(kPast)) {
      LoadDoubles(args_.in(kPast), row * kept, (row + 1) * kept, x.data());
    }
    LoadDoubles(args_.in(kInput), row * length_, (row + 1) * length_,
                x.data() + kept);
    if (present_.defined()) {
      StoreDoubles(x.data() + length_, row * kept, (row + 1) * kept, present_);
    }
    std::vector<double> y(static_cast<size_t>(length_));
    for (int64_t i = 0; i < length_; ++i) {
      y[static_cast<size_t>(i)] =
          ValueAt(x.data() + i, row % channels_, row * length_ + i);
    }
    StoreDoubles(y.data(), row * length_, (row + 1) * length_, y_);
  }

 private:
  // `x` is the element under the first tap.
  double ValueAt(const double* x, int64_t channel, int64_t at) const {
    const double* const weights = weights_.data() + channel * taps_;
    const double bias = bias_.empty() ? 0 : bias_[static_cast<size_t>(channel)];
    SumOfTerms sum{static_cast<double>(taps_) + (bias_.empty() ? 0 : 1)};
    sum.result = bias;
    for (int64_t k = 0; k < taps_; ++k) sum.result += weights[k] * x[k];
    const double y = with_silu_ ? Silu(sum.result) : sum.result;
    if (bounds_ == nullptr) return y;
    sum.absolute = std::fabs(bias);
    sum.squares = bias * bias;
    for (int64_t k = 0; k < taps_; ++k) {
      const double term = weights[k] * x[k];
      sum.absolute += std::fabs(term);
      sum.squares += term * term;
    }
    SumBound bound = BoundSum(y_.dtype(), sum);
    if (with_silu_) bound = BoundSilu(bound, y_.dtype(), sum.result, y);
    bounds_->proved[static_cast<size_t>(at)] = bound.proved;
    bounds_->expected[static_cast<size_t>(at)] = bound.expected;
    return y;
  }

  const EvalArgs& args_;
  const bool with_silu_;
  const NDArray& y_;
  const NDArray& present_;
  Bounds* const bounds_;
  const int64_t channels_;
  const int64_t length_;
  const int64_t taps_;
  const std::vector<double> weights_;
  const std::vector<double> bias_;
};

absl::Status CausalConvWithState::Evaluate(EvalArgs& args) const {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  NDArray present;
  if (args.wants(1)) {
    NODEWISE_ASSIGN_OR_RETURN(present, args.MakeOutput(1));
  }
  Bounds* const bounds = args.bounds(0);
  if (bounds != nullptr) {
    bounds->proved.resize(static_cast<size_t>(CountOf(y)));
    bounds->expected.resize(bounds->proved.size());
  }
  if (present.defined() && args.bounds(1) != nullptr) {
    // These elements are only copied.
    args.bounds(1)->proved.assign(static_cast<size_t>(CountOf(present)), 0);
    args.bounds(1)->expected = args.bounds(1)->proved;
  }
  const ChannelRunner runner(args, activation != CausalActivation::kNone, y,
                             present, bounds);
  const auto shape = args.shape(kInput);
  const double work = static_cast<double>(shape[2]) *
                      (2 * static_cast<double>(args.shape(kWeight)[2]) + 10);
  ParallelFor(shape[0] * shape[1], work, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) runner.Run(row);
  });
  return absl::OkStatus();
}

constexpr OperatorDef kCausalConvs[] = {
    Row<ops::CausalConvWithState, CausalConvWithState>(
        {.name = "CausalConvWithState",
         .since = 27,
         .inputs = {"input", "weight", Optional("bias"),
                    Optional("past_state")},
         .outputs = {"output", "present_state"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> CausalConvOperators() { return kCausalConvs; }

}  // namespace nodewise
