#include "nodewise/ops/causal_conv.h"

#include <cmath>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/elementwise.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"

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

// The short convolution that stands in front of a linear attention. It begins
// with the last places of an earlier call and hands on those at its end.

constexpr size_t kInput = 0, kWeight = 1, kConvBias = 2, kConvState = 3;

// A kernel of n taps sees n - 1 places before the first one.
Dim StateLength(const Inputs& in) {
  const Dim taps = SideOf(in, kWeight, 2);
  return taps.is_known() ? Dim(taps.size() - 1) : SideOf(in, kConvState, 2);
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

// Channels of all items, one after the other. Each row is laid out behind its
// state, which is 0 if none is given, so that no tap asks whether it lies
// before the beginning.
struct ChannelRunner {
  const EvalArgs& args;
  const bool with_silu;
  const NDArray& out;
  const NDArray& present;
  Bounds* const bounds;
  const std::vector<double> all_weights = ToDoubles(args.in(kWeight));
  const std::vector<double> biases = GivenDoubles(args, kConvBias);
  const int64_t channels = args.shape(kInput)[1];
  const int64_t length = args.shape(kInput)[2];
  const int64_t taps = args.shape(kWeight)[2];

  void Run(int64_t row) const {
    const int64_t kept = taps - 1;
    std::vector<double> x(static_cast<size_t>(kept + length));
    if (args.has(kConvState)) {
      LoadDoubles(args.in(kConvState), row * kept, (row + 1) * kept, x.data());
    }
    LoadDoubles(args.in(kInput), row * length, (row + 1) * length,
                x.data() + kept);
    if (present.defined()) {
      StoreDoubles(x.data() + length, row * kept, (row + 1) * kept, present);
    }
    std::vector<double> y(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) {
      y[static_cast<size_t>(i)] =
          ValueAt(x.data() + i, row % channels, row * length + i);
    }
    StoreDoubles(y.data(), row * length, (row + 1) * length, out);
  }

 private:
  // `x` is the element under the first tap.
  double ValueAt(const double* x, int64_t channel, int64_t at) const {
    const double* const weights = all_weights.data() + channel * taps;
    const double bias =
        biases.empty() ? 0 : biases[static_cast<size_t>(channel)];
    SumOfTerms sum{static_cast<double>(taps) + (biases.empty() ? 0 : 1)};
    sum.result = bias;
    for (int64_t k = 0; k < taps; ++k) sum.result += weights[k] * x[k];
    const double y = with_silu ? Silu(sum.result) : sum.result;
    if (bounds == nullptr) return y;
    sum.absolute = std::fabs(bias);
    sum.squares = bias * bias;
    for (int64_t k = 0; k < taps; ++k) {
      const double term = weights[k] * x[k];
      sum.absolute += std::fabs(term);
      sum.squares += term * term;
    }
    SumBound bound = BoundSum(out.dtype(), sum);
    if (with_silu) bound = BoundSilu(bound, out.dtype(), sum.result, y);
    bound.SetAt(static_cast<size_t>(at), bounds);
    return y;
  }
};

struct CausalConvWithState : ops::CausalConvWithState {
  static constexpr auto Fields() {
    return FieldList(Field<&CausalConvWithState::activation>("activation"));
  }
  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, kInput), RequireSameType(in),
                                 RequireRank(in, kInput, 3),
                                 RequireRank(in, kWeight, 3)));
    const Dim taps = SideOf(in, kWeight, 2);
    if (taps == Dim(0)) {
      return InputError(kWeight, "has kernels of 0 taps, expected 1 or more");
    }
    const Dim channels = SideOf(in, kInput, 1);
    return All(
        RequireShape(in, kWeight, {channels, 1, taps}),
        RequireShape(in, kConvBias, {channels}),
        RequireShape(in, kConvState,
                     {SideOf(in, kInput, 0), channels, StateLength(in)}));
  }
  OutputInfos Infer(const Inputs& in, size_t num_outputs) const {
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
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NDArray present;
    if (args.wants(1)) {
      NODEWISE_ASSIGN_OR_RETURN(present, args.MakeOutput(1));
    }
    Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
    if (present.defined()) {
      // These elements are only copied.
      SetAllBounds(CountOf(present), 0, args.bounds(1));
    }
    const ChannelRunner runner{args, activation != CausalActivation::kNone, y,
                               present, bounds};
    const auto shape = args.shape(kInput);
    const double work = static_cast<double>(shape[2]) *
                        (2 * static_cast<double>(args.shape(kWeight)[2]) + 10);
    ParallelFor(shape[0] * shape[1], work, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) runner.Run(row);
    });
    return absl::OkStatus();
  }
  double Flops(const Inputs& in, absl::Span<const OutputInfo> out) const {
    const auto sizes = out[0].type.sizes();
    const Dim taps = SideOf(in, kWeight, 2);
    if (!sizes.has_value() || !taps.is_known()) return 0;
    return 2 * static_cast<double>(Product(*sizes)) *
           static_cast<double>(taps.size());
  }
};

constexpr OperatorDef kCausalConvs[] = {
    Row<ops::CausalConvWithState, CausalConvWithState>(
        "CausalConvWithState", 27,
        {"input", "weight", Optional("bias"), Optional("past_state")},
        {"output", "present_state"}, kSum),
};

}  // namespace

absl::Span<const OperatorDef> CausalConvOperators() { return kCausalConvs; }

}  // namespace nodewise
