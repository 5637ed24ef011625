#include "contrib/align/precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

// Constants with fewer elements are factors and zero points, not weights.
constexpr int64_t kFewestWeights = 16;

template <typename T>
bool AreNumbersOf(absl::Span<const std::vector<double>> numbers) {
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (std::isfinite(number) && ToDouble(FromDouble<T>(number)) != number) {
        return false;
      }
    }
  }
  return true;
}

// A few thousand numbers show how they were made as well as all do.
std::vector<std::vector<double>> FirstNumbersOf(
    absl::Span<const NDArray> tensors) {
  constexpr int64_t kMost = 8192;
  std::vector<std::vector<double>> numbers;
  for (const NDArray& tensor : tensors) {
    const int64_t count = std::min(CountOf(tensor), kMost);
    numbers.emplace_back(static_cast<size_t>(count));
    LoadDoubles(tensor, 0, count, numbers.back().data());
  }
  return numbers;
}

// Whether the numbers can say how they were made: a few, and integers, are
// numbers of every type and multiples of many steps.
bool AreTelling(absl::Span<const std::vector<double>> numbers) {
  constexpr size_t kFewest = 6;
  std::set<double> seen;
  bool has_fraction = false;
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (!std::isfinite(number)) continue;
      has_fraction = has_fraction || number != std::round(number);
      if (seen.size() < kFewest) seen.insert(std::fabs(number));
      if (has_fraction && seen.size() == kFewest) return true;
    }
  }
  return false;
}

// The sizes of different numbers, in order; none if there are too many for
// steps.
std::vector<double> DifferentSizes(
    absl::Span<const std::vector<double>> numbers) {
  constexpr size_t kMost = 4096;
  std::vector<double> sizes;
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (!std::isfinite(number) || number == 0) continue;
      sizes.push_back(std::fabs(number));
      if (sizes.size() < 4 * kMost) continue;
      std::sort(sizes.begin(), sizes.end());
      sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
      if (sizes.size() > kMost) return {};
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Returns the step that all numbers are multiples of; 0 if there is none.
double StepOf(absl::Span<const std::vector<double>> numbers) {
  constexpr double kMostSteps = 4096;
  // How far a number may be from a multiple, in steps.
  constexpr double kNear = 0.02;
  constexpr double kSame = 1e-5;
  const std::vector<double> sizes = DifferentSizes(numbers);
  if (sizes.empty()) return 0;
  double step = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i) {
    // Rounding makes one number two.
    const double gap = sizes[i] - sizes[i - 1];
    if (gap > kSame * sizes.back()) step = std::min(step, gap);
  }
  // From the smallest on, so that each makes the step a little more exact.
  for (const double size : sizes) {
    const double times = std::round(size / step);
    if (times > kMostSteps || std::fabs(size - times * step) > kNear * step) {
      return 0;
    }
    step = size / times;
  }
  return step;
}

double LargestIn(const TensorFacts& facts) {
  double largest = 0;
  for (const TensorStats& stats : facts.stats) {
    largest = std::max({largest, std::fabs(stats.min), std::fabs(stats.max)});
  }
  return largest;
}

}  // namespace

absl::StatusOr<NDArray> TensorOfNumbers(const std::vector<double>& numbers,
                                        absl::Span<const int64_t> shape,
                                        DLDataType dtype) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, NDArray::Empty(shape, dtype, kCpu));
  NODEWISE_RETURN_IF_ERROR(WithType(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < numbers.size(); ++i) {
      tensor.As<T>()[i] = FromDouble<T>(numbers[i]);
    }
    return absl::OkStatus();
  }));
  return tensor;
}

absl::StatusOr<NDArray> InType(const NDArray& tensor, DLDataType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return TensorOfNumbers(NumbersOf(tensor), tensor.shape(), dtype);
}

double RoundoffOfNumbers(DLDataType dtype,
                         absl::Span<const std::vector<double>> numbers) {
  if (!IsFloat(dtype)) return 0;
  double roundoff = UnitRoundoff(dtype);
  if (!AreTelling(numbers)) return roundoff;
  if (AreNumbersOf<Half>(numbers)) {
    roundoff = std::max(roundoff, UnitRoundoff(kFloat16));
  }
  if (AreNumbersOf<Bfloat>(numbers)) {
    roundoff = std::max(roundoff, UnitRoundoff(kBfloat16));
  }
  const double step = StepOf(numbers);
  if (step == 0) return roundoff;
  double largest = 0;
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
    }
  }
  return std::max(roundoff, step / 2 / largest);
}

double CleanDistance(double roundoff) {
  // Long sums in another order, and functions that are approximated, are some
  // hundred units off.
  constexpr double kRoundings = 512;
  constexpr double kMost = 0.1;
  return std::min(kRoundings * roundoff, kMost);
}

