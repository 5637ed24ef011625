// Faults around the call of a node's function, which need not know what it
// computes: in what it reads, in what it has made, in where that is written,
// and in whether it returns.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <thread>

#include "contrib/lab/planter/region_trial.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// --- What the node reads ---

// Returns a fault that gives the node `change` of a copy of an input.
Spoiling ChangedInput(std::string what, size_t input,
                      std::function<void(const NDArray& copy)> change) {
  return SpoilBeforeCall(
      std::move(what),
      [input, change = std::move(change)](NodeCall* call) -> absl::Status {
        NDArray& given = call->inputs[input];
        NODEWISE_ASSIGN_OR_RETURN(given, given.CopyToHost());
        change(given);
        return absl::OkStatus();
      });
}

// Returns whether an operation of the region adds the input: an operation for
// which f(x, b) - f(x, 0) is the same for any x.
bool IsAdded(const FaultPlace& place, ValueId input) {
  const auto& uses = place.region->network.value(input).uses;
  return std::ranges::any_of(uses, [&](const Use& use) {
    if (use.slot == kBarrierSlot) return false;
    const auto trial = RegionTrial::Create(place, use.user);
    return trial.ok() && trial->Adds(use.slot);
  });
}

absl::StatusOr<size_t> LargestConstant(const FaultPlace& place) {
  int64_t most = 0;
  size_t found = 0;
  for (size_t i = 0; i < place.sound.inputs.size(); ++i) {
    const NDArray& input = place.sound.inputs[i];
    const int64_t count = CountOf(input);
    if (!place.is_constant[i] || !IsNumeric(input.dtype()) || count <= most) {
      continue;
    }
    most = count;
    found = i;
  }
  // Fewer elements are rather a scale, an axis or sizes than weights.
  if (most < 4)
    return NotPlantable("it reads no constant of 4 elements or more");
  return found;
}

void AddSwapsInside(const FaultPlace& place, Spoilings* made) {
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
}

// --- What it has made ---

// One side of an output of a node, longer than 1. The sizes are those that the
// graph has for it, since kernels may be called with tensors that are flat.
struct OutputSide {
  size_t output = 0;
  int side = 0;
  int64_t count = 1;  // Elements of the output.
  int64_t size = 1;   // Those along the side.
  int64_t inner = 1;  // Those of the sides behind it.

  // Returns where along the side an element lies.
  int64_t PlaceOf(int64_t element) const { return element / inner % size; }
};

// Returns such sides of all outputs in a drawn order; not the first of several
// sides, which is the batch's as a rule, unless there is no other.
std::vector<OutputSide> SidesOf(const FaultPlace& place, RandomSource& random) {
  std::vector<OutputSide> sides, first;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const absl::Span<const int64_t> shape = place.sound.outputs[slot].shape();
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 2) continue;
      const OutputSide side{slot, static_cast<int>(i), Product(shape), shape[i],
                            Product(shape.subspan(i + 1))};
      if (side.count == 0) continue;
      (i == 0 && shape.size() > 1 ? first : sides).push_back(side);
    }
  }
  if (sides.empty()) sides = first;
  Shuffle(&sides, random);
  return sides;
}

// --- Where it is written. These work for elements of all types. ---

// Returns a fault after which element i of an output holds what element
// from(i) should; a negative from(i) stands for 0.
Spoiling MovedElements(std::string what, size_t output, int64_t count,
                       std::function<int64_t(int64_t)> from) {
  return SpoilAfterCall(
      std::move(what),
      [output, count, from = std::move(from)](const NodeCall& call) {
        const NDArray& spoiled = call.outputs[output];
        const size_t bytes = ElementBytes(spoiled.dtype());
        auto* const to = spoiled.As<char>();
        const std::vector<char> old(to, to + spoiled.bytes());
        for (int64_t i = 0; i < count; ++i) {
          const int64_t source = from(i);
          char* const element = to + static_cast<size_t>(i) * bytes;
          if (source < 0) {
            std::memset(element, 0, bytes);
          } else {
            std::memcpy(element, &old[static_cast<size_t>(source) * bytes],
                        bytes);
          }
        }
        return absl::OkStatus();
      });
}

// Returns a fault after which a block of an output holds what an input does,
// from its beginning on and as often as it takes.
Spoiling BlockOfInput(std::string what, size_t output, int64_t begin,
                      int64_t end, size_t input, int64_t input_count) {
  return SpoilAfterCall(std::move(what), [=](const NodeCall& call) {
    const size_t bytes = ElementBytes(call.outputs[output].dtype());
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(
          call.outputs[output].As<char>() + static_cast<size_t>(i) * bytes,
          call.inputs[input].As<char>() +
              static_cast<size_t>(i % input_count) * bytes,
          bytes);
    }
    return absl::OkStatus();
  });
}

