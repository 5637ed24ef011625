// Draws inputs for which every order of every sum gives the same result. The
// numbers are small and whole, and a second run of each operation on their
// absolute values shows how large a sum can become on the way; as long as that
// is below the first whole number whose neighbour the type lacks, no addition
// rounds.

#include "nodewise/interp/exact_tensors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Operators whose results are sums of products of what they read.
constexpr std::string_view kSumKinds[] = {
    "Add",      "Conv",      "ConvTranspose", "Gemm", "MatMul",         "Mul",
    "ReduceL1", "ReduceSum", "Sub",           "Sum",  "ReduceSumSquare"};

// Whole numbers up to `largest` of either sign; one of `every` is not 0.
struct Draw {
  int64_t largest;
  int64_t every;
};
// The first that keeps the sums small enough counts.
constexpr Draw kDraws[] = {{3, 1}, {1, 1},  {1, 2}, {1, 4},
                           {1, 8}, {1, 16}, {1, 32}};

bool IsSum(const OperatorDef& def) {
  return def.domain.empty() &&
         std::ranges::find(kSumKinds, def.name) != std::end(kSumKinds);
}

bool IsSum(const Operation& operation) { return IsSum(operation.def()); }

absl::Status InexactError(const Operation& operation, std::string_view why) {
  return Unimplemented("{} ({}) {}", operation.name, operation.kind(), why);
}

// Factors beside the sum must be whole, and keep what is not negative so.
bool HasWholeFactors(const Operation& operation) {
  const auto is_whole = [](float x) { return x >= 0 && x == std::trunc(x); };
  const auto* const gemm = operation.attrs.As<ops::Gemm>();
  const auto* const old_gemm = operation.attrs.As<ops::Gemm1>();
  if (gemm != nullptr) return is_whole(gemm->alpha) && is_whole(gemm->beta);
  return old_gemm == nullptr ||
         (is_whole(old_gemm->alpha) && is_whole(old_gemm->beta));
}

// Kinds can be judged before any number is drawn, which is cheap and settles
// most networks.
absl::Status CheckKinds(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (!MayBeExact(operation.def())) {
      return InexactError(operation, "rounds any input");
    }
    if (!HasWholeFactors(operation)) {
      return InexactError(operation,
                          "multiplies by numbers that are not whole");
    }
  }
  return absl::OkStatus();
}

template <typename Next>
absl::StatusOr<NDArray> TensorFor(const NetworkValue& value, Next next) {
  const auto sizes = value.type.sizes();
  if (!sizes.has_value() || !value.type.has_dtype()) {
    return Unimplemented("{}: its type is not known", value.name);
  }
  // Fails for sizes that are too large for any memory.
  NODEWISE_ASSIGN_OR_RETURN(const NDArray tensor,
                            NDArray::Empty(*sizes, value.type.dtype, kCpu));
  std::vector<double> numbers(static_cast<size_t>(CountOf(tensor)));
  std::ranges::generate(numbers, next);
  StoreDoubles(numbers.data(), 0, CountOf(tensor), tensor);
  return tensor;
}

// Numbers that stand for places, or for true and false, stay 0 or 1.
absl::StatusOr<NDArray> DrawTensor(const NetworkValue& value, const Draw& draw,
                                   uint64_t seed) {
  SmallNumbers random(RandomSource(seed, value.name));
  const bool is_float = IsFloat(value.type.dtype);
  const int64_t least = is_float ? -draw.largest : 0;
  const int64_t most = is_float ? draw.largest : 1;
  const auto places = static_cast<uint32_t>(most - least + 1);
  const auto every = static_cast<uint32_t>(draw.every);
  return TensorFor(value, [&]() -> double {
    if (every > 1 && random.Below(every) > 0) return 0;
    return static_cast<double>(least + random.Below(places));
  });
}

// NaN counts as larger than everything, so that what follows fails.
double LargestOf(const NDArray& tensor) {
  double largest = 0;
  for (const double x : ToDoubles(tensor)) {
    largest = std::isnan(x) ? x : std::max(largest, std::fabs(x));
    if (std::isnan(largest)) break;
  }
  return largest;
}

bool IsWhole(const NDArray& tensor) {
  const std::vector<double> numbers = ToDoubles(tensor);
  return std::ranges::all_of(
      numbers, [](double x) { return x == std::trunc(x) && std::isfinite(x); });
}