double CleanDistance(DLDataType source, DLDataType compiled) {
  return CleanDistance(std::max(UnitRoundoff(source), UnitRoundoff(compiled)));
}

absl::StatusOr<NDArray> UndoLayout(const Layout& layout,
                                   const NDArray& compiled,
                                   absl::Span<const int64_t> shape,
                                   DLDataType dtype) {
  if (layout.is_same_order() && compiled.dtype() == dtype) {
    return compiled.View(shape, dtype);
  }
  NODEWISE_ASSIGN_OR_RETURN(NDArray source, NDArray::Empty(shape, dtype, kCpu));
  // A source that is repeated or padded is there all the same.
  std::memset(source.data(), 0, source.bytes());
  const int64_t count = CountOf(compiled);
  std::vector<double> numbers(static_cast<size_t>(count));
  LoadDoubles(compiled, 0, count, numbers.data());
  if (layout.quantisation.has_value()) {
    for (double& number : numbers) number = layout.quantisation->Number(number);
  }
  const std::vector<int64_t> places = PlacesOf(layout);
  const auto put = [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const int64_t place =
          layout.is_same_order() ? static_cast<int64_t>(i) : places[i];
      if (place == kPaddingPlace) continue;
      source.As<T>()[place] = FromDouble<T>(numbers[i]);
    }
    return absl::OkStatus();
  };
  if (IsFloat(dtype)) {
    NODEWISE_RETURN_IF_ERROR(WithFloat(dtype, put));
  } else if (IsInteger(dtype)) {
    NODEWISE_RETURN_IF_ERROR(WithInteger(dtype, put));
  } else {
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      source.As<uint8_t>()[places[i]] = numbers[i] != 0 ? 1 : 0;
    }
  }
  return source;
}

GraphPrecision::GraphPrecision(const GraphIndex& index, const Network& network,
                               absl::Span<const RecordedPair> pairs,
                               const Alignment& alignment)
    : index_(index),
      network_(network),
      pairs_(pairs),
      alignment_(alignment),
      known_(index.graph().entries.size()),
      inherited_(index.graph().entries.size()),
      is_left_(index.graph().entries.size()) {
  for (const auto& value : network.data().values) {
    if (value.has_value() && value->kind == NetworkValue::Kind::kConstant &&
        ElementBytes(value->data.dtype()) == 1 &&
        CountOf(value->data) > kFewestWeights) {
      has_short_weights_ = true;
    }
  }
}

std::optional<RecordedTensor> GraphPrecision::Compiled(EntryId entry) const {
  return RecordedTensor::Find(
      SpoolsOf(pairs_, &RecordedPair::compiled),
      {index_.KeyOf(index_.NodeOf(entry)), index_.OutputOf(entry)});
}

absl::StatusOr<double> GraphPrecision::ReadBy(NodeId node) {
  const Graph& graph = index_.graph();
  double largest = 0;
  for (const EntryRef& input : graph.node(node).inputs) {
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff, Of(graph.EntryOf(input)));
    largest = std::max(largest, roundoff);
  }
  return largest;
}

bool GraphPrecision::IsWeight(EntryId entry) const {
  if (alignment_.entries[Index(entry)].varies) return false;
  int64_t count = 1;
  for (const int64_t size : index_.graph().entry(entry).shape) count *= size;
  return count > kFewestWeights;
}

absl::StatusOr<double> GraphPrecision::Of(EntryId entry) {
  std::optional<double>& known = known_[Index(entry)];
  if (known.has_value()) return *known;
  known = 0;
  const AlignedEntry& aligned = alignment_.entries[Index(entry)];
  const NodeId node = index_.NodeOf(entry);
  const auto recorded = Compiled(entry);
  if (!aligned.varies) return *(known = OfConstant(entry));
  if (!index_.graph().IsFunction(node)) {
    // An input: it has the same numbers on both sides, and yet says in which
    // type the graph goes on.
    return *(known = UnitRoundoff(index_.graph().entry(entry).dtype));
  }
  if (recorded.has_value() && !aligned.matches.empty()) {
    if (aligned.matches.front().layout.quantisation.has_value()) {
      return *(known = OfQuantised(entry));
    }
    NODEWISE_ASSIGN_OR_RETURN(known,
                              OfMatched(*recorded, aligned.matches.front()));
    return *known;
  }
  NODEWISE_ASSIGN_OR_RETURN(double largest, ReadBy(node));
  if (recorded.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded->Load());
    largest = std::max(largest, OfNumbers(entry, NumbersOf(tensors)));
  }
  known_[Index(entry)] = largest;
  return largest;
}