std::vector<size_t> MultiElementOutputs(const FaultPlace& place,
                                        RandomSource& random) {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    if (CountOf(place.sound.outputs[slot]) > 1) slots.push_back(slot);
  }
  Shuffle(&slots, random);
  return slots;
}

constexpr const char* kTooShort = "it makes one element alone";

// --- Whether it returns, and in which calls it is wrong ---

// Says which calls are faulty: a third of them, by chance. The calls are those
// of all executors, since a race does not begin anew with each of them. Where
// one process plants and the next one runs, calls of two runs must not be
// faulty alike: there the process counts, too.
class OneOfThreeCalls {
 public:
  explicit OneOfThreeCalls(uint64_t seed)
      : seed_(seed), planted_in_(getpid()) {}

  bool Next() {
    const uint64_t call = calls_++;
    const auto process = static_cast<uint64_t>(getpid() - planted_in_);
    RandomSource random(seed_ + call, fmt::format("flaky {}", process));
    return random.Between(0, 2) == 0;
  }

 private:
  const uint64_t seed_;
  const pid_t planted_in_;
  std::atomic<uint64_t> calls_ = 0;
};

// The fault is tried as it is in its faulty calls: else it would depend on
// chance whether a trial sees an effect.
Spoiling InOneOfThreeCalls(const Spoiling& always, uint64_t seed) {
  Spoiling made = always;
  made.what = fmt::format("in a third of the calls: {}", always.what);
  made.bind_for_trial = always.bind;
  const auto calls = std::make_shared<OneOfThreeCalls>(seed);
  made.bind = [always, calls](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc right, sound.Bind(request));
    NODEWISE_ASSIGN_OR_RETURN(const PackedFunc wrong,
                              always.bind(sound, request));
    return NodeFunction(request.num_outputs,
                        [right, wrong, calls](const NodeCall& call) {
                          return CallNode(calls->Next() ? wrong : right, call);
                        });
  };
  return made;
}

// No program has memory at this address.
[[gnu::noinline]] void WriteToNowhere() {
  volatile uintptr_t address = 16;
  *reinterpret_cast<volatile int*>(address) = 1;
  // Where a sanitizer or a handler lets it pass all the same.
  (void)std::raise(SIGSEGV);
}

}  // namespace

FoundWays MissingBias(const FaultPlace& place, RandomSource& random) {
  if (place.region == nullptr) return NotPlantable(place.why_unknown);
  const Network& network = place.region->network;
  Spoilings made;
  for (size_t i = 0; i < place.sound.inputs.size(); ++i) {
    if (!place.is_constant[i] || !IsAdded(place, network.inputs()[i])) continue;
    made.push_back(ChangedInput(
        fmt::format("input {} ({}), which is added, is taken to be 0", i,
                    network.value(network.inputs()[i]).name),
        i, [](const NDArray& copy) {
          std::memset(copy.data(), 0, copy.bytes());
        }));
  }
  return Found(std::move(made), "it adds no constant", &random);
}

FoundWays WrongWeight(const FaultPlace& place, RandomSource& random) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, LargestConstant(place));
  const NDArray& weights = place.sound.inputs[input];
  const Numbers values = ToDoubles(weights);
  const double largest = std::max(LargestOf(weights), 1e-3);
  Spoilings made;
  // An element may be one that nothing reads: padding, an unused row of a
  // table.
  for (int tries = 0; tries < 8; ++tries) {
    const auto element = static_cast<size_t>(
        random.Between(0, static_cast<int64_t>(values.size()) - 1));
    const double was = values[element];
    // It changes by twice the largest element, so that a sum of many shows it.
    double is = was > 0 ? was - 2 * largest : was + 2 * largest;
    // Integers stay in the range that the others have.
    if (IsInteger(weights.dtype())) {
      is = was > largest / 2 ? was - std::floor(largest) : was + 1;
    }
    made.push_back(ChangedInput(
        fmt::format("element {} of input {} is {:.4g} instead of {:.4g}",
                    element, input, is, was),
        input, [=](const NDArray& copy) {
          ChangeNumbers(copy, [&](Numbers& numbers) { numbers[element] = is; });
        }));
  }
  return made;
}

FoundWays SwappedInputs(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  const auto& inputs = place.sound.inputs;
  for (size_t j = 1; j < inputs.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      if (!(inputs[i].dtype() == inputs[j].dtype()) ||
          inputs[i].shape() != inputs[j].shape()) {
        continue;
      }
      made.push_back(
          SpoilBeforeCall(fmt::format("inputs {} and {} are exchanged", i, j),
                          [i, j](NodeCall* call) {
                            std::swap(call->inputs[i], call->inputs[j]);
                            return absl::OkStatus();
                          }));
    }
  }
  if (place.region != nullptr && place.is_bound_by_attributes) {
    AddSwapsInside(place, &made);
  }
  return Found(std::move(made), "it reads no two tensors of one type", &random);
}

