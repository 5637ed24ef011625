// How coarsely numbers were rounded, found by looking at them: a node that
// casts back to float32, or makes floats of integers, hides in its type how it
// calculates, but what it makes are all numbers of the shorter type, or
// multiples of one step. How far a node may be off follows from that and from
// what it reads.

#include "contrib/align/precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "contrib/align/align_limits.h"
#include "contrib/align/network_walk.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Whether rounding to T leaves all numbers as they are.
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

std::vector<std::vector<double>> FirstNumbersOf(
    absl::Span<const NDArray> tensors) {
  std::vector<std::vector<double>> numbers;
  for (const NDArray& tensor : tensors) {
    const int64_t count = std::min(CountOf(tensor), kTellingElements);
    numbers.emplace_back(static_cast<size_t>(count));
    LoadDoubles(tensor, 0, count, numbers.back().data());
  }
  return numbers;
}

// Whether the numbers can say how they were made: a few, and integers, are
// numbers of every type and multiples of many steps.
bool CanRevealPrecision(absl::Span<const std::vector<double>> numbers) {
  std::set<double> seen;
  bool has_fraction = false;
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (!std::isfinite(number)) continue;
      has_fraction = has_fraction || number != std::round(number);
      if (seen.size() < kFewestTelling) seen.insert(std::fabs(number));
      if (has_fraction && seen.size() == kFewestTelling) return true;
    }
  }
  return false;
}

// The sizes of different numbers, in order; none if there are too many for
// steps. What is collected is thinned out again and again, so that a large
// tensor is not sorted as a whole.
std::vector<double> DifferentSizes(
    absl::Span<const std::vector<double>> numbers) {
  std::vector<double> sizes;
  const auto thin_out = [&sizes] {
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  };
  for (const std::vector<double>& set : numbers) {
    for (const double number : set) {
      if (!std::isfinite(number) || number == 0) continue;
      sizes.push_back(std::fabs(number));
      if (sizes.size() < 4 * kMostSteps) continue;
      thin_out();
      if (sizes.size() > kMostSteps) return {};
    }
  }
  thin_out();
  return sizes;
}