absl::StatusOr<double> GraphPrecision::Inherited(EntryId entry) {
  if (inherited_[Index(entry)].has_value()) return *inherited_[Index(entry)];
  inherited_[Index(entry)] = 0;
  const Graph& graph = index_.graph();
  if (!alignment_.entries[Index(entry)].varies) {
    const double roundoff = OfConstant(entry);
    inherited_[Index(entry)] = roundoff;
    return roundoff;
  }
  const NodeId node = index_.NodeOf(entry);
  double largest = 0;
  for (const EntryRef& input : graph.node(node).inputs) {
    const EntryId read = graph.EntryOf(input);
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff, Inherited(read));
    largest = std::max({largest, roundoff, OfQuantised(read)});
  }
  const auto recorded = Compiled(entry);
  if (recorded.has_value() && graph.IsFunction(node)) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded->Load());
    largest = std::max(largest, OfNumbers(entry, FirstNumbersOf(tensors)));
  }
  inherited_[Index(entry)] = largest;
  return largest;
}

bool GraphPrecision::IsWhatCancelledLeft(EntryId entry) {
  std::optional<bool>& known = is_left_[Index(entry)];
  if (known.has_value()) return *known;
  known = false;
  constexpr double kMostLeft = 1.0 / 4096;
  const Graph& graph = index_.graph();
  const NodeId maker = index_.NodeOf(entry);
  const auto made = Compiled(entry);
  if (!made.has_value() || !graph.IsFunction(maker)) return false;
  double smallest = std::numeric_limits<double>::infinity();
  bool is_of_those_alone = alignment_.entries[Index(entry)].matches.empty();
  bool reads_any = false;
  for (const EntryRef& input : graph.node(maker).inputs) {
    const EntryId id = graph.EntryOf(input);
    const auto read = Compiled(id);
    if (!read.has_value() || !IsFloat(read->facts().dtype)) continue;
    const double largest = LargestIn(read->facts());
    // A factor may be small.
    if (largest > 0) smallest = std::min(smallest, largest);
    if (!alignment_.entries[Index(id)].varies) continue;
    reads_any = true;
    is_of_those_alone = is_of_those_alone && IsWhatCancelledLeft(id);
  }
  is_left_[Index(entry)] =
      reads_any &&
      (is_of_those_alone || LargestIn(made->facts()) <= kMostLeft * smallest);
  return *is_left_[Index(entry)];
}

double GraphPrecision::OfNumbers(
    EntryId entry, absl::Span<const std::vector<double>> numbers) {
  const DLDataType dtype = index_.graph().entry(entry).dtype;
  if (IsFloat(dtype) && IsWhatCancelledLeft(entry)) return UnitRoundoff(dtype);
  return RoundoffOfNumbers(dtype, numbers);
}

double GraphPrecision::OfQuantised(EntryId entry) const {
  const AlignedEntry& aligned = alignment_.entries[Index(entry)];
  if (aligned.matches.empty() ||
      !aligned.matches[0].layout.quantisation.has_value()) {
    return 0;
  }
  const auto source =
      RecordedTensor::Find(SpoolsOf(pairs_, &RecordedPair::network),
                           {network_.value(aligned.matches[0].value).name});
  if (!source.has_value()) return 0;
  const double largest = LargestIn(source->facts());
  const double scale = aligned.matches[0].layout.quantisation->scale;
  return largest > 0 ? scale / 2 / largest : 0;
}

absl::StatusOr<double> GraphPrecision::OfMatched(
    const RecordedTensor& compiled, const EntryMatch& match) const {
  const auto source =
      RecordedTensor::Find(SpoolsOf(pairs_, &RecordedPair::network),
                           {network_.value(match.value).name});
  if (!source.has_value()) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const auto found, compiled.Load());
  const double roundoff =
      RoundoffOfNumbers(compiled.facts().dtype, NumbersOf(found));
  if (roundoff <= UnitRoundoff(kFloat32)) return 0;
  const double type = UnitRoundoff(compiled.facts().dtype);
  const double of_type =
      type > UnitRoundoff(source->facts().dtype) ? type : 0.0;
  NODEWISE_ASSIGN_OR_RETURN(const auto meant, source->Load());
  // A step that is found again may be a little longer with other numbers.
  constexpr double kMuchLarger = 1.5;
  const double in_network =
      RoundoffOfNumbers(source->facts().dtype, NumbersOf(meant));
  const bool is_coarser = roundoff > kMuchLarger * in_network;
  return std::max(of_type, is_coarser ? roundoff : 0.0);
}

double GraphPrecision::OfConstant(EntryId entry) const {
  const GraphEntry& type = index_.graph().entry(entry);
  if (IsFloat(type.dtype)) return UnitRoundoff(type.dtype);
  const bool is_short = IsInteger(type.dtype) && ElementBytes(type.dtype) == 1;
  if (!is_short || !IsWeight(entry) || has_short_weights_) return 0;
  constexpr double kEightBits = 1.0 / 256;
  return kEightBits;
}

}  // namespace nodewise