// Returns whether the type has every whole number up to the largest element.
bool IsBelowFirstGap(const NDArray& tensor) {
  return LargestOf(tensor) < 1 / UnitRoundoff(tensor.dtype());
}

// Returns max(|x|, y) of each element; `larger` may be undefined.
absl::StatusOr<NDArray> SizesOf(const NDArray& tensor, const NDArray& larger) {
  if (!IsFloat(tensor.dtype())) return tensor;
  std::vector<double> numbers = ToDoubles(tensor);
  for (double& number : numbers) number = std::fabs(number);
  if (larger.defined()) {
    const std::vector<double> others = ToDoubles(larger);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::max(numbers[i], others[i]);
    }
  }
  return FromDoubles(numbers, tensor.shape(), tensor.dtype());
}

// Runs a network on drawn inputs, and sees to it that all sums are exact.
// Beside each value goes how large it and all that it is a sum of may be: what
// comes out if nothing has a sign. So kernels may also multiply and add up in
// another order across operations, as they do where factors go into weights.
class ExactRun {
 public:
  explicit ExactRun(const Network& network) : network_(network) {}

  absl::StatusOr<std::vector<NDArray>> Run(const std::vector<NDArray>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      NODEWISE_ASSIGN_OR_RETURN(sizes_[network_.inputs()[i]],
                                SizesOf(inputs[i], NDArray()));
    }
    InterpretOptions options;
    options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
      NODEWISE_RETURN_IF_ERROR(CheckRun(run));
      return false;
    };
    return Interpret(network_, inputs, options);
  }

  // Returns whether the only operation of a network makes exact sums of numbers
  // that are nowhere larger than these, of which none is negative.
  bool IsExactUpTo(const std::vector<NDArray>& largest) {
    for (size_t i = 0; i < largest.size(); ++i) {
      sizes_[network_.inputs()[i]] = largest[i];
    }
    const auto made = SizesMade(network_.operation(network_.order()[0]));
    return made.ok() && std::ranges::all_of(*made, [](const NDArray& sums) {
             return !sums.defined() || !IsFloat(sums.dtype()) ||
                    (IsWhole(sums) && IsBelowFirstGap(sums));
           });
  }

 private:
  absl::Status CheckRun(const OperationRun& run) {
    const Operation& operation = run.operation;
    NODEWISE_ASSIGN_OR_RETURN(const Tensors made, SizesMade(operation));
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const NDArray& output = run.result.outputs[i];
      if (!output.defined()) continue;
      const bool fits = made[i].shape() == output.shape();
      NODEWISE_ASSIGN_OR_RETURN(sizes_[operation.outputs[i]],
                                SizesOf(output, fits ? made[i] : NDArray()));
      if (!IsSum(operation) || !IsFloat(output.dtype())) continue;
      if (!IsWhole(output) || !IsWhole(made[i])) {
        return InexactError(operation, "makes numbers that are not whole");
      }
      if (IsBelowFirstGap(made[i])) continue;
      return OutOfRange("{} ({}) adds up too much for its type", operation.name,
                        operation.kind());
    }
    return absl::OkStatus();
  }

  // Evaluates the operation without any signs.
  absl::StatusOr<Tensors> SizesMade(const Operation& operation) {
    Tensors inputs;
    for (const ValueId id : operation.inputs) {
      inputs.emplace_back();
      if (id == kNoValue) continue;
      const auto known = sizes_.find(id);
      if (known != sizes_.end()) {
        inputs.back() = known->second;
      } else {
        NODEWISE_ASSIGN_OR_RETURN(inputs.back(),
                                  SizesOf(network_.value(id).data, NDArray()));
      }
      if (!IsSum(operation) || !IsFloat(inputs.back().dtype())) continue;
      if (!IsWhole(inputs.back())) {
        return InexactError(operation, "reads numbers that are not whole");
      }
    }
    if (operation.kind() == "Sub") {
      std::vector<double> negated = ToDoubles(inputs[1]);
      for (double& number : negated) number = -number;
      NODEWISE_ASSIGN_OR_RETURN(
          inputs[1],
          FromDoubles(negated, inputs[1].shape(), inputs[1].dtype()));
    }
    const absl::InlinedVector<bool, 4> wanted(operation.outputs.size(), true);
    NODEWISE_ASSIGN_OR_RETURN(
        Evaluated made, Evaluate(operation.attrs, std::move(inputs), wanted));
    return std::move(made.outputs);
  }

  const Network& network_;
  std::map<ValueId, NDArray> sizes_;
};

