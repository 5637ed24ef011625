#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "contrib/two_models/model_side.h"
#include "fmt/format.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Numbers beyond a range that was measured with other samples: few of them are
// usual, and some ways of calibrating leave out as many on purpose.
constexpr double kMostUsual = 0.01;

struct Range {
  double low = 0, high = 0;
};

// Returns what a value of integers holds, up to half a step beyond its ends.
std::optional<Range> RangeOf(const ModelSide& side, ValueId id) {
  const NetworkValue& value = side.network().value(id);
  const DLDataType type = value.type.dtype;
  const bool is_integer = type.code == kDLInt || type.code == kDLUInt;
  if (!is_integer || type.bits > 16 || !side.Varies(id)) return std::nullopt;
  const auto how = side.QuantisationOf(id);
  if (!how.has_value() || !(how->scale > 0)) return std::nullopt;
  const double steps = std::exp2(type.bits);
  const double first = type.code == kDLInt ? -steps / 2 : 0;
  return Range{how->Number(first - 0.5), how->Number(first + steps - 0.5)};
}

// Quantisers take a Relu or a Clip into the range of what it reads, which then
// leaves out what the operator does.
ValueId BehindMerged(const Network& network, ValueId id) {
  const NetworkValue& value = network.value(id);
  if (value.uses.size() != 1) return id;
  const Operation& reader = network.operation(value.uses[0].user);
  const bool is_merged = reader.kind() == "Relu" || reader.kind() == "Clip";
  return is_merged ? reader.outputs[0] : id;
}

double ShareOutOfRange(const std::vector<NDArray>& sets, const Range& range) {
  size_t all = 0;
  size_t beyond = 0;
  for (const NDArray& tensor : sets) {
    if (tensor.dtype() != kFloat32) continue;
    const auto count = tensor.bytes() / sizeof(float);
    const float* const numbers = tensor.As<float>();
    all += count;
    beyond += static_cast<size_t>(
        std::count_if(numbers, numbers + count, [&](float number) {
          return number < range.low || number > range.high;
        }));
  }
  return all == 0 ? 0 : static_cast<double>(beyond) / static_cast<double>(all);
}

}  // namespace

absl::StatusOr<std::vector<NarrowRange>> FindNarrowRanges(
    const ModelPairing& pairing, const ModelSide& target,
    RunningModel* reference) {
  // A tensor may be put into integers for each of its readers.
  std::map<ValueId, Range> by_made;
  for (const OperationId id : target.network().order()) {
    for (const ValueId output : target.network().operation(id).outputs) {
      if (output == kNoValue) continue;
      const auto range = RangeOf(target, output);
      if (range.has_value()) by_made.emplace(target.MadeOf(output), *range);
    }
  }
  std::vector<NarrowRange> narrow;
  for (const ValuePair& pair : pairing.pairs) {
    const auto range = by_made.find(pair.target.made);
    if (range == by_made.end()) continue;
    const ValueId meant =
        BehindMerged(reference->side->network(), pair.reference.made);
    NODEWISE_ASSIGN_OR_RETURN(const auto made, reference->Tensors(meant));
    const double share = ShareOutOfRange(made, range->second);
    if (share < kMostUsual) continue;
    narrow.push_back(
        {reference->side->network().value(pair.reference.made).name, share});
  }
  std::ranges::stable_sort(narrow, std::greater(), &NarrowRange::share);
  return narrow;
}

