#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "contrib/repro/drawn_tensor.h"
#include "contrib/repro/node_trial.h"
#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Numbers that are not ordinary are counted by class, since kernels treat them
// apart.
enum class NumberClass : uint8_t {
  kZero,
  kMinusZero,
  kNan,
  kInfinity,
  kMinusInfinity,
  kOrdinary,
};
constexpr size_t kNumClasses = 6;

NumberClass ClassOf(double x) {
  if (std::isnan(x)) return NumberClass::kNan;
  if (std::isinf(x)) {
    return x > 0 ? NumberClass::kInfinity : NumberClass::kMinusInfinity;
  }
  if (x != 0) return NumberClass::kOrdinary;
  return std::signbit(x) ? NumberClass::kMinusZero : NumberClass::kZero;
}

// The numbers of the classes, but for the last, in the order of NumberClass.
constexpr double kNumberOf[kNumClasses - 1] = {
    0.0, -0.0, std::numeric_limits<double>::quiet_NaN(),
    std::numeric_limits<double>::infinity(),
    -std::numeric_limits<double>::infinity()};

constexpr int64_t kChunk = 1 << 16;
// Sorted to find the quantiles: more would not move them.
constexpr int64_t kMostSampled = 1 << 16;
constexpr size_t kQuantiles = 33;
// Recorded quantiles are off by up to this share, so that none of the given
// numbers, the extremes above all, is among the drawn ones.
constexpr double kMoved = 0.04;
// How often another number is drawn in the place of a given one.
constexpr int kMostRedrawn = 8;
// Doubles beyond are whole numbers all of them, which says nothing.
constexpr double kMostWhole = 1 << 24;
// WithOtherNumbers() sorts all numbers of a tensor, and takes no larger ones.
constexpr int64_t kMostSorted = int64_t{1} << 26;

// Complex numbers and vectors as the plain numbers that they consist of. The
// result lives as long as `tensor` does.
absl::StatusOr<NDArray> AsPlainNumbers(const NDArray& tensor) {
  DLDataType dtype = tensor.dtype();
  if (IsPacked(dtype)) return Unimplemented("elements share bytes");
  int64_t count = CountOf(tensor) * dtype.lanes;
  dtype.lanes = 1;
  if (dtype.code == kDLComplex) {
    dtype = {kDLFloat, static_cast<uint8_t>(dtype.bits / 2), 1};
    count *= 2;
  }
  const bool has_numbers =
      IsFloat(dtype) || IsInteger(dtype) || IsBool(dtype) || IsConverted(dtype);
  if (!has_numbers) return Unimplemented("elements have no numbers");
  DLTensor flat = *tensor;
  flat.dtype = dtype;
  flat.ndim = 1;
  flat.shape = &count;
  flat.strides = nullptr;
  return NDArray::Borrow(flat, nullptr);
}

// Calls f(elements) with the numbers of each part of a tensor, and stores what
// it leaves there if `stores`.
template <typename F>
void ForEachChunk(const NDArray& numbers, bool stores, F f) {
  std::vector<double> chunk;
  const int64_t count = CountOf(numbers);
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, count);
    chunk.resize(static_cast<size_t>(end - begin));
    LoadDoubles(numbers, begin, end, chunk.data());
    f(absl::MakeSpan(chunk));
    if (stores) StoreDoubles(chunk.data(), begin, end, numbers);
  }
}

// The record of ordinary numbers.
class Quantiles {
 public:
  Quantiles(std::vector<double> sample, DLDataType dtype)
      : dtype_(dtype), sample_(std::move(sample)) {
    if (sample_.empty()) return;
    std::ranges::sort(sample_);
    are_whole_ = !IsFloat(dtype) && !IsConverted(dtype);
    are_whole_ = are_whole_ || std::ranges::all_of(sample_, [](double x) {
                   return std::fabs(x) <= kMostWhole && x == std::round(x);
                 });
    for (size_t i = 0; i < kQuantiles; ++i) {
      marks_[i] = sample_[i * (sample_.size() - 1) / (kQuantiles - 1)];
    }
  }

