#pragma once

// Drawn cases in double, so that only formulas make a difference.

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/autotest/choices.h"
#include "nodewise/autotest/configuration.h"
#include "nodewise/autotest/operator_space.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/random/random.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Older networks are raised to it.
inline constexpr int kLeastOpset = 16;
inline constexpr int kDraws = 60;  // For each row.
// The fewest of these draws that must be judged.
inline constexpr int kLeastJudged = 5;

// Numbers of an interval, all different and none of them special.
struct Interval {
  double least;
  double most;
};
// Where operators are defined: the first in which one makes finite numbers is
// taken.
inline constexpr Interval kIntervals[] = {
    {-4, 4}, {-0.9, 0.9}, {0.2, 0.9}, {1.1, 3}};

inline NDArray InDouble(const NDArray& tensor) {
  NDArray copy = *NDArray::Empty(tensor.shape(), kFloat64, kCpu);
  const std::vector<double> numbers = ToDoubles(tensor);
  StoreDoubles(numbers.data(), 0, CountOf(copy), copy);
  return copy;
}

// The configuration with doubles in place of all other floats, and with
// everything that decides on shapes as a constant. Some operators take scales
// in float32 alone.
inline Configuration InDouble(Configuration made, bool with_fixed) {
  for (CaseInput& input : made.inputs) {
    if (!input.is_given) continue;
    if (input.fixed.defined()) input.is_constant = true;
    if (!IsFloat(input.dtype)) continue;
    if (input.is_constant && !with_fixed) continue;
    input.dtype = kFloat64;
    if (input.fixed.defined()) input.fixed = InDouble(input.fixed);
  }
  for (NamedAttr& attr : made.attributes) {
    if (attr.name == "to") attr.value = int64_t{11};
  }
  return made;
}

// A drawn use of an operator as a network of doubles, and which of the
// network's inputs are doubles that need not be whole numbers.
struct DoubleCase {
  Configuration made;
  Network network;
  std::vector<size_t> wanted;
};

// Fails if the operator has no such inputs or outputs, or refuses doubles.
inline absl::StatusOr<DoubleCase> DrawDoubleCase(const OperatorDef& def,
                                                 uint64_t number) {
  Choices choices(RandomSource(number, def.name));
  NODEWISE_ASSIGN_OR_RETURN(const OperatorCase drawn, DrawCase(def, &choices));
  DoubleCase one;
  for (const bool with_fixed : {true, false}) {
    one.made = InDouble(drawn.configuration, with_fixed);
    auto network = NetworkOf(one.made);
    if (!network.ok() && with_fixed) continue;
    NODEWISE_RETURN_IF_ERROR(network.status());
    one.network = *std::move(network);
    break;
  }
  const auto is_double = [&](ValueId id) {
    return one.network.value(id).type.dtype == kFloat64;
  };
  size_t at = 0;
  for (const CaseInput& input : one.made.inputs) {
    if (!input.is_given || input.is_constant) continue;
    if (is_double(one.network.inputs()[at]) && !input.domain.is_whole) {
      one.wanted.push_back(at);
    }
    ++at;
  }
  const auto outputs = one.network.outputs();
  if (one.wanted.empty() ||
      !std::any_of(outputs.begin(), outputs.end(), is_double)) {
    return absl::NotFoundError("there is nothing to differentiate");
  }
  return one;
}

inline NDArray DrawDoubles(const CaseInput& input, Interval interval,
                           RandomSource* random) {
  NDArray tensor = *NDArray::Empty(input.shape, kFloat64, kCpu);
  const double least = std::max(interval.least, input.domain.least);
  const double most = std::min(interval.most, input.domain.most);
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    const double unit = static_cast<double>(random->Next() >> 11) * 0x1p-53;
    tensor.As<double>()[i] =
        least < most ? least + unit * (most - least) : input.domain.least;
  }
  return tensor;
}

// Draws the inputs of the network, floats in the interval.
inline std::vector<NDArray> DrawDoubleInputs(const DoubleCase& one,
                                             uint64_t number, Interval interval,
                                             RandomSource* random) {
  std::vector<NDArray> inputs;
  for (const CaseInput& input : one.made.inputs) {
    if (!input.is_given || input.is_constant) continue;
    if (IsFloat(input.dtype) && !input.domain.is_whole) {
      inputs.push_back(DrawDoubles(input, interval, random));
    } else {
      Choices numbers(RandomSource(number, "others"));
      inputs.push_back(
          *DrawTensor(input.dtype, input.shape, input.domain, &numbers));
    }
  }
  return inputs;
}

}  // namespace nodewise
