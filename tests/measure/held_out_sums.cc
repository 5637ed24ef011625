// Faults in how sums are added up: in blocks that do not cover all terms, or in
// registers that are too small.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "contrib/lab/planter/region_trial.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/pool.h"
#include "nodewise/ops/quantize.h"
#include "nodewise/ops/recurrent.h"
#include "nodewise/ops/reduce.h"
#include "nodewise/support/status.h"
#include "tests/measure/held_out_kinds.h"
#include "tests/measure/held_out_region.h"

namespace nodewise {
namespace {

constexpr size_t kNoSlot = SIZE_MAX;

// An operation that adds up what the elements of one input give along some
// sides.
struct SumOverInput {
  size_t terms = 0;  // The input.
  // Which of the input's sides, outermost first; all if empty. -1: the last.
  std::vector<int> sides = {};
  // The inputs that say which integer stands for 0: of a term, of a result.
  size_t zero_of_terms = kNoSlot;
  size_t zero_of_result = kNoSlot;
};

// Those of an operator that adds up along sides; null for all others.
template <typename... Classes>
const ops::ReduceAttributes* FirstOf(const OpAttrs& attrs) {
  const ops::ReduceAttributes* found = nullptr;
  ((found = found != nullptr ? found : attrs.As<Classes>()), ...);
  return found;
}
const ops::ReduceAttributes* ReductionOf(const OpAttrs& attrs) {
  return FirstOf<ops::ReduceSum, ops::ReduceMean, ops::ReduceL1, ops::ReduceL2,
                 ops::ReduceSumSquare>(attrs);
}

// The sides of a reduction are an input; none if they are not known, or none.
std::optional<SumOverInput> SumAlongSides(
    const Network& network, const Operation& operation,
    const ops::ReduceAttributes& reduction) {
  SumOverInput sum;
  if (operation.inputs.size() > 1 && operation.inputs[1] != kNoValue) {
    const NetworkValue& sides = network.value(operation.inputs[1]);
    if (sides.kind != NetworkValue::Kind::kConstant) return {};
    for (const double side : ToDoubles(sides.data)) {
      sum.sides.push_back(static_cast<int>(side));
    }
  }
  if (sum.sides.empty() && reduction.noop_with_empty_axes) return {};
  return sum;
}

std::optional<SumOverInput> SumOf(const Network& network,
                                  const Operation& operation) {
  const OpAttrs& attrs = operation.attrs;
  const auto is = [&]<typename Class>(Class) {
    return attrs.As<Class>() != nullptr;
  };
  // Weights of convolutions: outputs, channels, places.
  std::vector<int> behind_first;
  for (int side = 1; side < 5; ++side) behind_first.push_back(side);
  if (is(ops::Conv())) return SumOverInput{1, behind_first};
  if (is(ops::ConvInteger())) return SumOverInput{1, behind_first, 3};
  if (is(ops::QLinearConv())) return SumOverInput{3, behind_first, 5, 7};
  if (is(ops::MatMul())) return SumOverInput{0, {-1}};
  if (is(ops::MatMulInteger())) return SumOverInput{0, {-1}, 2};
  if (is(ops::QLinearMatMul())) return SumOverInput{0, {-1}, 2, 7};
  if (const auto* const gemm = attrs.As<ops::Gemm>()) {
    return SumOverInput{0, {gemm->transA ? 0 : 1}};
  }
  if (is(ops::GlobalAveragePool())) return SumOverInput{0, {2, 3, 4}};
  if (const auto* const reduction = ReductionOf(attrs)) {
    return SumAlongSides(network, operation, *reduction);
  }
  return {};
}

// Recurrent operators add up products of what they read at each step.
std::optional<SumOverInput> SumOfStep(const Operation& operation) {
  const OpAttrs& attrs = operation.attrs;
  if (attrs.As<ops::LSTM>() == nullptr && attrs.As<ops::GRU>() == nullptr &&
      attrs.As<ops::RNN>() == nullptr) {
    return {};
  }
  return SumOverInput{0, {-1}};
}

// By element of a tensor, its place in the sum that it is a term of, and how
// many terms that has.
struct Terms {
  std::vector<int64_t> place_of;
  int64_t count = 1;
};

Terms TermsOf(absl::Span<const int64_t> shape, const std::vector<int>& sides) {
  const int rank = static_cast<int>(shape.size());
  std::vector<bool> is_summed(shape.size(), sides.empty());
  for (const int side : sides) {
    const int at = side < 0 ? side + rank : side;
    if (at >= 0 && at < rank) is_summed[static_cast<size_t>(at)] = true;
  }
  Terms terms;
  terms.place_of.assign(static_cast<size_t>(Product(shape)), 0);
  for (size_t side = 0; side < shape.size(); ++side) {
    if (!is_summed[side]) continue;
    const int64_t inner = Product(shape.subspan(side + 1));
    for (size_t i = 0; i < terms.place_of.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) / inner % shape[side];
      terms.place_of[i] = terms.place_of[i] * shape[side] + at;
    }
    terms.count *= shape[side];
  }
  return terms;
}

// The number that stands for 0 for each element along the first side, or for
// all of them.
std::vector<double> ZerosOf(const Tensors& inputs, size_t slot) {
  if (slot >= inputs.size() || !inputs[slot].defined()) return {0};
  return ToDoubles(inputs[slot]);
}

absl::StatusOr<Evaluated> WithoutRest(const OperationCall& call,
                                      const SumOverInput& sum, int64_t block,
                                      const EvalArgs::Options& options) {
  const NDArray& input = call.inputs[sum.terms];
  const Terms terms = TermsOf(input.shape(), sum.sides);
  const std::vector<double> zeros = ZerosOf(call.inputs, sum.zero_of_terms);
  std::vector<double> numbers = ToDoubles(input);
  if (zeros.empty() || numbers.size() % zeros.size() != 0) {
    return NotPlantable("its zero points are not by channel");
  }
  const size_t of_one_zero = numbers.size() / zeros.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (terms.place_of[i] < terms.count - terms.count % block) continue;
    numbers[i] = zeros[i / of_one_zero];
  }
  Tensors inputs = call.inputs;
  NODEWISE_ASSIGN_OR_RETURN(inputs[sum.terms], WithNumbers(input, numbers));
  return EvaluateOn(call, std::move(inputs), options);
}