// From one to two per cent, either way.
Spoiling ScalingOfFloats(RandomSource& random) {
  const double size = 0.015 + 0.005 * random.Symmetric();
  const double factor = random.Between(0, 1) == 0 ? 1 - size : 1 + size;
  const NodeBody scale = [factor](const NodeCall& call) {
    for (const NDArray& output : call.outputs) {
      if (!IsFloat(output.dtype())) continue;
      ChangeNumbers(output, [&](Numbers& numbers) {
        for (double& number : numbers) number *= factor;
      });
    }
    return absl::OkStatus();
  };
  Spoiling made = SpoilAfterCall(fmt::format("times {:.4f}", factor), scale);
  made.factor = factor;
  return made;
}

// One way is enough: it changes every number but 0.
FoundWays ScaledOutputs(const FaultPlace& place, RandomSource& random) {
  for (const NDArray& output : place.sound.outputs) {
    if (IsFloat(output.dtype())) return Spoilings{ScalingOfFloats(random)};
  }
  return NotPlantable("it makes no floats");
}

FoundWays SpoiledChannel(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const OutputSide& side : SidesOf(place, random)) {
    const NDArray& output = place.sound.outputs[side.output];
    if (!IsNumeric(output.dtype())) continue;
    const int64_t channel = random.Between(0, side.size - 1);
    // A number changes by a quarter of itself and by a step, so that 0 changes,
    // too: integers by one at least, floats by something that is seen beside
    // the largest one.
    const double step = IsFloat(output.dtype()) ? LargestOf(output) / 64 : 1;
    const auto spoil = [side, channel, step](Numbers& numbers) {
      for (int64_t i = 0; i < side.count; ++i) {
        if (side.PlaceOf(i) != channel) continue;
        double& number = numbers[static_cast<size_t>(i)];
        number += (number < 0 ? -1 : 1) * (std::fabs(number) / 4 + step);
      }
    };
    made.push_back(
        ChangedOutput(fmt::format("index {} of side {} of output {} is wrong",
                                  channel, side.side, side.output),
                      side.output, spoil));
  }
  return Found(std::move(made), "no side of a result is longer than 1");
}

FoundWays OneNan(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const NDArray& output = place.sound.outputs[slot];
    const int64_t count = CountOf(output);
    if (!IsFloat(output.dtype()) || count == 0) continue;
    const auto element = static_cast<size_t>(random.Between(0, count - 1));
    made.push_back(ChangedOutput(
        fmt::format("element {} of output {} is NaN", element, slot), slot,
        [element](Numbers& numbers) {
          numbers[element] = std::numeric_limits<double>::quiet_NaN();
        }));
  }
  return Found(std::move(made), "it makes no floats", &random);
}

// The result is written as if the two sides stood in the other order, and read
// as they stand.
FoundWays TransposedOutput(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const OutputSide& side : SidesOf(place, random)) {
    const auto shape = place.sound.outputs[side.output].shape();
    if (static_cast<size_t>(side.side) + 1 >= shape.size()) continue;
    const int64_t rows = side.size;
    const int64_t columns = shape[static_cast<size_t>(side.side) + 1];
    if (columns < 2) continue;
    const int64_t inner = side.inner / columns;
    made.push_back(MovedElements(
        fmt::format("output {} is stored with sides {} and {} exchanged",
                    side.output, side.side, side.side + 1),
        side.output, side.count, [=](int64_t i) {
          const int64_t block = i / (rows * columns * inner);
          const int64_t row = i / inner % rows;
          const int64_t column = i / inner / rows % columns;
          return ((block * rows + row) * columns + column) * inner + i % inner;
        }));
  }
  return Found(std::move(made), "no result has two sides longer than 1");
}

// The last index along the side, which has no neighbour, keeps its elements.
FoundWays ShiftedOutput(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const OutputSide& side : SidesOf(place, random)) {
    made.push_back(MovedElements(
        fmt::format("output {} is shifted by one along side {}", side.output,
                    side.side),
        side.output, side.count, [side](int64_t i) {
          return side.PlaceOf(i) + 1 < side.size ? i + side.inner : i;
        }));
  }
  return Found(std::move(made), kTooShort);
}