  // Moves the marks a little, of one number by more. Whole numbers keep their
  // marks, which keeps them in range; where all are one number, a range up to
  // that is made.
  void Move(RandomSource& source) {
    if (are_whole_) {
      if (marks_.front() != marks_.back()) return;
      // Towards zero: what was in range, as an index or a count, stays so.
      const double number = marks_.front();
      const double width = std::trunc(number / 4);
      for (size_t i = 0; i < kQuantiles; ++i) {
        marks_[i] = number - width * static_cast<double>(kQuantiles - 1 - i) /
                                 (kQuantiles - 1);
      }
      return;
    }
    for (double& mark : marks_) {
      mark *= 1 + kMoved * (0.5 + 0.5 * source.Symmetric()) *
                      (source.Next() % 2 == 0 ? 1 : -1);
      mark = std::clamp(mark, -LargestOf(dtype_), LargestOf(dtype_));
    }
    std::ranges::sort(marks_);
  }

  // Where there is room between the given numbers, it is none of them.
  double Draw(RandomSource& source) const {
    double drawn = DrawAny(source);
    for (int i = 0; i < kMostRedrawn && IsGiven(drawn); ++i) {
      drawn = DrawAny(source);
    }
    return drawn;
  }

 private:
  // Types of less than 32 bits have so few numbers that given ones cannot be
  // avoided.
  bool IsGiven(double drawn) const {
    if (are_whole_ || !IsFloat(dtype_) || dtype_.bits < 32) return false;
    if (dtype_.bits == 32) drawn = static_cast<float>(drawn);
    return std::ranges::binary_search(sample_, drawn);
  }

  double DrawAny(RandomSource& source) const {
    const double place = (0.5 + 0.5 * source.Symmetric()) * (kQuantiles - 1);
    const auto below = std::min(static_cast<size_t>(place), kQuantiles - 2);
    const double share = place - static_cast<double>(below);
    // In this form nothing overflows between two huge marks.
    const double drawn =
        marks_[below] * (1 - share) + marks_[below + 1] * share;
    return are_whole_ ? std::round(drawn) : drawn;
  }

  const DLDataType dtype_;
  std::vector<double> sample_;  // Sorted.
  std::array<double, kQuantiles> marks_ = {};
  bool are_whole_ = false;
};

// Nothing else of the given numbers reaches the drawn ones.
struct Recorded {
  std::array<uint64_t, kNumClasses> counts = {};
  std::vector<double> sample;  // Some or all ordinary numbers.
};

Recorded RecordOf(const NDArray& numbers) {
  Recorded recorded;
  const int64_t step = std::max<int64_t>(CountOf(numbers) / kMostSampled, 1);
  int64_t at = 0;
  ForEachChunk(numbers, /*stores=*/false, [&](absl::Span<double> chunk) {
    for (const double x : chunk) {
      const NumberClass found = ClassOf(x);
      ++recorded.counts[static_cast<size_t>(found)];
      const bool is_sampled = at++ % step == 0 || recorded.sample.empty();
      if (is_sampled && found == NumberClass::kOrdinary) {
        recorded.sample.push_back(x);
      }
    }
  });
  return recorded;
}

// Hands out the classes of a tensor in a drawn order, each as often as it has
// it.
class ClassDealer {
 public:
  explicit ClassDealer(const std::array<uint64_t, kNumClasses>& counts)
      : left_(counts) {
    for (const uint64_t count : counts) sum_ += count;
  }

  // Each element that is left is equally likely to be the next.
  NumberClass Next(RandomSource& source) {
    uint64_t place = source.Next() % sum_--;
    for (size_t i = 0; i < kNumClasses; ++i) {
      if (place < left_[i]) {
        --left_[i];
        return static_cast<NumberClass>(i);
      }
      place -= left_[i];
    }
    return NumberClass::kOrdinary;
  }

 private:
  std::array<uint64_t, kNumClasses> left_;
  uint64_t sum_ = 0;
};

// The ordinary numbers of a tensor, each once, from the least on.
absl::StatusOr<std::vector<double>> DistinctNumbers(const NDArray& numbers) {
  if (CountOf(numbers) > kMostSorted) {
    return Unimplemented("has too many elements to be sorted");
  }
  std::vector<double> distinct;
  ForEachChunk(numbers, /*stores=*/false, [&](absl::Span<double> chunk) {
    for (const double x : chunk) {
      if (ClassOf(x) == NumberClass::kOrdinary) distinct.push_back(x);
    }
  });
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return distinct;
}