// Returns the step that all numbers are multiples of; 0 if there is none. The
// smallest distance between two sizes is the step or near to it, and each
// number from the smallest on makes it a little more exact.
double StepOf(absl::Span<const std::vector<double>> numbers) {
  const std::vector<double> sizes = DifferentSizes(numbers);
  if (sizes.empty()) return 0;
  double step = sizes[0];
  for (size_t i = 1; i < sizes.size(); ++i) {
    // Rounding may make two sizes of one, and the gap between them is not a
    // step.
    const double gap = sizes[i] - sizes[i - 1];
    if (gap > kSameSize * sizes.back()) step = std::min(step, gap);
  }
  for (const double size : sizes) {
    const double times = std::round(size / step);
    if (times > kMostSteps ||
        std::fabs(size - times * step) > kNearMultiple * step) {
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

// Half a step of an entry that was found to be quantised; 0 of others.
double QuantisedRoundoff(const WalkScene& scene, EntryId entry) {
  const AlignedEntry& aligned = scene.alignment.entries[Index(entry)];
  if (aligned.matches.empty()) return 0;
  const EntryMatch& match = aligned.matches[0];
  if (!match.layout.quantisation.has_value()) return 0;
  const auto source = RecordedValue(scene.network, scene.pairs, match.value);
  if (!source.has_value()) return 0;
  const double largest = LargestIn(source->facts);
  return largest > 0 ? match.layout.quantisation->scale / 2 / largest : 0;
}

// The roundoff of an entry that holds a tensor of the network, as far as it is
// larger than there. A network that rounds by itself is compared as it is.
absl::StatusOr<double> MatchedRoundoff(const WalkScene& scene,
                                       const RecordedTensor& compiled,
                                       const EntryMatch& match) {
  const auto source = RecordedValue(scene.network, scene.pairs, match.value);
  if (!source.has_value()) return 0;
  NODEWISE_ASSIGN_OR_RETURN(const auto found, compiled.Load());
  const double roundoff =
      RoundoffOfNumbers(compiled.facts.dtype, NumbersOf(found));
  if (roundoff <= UnitRoundoff(kFloat32)) return 0;
  const double type = UnitRoundoff(compiled.facts.dtype);
  const double of_type = type > UnitRoundoff(source->facts.dtype) ? type : 0.0;
  NODEWISE_ASSIGN_OR_RETURN(const auto meant, source->Load());
  const double in_network =
      RoundoffOfNumbers(source->facts.dtype, NumbersOf(meant));
  const bool is_coarser = roundoff > kCoarserTimes * in_network;
  return std::max(of_type, is_coarser ? roundoff : 0.0);
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
  return TensorOfNumbers(ToDoubles(tensor), tensor.shape(), dtype);
}

double RoundoffOfNumbers(DLDataType dtype,
                         absl::Span<const std::vector<double>> numbers) {
  if (!IsFloat(dtype)) return 0;
  double roundoff = UnitRoundoff(dtype);
  if (!CanRevealPrecision(numbers)) return roundoff;
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
    largest = std::max(largest, LargestFinite(set));
  }
  return std::max(roundoff, step / 2 / largest);
}

double CleanDistance(double roundoff) {
  return std::min(kCleanRoundings * roundoff, kFarthestKnown);
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
  // Elements that the compiled tensor does not have stay 0.
  std::memset(source.data(), 0, source.bytes());
  std::vector<double> numbers = ToDoubles(compiled);
  if (layout.quantisation.has_value()) {
    for (double& number : numbers) number = layout.quantisation->Number(number);
  }
  const std::vector<int64_t> places = PlacesOf(layout);
  const auto put = [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (places[i] == kPaddingPlace) continue;
      source.As<T>()[places[i]] = FromDouble<T>(numbers[i]);
    }
    return absl::OkStatus();
  };
  // A type without numbers to calculate with is taken for truth values.
  const bool is_number = IsFloat(dtype) || IsInteger(dtype);
  NODEWISE_RETURN_IF_ERROR(is_number ? WithNumber(dtype, put) : put(Bool{}));
  return source;
}

GraphPrecision::GraphPrecision(const WalkScene& scene)
    : scene_(scene), known_(scene.index.graph().entries.size()) {
  has_short_weights_ =
      std::ranges::any_of(scene.network.data().values, [](const auto& value) {
        return value.has_value() &&
               value->kind == NetworkValue::Kind::kConstant &&
               ElementBytes(value->data.dtype()) == 1 &&
               CountOf(value->data) > kFewestWeights;
      });
}

absl::StatusOr<double> GraphPrecision::ReadBy(NodeId node) {
  double largest = 0;
  for (const EntryId read : ReadsOf(scene_.index.graph(), node)) {
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff, RoundoffFor(read));
    largest = std::max(largest, roundoff);
  }
  return largest;
}

absl::StatusOr<double> GraphPrecision::RoundoffFor(EntryId entry) {
  std::optional<double>& known = known_[Index(entry)].roundoff;
  if (known.has_value()) return *known;
  const AlignedEntry& aligned = scene_.alignment.entries[Index(entry)];
  const NodeId node = scene_.index.NodeOf(entry);
  if (!aligned.varies) return *(known = RoundoffOfConstant(entry));
  if (!scene_.index.graph().IsFunction(node)) {
    // An input: it has the same numbers on both sides, and yet says in which
    // type the graph goes on.
    return *(known = UnitRoundoff(scene_.index.graph().entry(entry).dtype));
  }
  const auto recorded = RecordedEntry(scene_.index, scene_.pairs, entry);
  if (recorded.has_value() && !aligned.matches.empty()) {
    if (aligned.matches.front().layout.quantisation.has_value()) {
      return *(known = QuantisedRoundoff(scene_, entry));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        known, MatchedRoundoff(scene_, *recorded, aligned.matches.front()));
    return *known;
  }
  NODEWISE_ASSIGN_OR_RETURN(double largest, ReadBy(node));
  if (recorded.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded->Load());
    largest = std::max(largest, RoundoffOfEntry(entry, NumbersOf(tensors)));
  }
  return *(known = largest);
}