// All lanes are ways, in a drawn order, since what a lane holds may be 0
// anyway.
FoundWays DroppedLane(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const size_t slot : MultiElementOutputs(place, random)) {
    const int64_t count = CountOf(place.sound.outputs[slot]);
    std::vector<int64_t> widths = {16, 8, 4, 2};
    std::erase_if(widths, [&](int64_t width) { return width > count; });
    const int64_t lanes = OneOf(widths, random);
    std::vector<int64_t> lane_order(static_cast<size_t>(lanes));
    std::iota(lane_order.begin(), lane_order.end(), 0);
    Shuffle(&lane_order, random);
    for (const int64_t lane : lane_order) {
      made.push_back(MovedElements(
          fmt::format("lane {} of every {} elements of output {} is 0", lane,
                      lanes, slot),
          slot, count, [=](int64_t i) { return i % lanes == lane ? -1 : i; }));
    }
  }
  return Found(std::move(made), kTooShort);
}

// A row whose length is a multiple of the vector has no tail, and a shorter one
// has no vector before it that the tail could repeat.
FoundWays UnmaskedTail(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const size_t slot : MultiElementOutputs(place, random)) {
    const NDArray& output = place.sound.outputs[slot];
    const int64_t row = output.shape().back();
    for (const int64_t lanes : {16, 8, 4}) {
      const int64_t tail = row % lanes;
      if (tail == 0 || row < lanes) continue;
      made.push_back(MovedElements(
          fmt::format("the last {} of every {} elements of output {} are those "
                      "{} places before them",
                      tail, row, slot, lanes),
          slot, CountOf(output),
          [=](int64_t i) { return i % row >= row - tail ? i - lanes : i; }));
    }
  }
  return Found(std::move(made),
               "no row of a result is longer than a vector with a rest",
               &random);
}

// What was there before is an input, whose memory the result may have taken
// over, or else another block of the result itself.
FoundWays StaleBlock(const FaultPlace& place, RandomSource& random) {
  Spoilings made;
  for (const size_t slot : MultiElementOutputs(place, random)) {
    const NDArray& output = place.sound.outputs[slot];
    const int64_t count = CountOf(output);
    const int64_t size = std::max<int64_t>(1, count / random.Between(2, 8));
    const int64_t begin = random.Between(0, count - size);
    const int64_t end = begin + size;
    for (size_t input = 0; input < place.sound.inputs.size(); ++input) {
      const NDArray& older = place.sound.inputs[input];
      if (!(older.dtype() == output.dtype()) || CountOf(older) < 2) continue;
      made.push_back(BlockOfInput(
          fmt::format("elements {} to {} of output {} hold what input {} does",
                      begin, end - 1, slot, input),
          slot, begin, end, input, CountOf(older)));
    }
    made.push_back(MovedElements(
        fmt::format("elements {} to {} of output {} hold those {}", begin,
                    end - 1, slot,
                    begin >= size ? "before them" : "at its end"),
        slot, count, [=](int64_t i) {
          return i >= begin && i < end ? (i - size + count) % count : i;
        }));
  }
  return Found(std::move(made), kTooShort);
}

FoundWays Overrun(const FaultPlace& place, RandomSource& random) {
  const size_t slot = place.sound.outputs.size() - 1;
  const NDArray& output = place.sound.outputs[slot];
  if (output.bytes() == 0) return NotPlantable("its result is empty");
  const auto elements = static_cast<size_t>(random.Between(1, 4));
  const size_t bytes = elements * ElementBytes(output.dtype());
  return Spoilings{SpoilAfterCall(
      fmt::format("writes {} bytes past the end of output {}", bytes, slot),
      [slot, bytes](const NodeCall& call) {
        const NDArray& written = call.outputs[slot];
        // Zeros would not show where there are zeros already.
        std::memset(written.As<char>() + written.bytes(), 0x5a, bytes);
        return absl::OkStatus();
      })};
}

// One seed for all ways: which calls are faulty does not depend on which way is
// taken in the end.
FoundWays FlakyOutput(const FaultPlace& place, RandomSource& random) {
  const uint64_t seed = random.Next();
  Spoilings made;
  for (const SpoilingsOf kind : {&ScaledOutputs, &DroppedLane}) {
    const auto always = kind(place, random);
    if (!always.ok()) continue;
    for (const Spoiling& spoiling : *always) {
      made.push_back(InOneOfThreeCalls(spoiling, seed));
    }
  }
  return Found(std::move(made), "it makes one element alone, and no float");
}

FoundWays Crash(const FaultPlace&, RandomSource&) {
  return Spoilings{
      ReplaceCall("ends the process by SIGSEGV", [](const NodeCall&) {
        WriteToNowhere();
        return absl::OkStatus();
      })};
}

FoundWays Hang(const FaultPlace&, RandomSource&) {
  return Spoilings{
      ReplaceCall("never ends", [](const NodeCall&) -> absl::Status {
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      })};
}

}  // namespace nodewise
