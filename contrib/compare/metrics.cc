#include "nodewise/compare/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "contrib/compare/metric_loops.h"
#include "nodewise/compare/bounds.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {

// How two tensors are measured: both are cut into parts, and parts into blocks
// of 1024 elements. A loop over vectors counts and adds up one block, in a
// quick form as long as differences are small, and only a block that beats the
// largest errors so far is searched for the element that does. Blocks whose
// sums are not exact, because something is not finite or underflows, are gone
// through element by element instead.

namespace {

using metric_loops::BlockSums;
using metric_loops::kBlock;

// The findings in the part of two tensors that has been compared so far.
struct MetricTotals {
  Metrics found;        // Without what FinishedMetrics() makes of the sums.
  double relative = 0;  // The error of found.largest_relative for its size.

  void RankRelative(const ElementDifference& pair) {
    if (pair.expected == 0 || pair.error == 0) return;
    const double ratio = pair.error / std::fabs(pair.expected);
    if (!(ratio > relative)) return;
    relative = ratio;
    found.largest_relative = pair;
  }

  void AddNonFinite(const ElementDifference& pair) {
    const double x = pair.expected, y = pair.actual;
    const bool is_any_nan = std::isnan(x) || std::isnan(y);
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    if (found.non_finite() == 0) {
      found.first_non_finite = {pair.element, x, y, NAN};
    }
    ++(is_any_nan ? found.nan_mismatches : found.infinity_mismatches);
    ++found.different;
    ++found.outside;
  }

  // Takes a single pair, finite or not. `error` is |actual - expected|, which
  // nothing asks for where one of them is not finite. This counts as the loops
  // of metric_loops.inc do, whose conditions these must stay.
  void AddPair(const ElementDifference& pair, Tolerance tolerance,
               double least_normal) {
    const double x = pair.expected, y = pair.actual;
    if (!std::isfinite(x) || !std::isfinite(y)) return AddNonFinite(pair);
    const double size = std::fabs(x), error = pair.error;
    found.squares += x * x;
    if (error == 0) return;
    // 64-bit integers differ by more than their doubles do, so only the sign is
    // taken from these.
    found.products += x * std::copysign(error, y - x);
    found.differences += error * error;
    ++found.different;
    if (error > found.largest_error.error) found.largest_error = pair;
    const double excess = error - tolerance.relative * size;
    if (excess > tolerance.absolute) ++found.outside;
    if (excess > found.absolute_needed) {
      found.absolute_needed = excess;
      found.largest_excess = pair;
    }
    RankRelative(pair);
    if (size < least_normal && y == 0) ++found.flushed;
    if (error > 0.01 * size) ++found.above_hundredth;
    if (error > 0.001 * size) ++found.above_thousandth;
    if (error > 0.0001 * size) ++found.above_ten_thousandth;
  }