// This is asked while entries are still being matched, so that it looks at no
// match but those of the entries before.
absl::StatusOr<double> GraphPrecision::Inherited(EntryId entry) {
  std::optional<double>& known = known_[Index(entry)].inherited;
  if (known.has_value()) return *known;
  if (!scene_.alignment.entries[Index(entry)].varies) {
    return *(known = RoundoffOfConstant(entry));
  }
  const Graph& graph = scene_.index.graph();
  const NodeId node = scene_.index.NodeOf(entry);
  double largest = 0;
  for (const EntryId read : ReadsOf(graph, node)) {
    NODEWISE_ASSIGN_OR_RETURN(const double roundoff, Inherited(read));
    largest = std::max({largest, roundoff, QuantisedRoundoff(scene_, read)});
  }
  const auto recorded = RecordedEntry(scene_.index, scene_.pairs, entry);
  if (recorded.has_value() && graph.IsFunction(node)) {
    NODEWISE_ASSIGN_OR_RETURN(const auto tensors, recorded->Load());
    largest =
        std::max(largest, RoundoffOfEntry(entry, FirstNumbersOf(tensors)));
  }
  return *(known = largest);
}

bool GraphPrecision::IsCancellationResidue(EntryId entry) {
  std::optional<bool>& known = known_[Index(entry)].is_left;
  if (known.has_value()) return *known;
  const Graph& graph = scene_.index.graph();
  const NodeId maker = scene_.index.NodeOf(entry);
  const auto made = RecordedEntry(scene_.index, scene_.pairs, entry);
  if (!made.has_value() || !graph.IsFunction(maker)) return *(known = false);
  double smallest = kInfinity;
  bool is_of_those_alone =
      scene_.alignment.entries[Index(entry)].matches.empty();
  bool reads_any = false;
  for (const EntryId id : ReadsOf(graph, maker)) {
    const auto read = RecordedEntry(scene_.index, scene_.pairs, id);
    if (!read.has_value() || !IsFloat(read->facts.dtype)) continue;
    const double largest = LargestIn(read->facts);
    // A product with a small factor is small though nothing cancels, so the
    // smallest input counts.
    if (largest > 0) smallest = std::min(smallest, largest);
    if (!scene_.alignment.entries[Index(id)].varies) continue;
    reads_any = true;
    is_of_those_alone = is_of_those_alone && IsCancellationResidue(id);
  }
  known = reads_any && (is_of_those_alone ||
                        LargestIn(made->facts) <= kCancelledShare * smallest);
  return *known;
}

double GraphPrecision::RoundoffOfEntry(
    EntryId entry, absl::Span<const std::vector<double>> numbers) {
  const DLDataType dtype = scene_.index.graph().entry(entry).dtype;
  if (IsFloat(dtype) && IsCancellationResidue(entry))
    return UnitRoundoff(dtype);
  return RoundoffOfNumbers(dtype, numbers);
}

// Weights of eight bits make what is computed with them as coarse, unless the
// network has such weights itself. Smaller constants are exact on both sides.
double GraphPrecision::RoundoffOfConstant(EntryId entry) const {
  const GraphEntry& type = scene_.index.graph().entry(entry);
  if (IsFloat(type.dtype)) return UnitRoundoff(type.dtype);
  const bool is_weight = !scene_.alignment.entries[Index(entry)].varies &&
                         Product(type.shape) > kFewestWeights;
  const bool is_short = IsInteger(type.dtype) && ElementBytes(type.dtype) == 1;
  return is_short && is_weight && !has_short_weights_ ? kEightBits : 0;
}

}  // namespace nodewise
