// Faults in what kernels do behind a product, in one go with it: biases,
// scales, activations.

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "contrib/lab/planter/region_trial.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/arithmetic.h"
#include "nodewise/ops/conv.h"
#include "nodewise/ops/layer_norm.h"
#include "nodewise/ops/matmul.h"
#include "nodewise/ops/norm.h"
#include "nodewise/support/status.h"
#include "tests/measure/held_out_kinds.h"
#include "tests/measure/held_out_region.h"

namespace nodewise {
namespace {

// Which input is the bias of a Conv, Gemm or BatchNormalization.
constexpr uint32_t kBiasSlot = 2;

bool HasBias(const Operation& operation) {
  const OpAttrs& attrs = operation.attrs;
  const auto* const norm = attrs.As<ops::BatchNormalization>();
  const bool takes_one = attrs.As<ops::Conv>() != nullptr ||
                         attrs.As<ops::Gemm>() != nullptr ||
                         (norm != nullptr && !norm->training_mode);
  return takes_one && operation.inputs.size() > kBiasSlot &&
         operation.inputs[kBiasSlot] != kNoValue;
}

// Evaluates with zeros in the place of an input.
absl::StatusOr<Evaluated> EvaluateWithout(const OperationCall& call,
                                          uint32_t slot,
                                          const EvalArgs::Options& options) {
  Tensors inputs = call.inputs;
  const std::vector<double> zeros(static_cast<size_t>(CountOf(inputs[slot])),
                                  0.0);
  NODEWISE_ASSIGN_OR_RETURN(inputs[slot], WithNumbers(inputs[slot], zeros));
  return EvaluateOn(call, std::move(inputs), options);
}

// --- wrong-broadcast ---

// How a short tensor is repeated to the size of a result.
enum class Repeated {
  kWhole,      // a b c a b c: right where its side is the last one.
  kByElement,  // a a b b c c: right where its side is the first one.
};

// Returns a tensor of `shape` that repeats the elements of a shorter one.
absl::StatusOr<NDArray> Repeat(const NDArray& tensor, Repeated how,
                               absl::Span<const int64_t> shape) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray made,
                            NDArray::Empty(shape, tensor.dtype(), {kDLCPU, 0}));
  const size_t bytes = ElementBytes(tensor.dtype());
  const int64_t length = CountOf(tensor), count = CountOf(made);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from =
        how == Repeated::kWhole ? i % length : i / (count / length);
    std::memcpy(made.As<char>() + static_cast<size_t>(i) * bytes,
                tensor.As<char>() + static_cast<size_t>(from) * bytes, bytes);
  }
  return made;
}

absl::StatusOr<Evaluated> BroadcastWrongly(const OperationCall& call,
                                           uint32_t slot, Repeated how,
                                           const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluated sound,
                            EvaluateOn(call, call.inputs, options));
  const auto shape = sound.outputs[0].shape();
  const int64_t length = CountOf(call.inputs[slot]);
  if (length < 2 || length >= Product(shape) || Product(shape) % length != 0) {
    return sound;
  }
  Tensors inputs = call.inputs;
  NODEWISE_ASSIGN_OR_RETURN(inputs[slot], Repeat(inputs[slot], how, shape));
  return EvaluateOn(call, std::move(inputs), options);
}

// A bias by channel that is added as if channels lay last. The operator takes
// no bias of another shape, so it is added behind it.
absl::StatusOr<Evaluated> AddChannelsWrongly(const OperationCall& call,
                                             const EvalArgs::Options& options) {
  NODEWISE_ASSIGN_OR_RETURN(Evaluated made,
                            EvaluateWithout(call, kBiasSlot, options));
  const std::vector<double> bias = ToDoubles(call.inputs[kBiasSlot]);
  std::vector<double> numbers = ToDoubles(made.outputs[0]);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] += bias[i % bias.size()];
  }
  NODEWISE_ASSIGN_OR_RETURN(made.outputs[0],
                            WithNumbers(made.outputs[0], numbers));
  return made;
}

// Whether the channels of a result lie last, since it has one place alone.
bool MakesOnePlace(const Network& network, const Operation& operation) {
  const auto sizes = network.value(operation.outputs[0]).type.sizes();
  return !sizes || sizes->size() < 3 ||
         Product(absl::Span<const int64_t>(*sizes).subspan(2)) == 1;
}

// Whether it adds a bias that is a list of channels, of the second side, and
// can be nothing else.
bool AddsByChannel(const Operation& operation) {
  return HasBias(operation) && operation.attrs.As<ops::Gemm>() == nullptr;
}

bool TakesWholeTensors(const Operation& operation) {
  return IsElementwise(operation) ||
         operation.attrs.As<ops::Gemm>() != nullptr ||
         operation.attrs.As<ops::LayerNormalization>() != nullptr;
}