// One seed gives each input other numbers, since its name goes into them.
absl::StatusOr<std::vector<NDArray>> DrawAll(const Network& network,
                                             const Draw& draw, uint64_t seed,
                                             absl::Span<const NDArray> given) {
  std::vector<NDArray> inputs;
  inputs.reserve(network.inputs().size());
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    NDArray tensor = i < given.size() ? given[i] : NDArray();
    if (!tensor.defined()) {
      NODEWISE_ASSIGN_OR_RETURN(
          tensor, DrawTensor(network.value(network.inputs()[i]), draw, seed));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

absl::StatusOr<ExactTensors> TryDraw(const Network& network, const Draw& draw,
                                     uint64_t seed,
                                     absl::Span<const NDArray> given) {
  ExactTensors exact;
  NODEWISE_ASSIGN_OR_RETURN(exact.inputs, DrawAll(network, draw, seed, given));
  NODEWISE_ASSIGN_OR_RETURN(exact.expected,
                            ExactRun(network).Run(exact.inputs));
  return exact;
}

}  // namespace

bool MayBeExact(const Network& network) { return CheckKinds(network).ok(); }

bool MayBeExact(const OperatorDef& def) {
  return def.bound.kind == ErrorBound::Kind::kExact || IsSum(def);
}

// From the largest numbers to the sparsest: large ones find more faults, zeros
// keep long sums small. Only too large a sum is a reason to try the next;
// every other error would come again.
absl::StatusOr<ExactTensors> DrawExactTensors(const Network& network,
                                              uint64_t seed,
                                              absl::Span<const NDArray> given) {
  NODEWISE_RETURN_IF_ERROR(CheckKinds(network));
  absl::Status last;
  for (const Draw& draw : kDraws) {
    auto exact = TryDraw(network, draw, seed, given);
    if (!absl::IsOutOfRange(exact.status())) return exact;
    last = exact.status();
  }
  return absl::UnimplementedError(std::string(MessageOf(last)));
}

std::shared_ptr<ExactSource> ExactSource::Create(const Network& network) {
  if (!MayBeExact(network)) return nullptr;
  return std::shared_ptr<ExactSource>(new ExactSource(network));
}

// Returns whether an input of a network of one operation may be indices of
// other elements, in which case the operation does not take every number.
bool ExactSource::MayBePlaces(const NetworkValue& value) const {
  if (IsFloat(value.type.dtype)) return false;
  const Operation& operation = network_.operation(network_.order()[0]);
  if (!IsSum(operation)) return true;
  // Input 1 of a reduction is its axes.
  return operation.inputs.size() > 1 && operation.kind().starts_with("Reduce");
}

// The sums that one operation makes of such numbers are no larger than those
// that it makes of the largest. Among several operations, one may choose
// between the results of others.
bool ExactSource::AreAlwaysExact() {
  if (network_.order().size() != 1) return false;
  std::vector<NDArray> inputs;
  for (const ValueId id : network_.inputs()) {
    const NetworkValue& value = network_.value(id);
    if (MayBePlaces(value)) return false;
    const double largest =
        IsFloat(value.type.dtype) ? static_cast<double>(kDraws[0].largest) : 1;
    auto tensor = TensorFor(value, [&] { return largest; });
    if (!tensor.ok()) return false;
    inputs.push_back(*std::move(tensor));
  }
  const bool is_sum = IsSum(network_.operation(network_.order()[0]));
  return is_sum ? ExactRun(network_).IsExactUpTo(inputs)
                : Interpret(network_, inputs).ok();
}

// Inputs that are given may be larger than any that are drawn, so that each
// such set has to be tried.
absl::StatusOr<std::vector<NDArray>> ExactSource::Draw(
    uint64_t seed, absl::Span<const NDArray> given) {
  const bool are_all_drawn = std::ranges::none_of(
      given, [](const NDArray& tensor) { return tensor.defined(); });
  if (are_all_drawn && !are_always_exact_.has_value()) {
    are_always_exact_ = AreAlwaysExact();
  }
  if (are_all_drawn && *are_always_exact_) {
    return DrawAll(network_, kDraws[0], seed, {});
  }
  NODEWISE_ASSIGN_OR_RETURN(ExactTensors exact,
                            DrawExactTensors(network_, seed, given));
  return std::move(exact.inputs);
}

}  // namespace nodewise
