#include "nodewise/compare/metrics.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "contrib/compare/metric_loops.h"
#include "contrib/compare/metric_totals.h"
#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

using metric_loops::BlockSums;
using metric_loops::kBlock;

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

// One of the two tensors.
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
  bool is_float32() const { return dtype == kFloat32; }
  bool is_double() const { return dtype == DLDataType{kDLFloat, 64, 1}; }
  bool fits_float() const { return is_float32() || converter() != nullptr; }
};

absl::StatusOr<Side> SideOf(const DLTensor& tensor) {
  DLDataType dtype = PartsOf(tensor.dtype);
  dtype.lanes = 1;
  double unused = 0;
  // It writes nothing for a count of 0.
  if (IsPacked(tensor.dtype) || !DecodeToDoubles(dtype, &unused, 0, &unused)) {
    return absl::UnimplementedError(fmt::format(
        "is of type {}, which has no numbers", ToString(tensor.dtype)));
  }
  return Side{static_cast<const uint8_t*>(DataOf(tensor)), dtype,
              ElementBytes(dtype)};
}

// The tensors to compare: the elements of both tensors as `Number`.
struct Pair {
  Side expected, actual;
  size_t elements = 0;
  Tolerance tolerance;
  double least_normal = 0;  // The least normal number of the actual type.
};

double LeastNormalOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return std::numeric_limits<float>::min();
  if (dtype.code != kDLFloat) return 0;
  if (dtype.bits == 16) return 0x1p-14;
  return dtype.bits == 32 ? double{std::numeric_limits<float>::min()}
                          : std::numeric_limits<double>::min();
}

// Reads blocks of one side. The last may have fewer elements; zeros follow.
template <typename Number>
class BlockReader {
 public:
  explicit BlockReader(const Side& side) : side_(side) {
    if constexpr (std::is_same_v<Number, float>) {
      convert_ = side.converter();
      is_direct_ = side.is_float32();
    } else {
      is_direct_ = side.is_double();
    }
  }

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
  bool is_direct_ = false;
  metric_loops::Convert convert_ = nullptr;
  alignas(64) std::array<Number, kBlock> numbers_;
  alignas(64) std::array<uint8_t, kBlock * sizeof(Number)> padded_;
};

// The loops over blocks of one type.
template <typename Number>
struct Loops {
  metric_loops::Compare<Number> compare, compare_quickly;
  metric_loops::Square square;
};

template <typename Number>
Loops<Number> BestLoops() {
  const metric_loops::LoopTable& all = metric_loops::BestLevel().loops;
  if constexpr (std::is_same_v<Number, float>) {
    return {all.compare_floats, all.compare_floats_quickly, all.square_floats};
  } else {
    return {all.compare_doubles, all.compare_doubles_quickly,
            all.square_doubles};
  }
}

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
      if (IsExact(sums, x)) return Add(sums);
      return AddCarefully(first, count, x, x);
    }
    const void* const y = actual_.Read(first, count);
    Compare(x, y, &sums);
    if (!IsExact(sums, x)) return AddCarefully(first, count, x, y);
    Add(sums);
    if (Beats(sums)) LookAgain(first, count, x, y, sums);
  }

  bool AreEqual(size_t first, size_t count) const {
    const Side& side = pair_.expected;
    return side.dtype == pair_.actual.dtype &&
           std::memcmp(side.At(first), pair_.actual.At(first),
                       count * side.element_bytes) == 0;
  }

  // Where one block needs the full comparison, the next will, too.
  void Compare(const void* x, const void* y, BlockSums<Number>* sums) {
    if (is_quick_) {
      loops_.compare_quickly(x, y, limits_, sums);
      if (!sums->beats_relative) return;
    }
    loops_.compare(x, y, limits_, sums);
    is_quick_ = sums->above_ten_thousandth == 0 && sums->outside == 0;
  }

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

  void Add(const BlockSums<Number>& sums) {
    totals_.squares += sums.squares;
    totals_.products += sums.products;
    totals_.differences += sums.differences;
    Metrics& found = totals_.found;
    found.different += sums.different;
    found.outside += sums.outside;
    found.flushed += sums.flushed;
    found.above_hundredth += sums.above_hundredth;
    found.above_thousandth += sums.above_thousandth;
    found.above_ten_thousandth += sums.above_ten_thousandth;
  }

  bool Beats(const BlockSums<Number>& sums) const {
    return sums.beats_relative || sums.largest_error > largest_error() ||
           sums.largest_excess > largest_excess();
  }
  Number largest_error() const {
    return static_cast<Number>(totals_.found.largest_error.error);
  }
  Number largest_excess() const {
    return static_cast<Number>(totals_.found.absolute_needed);
  }

  // Finds which elements of the block have the largest errors.
  void LookAgain(size_t first, size_t count, const void* x_bytes,
                 const void* y_bytes, const BlockSums<Number>& sums) {
    alignas(64) std::array<Number, kBlock> x, y;
    std::memcpy(x.data(), x_bytes, sizeof(x));
    std::memcpy(y.data(), y_bytes, sizeof(y));
    const auto pair_at = [&](size_t i) {
      const double expected = x[i], actual = y[i];
      return ElementDifference{first + i, expected, actual,
                               std::fabs(actual - expected)};
    };
    if (sums.largest_error > largest_error()) {
      totals_.found.largest_error = pair_at(
          metric_loops::FindError(x.data(), y.data(), sums.largest_error));
    }
    if (sums.largest_excess > largest_excess()) {
      totals_.found.largest_excess = pair_at(metric_loops::FindExcess(
          x.data(), y.data(), limits_, sums.largest_excess));
      totals_.found.absolute_needed = sums.largest_excess;
    }
    if (!sums.beats_relative) return;
    for (size_t i = 0; i < count; ++i) totals_.RankRelative(pair_at(i));
    limits_.least_relative =
        static_cast<Number>(totals_.relative * kRelativeStep);
  }

  void AddCarefully(size_t first, size_t count, const void* x_bytes,
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
  const Loops<Number> loops_ = BestLoops<Number>();
  bool is_quick_ = true;
  metric_loops::Limits<Number> limits_;
  MetricTotals totals_;
};

