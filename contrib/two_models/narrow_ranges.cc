#include "contrib/two_models/narrow_ranges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Numbers beyond a range that was measured with other samples: few of them are
// usual, and some ways of calibrating leave out as many on purpose.
constexpr double kMostUsual = 0.01;

struct Range {
  double low = 0, high = 0;
};

// What a value of integers holds, up to half a step beyond its ends.
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

double ShareBeyond(const std::vector<NDArray>& sets, const Range& range) {
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
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> made,
                              reference->Tensors(meant));
    const double share = ShareBeyond(made, range->second);
    if (share < kMostUsual) continue;
    narrow.push_back(
        {reference->side->network().value(pair.reference.made).name, share});
  }
  std::stable_sort(narrow.begin(), narrow.end(),
                   [](const NarrowRange& a, const NarrowRange& b) {
                     return a.share > b.share;
                   });
  return narrow;
}

}  // namespace nodewise