  // Joins what was found in the part behind this one. Of equal errors the first
  // stays, so that the result does not depend on how many threads there are.
  void Append(const MetricTotals& next) {
    const Metrics& more = next.found;
    if (found.non_finite() == 0) found.first_non_finite = more.first_non_finite;
    found += more;
    if (more.largest_error.error > found.largest_error.error) {
      found.largest_error = more.largest_error;
    }
    if (more.absolute_needed > found.absolute_needed) {
      found.absolute_needed = more.absolute_needed;
      found.largest_excess = more.largest_excess;
    }
    if (next.relative > relative) {
      relative = next.relative;
      found.largest_relative = more.largest_relative;
    }
  }
};

// Rounding may leave a sum of squares a little below 0.
double SquaresOfActual(const Metrics& m) {
  return std::max(0.0, m.squares + 2 * m.products + m.differences);
}

double Rmse(const Metrics& m) {
  const uint64_t finite = m.elements - m.non_finite();
  return finite == 0 ? 0
                     : std::sqrt(m.differences / static_cast<double>(finite));
}

// (|x| |y| - x y) / (|x| |y|), where y is x and the difference, so that the
// large terms of the numerator have gone. It is not negative but for rounding.
double CosineDistance(const Metrics& m) {
  const double x = m.squares, y = SquaresOfActual(m);
  if (m.differences == 0) return 0;
  if (x == 0 || y == 0) return x == y ? 0 : 1;
  const double product = m.squares + m.products;
  const double norms = std::sqrt(x) * std::sqrt(y);
  // Where the two point in different directions nothing cancels.
  if (product <= 0) return 1 - product / norms;
  const double numerator = x * m.differences - m.products * m.products;
  return std::max(0.0, numerator) / (norms * (norms + product));
}

double Scale(const Metrics& m) {
  if (m.different == 0) return 1;
  return m.squares > 0 ? 1 + m.products / m.squares : NAN;
}

// The figures that callers ask for often are made once and kept.
Metrics FinishedMetrics(Metrics m) {
  m.expected_norm = std::sqrt(m.squares);
  m.actual_norm = std::sqrt(SquaresOfActual(m));
  m.difference_norm = std::sqrt(m.differences);
  m.rmse = Rmse(m);
  m.cosine_distance = CosineDistance(m);
  m.scale = Scale(m);
  return m;
}

template <auto kField>
MetricValue ValueOf(const Metrics& m) {
  return m.*kField;
}
template <auto kField>
MetricValue ElementOf(const Metrics& m) {
  if (m.different == 0) return {};
  return m.*kField;
}

// A new figure that can be made of the sums is a function like those above and
// a row here; the schema has a line for each. What else has to change where
// elements are counted or added up, docs/architecture.md says under "What is
// measured".
constexpr MetricRow kMetrics[] = {
    {"elements", ValueOf<&Metrics::elements>},
    {"different", ValueOf<&Metrics::different>},
    {"outside", ValueOf<&Metrics::outside>},
    {"nan_mismatches", ValueOf<&Metrics::nan_mismatches>},
    {"infinity_mismatches", ValueOf<&Metrics::infinity_mismatches>},
    {"flushed_subnormals", ValueOf<&Metrics::flushed>},
    {"above_hundredth", ValueOf<&Metrics::above_hundredth>},
    {"above_thousandth", ValueOf<&Metrics::above_thousandth>},
    {"above_ten_thousandth", ValueOf<&Metrics::above_ten_thousandth>},
    {"largest_error", ElementOf<&Metrics::largest_error>},
    {"largest_relative", ElementOf<&Metrics::largest_relative>},
    {"relative_error",
     [](auto& m) -> MetricValue { return m.relative_error(); }},
    {"rmse", ValueOf<&Metrics::rmse>},
    {"cosine_distance", ValueOf<&Metrics::cosine_distance>},
    {"snr_db", [](auto& m) -> MetricValue { return m.snr_db(); }},
    {"scale", ValueOf<&Metrics::scale>},
};

// A tensor is cut into parts by its size alone, regardless of the number of
// threads, and the findings are joined in the order of the parts. This many
// keep a few threads busy to the end, and no part is so small that handing it
// out costs more than comparing it.
constexpr size_t kMostParts = 64;
constexpr size_t kLeastPart = 64 * kBlock;

// Sums of squares below this have lost some to underflow.
template <typename Number>
constexpr Number kLeastSum = std::numeric_limits<Number>::min() * 1024;
// A little more than what was found, so that errors of one relative size
// everywhere do not beat each other through rounding.
constexpr double kRelativeStep = 1 + 1e-6;

// Complex numbers are twice as many real ones.
DLDataType PartsOf(DLDataType dtype) {
  if (dtype.code != kDLComplex) return dtype;
  return {kDLFloat, static_cast<uint8_t>(dtype.bits / 2),
          static_cast<uint16_t>(dtype.lanes * 2)};
}

struct Side {
  const uint8_t* data = nullptr;
  DLDataType dtype{};  // The type of one lane.
  size_t element_bytes = 0;