namespace {

// Fewer numbers may be on a grid by chance.
constexpr int64_t kLeastElements = 256;
// Numbers with one scale lie one behind the other, in the last side or, where
// the weights were transposed, in the one before it. The scale may be that of
// the whole side, or of a block.
constexpr int64_t kBlocks[] = {INT64_MAX, 128, 64, 32, 16};
// How far from the grid, in its steps, what was scaled in float32 may lie.
constexpr double kNearGrid = 0.02;

// Returns how many steps of an even grid the numbers span: 15 for what 4 bits
// hold. 0 if they are all the same; none if they lie on no grid of up to 255.
std::optional<int> StepsOf(std::vector<double>* numbers) {
  std::ranges::sort(*numbers);
  const double least = numbers->front();
  const double span = numbers->back() - least;
  if (span == 0) return 0;
  double step = span;
  for (size_t i = 1; i < numbers->size(); ++i) {
    const double gap = (*numbers)[i] - (*numbers)[i - 1];
    if (gap > span / 512) step = std::min(step, gap);
  }
  const double steps = std::nearbyint(span / step);
  if (steps > UINT8_MAX) return std::nullopt;
  step = span / steps;
  for (const double number : *numbers) {
    const double at = (number - least) / step;
    if (std::abs(at - std::nearbyint(at)) > kNearGrid) return std::nullopt;
  }
  return static_cast<int>(steps);
}

// Numbers as rows of what lies along one side.
struct Rows {
  const std::vector<double>& numbers;
  int64_t length;  // How many numbers a row has.
  int64_t stride;  // From one number of a row to the next.
};

// Returns the bits that the numbers of every block need; none if one of the
// blocks is on no grid.
std::optional<int> BitsInBlocks(const Rows& rows, int64_t block) {
  int most = 0;
  std::vector<double> taken;
  const auto count = static_cast<int64_t>(rows.numbers.size());
  for (int64_t row = 0; row < count / rows.length; ++row) {
    const int64_t start =
        row / rows.stride * rows.stride * rows.length + row % rows.stride;
    for (int64_t begin = 0; begin < rows.length; begin += block) {
      const int64_t end = begin + std::min(block, rows.length - begin);
      taken.clear();
      for (int64_t i = begin; i < end; ++i) {
        taken.push_back(
            rows.numbers[static_cast<size_t>(start + i * rows.stride)]);
      }
      const std::optional<int> steps = StepsOf(&taken);
      if (!steps.has_value()) return std::nullopt;
      most = std::max(most, *steps);
      if (end == rows.length) break;
    }
  }
  if (most == 0) return std::nullopt;
  return most <= 3 ? 2 : most <= 15 ? 4 : 8;
}

// Each way of sharing a scale is tried, the longest block first: the more
// numbers lie on one grid, the less they do so by chance.
std::optional<int> BitsOf(const std::vector<double>& numbers,
                          absl::Span<const int64_t> shape) {
  if (shape.size() < 2) return std::nullopt;
  // The weights of a convolution have a scale for each channel of its results.
  const auto count = static_cast<int64_t>(numbers.size());
  const Rows ways[] = {
      {numbers, count / shape[0], 1},
      {numbers, shape[shape.size() - 1], 1},
      {numbers, shape[shape.size() - 2], shape[shape.size() - 1]}};
  for (const Rows& rows : ways) {
    for (const int64_t block : kBlocks) {
      const int64_t length = std::min(block, rows.length);
      if (block != INT64_MAX && block >= rows.length) continue;
      const std::optional<int> bits = BitsInBlocks(rows, length);
      // A few numbers lie on some grid, unless it is a coarse one.
      if (bits.has_value() && length >= (*bits == 8 ? 128 : 16)) return bits;
    }
  }
  return std::nullopt;
}

bool AreRoundedTo(DLDataType dtype, const std::vector<double>& numbers) {
  const auto rounded = NDArray::Empty({1}, dtype, kCpu);
  if (!rounded.ok()) return false;
  return std::ranges::all_of(numbers, [&](double number) {
    StoreDoubles(&number, 0, 1, *rounded);
    return ToDoubles(*rounded)[0] == number;
  });
}

// Bfloat16 comes before float16 and both before integers: numbers of the former
// are seldom numbers of the latter, and few numbers of a float lie on a grid.
std::string TypeOf(const NDArray& weights) {
  const DLDataType dtype = weights.dtype();
  if (IsInteger(dtype)) return fmt::format("{}-bit integers", dtype.bits);
  const std::vector<double> numbers = ToDoubles(weights);
  for (const double number : numbers) {
    if (!std::isfinite(number)) return "";
  }
  if (AreRoundedTo(kBfloat16, numbers)) return "bfloat16";
  if (AreRoundedTo(kFloat16, numbers)) return "float16";
  const std::optional<int> bits = BitsOf(numbers, weights.shape());
  return bits.has_value() ? fmt::format("{}-bit integers", *bits) : "";
}

// Whether these are numbers that an operation computes with: floats, or what
// becomes floats.
bool AreWeights(const Network& network, const NetworkValue& value) {
  if (value.kind != NetworkValue::Kind::kConstant ||
      CountOf(value.data) < kLeastElements) {
    return false;
  }
  if (IsFloat(value.data.dtype())) return value.data.dtype().bits <= 32;
  return IsInteger(value.data.dtype()) && value.data.dtype().bits <= 8 &&
         std::ranges::any_of(value.uses, [&](const Use& use) {
           return use.slot == 0 &&
                  network.operation(use.user).kind() == "DequantizeLinear";
         });
}

std::vector<const NDArray*> LargeWeights(const Network& network) {
  std::vector<const NDArray*> weights;
  for (const auto& value : network.data().values) {
    if (value.has_value() && AreWeights(network, *value)) {
      weights.push_back(&value->data);
    }
  }
  return weights;
}

// Returns the type that most of the numbers have; empty for the exact ones.
std::string MajorityType(const std::vector<const NDArray*>& weights) {
  std::map<std::string, int64_t> counts;
  for (const NDArray* each : weights) counts[TypeOf(*each)] += CountOf(*each);
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& type) { return type.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace

std::optional<std::string> ShorterWeights(const Network& reference,
                                          const Network& target) {
  const std::vector<const NDArray*> known = LargeWeights(reference);
  std::vector<const NDArray*> changed = LargeWeights(target);
  std::erase_if(changed, [&](const NDArray* one) {
    return std::ranges::any_of(known, [&](const NDArray* other) {
      return HaveOneContent(*one, *other);
    });
  });
  std::string type = MajorityType(changed);
  if (type.empty() || type == MajorityType(known)) return std::nullopt;
  return type;
}

}  // namespace nodewise