void AddWrongBroadcasts(const FaultPlace& place, const Operation& operation,
                        Spoilings* made) {
  for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
    if (operation.inputs[slot] == kNoValue) continue;
    for (const Repeated how : {Repeated::kWhole, Repeated::kByElement}) {
      auto spoiling = WithEvaluator(
          fmt::format("input {} of {} is repeated {}", slot, operation.name,
                      how == Repeated::kWhole
                          ? "as if its side were the last"
                          : "as if its side were the first"),
          place,
          WithChanged(operation.id,
                      [slot, how](const OperationCall& call,
                                  const EvalArgs::Options& options) {
                        return BroadcastWrongly(call, slot, how, options);
                      }));
      if (spoiling) made->push_back(*std::move(spoiling));
    }
  }
}

// --- early-activation ---

// An addition, and the activation of what it makes.
struct BiasAndActivation {
  OperationId adds = kNoOperation;
  uint32_t bias = 0;  // Input of `adds`.
  OperationId activates = kNoOperation;
};

// Computes the activation of what is there without the bias, and adds it then.
class LateBias : public Evaluator {
 public:
  explicit LateBias(BiasAndActivation pair) : pair_(pair) {}

  absl::StatusOr<Evaluated> Evaluate(
      OperationCall call, const EvalArgs::Options& options) const override {
    if (call.operation.id == pair_.adds) {
      NODEWISE_ASSIGN_OR_RETURN(const Evaluated whole,
                                EvaluateOn(call, call.inputs, options));
      NODEWISE_ASSIGN_OR_RETURN(Evaluated made,
                                EvaluateWithout(call, pair_.bias, options));
      added_ = ToDoubles(whole.outputs[0]);
      const std::vector<double> less = ToDoubles(made.outputs[0]);
      for (size_t i = 0; i < added_.size(); ++i) added_[i] -= less[i];
      return made;
    }
    if (call.operation.id != pair_.activates) {
      return ReferenceEvaluator().Evaluate(std::move(call), options);
    }
    NODEWISE_ASSIGN_OR_RETURN(Evaluated made, ReferenceEvaluator().Evaluate(
                                                  std::move(call), options));
    std::vector<double> numbers = ToDoubles(made.outputs[0]);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += added_[i];
    NODEWISE_ASSIGN_OR_RETURN(made.outputs[0],
                              WithNumbers(made.outputs[0], numbers));
    return made;
  }

 private:
  const BiasAndActivation pair_;
  mutable std::vector<double> added_;  // One thread makes one run with it.
};

// The inputs that are a bias: of an addition, those that are parameters.
std::vector<uint32_t> BiasesOf(const FaultPlace& place,
                               const Operation& operation) {
  if (HasBias(operation)) return {kBiasSlot};
  if (operation.attrs.As<ops::Add>() == nullptr) return {};
  std::vector<uint32_t> slots;
  const auto inputs = place.region->network.inputs();
  for (uint32_t slot = 0; slot < operation.inputs.size(); ++slot) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == operation.inputs[slot] && place.is_constant[i]) {
        slots.push_back(slot);
      }
    }
  }
  return slots;
}

// Returns the operation that alone reads what this one makes, if it is an
// activation: a function of one number.
std::optional<OperationId> ActivationOf(const Network& network,
                                        const Operation& operation) {
  const NetworkValue& value = network.value(operation.outputs[0]);
  for (const ValueId output : network.outputs()) {
    if (output == value.id) return {};
  }
  if (value.uses.size() != 1 || value.uses[0].slot != 0) return {};
  const Operation& user = network.operation(value.uses[0].user);
  const bool is_function = IsElementwise(user) && user.inputs.size() == 1 &&
                           IsFloat(value.type.dtype) &&
                           network.value(user.outputs[0]).type == value.type;
  if (!is_function) return {};
  return user.id;
}

}  // namespace

absl::StatusOr<Spoilings> WrongBroadcast(const FaultPlace& place,
                                         RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    if (!AddsByChannel(operation)) {
      if (TakesWholeTensors(operation)) {
        AddWrongBroadcasts(place, operation, &made);
      }
      continue;
    }
    if (MakesOnePlace(network, operation)) continue;
    auto spoiling = WithEvaluator(
        fmt::format("{} adds its bias as if channels lay last", operation.name),
        place, WithChanged(id, &AddChannelsWrongly));
    if (spoiling) made.push_back(*std::move(spoiling));
  }
  if (made.empty()) {
    return NotPlantable(
        "it repeats no tensor that could be repeated in another way");
  }
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> EarlyActivation(const FaultPlace& place,
                                          RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (const OperationId id : SourceOperations(*place.region)) {
    const Operation& operation = network.operation(id);
    const auto activates = ActivationOf(network, operation);
    if (!activates) continue;
    for (const uint32_t slot : BiasesOf(place, operation)) {
      const BiasAndActivation pair{id, slot, *activates};
      auto spoiling = WithEvaluator(
          fmt::format("{} is computed before input {} of {} is added",
                      network.operation(*activates).name, slot, operation.name),
          place, [pair] { return std::make_unique<LateBias>(pair); });
      if (spoiling) made.push_back(*std::move(spoiling));
    }
  }
  if (made.empty()) return NotPlantable("it has no activation behind a bias");
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