uint64_t HashOfDistinct(const std::vector<double>& distinct) {
  return HashBytes(distinct.data(), distinct.size() * sizeof(double));
}

// The least that can be replaced by itself: a tensor that the node reads, or
// all that hold the same numbers beside a model. The units are what halving
// goes over.
struct DrawnUnit {
  // Those of the node are numbered first, then the earlier ones.
  std::vector<size_t> inputs;
  std::optional<uint64_t> hash = {};  // Hashes the numbers that they share.
};

ReproInput& InputAt(ReproCase* node_case, size_t index) {
  const size_t own = node_case->inputs.size();
  return index < own ? node_case->inputs[index]
                     : node_case->earlier_inputs[index - own];
}

// A drawn tensor may come out as it was, if it has too few numbers to choose
// from.
bool AreSameBytes(const NDArray& a, const NDArray& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool HasSpecials(const NDArray& tensor) {
  const TensorStats stats = StatsOf(*tensor);
  return stats.zeros + stats.nans + stats.infinities > 0;
}

std::string WhySame(const NDArray& tensor) {
  if (tensor.bytes() == 0) return "it has no elements";
  const TensorStats stats = StatsOf(*tensor);
  if (stats.has_numbers && stats.nans == 0 && stats.min == stats.max) {
    return fmt::format("each of its elements is {:.9g}", stats.min);
  }
  return "its few numbers can only be drawn as they are";
}

// Returns whether a value of a network is a constant of these numbers.
bool HoldsNumbers(const std::optional<NetworkValue>& value, uint64_t hash) {
  if (!value || value->kind != NetworkValue::Kind::kConstant) return false;
  const auto own = HashOfNumbers(value->data);
  return own.ok() && *own == hash;
}

// The network's constants with these numbers get others. A network with other
// data is made anew, which checks it.
absl::StatusOr<Network> WithOtherConstants(const Network& network,
                                           uint64_t hash,
                                           std::vector<uint64_t>* drawn) {
  NetworkData data = network.data();
  for (auto& value : data.values) {
    if (!HoldsNumbers(value, hash)) continue;
    NODEWISE_ASSIGN_OR_RETURN(value->data, WithOtherNumbers(value->data));
    value->elements = ElementsOf(value->data);
    drawn->push_back(HashBytes(value->data.data(), value->data.bytes()));
  }
  return Network::FromData(std::move(data));
}

// Replaces as many tensors as possible: all at once first, and halves of them
// as long as the failure is another one then.
struct TensorDrawer {
  const std::function<absl::StatusOr<bool>(const ReproCase&)>& accuses;
  ReproCase& node_case;
  const SameFailure same;
  const uint64_t most_runs;
  uint64_t runs = 0;

  absl::Status Run() {
    node_case.anonymity.emplace();
    const std::vector<DrawnUnit> units = Units();
    if (const std::string why = WhyNotTried(); !why.empty()) {
      SetReason(units, why);
    } else {
      NODEWISE_RETURN_IF_ERROR(Draw(units));
    }
    node_case.anonymity->runs = runs;
    return absl::OkStatus();
  }

  // Beside a model, only what both sides read may change, or both must get the
  // same numbers: else something else would be wrong than before.
  std::vector<DrawnUnit> Units() {
    std::vector<DrawnUnit> units;
    std::map<uint64_t, size_t> by_hash;
    const size_t count =
        node_case.inputs.size() + node_case.earlier_inputs.size();
    for (size_t i = 0; i < count; ++i) {
      const NDArray& tensor = InputAt(&node_case, i).tensor;
      if (!node_case.beside || IsReadByModel(i)) {
        units.push_back({{i}});
        continue;
      }
      const auto hash = HashOfNumbers(tensor);
      if (!hash.ok() || !HasConstant(*hash)) {
        InputAt(&node_case, i).why_not_drawn =
            "the model has it in another form, or not at all, so that both "
            "cannot be replaced alike";
        continue;
      }
      const auto [found, is_new] = by_hash.emplace(*hash, units.size());
      if (is_new) units.push_back({{}, *hash});
      units[found->second].inputs.push_back(i);
    }
    return units;
  }

  bool IsReadByModel(size_t input) const {
    const Network& network = node_case.region->network;
    return !network.value(network.inputs()[input]).uses.empty();
  }

  bool HasConstant(uint64_t hash) const {
    return std::ranges::any_of(
        node_case.region->network.data().values,
        [hash](const auto& value) { return HoldsNumbers(value, hash); });
  }

  // Drawing only makes sense where runs can tell whether the failure is still
  // there. A failure that comes and goes cannot be told that way, so the case
  // as it is runs once more.
  std::string WhyNotTried() {
    if (!same.can_be_tried() && accuses == nullptr) {
      return "runs of the node do not show the failure, so that none says "
             "whether it is still there";
    }
    // A node that is right has just been found to be so.
    const bool fails = node_case.failure || node_case.FindWrong() != nullptr;
    if (!fails && accuses == nullptr) return "";
    if (most_runs < 3) {
      return "too few runs of the node are allowed to try others";
    }
    ReproCase again = node_case;
    if (!IsSame(&again)) {
      return "the failure does not show in every run, so that none says "
             "whether it is still there";
    }
    return "";
  }

  // A case that cannot be run does not show the same.
  bool IsSame(ReproCase* tried) {
    ++runs;
    // Also where that decides nothing, the outputs must be those of the drawn
    // numbers: the given ones could be told from others.
    const bool is_same = same.can_be_tried() ? same.IsIn(tried).value_or(false)
                                             : same.Judge(tried).ok();
    if (!is_same) return false;
    return accuses == nullptr || accuses(*tried).value_or(false);
  }

  // All units are tried together, first with their zeros anywhere and then with
  // the zeros where they were. If neither shows the failure, each half is tried
  // on its own, with the other as it stands by then.
  absl::Status Draw(absl::Span<const DrawnUnit> units) {
    if (units.empty()) return absl::OkStatus();
    for (const SpecialPlaces places :
         {SpecialPlaces::kDrawn, SpecialPlaces::kKept}) {
      if (runs >= most_runs) {
        SetReason(units, "no more runs were left to try others");
        return absl::OkStatus();
      }
      NODEWISE_ASSIGN_OR_RETURN(const bool is_same, Try(units, places));
      if (is_same) return absl::OkStatus();
    }
    if (units.size() == 1) {
      // An input that already has a reason cannot be drawn at all.
      if (InputAt(&node_case, units[0].inputs[0]).why_not_drawn.empty()) {
        SetReason(units, "with drawn numbers it does not show the same");
      }
      return absl::OkStatus();
    }
    const size_t half = units.size() / 2;
    NODEWISE_RETURN_IF_ERROR(Draw(units.subspan(0, half)));
    return Draw(units.subspan(half));
  }

  absl::StatusOr<bool> Try(absl::Span<const DrawnUnit> units,
                           SpecialPlaces places) {
    ReproCase tried = node_case;
    bool is_other = false;
    for (const DrawnUnit& unit : units) {
      const absl::Status status = unit.hash
                                      ? DrawAlike(unit, &tried)
                                      : DrawOne(unit.inputs[0], places, &tried);
      if (absl::IsUnimplemented(status)) {
        for (const size_t input : unit.inputs) {
          const std::string why(MessageOf(status));
          InputAt(&node_case, input).why_not_drawn = why;
          InputAt(&tried, input).why_not_drawn = why;
        }
        continue;
      }
      NODEWISE_RETURN_IF_ERROR(status);
      is_other = true;
    }
    if (!is_other || !IsSame(&tried)) return false;
    node_case = std::move(tried);
    return true;
  }

  absl::Status DrawOne(size_t index, SpecialPlaces places, ReproCase* tried) {
    ReproInput& input = InputAt(tried, index);
    // The seed depends on all of the numbers: with one that is known, the
    // quantiles could be computed back, which are all numbers of a small
    // tensor.
    RandomSource source(HashBytes(input.tensor.data(), input.tensor.bytes()),
                        fmt::format("{}:{}", input.name, index));
    NODEWISE_ASSIGN_OR_RETURN(NDArray drawn,
                              DrawnLike(input.tensor, places, source));
    if (places == SpecialPlaces::kKept && HasSpecials(input.tensor)) {
      input.why_places = "its zeros, NaN and infinities lie where they did";
    }
    SetDrawn(std::move(drawn), &input);
    return absl::OkStatus();
  }

  absl::Status DrawAlike(const DrawnUnit& unit, ReproCase* tried) {
    for (const size_t index : unit.inputs) {
      ReproInput& input = InputAt(tried, index);
      NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, WithOtherNumbers(input.tensor));
      input.why_places =
          "its zeros, NaN and infinities lie where they did, and what was "
          "equal still is";
      SetDrawn(std::move(drawn), &input);
    }
    std::vector<uint64_t>* const drawn = &tried->anonymity->drawn_constants;
    NODEWISE_ASSIGN_OR_RETURN(
        tried->region->network,
        WithOtherConstants(tried->region->network, *unit.hash, drawn));
    NODEWISE_ASSIGN_OR_RETURN(
        tried->beside->model,
        WithOtherConstants(tried->beside->model, *unit.hash, drawn));
    return absl::OkStatus();
  }

  static void SetDrawn(NDArray drawn, ReproInput* input) {
    input->is_drawn = !AreSameBytes(drawn, input->tensor);
    if (!input->is_drawn) input->why_not_drawn = WhySame(input->tensor);
    input->tensor = std::move(drawn);
  }

  void SetReason(absl::Span<const DrawnUnit> units, const std::string& why) {
    for (const DrawnUnit& unit : units) {
      for (const size_t input : unit.inputs) {
        InputAt(&node_case, input).why_not_drawn = why;
      }
    }
  }
};

}  // namespace

