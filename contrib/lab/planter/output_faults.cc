// Faults that change what a node has made, element by element.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "contrib/lab/planter/sides.h"
#include "contrib/lab/planter/spoiling.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Puts f(x) in the place of each element.
template <typename F>
void ChangeAll(const NDArray& tensor, F f) {
  std::vector<double> values = ToDoubles(tensor);
  for (double& value : values) value = f(value);
  StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()), tensor);
}

absl::Status ScaleFloats(const NodeCall& call, double factor) {
  for (const NDArray& output : call.outputs) {
    if (!IsFloat(output.dtype())) continue;
    ChangeAll(output, [&](double value) { return value * factor; });
  }
  return absl::OkStatus();
}

// Returns a wrong number in place of this one: it changes by a quarter of
// itself and by `step`, so that 0 changes, too.
double WrongNumber(double value, double step) {
  return value + (value < 0 ? -1 : 1) * (std::fabs(value) / 4 + step);
}

}  // namespace

Spoiling ScalingOfFloats(RandomSource& random) {
  const double size = 0.015 + 0.005 * random.Symmetric();
  const double factor = random.Between(0, 1) == 0 ? 1 - size : 1 + size;
  Spoiling made = AfterTheCall(
      fmt::format("times {:.4f}", factor),
      [factor](const NodeCall& call) { return ScaleFloats(call, factor); });
  made.factor = factor;
  return made;
}

absl::StatusOr<Spoilings> ScaledOutputs(const FaultPlace& place,
                                        RandomSource& random) {
  const auto& outputs = place.sound.outputs;
  if (std::none_of(outputs.begin(), outputs.end(), [](const NDArray& output) {
        return IsFloat(output.dtype());
      })) {
    return Lacks("it makes no floats");
  }
  return Spoilings{ScalingOfFloats(random)};
}

absl::StatusOr<Spoilings> SpoiledChannel(const FaultPlace& place,
                                         RandomSource& random) {
  Spoilings made;
  for (const OutputSide& side : SidesOf(place, random)) {
    const NDArray& output = place.sound.outputs[side.output];
    if (!IsFloat(output.dtype()) && !IsInteger(output.dtype())) continue;
    const int64_t channel = random.Between(0, side.size - 1);
    // Integers change by one at least, floats by something that is seen beside
    // the largest one.
    double step = 1;
    if (IsFloat(output.dtype())) step = LargestOf(output) / 64;
    made.push_back(
        AfterTheCall(fmt::format("index {} of side {} of output {} is wrong",
                                 channel, side.side, side.output),
                     [side, channel, step](const NodeCall& call) {
                       const NDArray& spoiled = call.outputs[side.output];
                       std::vector<double> values = ToDoubles(spoiled);
                       for (int64_t i = 0; i < side.count(); ++i) {
                         if (side.PlaceOf(i) != channel) continue;
                         const auto at = static_cast<size_t>(i);
                         values[at] = WrongNumber(values[at], step);
                       }
                       StoreDoubles(values.data(), 0, side.count(), spoiled);
                       return absl::OkStatus();
                     }));
  }
  if (made.empty()) return Lacks("no side of a result is longer than 1");
  return made;
}

absl::StatusOr<Spoilings> OneNan(const FaultPlace& place,
                                 RandomSource& random) {
  Spoilings made;
  for (size_t slot = 0; slot < place.sound.outputs.size(); ++slot) {
    const NDArray& output = place.sound.outputs[slot];
    const int64_t count = CountOf(output);
    if (!IsFloat(output.dtype()) || count == 0) continue;
    const int64_t element = random.Between(0, count - 1);
    made.push_back(AfterTheCall(
        fmt::format("element {} of output {} is NaN", element, slot),
        [slot, element](const NodeCall& call) {
          const double nan = std::numeric_limits<double>::quiet_NaN();
          const NDArray& spoiled = call.outputs[slot];
          std::vector<double> values = ToDoubles(spoiled);
          values[static_cast<size_t>(element)] = nan;
          StoreDoubles(values.data(), 0, static_cast<int64_t>(values.size()),
                       spoiled);
          return absl::OkStatus();
        }));
  }
  if (made.empty()) return Lacks("it makes no floats");
  Shuffle(&made, random);
  return made;
}

}  // namespace nodewise
