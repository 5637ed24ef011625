// Faults that put what a node has made, or what it has read, in wrong places of
// its result. They work for elements of all types.

#include <algorithm>
#include <cstring>

#include "contrib/lab/planter/sides.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Returns a fault after which element i of an output holds what element
// from(i) should; a negative from(i) stands for 0.
Spoiling MovedElements(std::string what, size_t output, int64_t count,
                       std::function<int64_t(int64_t)> from) {
  return AfterTheCall(std::move(what), [output, count, from = std::move(from)](
                                           const NodeCall& call) {
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
        std::memcpy(element, &old[static_cast<size_t>(source) * bytes], bytes);
      }
    }
    return absl::OkStatus();
  });
}

// The outputs with more than one element, in a drawn order.
std::vector<size_t> LongOutputs(const FaultPlace& place, RandomSource& random) {
  std::vector<size_t> slots;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    if (CountOf(place.sound.outputs[slot]) > 1) slots.push_back(slot);
  }
  Shuffle(&slots, random);
  return slots;
}

absl::Status TooShort() { return Lacks("it makes one element alone"); }

}  // namespace

absl::StatusOr<Spoilings> TransposedOutput(const FaultPlace& place,
                                           RandomSource& random) {
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
        side.output, side.count(), [=](int64_t i) {
          const int64_t block = i / (rows * columns * inner);
          const int64_t row = i / inner % rows;
          const int64_t column = i / inner / rows % columns;
          return ((block * rows + row) * columns + column) * inner + i % inner;
        }));
  }
  if (made.empty()) return Lacks("no result has two sides longer than 1");
  return made;
}

absl::StatusOr<Spoilings> ShiftedOutput(const FaultPlace& place,
                                        RandomSource& random) {
  Spoilings made;
  for (const OutputSide& side : SidesOf(place, random)) {
    made.push_back(MovedElements(
        fmt::format("output {} is shifted by one along side {}", side.output,
                    side.side),
        side.output, side.count(), [side](int64_t i) {
          return side.PlaceOf(i) + 1 < side.size ? i + side.inner : i;
        }));
  }
  if (made.empty()) return TooShort();
  return made;
}

absl::StatusOr<Spoilings> DroppedLane(const FaultPlace& place,
                                      RandomSource& random) {
  Spoilings made;
  for (const size_t slot : LongOutputs(place, random)) {
    const int64_t count = CountOf(place.sound.outputs[slot]);
    std::vector<int64_t> widths = {16, 8, 4, 2};
    std::erase_if(widths, [&](int64_t width) { return width > count; });
    const int64_t lanes = OneOf(widths, random);
    std::vector<int64_t> lane_order;
    for (int64_t lane = 0; lane < lanes; ++lane) lane_order.push_back(lane);
    Shuffle(&lane_order, random);
    for (const int64_t lane : lane_order) {
      made.push_back(MovedElements(
          fmt::format("lane {} of every {} elements of output {} is 0", lane,
                      lanes, slot),
          slot, count, [=](int64_t i) { return i % lanes == lane ? -1 : i; }));
    }
  }
  if (made.empty()) return TooShort();
  return made;
}

absl::StatusOr<Spoilings> UnmaskedTail(const FaultPlace& place,
                                       RandomSource& random) {
  Spoilings made;
  for (const size_t slot : LongOutputs(place, random)) {
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
  if (made.empty()) {
    return Lacks("no row of a result is longer than a vector with a rest");
  }
  Shuffle(&made, random);
  return made;
}

absl::StatusOr<Spoilings> StaleBlock(const FaultPlace& place,
                                     RandomSource& random) {
  Spoilings made;
  for (const size_t slot : LongOutputs(place, random)) {
    const int64_t count = CountOf(place.sound.outputs[slot]);
    const int64_t size = std::max<int64_t>(1, count / random.Between(2, 8));
    const int64_t begin = random.Between(0, count - size);
    const size_t inputs = place.sound.inputs.size();
    for (size_t input = 0; input < inputs; ++input) {
      const NDArray& older = place.sound.inputs[input];
      if (!(older.dtype() == place.sound.outputs[slot].dtype()) ||
          CountOf(older) < 2) {
        continue;
      }
      made.push_back(AfterTheCall(
          fmt::format("elements {} to {} of output {} hold what input {} does",
                      begin, begin + size - 1, slot, input),
          [=, length = CountOf(older)](const NodeCall& call) {
            const size_t bytes = ElementBytes(call.outputs[slot].dtype());
            for (int64_t i = begin; i < begin + size; ++i) {
              std::memcpy(call.outputs[slot].As<char>() +
                              static_cast<size_t>(i) * bytes,
                          call.inputs[input].As<char>() +
                              static_cast<size_t>(i % length) * bytes,
                          bytes);
            }
            return absl::OkStatus();
          }));
    }
    made.push_back(MovedElements(
        fmt::format("elements {} to {} of output {} hold those {}", begin,
                    begin + size - 1, slot,
                    begin >= size ? "before them" : "at its end"),
        slot, count, [=](int64_t i) {
          const bool is_stale = i >= begin && i < begin + size;
          return is_stale ? (i - size + count) % count : i;
        }));
  }
  if (made.empty()) return TooShort();
  return made;
}

}  // namespace nodewise