  const uint8_t* At(size_t element) const {
    return data + element * element_bytes;
  }
  metric_loops::Convert converter() const {
    return metric_loops::BestLevel().converters[ElementIndex(dtype)];
  }
  bool fits_float() const {
    return dtype == kFloat32 || converter() != nullptr;
  }
};

// A vector type counts as its lanes, and a complex number as two real ones, so
// that everything below sees plain numbers in a row.
absl::StatusOr<Side> SideOf(const DLTensor& tensor) {
  DLDataType dtype = PartsOf(tensor.dtype);
  dtype.lanes = 1;
  double unused = 0;
  // It writes nothing for a count of 0.
  if (IsPacked(tensor.dtype) || !DecodeToDoubles(dtype, &unused, 0, &unused)) {
    return Unimplemented("is of type {}, which has no numbers",
                         ToString(tensor.dtype));
  }
  return Side{static_cast<const uint8_t*>(DataOf(tensor)), dtype,
              ElementBytes(dtype)};
}

struct Pair {
  Side expected, actual;
  size_t elements = 0;
  Tolerance tolerance;
  double least_normal = 0;  // The least normal number of the actual type.
};

// Reads blocks of one side. The last may have fewer elements; zeros follow.
template <typename Number>
class BlockReader {
 public:
  explicit BlockReader(const Side& side) : side_(side) {}

  // Returns kBlock numbers, valid until the next call.
  const void* Read(size_t first, size_t count) {
    const uint8_t* from = side_.At(first);
    if constexpr (std::is_same_v<Number, double>) {
      if (!is_direct_) {
        DecodeToDoubles(side_.dtype, from, count, numbers_.data());
        std::fill(numbers_.begin() + count, numbers_.end(), 0);
        return numbers_.data();
      }
    }
    if (count < kBlock) {
      padded_.fill(0);
      std::memcpy(padded_.data(), from, count * side_.element_bytes);
      from = padded_.data();
    }
    if constexpr (std::is_same_v<Number, float>) {
      if (!is_direct_) {
        convert_(from, numbers_.data());
        return numbers_.data();
      }
    }
    return from;
  }

 private:
  const Side& side_;
  const bool is_direct_ =
      side_.dtype == DLDataType{kDLFloat, 8 * sizeof(Number), 1};
  const metric_loops::Convert convert_ = side_.converter();
  alignas(64) std::array<Number, kBlock> numbers_;
  alignas(64) std::array<uint8_t, kBlock * sizeof(Number)> padded_;
};

// Compares a part of two tensors, as floats or as doubles.
template <typename Number>
class PartComparer {
 public:
  explicit PartComparer(const Pair& pair)
      : pair_(pair), expected_(pair.expected), actual_(pair.actual) {
    limits_.absolute = static_cast<Number>(pair.tolerance.absolute);
    limits_.relative = static_cast<Number>(pair.tolerance.relative);
    limits_.least_normal = static_cast<Number>(pair.least_normal);
  }

  MetricTotals Run(size_t first, size_t count) {
    totals_ = MetricTotals();
    totals_.found.elements = count;
    limits_.least_relative = 0;
    is_quick_ = true;
    for (size_t done = 0; done < count; done += kBlock) {
      AddBlock(first + done, std::min(kBlock, count - done));
    }
    return totals_;
  }

 private:
  void AddBlock(size_t first, size_t count) {
    const void* const x = expected_.Read(first, count);
    BlockSums<Number> sums;
    if (AreEqual(first, count)) {
      sums.squares = loops_.square(x);
      if (!IsExact(sums, x)) return AddElementwise(first, count, x, x);
      totals_.found += sums;
      return;
    }
    const void* const y = actual_.Read(first, count);
    Compare(x, y, &sums);
    if (!IsExact(sums, x)) return AddElementwise(first, count, x, y);
    totals_.found += sums;
    if (ExceedsLargest(sums)) FindLargestErrors(first, count, x, y, sums);
  }