void AddLostRests(const FaultPlace& place, OperationId id, Spoilings* made) {
  const Network& network = place.region->network;
  const Operation& operation = network.operation(id);
  auto sum = SumOf(network, operation);
  if (!sum) sum = SumOfStep(operation);
  if (!sum) return;
  const auto sizes = network.value(operation.inputs[sum->terms]).type.sizes();
  if (!sizes) return;
  const int64_t count = TermsOf(*sizes, sum->sides).count;
  for (const int64_t block : {4, 8, 16, 32}) {
    if (count < block || count % block == 0) continue;
    auto spoiling = WithEvaluator(
        fmt::format("{} does not add the last {} of {} terms (blocks of {})",
                    operation.name, count % block, count, block),
        place,
        WithChanged(id, [sum = *sum, block](const OperationCall& call,
                                            const EvalArgs::Options& options) {
          return WithoutRest(call, sum, block, options);
        }));
    if (spoiling) made->push_back(*std::move(spoiling));
  }
}

// Where sums stay when they reach it: a power of two.
struct Limit {
  double size = 0;
  size_t zero_of_result = kNoSlot;
};

absl::StatusOr<Evaluated> Saturated(const OperationCall& call, Limit limit,
                                    const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluated made,
                            EvaluateOn(call, call.inputs, options));
  const double zero = ZerosOf(call.inputs, limit.zero_of_result)[0];
  std::vector<double> numbers = ToDoubles(made.outputs[0]);
  // Two's complement has one number more below 0 than above.
  const double most =
      IsFloat(made.outputs[0].dtype()) ? limit.size : limit.size - 1;
  for (double& number : numbers) {
    if (std::isnan(number)) continue;
    number = std::clamp(number - zero, -limit.size, most) + zero;
  }
  NODEWISE_ASSIGN_OR_RETURN(made.outputs[0],
                            WithNumbers(made.outputs[0], numbers));
  return made;
}

// The largest power of two below the largest sum; 0 if that is not known.
double LargestPowerBelow(const FaultPlace& place, OperationId id,
                         size_t zero_of_result) {
  const auto trial = RegionTrial::Create(place, id);
  if (!trial.ok()) return 0;
  const double zero = ZerosOf(trial->inputs(), zero_of_result)[0];
  double largest = 0;
  for (const double number :
       FirstOutput(place.region->network.operation(id), trial->inputs())) {
    if (!std::isfinite(number)) continue;
    largest = std::max(largest, std::fabs(number - zero));
  }
  if (largest == 0) return 0;
  // frexp gives a part from 1/2 up to, and not including, 1.
  int exponent = 0;
  const bool is_power = std::frexp(largest, &exponent) == 0.5;
  return std::ldexp(1, exponent - (is_power ? 2 : 1));
}

}  // namespace

absl::StatusOr<Spoilings> RestNotSummed(const FaultPlace& place,
                                        RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    AddLostRests(place, id, &made);
  }
  if (made.empty()) {
    return NotPlantable(
        "it adds up nothing that blocks of 4 to 32 leave a rest of");
  }
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> SaturatedSums(const FaultPlace& place,
                                        RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    const auto sum = SumOf(network, operation);
    if (!sum) continue;
    Limit limit{LargestPowerBelow(place, id, sum->zero_of_result),
                sum->zero_of_result};
    if (random.Between(0, 1) == 0) limit.size /= 2;
    if (limit.size == 0) continue;
    auto spoiling = WithEvaluator(
        fmt::format("sums of {} saturate at {}", operation.name, limit.size),
        place,
        WithChanged(id, [limit](const OperationCall& call,
                                const EvalArgs::Options& options) {
          return Saturated(call, limit, options);
        }));
    if (spoiling) made.push_back(*std::move(spoiling));
  }
  if (made.empty())
    return NotPlantable("it adds up nothing that could saturate");
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