// Compares a part of two tensors of 64-bit integers, whose differences may be
// lost in doubles.
template <typename T>
class IntegerComparer {
 public:
  explicit IntegerComparer(const Pair& pair) : pair_(pair) {}

  MetricTotals Run(size_t first, size_t count) {
    MetricTotals totals;
    totals.found.elements = count;
    for (size_t i = first; i < first + count; ++i) {
      const T x = LoadElement<T>(pair_.expected.data, i);
      const T y = LoadElement<T>(pair_.actual.data, i);
      const uint64_t distance =
          y > x ? uint64_t(y) - uint64_t(x) : uint64_t(x) - uint64_t(y);
      totals.AddPair({i, static_cast<double>(x), static_cast<double>(y),
                      static_cast<double>(distance)},
                     pair_.tolerance, 0);
    }
    return totals;
  }

 private:
  const Pair& pair_;
};

// Runs a comparer of its own on each thread.
template <typename Comparer>
Metrics CompareParts(const Pair& pair) {
  const size_t even = (pair.elements + kMostParts - 1) / kMostParts;
  const size_t blocks = (even + kBlock - 1) / kBlock;
  const size_t part = std::max(kLeastPart, blocks * kBlock);
  const size_t parts = (pair.elements + part - 1) / part;
  std::array<MetricTotals, kMostParts> totals;
  std::atomic<size_t> next = 0;
  const auto work = [&](int, TaskGroup&) {
    Comparer comparer(pair);
    for (size_t i = next++; i < parts; i = next++) {
      const size_t first = i * part;
      totals[i] = comparer.Run(first, std::min(part, pair.elements - first));
    }
    return absl::OkStatus();
  };
  const absl::Status status = ParallelRun(parts > 1 ? 0 : 1, work);
  NODEWISE_CHECK(status.ok());
  for (size_t i = 1; i < parts; ++i) totals[0].Append(totals[i]);
  return totals[0].Finish();
}

bool IsWideInteger(DLDataType dtype, uint8_t code) {
  return dtype.code == code && dtype.bits == 64;
}

}  // namespace

absl::StatusOr<Metrics> MeasureDifference(const DLTensor& expected,
                                          const DLTensor& actual,
                                          Tolerance tolerance) {
  if (ShapeOf(expected) != ShapeOf(actual) ||
      PartsOf(expected.dtype).lanes != PartsOf(actual.dtype).lanes) {
    return absl::InvalidArgumentError(
        fmt::format("is {}, expected {} as in the reference",
                    TypeToString(ShapeOf(actual), actual.dtype),
                    TypeToString(ShapeOf(expected), expected.dtype)));
  }
  Pair pair;
  NODEWISE_ASSIGN_OR_RETURN(pair.expected, SideOf(expected));
  NODEWISE_ASSIGN_OR_RETURN(pair.actual, SideOf(actual));
  NODEWISE_ASSIGN_OR_RETURN(const int64_t elements,
                            NumElements(ShapeOf(expected)));
  pair.elements = static_cast<size_t>(elements) * PartsOf(expected.dtype).lanes;
  pair.tolerance = tolerance;
  pair.least_normal = LeastNormalOf(pair.actual.dtype);
  if (pair.expected.dtype == pair.actual.dtype) {
    const DLDataType dtype = pair.actual.dtype;
    if (IsWideInteger(dtype, kDLInt)) {
      return CompareParts<IntegerComparer<int64_t>>(pair);
    }
    if (IsWideInteger(dtype, kDLUInt)) {
      return CompareParts<IntegerComparer<uint64_t>>(pair);
    }
  }
  return pair.expected.fits_float() && pair.actual.fits_float()
             ? CompareParts<PartComparer<float>>(pair)
             : CompareParts<PartComparer<double>>(pair);
}

}  // namespace nodewise