  bool AreEqual(size_t first, size_t count) const {
    const Side& side = pair_.expected;
    return side.dtype == pair_.actual.dtype &&
           std::memcmp(side.At(first), pair_.actual.At(first),
                       count * side.element_bytes) == 0;
  }

  // Where one block needs the full comparison, the next will, too. The quick
  // loop leaves out what only large differences show. It says whether any of
  // that could be other than 0, and then the full loop runs over the block
  // again.
  void Compare(const void* x, const void* y, BlockSums<Number>* sums) {
    if (is_quick_) {
      loops_.compare_quickly(x, y, limits_, sums);
      if (!sums->beats_relative) return;
    }
    loops_.compare(x, y, limits_, sums);
    is_quick_ = sums->above_ten_thousandth == 0 && sums->outside == 0;
  }

  // Sums are exact as long as nothing overflowed, and as long as no square that
  // matters was too small to be kept. A block of zeros has a sum of 0 that is
  // right.
  static bool IsExact(const BlockSums<Number>& sums, const void* x) {
    if (!std::isfinite(sums.squares + sums.differences + sums.products)) {
      return false;
    }
    if (sums.different > 0 && sums.differences < kLeastSum<Number>) {
      return false;
    }
    return sums.squares >= kLeastSum<Number> || IsZero(x);
  }
  static bool IsZero(const void* x) {
    const auto* const bytes = static_cast<const uint8_t*>(x);
    // If all bytes equal their neighbours, all are zero if the first is.
    return bytes[0] == 0 &&
           std::memcmp(bytes, bytes + 1, kBlock * sizeof(Number) - 1) == 0;
  }

  // Most blocks beat nothing that was found before, and are done after the
  // loop.
  bool ExceedsLargest(const BlockSums<Number>& sums) const {
    return sums.beats_relative || sums.largest_error > largest_error() ||
           sums.largest_excess > largest_excess();
  }
  Number largest_error() const {
    return static_cast<Number>(totals_.found.largest_error.error);
  }
  Number largest_excess() const {
    return static_cast<Number>(totals_.found.absolute_needed);
  }

  void FindLargestErrors(size_t first, size_t count, const void* x_bytes,
                         const void* y_bytes, const BlockSums<Number>& sums) {
    alignas(64) std::array<Number, kBlock> x, y;
    std::memcpy(x.data(), x_bytes, sizeof(x));
    std::memcpy(y.data(), y_bytes, sizeof(y));
    const auto pair_at = [&](size_t i) {
      const double expected = x[i], actual = y[i];
      return ElementDifference{first + i, expected, actual,
                               std::fabs(actual - expected)};
    };
    const auto find = [&](Number relative, Number excess) {
      return pair_at(
          metric_loops::FindExcess(x.data(), y.data(), relative, excess));
    };
    Metrics& found = totals_.found;
    if (sums.largest_error > largest_error()) {
      found.largest_error = find(0, sums.largest_error);
    }
    if (sums.largest_excess > largest_excess()) {
      found.largest_excess = find(limits_.relative, sums.largest_excess);
      found.absolute_needed = sums.largest_excess;
    }
    if (!sums.beats_relative) return;
    for (size_t i = 0; i < count; ++i) totals_.RankRelative(pair_at(i));
    limits_.least_relative =
        static_cast<Number>(totals_.relative * kRelativeStep);
  }

  void AddElementwise(size_t first, size_t count, const void* x_bytes,
                      const void* y_bytes) {
    for (size_t i = 0; i < count; ++i) {
      const double x = LoadElement<Number>(x_bytes, i);
      const double y = LoadElement<Number>(y_bytes, i);
      totals_.AddPair({first + i, x, y, std::fabs(y - x)}, pair_.tolerance,
                      pair_.least_normal);
    }
    limits_.least_relative =
        static_cast<Number>(totals_.relative * kRelativeStep);
  }

