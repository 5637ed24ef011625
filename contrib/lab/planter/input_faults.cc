// Faults in what a node's function reads.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "contrib/lab/planter/region_trial.h"
#include "contrib/lab/planter/sides.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns a fault that gives the node `change` of a copy of an input.
Spoiling ChangedInput(std::string what, size_t input,
                      std::function<void(const NDArray& copy)> change) {
  return BeforeTheCall(
      std::move(what),
      [input, change = std::move(change)](NodeCall* call) -> absl::Status {
        NODEWISE_ASSIGN_OR_RETURN(NDArray copy,
                                  call->inputs[input].CopyToHost());
        change(copy);
        call->inputs[input] = std::move(copy);
        return absl::OkStatus();
      });
}

// Returns whether an operation of the region adds the input: an operation for
// which f(x, b) - f(x, 0) is the same for any x.
bool IsAdded(const FaultPlace& place, size_t input) {
  const Region& region = *place.region;
  const ValueId value = region.network.inputs()[input];
  for (const Use& use : region.network.value(value).uses) {
    if (use.slot == kBarrierSlot) continue;
    const auto trial = RegionTrial::Of(place, use.user);
    if (trial.ok() && trial->Adds(use.slot)) return true;
  }
  return false;
}

absl::StatusOr<size_t> LargestConstant(const FaultPlace& place) {
  int64_t most = 0;
  size_t found = 0;
  for (size_t i = 0; i < place.sound.inputs.size(); ++i) {
    const NDArray& input = place.sound.inputs[i];
    const bool is_number = IsFloat(input.dtype()) || IsInteger(input.dtype());
    const int64_t count = CountOf(input);
    if (!place.is_constant[i] || !is_number || count <= most) continue;
    most = count;
    found = i;
  }
  if (most < 4) return Lacks("it reads no constant of 4 elements or more");
  return found;
}

Spoiling WrongElement(size_t input, int64_t element, double is, double was) {
  return ChangedInput(
      fmt::format("element {} of input {} is {:.4g} instead of {:.4g}", element,
                  input, is, was),
      input, [=](const NDArray& copy) {
        std::vector<double> values = ToDoubles(copy);
        values[static_cast<size_t>(element)] = is;
        StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()),
                     copy);
      });
}

bool AreOfOneType(const NDArray& a, const NDArray& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape();
}

// Exchanges two values that operations of the region read.
absl::Status AddSwapsInside(const FaultPlace& place, Spoilings* made) {
  const Network& network = place.region->network;
  for (const OperationId id : network.order()) {
    const std::vector<ValueId> inputs = network.operation(id).inputs;
    for (uint32_t j = 1; j < inputs.size(); ++j) {
      for (uint32_t i = 0; i < j; ++i) {
        if (inputs[i] == kNoValue || inputs[j] == kNoValue ||
            inputs[i] == inputs[j] ||
            !(network.value(inputs[i]).type == network.value(inputs[j]).type)) {
          continue;
        }
        Region changed = *place.region;
        if (!changed.network.ReplaceInput(id, i, inputs[j]).ok() ||
            !changed.network.ReplaceInput(id, j, inputs[i]).ok()) {
          continue;
        }
        made->push_back(
            WithRegion(fmt::format("inputs {} and {} of {} are exchanged", i, j,
                                   network.operation(id).name),
                       changed));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Spoilings> MissingBias(const FaultPlace& place,
                                      RandomSource& random) {
  if (place.region == nullptr) return Lacks(place.why_unknown);
  Spoilings made;
  for (size_t i = 0; i < place.sound.inputs.size(); ++i) {
    if (!place.is_constant[i] || !IsAdded(place, i)) continue;
    const ValueId value = place.region->network.inputs()[i];
    made.push_back(ChangedInput(
        fmt::format("input {} ({}), which is added, is taken to be 0", i,
                    place.region->network.value(value).name),
        i, [](const NDArray& copy) {
          std::memset(copy.data(), 0, copy.bytes());
        }));
  }
  if (made.empty()) return Lacks("it adds no constant");
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> WrongWeight(const FaultPlace& place,
                                      RandomSource& random) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, LargestConstant(place));
  const NDArray& weights = place.sound.inputs[input];
  const std::vector<double> values = ToDoubles(weights);
  const double largest = std::max(LargestOf(weights), 1e-3);
  Spoilings made;
  // An element may be one that nothing reads: padding, an unused row of a
  // table.
  for (int tries = 0; tries < 8; ++tries) {
    const int64_t element =
        random.Between(0, static_cast<int64_t>(values.size()) - 1);
    const double was = values[static_cast<size_t>(element)];
    double is = was > 0 ? was - 2 * largest : was + 2 * largest;
    if (IsInteger(weights.dtype())) {
      is = was > largest / 2 ? was - std::floor(largest) : was + 1;
    }
    made.push_back(WrongElement(input, element, is, was));
  }
  return made;
}

absl::StatusOr<Spoilings> SwappedInputs(const FaultPlace& place,
                                        RandomSource& random) {
  Spoilings made;
  const auto& inputs = place.sound.inputs;
  for (size_t j = 1; j < inputs.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      if (!AreOfOneType(inputs[i], inputs[j])) continue;
      made.push_back(
          BeforeTheCall(fmt::format("inputs {} and {} are exchanged", i, j),
                        [i, j](NodeCall* call) {
                          std::swap(call->inputs[i], call->inputs[j]);
                          return absl::OkStatus();
                        }));
    }
  }
  if (place.region != nullptr && place.is_bound_by_attributes) {
    NODEWISE_RETURN_IF_ERROR(AddSwapsInside(place, &made));
  }
  if (made.empty()) return Lacks("it reads no two tensors of one type");
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
