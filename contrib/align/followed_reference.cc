// The reference that goes on from a compiled graph's own numbers. Each value is
// pinned, computed, or not yet known; to pin one makes those unknown that were
// computed from it, up to the next pinned ones. So a value is computed once
// however often guesses are taken back, and copies share what has been computed
// before they part.

#include "nodewise/align/followed_reference.h"

#include <utility>

#include "contrib/align/network_walk.h"
#include "contrib/align/precision.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

TensorFacts FactsOf(const std::vector<NDArray>& tensors) {
  TensorFacts facts;
  const absl::Span<const int64_t> shape = tensors[0].shape();
  facts.shape.assign(shape.begin(), shape.end());
  facts.dtype = tensors[0].dtype();
  for (const NDArray& tensor : tensors) {
    facts.stats.push_back(StatsOf(*tensor));
    // Sizes that depend on the data have no layout: nothing matches these.
    if (tensor.shape() != shape) facts.stats.back().has_numbers = false;
  }
  return facts;
}

// Most tensors are of this type, and all of a model are moved many times: 64
// random bits do for two of them.
void MoveFloats(double roundoff, float* numbers, int64_t count,
                RandomSource* random) {
  const double unit = roundoff / 2147483648.0;
  for (int64_t i = 0; i < count; i += 2) {
    const uint64_t bits = random->Next();
    numbers[i] *= 1 + unit * static_cast<int32_t>(bits >> 32);
    if (i + 1 < count) {
      numbers[i + 1] *= 1 + unit * static_cast<int32_t>(bits & UINT32_MAX);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<NDArray>> MovedBy(absl::Span<const NDArray> tensors,
                                             double roundoff, uint64_t seed,
                                             std::string_view stream) {
  RandomSource random(seed, stream);
  std::vector<NDArray> moved;
  for (const NDArray& tensor : tensors) {
    moved.push_back(tensor);
    if (!IsFloat(tensor.dtype())) continue;
    if (tensor.dtype() == kFloat32) {
      NODEWISE_ASSIGN_OR_RETURN(moved.back(), tensor.CopyToHost());
      MoveFloats(roundoff, moved.back().As<float>(), CountOf(tensor), &random);
      continue;
    }
    std::vector<double> numbers = ToDoubles(tensor);
    for (double& number : numbers) number *= 1 + roundoff * random.Symmetric();
    NODEWISE_ASSIGN_OR_RETURN(
        moved.back(), TensorOfNumbers(numbers, tensor.shape(), tensor.dtype()));
  }
  return moved;
}

FollowedReference::FollowedReference(
    const Network& network, absl::Span<const std::vector<NDArray>> inputs,
    size_t most_bytes_in_memory)
    : network_(network),
      sets_(inputs.size()),
      store_(TensorStore::Create(most_bytes_in_memory)),
      pinned_(network.data().values.size()),
      computed_(network.data().values.size()) {
  NODEWISE_CHECK(!inputs.empty());
  for (size_t i = 0; i < network.inputs().size(); ++i) {
    std::vector<NDArray> tensors;
    for (const std::vector<NDArray>& set : inputs) tensors.push_back(set[i]);
    Pin(network.inputs()[i], std::move(tensors));
  }
}

void FollowedReference::Pin(ValueId id, std::vector<NDArray> tensors) {
  NODEWISE_CHECK(tensors.size() == sets_);
  pinned_[Index(id)] = true;
  computed_[Index(id)] = Keep(std::move(tensors));
  ForgetDependents(id);
}

void FollowedReference::Unpin(ValueId id) {
  if (!pinned_[Index(id)]) return;
  pinned_[Index(id)] = false;
  computed_[Index(id)] = nullptr;
  ForgetDependents(id);
}

void FollowedReference::ForgetDependents(ValueId id) {
  WalkBehind(network_, id, [this](ValueId made) {
    if (pinned_[Index(made)] || computed_[Index(made)] == nullptr) return false;
    computed_[Index(made)] = nullptr;
    return true;
  });
}

void FollowedReference::UnpinDependents(ValueId id) {
  WalkBehind(network_, id, [this](ValueId made) {
    pinned_[Index(made)] = false;
    computed_[Index(made)] = nullptr;
    return true;
  });
}

absl::StatusOr<std::shared_ptr<const FollowedReference::Value>>
FollowedReference::ValueOf(ValueId id) {
  if (computed_[Index(id)] != nullptr) return Open(id);
  const NetworkValue& value = network_.value(id);
  if (value.kind == NetworkValue::Kind::kConstant) {
    NDArray data = value.data;
    NODEWISE_RETURN_IF_ERROR(MakeReadable(&data));
    std::shared_ptr<Kept>& kept = computed_[Index(id)];
    kept = std::make_shared<Kept>();
    kept->facts = FactsOf(std::vector<NDArray>(1, data));
    // A constant is the same with every set, and so are its statistics.
    kept->facts.stats.resize(sets_, kept->facts.stats[0]);
    // The network has it in memory anyway, unless it had to be copied.
    if (data.data() == value.data.data()) {
      kept->constant = std::move(data);
    } else {
      kept->tensors.assign(sets_, store_->Put(std::move(data)));
    }
    return Open(id);
  }
  NODEWISE_CHECK(value.kind == NetworkValue::Kind::kOutput);
  // Networks are deeper than a stack should be.
  std::vector<OperationId> waiting = {value.producer};
  while (!waiting.empty()) {
    const Operation& operation = network_.operation(waiting.back());
    const size_t before = waiting.size();
    for (const ValueId input : operation.inputs) {
      if (input == kNoValue || computed_[Index(input)] != nullptr) continue;
      const NetworkValue& read = network_.value(input);
      if (read.kind == NetworkValue::Kind::kOutput) {
        waiting.push_back(read.producer);
      } else {
        NODEWISE_RETURN_IF_ERROR(ValueOf(input).status());
      }
    }
    if (waiting.size() > before) continue;
    waiting.pop_back();
    NODEWISE_RETURN_IF_ERROR(Compute(operation.id));
  }
  return Open(id);
}

std::shared_ptr<FollowedReference::Kept> FollowedReference::Keep(
    std::vector<NDArray> tensors) const {
  auto kept = std::make_shared<Kept>();
  kept->facts = FactsOf(tensors);
  for (NDArray& tensor : tensors) {
    kept->tensors.push_back(store_->Put(std::move(tensor)));
  }
  return kept;
}

absl::StatusOr<std::shared_ptr<const FollowedReference::Value>>
FollowedReference::Open(ValueId id) const {
  // Callers that have the value at the same time share it, and it leaves memory
  // with the last of them.
  Kept& kept = *computed_[Index(id)];
  if (auto value = kept.value.lock(); value != nullptr) return value;
  auto value = std::make_shared<Value>();
  value->facts = kept.facts;
  if (kept.constant.defined()) value->tensors.assign(sets_, kept.constant);
  for (const std::shared_ptr<StoredTensor>& tensor : kept.tensors) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray loaded, tensor->Load());
    value->tensors.push_back(std::move(loaded));
  }
  kept.value = value;
  return std::shared_ptr<const Value>(std::move(value));
}

absl::StatusOr<std::shared_ptr<const FollowedReference::Value>>
FollowedReference::PerturbedValue(ValueId id, double roundoff,
                                  uint64_t seed) const {
  // Only the pinned values next before this one are moved: those further back
  // reach it through these alone.
  FollowedReference moved = *this;
  absl::Status status;
  WalkBack(network_, {id}, [&](const NetworkValue& value) {
    if (!status.ok()) return false;
    if (!pinned_[Index(value.id)]) return true;
    const auto pinned = Open(value.id);
    status = pinned.status();
    if (!status.ok()) return false;
    auto tensors = MovedBy((*pinned)->tensors, roundoff, seed, value.name);
    status = tensors.status();
    if (status.ok()) moved.Pin(value.id, *std::move(tensors));
    return false;
  });
  NODEWISE_RETURN_IF_ERROR(status);
  return moved.ValueOf(id);
}

absl::Status FollowedReference::Compute(OperationId id) {
  const Operation& operation = network_.operation(id);
  const EvalArgs::Options options{
      false, [](const Subgraph& body, std::vector<NDArray> inputs) {
        return Interpret(*body.body, std::move(inputs));
      }};
  absl::InlinedVector<bool, 3> wanted;
  for (const ValueId output : operation.outputs) {
    wanted.push_back(output != kNoValue);
  }
  std::vector<std::shared_ptr<const Value>> reads;
  for (const ValueId input : operation.inputs) {
    reads.push_back(nullptr);
    if (input == kNoValue) continue;
    NODEWISE_ASSIGN_OR_RETURN(reads.back(), Open(input));
  }
  // An operation makes all of its outputs at once. Those that are pinned are
  // made for nothing.
  std::vector<std::vector<NDArray>> made(operation.outputs.size());
  for (size_t set = 0; set < sets_; ++set) {
    Tensors inputs;
    for (const auto& read : reads) {
      inputs.push_back(read == nullptr ? NDArray() : read->tensors[set]);
    }
    const auto result =
        Evaluate(operation.attrs, std::move(inputs), wanted, options);
    if (!result.ok()) {
      return At(
          fmt::format("operation {} ({})", operation.name, operation.kind()),
          result.status());
    }
    for (size_t i = 0; i < made.size(); ++i) {
      made[i].push_back(result->outputs[i]);
    }
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const ValueId output = operation.outputs[i];
    if (output == kNoValue || pinned_[Index(output)]) continue;
    computed_[Index(output)] = Keep(std::move(made[i]));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