  const Pair& pair_;
  BlockReader<Number> expected_, actual_;
  const metric_loops::LoopTable<Number>& loops_ =
      std::get<metric_loops::LoopTable<Number>>(
          metric_loops::BestLevel().loops);
  bool is_quick_ = true;
  metric_loops::Limits<Number> limits_;
  MetricTotals totals_;
};

// Compares a part of two tensors of 64-bit integers, whose differences may be
// lost in doubles.
template <typename T>
struct IntegerComparer {
  const Pair& pair;

  MetricTotals Run(size_t first, size_t count) {
    MetricTotals totals;
    totals.found.elements = count;
    for (size_t i = first; i < first + count; ++i) {
      const T x = LoadElement<T>(pair.expected.data, i);
      const T y = LoadElement<T>(pair.actual.data, i);
      // Without a sign the subtraction cannot overflow.
      const uint64_t distance =
          y > x ? uint64_t(y) - uint64_t(x) : uint64_t(x) - uint64_t(y);
      totals.AddPair({i, static_cast<double>(x), static_cast<double>(y),
                      static_cast<double>(distance)},
                     pair.tolerance, 0);
    }
    return totals;
  }
};

// Each thread runs a comparer of its own, and takes parts as they come free.
// Each part has a place of its own for what is found, and the places are joined
// in order, so that sums are rounded alike however many threads there are.
template <typename Comparer>
Metrics CompareParts(const Pair& pair) {
  const size_t even = (pair.elements + kMostParts - 1) / kMostParts;
  const size_t blocks = (even + kBlock - 1) / kBlock;
  const size_t part = std::max(kLeastPart, blocks * kBlock);
  const size_t parts = (pair.elements + part - 1) / part;
  std::array<MetricTotals, kMostParts> totals;
  std::atomic<size_t> next = 0;
  const auto work = [&](int, TaskGroup&) {
    Comparer comparer{pair};
    for (size_t i = next++; i < parts; i = next++) {
      const size_t first = i * part;
      totals[i] = comparer.Run(first, std::min(part, pair.elements - first));
    }
    return absl::OkStatus();
  };
  const absl::Status status = ParallelRun(parts > 1 ? 0 : 1, work);
  NODEWISE_CHECK(status.ok());
  for (size_t i = 1; i < parts; ++i) totals[0].Append(totals[i]);
  return FinishedMetrics(totals[0].found);
}

}  // namespace

double Metrics::snr_db() const {
  if (difference_norm == 0) return std::numeric_limits<double>::infinity();
  return 20 * std::log10(expected_norm / difference_norm);
}

absl::Span<const MetricRow> AllMetrics() { return kMetrics; }

absl::StatusOr<Metrics> MeasureDifference(const DLTensor& expected,
                                          const DLTensor& actual,
                                          Tolerance tolerance) {
  if (ShapeOf(expected) != ShapeOf(actual) ||
      PartsOf(expected.dtype).lanes != PartsOf(actual.dtype).lanes) {
    return InvalidArgument("is {}, expected {} as in the reference",
                           TypeToString(ShapeOf(actual), actual.dtype),
                           TypeToString(ShapeOf(expected), expected.dtype));
  }
  Pair pair;
  NODEWISE_ASSIGN_OR_RETURN(pair.expected, SideOf(expected));
  NODEWISE_ASSIGN_OR_RETURN(pair.actual, SideOf(actual));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements,
                            NumElements(ShapeOf(expected)));
  pair.elements = static_cast<size_t>(elements) * PartsOf(expected.dtype).lanes;
  pair.tolerance = tolerance;
  pair.least_normal = SmallestNormal(pair.actual.dtype);
  const DLDataType dtype = pair.actual.dtype;
  if (pair.expected.dtype == dtype && dtype.bits == 64) {
    if (dtype.code == kDLInt)
      return CompareParts<IntegerComparer<int64_t>>(pair);
    if (dtype.code == kDLUInt) {
      return CompareParts<IntegerComparer<uint64_t>>(pair);
    }
  }
  return pair.expected.fits_float() && pair.actual.fits_float()
             ? CompareParts<PartComparer<float>>(pair)
             : CompareParts<PartComparer<double>>(pair);
}

}  // namespace nodewise