absl::StatusOr<NDArray> DrawnLike(const NDArray& tensor, SpecialPlaces places,
                                  RandomSource& source) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray drawn, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(drawn));
  Recorded recorded = RecordOf(numbers);
  Quantiles quantiles(std::move(recorded.sample), numbers.dtype());
  quantiles.Move(source);
  ClassDealer dealer(recorded.counts);
  ForEachChunk(numbers, /*stores=*/true, [&](absl::Span<double> chunk) {
    for (double& x : chunk) {
      const NumberClass wanted =
          places == SpecialPlaces::kKept ? ClassOf(x) : dealer.Next(source);
      x = wanted == NumberClass::kOrdinary
              ? quantiles.Draw(source)
              : kNumberOf[static_cast<size_t>(wanted)];
    }
  });
  return drawn;
}

absl::StatusOr<uint64_t> HashOfNumbers(const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(tensor));
  NODEWISE_ASSIGN_OR_RETURN(const auto distinct, DistinctNumbers(numbers));
  return HashOfDistinct(distinct);
}

// Each distinct number gets another one, by its rank among them.
absl::StatusOr<NDArray> WithOtherNumbers(const NDArray& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(NDArray changed, tensor.CopyToHost());
  NODEWISE_ASSIGN_OR_RETURN(const NDArray numbers, AsPlainNumbers(changed));
  NODEWISE_ASSIGN_OR_RETURN(const auto distinct, DistinctNumbers(numbers));
  // The seed depends on all numbers together: who knows how they are drawn
  // still cannot try which number becomes a given one.
  RandomSource source(HashOfDistinct(distinct));
  Quantiles quantiles(distinct, numbers.dtype());
  quantiles.Move(source);
  std::vector<double> others(distinct.size());
  for (double& other : others) other = quantiles.Draw(source);
  ForEachChunk(numbers, /*stores=*/true, [&](absl::Span<double> chunk) {
    for (double& x : chunk) {
      if (ClassOf(x) != NumberClass::kOrdinary) continue;
      const auto found = std::ranges::lower_bound(distinct, x);
      x = others[static_cast<size_t>(found - distinct.begin())];
    }
  });
  return changed;
}

absl::Status DrawTensors(const DrawOptions& options, const OpSet& operators,
                         ReproCase* node_case) {
  TensorDrawer drawer{options.accuses, *node_case,
                      SameFailure(*node_case, operators),
                      AffordedRuns(options.bounds, *node_case)};
  return drawer.Run();
}

}  // namespace nodewise
