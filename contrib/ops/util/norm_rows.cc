#include "contrib/ops/util/norm_rows.h"

#include <cmath>
#include <limits>

#include "contrib/ops/util/sum_bounds.h"

namespace nodewise {
namespace {

// Rows are worked on one at a time, each by one thread, in double. Kernels may
// calculate in shorter types, with the variance in one pass or in two, and with
// the scale taken into the factor; the bounds have to hold for all of these.
struct Moments {
  double mean = 0;
  double variance = 0;
  double inverse = 1;   // 1 / sqrt(variance + epsilon)
  double absolute = 0;  // Mean of |x|.
  double squares = 0;   // Mean of x^2.
};

// In two passes: the deviations are exact to double.
Moments MomentsOf(const double* x, const NormRows& rule) {
  // Several sums side by side, which compilers vectorise. Their order is fixed,
  // so that results do not depend on the machine.
  constexpr int64_t kLanes = 8;
  const auto count = static_cast<double>(rule.run);
  const auto sum = [&](auto term) {
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= rule.run; i += kLanes) {
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] += term(x[i + k]);
    }
    for (; i < rule.run; ++i) lanes[0] += term(x[i]);
    double total = 0;
    for (const double lane : lanes) total += lane;
    return total / count;
  };
  Moments moments;
  if (rule.is_centred) moments.mean = sum([](double value) { return value; });
  const double mean = moments.mean;
  moments.variance =
      sum([mean](double value) { return (value - mean) * (value - mean); });
  moments.inverse = 1 / std::sqrt(moments.variance + rule.epsilon);
  moments.squares = moments.variance + mean * mean;
  return moments;
}

// Only bounds need the mean size, so it is not among the moments.
double MeanSize(const double* x, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += std::fabs(x[i]);
  return total / static_cast<double>(n);
}

// The kernel may calculate the variance as the difference of the mean square
// and the squared mean.
RowError ErrorOf(const Moments& moments, const NormRows& rule, double roundings,
                 double mean_size, DLDataType dtype) {
  const double u = UnitRoundoff(dtype);
  const double tiny = HalfUlp(dtype, 0);  // Squares, too, may be subnormal.
  RowError error;
  if (rule.is_centred) error.mean = u * (roundings + 1) * mean_size + 2 * tiny;
  error.variance = 2 * u * (roundings + 4) * moments.squares +
                   error.mean * error.mean + (roundings + 4) * tiny;
  const double relative = error.variance * moments.inverse * moments.inverse;
  if (relative >= 1) {
    // In a kernel the number under the root may be 0 or less.
    return {kAnyError, kAnyError, kAnyError};
  }
  error.inverse = relative < 0.5 ? relative + 4 * u : kUnknownError;
  return error;
}

struct RowErrors {
  RowError proved;
  RowError expected;
};

// The bound of (x - mean) * inverse * scale + bias.
double BoundAt(double x, double scale, double bias, double y,
               const Moments& moments, const RowError& error,
               DLDataType dtype) {
  if (std::isinf(error.mean)) return error.mean;
  const double u = UnitRoundoff(dtype);
  const double deviation = std::fabs(x - moments.mean);
  const double parts = std::fabs(x) + std::fabs(moments.mean);
  return 1.01 * std::fabs(scale) * moments.inverse *
             (error.mean + deviation * (error.inverse + 4 * u) +
              2 * u * parts) +
         2 * u * std::fabs(bias) + 4 * HalfUlp(dtype, y);
}

// One row: reads it, normalizes it in place, and says how far that may be off.
struct RowWorker {
  const EvalArgs& args;
  const NormRows& rule;
  const NDArray& out;
  Bounds* const bounds;
  RowStatistics* const statistics;
  // The type that is rounded to: a kernel that stores statistics in a coarser
  // type than the elements is as exact as that type.
  const DLDataType rounded = UnitRoundoff(rule.stash_type) >
                                     UnitRoundoff(out.dtype())
                                 ? rule.stash_type
                                 : out.dtype();
  const OverflowRule overflows = OverflowRule(rounded);
  std::vector<double> row_numbers =
      std::vector<double>(static_cast<size_t>(rule.run));

  void Run(int64_t row) {
    Load(row);
    const Moments moments = MomentsOf(row_numbers.data(), rule);
    if (statistics != nullptr) Keep(moments, static_cast<size_t>(row));
    const int64_t first = row % rule.period * rule.parts;
    if (bounds != nullptr) FillBounds(moments, row, first);
    Scale(moments, first);
    ForEachPiece(row, [&](int64_t begin, int64_t end, const double* x) {
      StoreDoubles(x, begin, end, out);
    });
  }

  // Writes nothing but bounds: those of elements [begin, end) of the list,
  // which lie in one row.
  void BoundSome(int64_t row, absl::Span<const int64_t> elements, size_t begin,
                 size_t end) {
    Load(row);
    const Moments moments = MomentsOf(row_numbers.data(), rule);
    const RowErrors errors = ErrorsOf(moments);
    const int64_t first = row % rule.period * rule.parts;
    for (size_t i = begin; i < end; ++i) {
      BoundOf(elements[i] % rule.run, first, moments, errors).SetAt(i, bounds);
    }
  }

 private:
  void Load(int64_t row) {
    ForEachPiece(row, [&](int64_t begin, int64_t end, double* x) {
      LoadDoubles(args.in(0), begin, end, x);
    });
  }
  // Calls f(begin, end, x) for each piece of a row: elements [begin, end) of
  // the tensors, which are at x in row_numbers.
  template <typename F>
  void ForEachPiece(int64_t row, F f) {
    const int64_t length = rule.run / rule.pieces;
    for (int64_t piece = 0; piece < rule.pieces; ++piece) {
      const int64_t begin = (piece * rule.rows + row) * length;
      f(begin, begin + length, row_numbers.data() + piece * length);
    }
  }
  void Keep(const Moments& moments, size_t row) {
    statistics->mean[row] = moments.mean;
    statistics->variance[row] = moments.variance;
    statistics->inverse_deviation[row] = moments.inverse;
  }
  double BiasAt(int64_t i) const {
    return rule.bias.empty() ? 0 : rule.bias[static_cast<size_t>(i)];
  }
  void Scale(const Moments& moments, int64_t first) {
    const double mean = moments.mean;
    const double inverse = moments.inverse;
    double* const x = row_numbers.data();
    const double* const scale = rule.scale.data() + first;
    if (rule.parts == rule.run && !rule.bias.empty()) {
      const double* const bias = rule.bias.data() + first;
      for (int64_t i = 0; i < rule.run; ++i) {
        x[i] = (x[i] - mean) * inverse * scale[i] + bias[i];
      }
      return;
    }
    const int64_t length = rule.run / rule.parts;
    for (int64_t part = 0; part < rule.parts; ++part) {
      const double bias = BiasAt(first + part);
      double* const from = x + part * length;
      for (int64_t i = 0; i < length; ++i) {
        from[i] = (from[i] - mean) * inverse * scale[part] + bias;
      }
    }
  }
  void FillBounds(const Moments& moments, int64_t row, int64_t first) {
    const RowErrors errors = ErrorsOf(moments);
    if (statistics != nullptr) {
      statistics->proved[static_cast<size_t>(row)] = errors.proved;
      statistics->expected[static_cast<size_t>(row)] = errors.expected;
    }
    const int64_t piece = rule.run / rule.pieces;
    for (int64_t i = 0; i < rule.run; ++i) {
      const auto at = static_cast<size_t>(
          (i / piece * rule.rows + row) * piece + i % piece);
      BoundOf(i, first, moments, errors).SetAt(at, bounds);
    }
  }
  RowErrors ErrorsOf(const Moments& moments) const {
    const auto n = static_cast<double>(rule.run);
    const double mean_size = MeanSize(row_numbers.data(), rule.run);
    if (overflows(n * moments.squares) || overflows(n * mean_size)) {
      return {{kAnyError, kAnyError, kAnyError},
              {kAnyError, kAnyError, kAnyError}};
    }
    return {ErrorOf(moments, rule, n, mean_size, rounded),
            ErrorOf(moments, rule, std::min(n, kExpectedFactor * std::sqrt(n)),
                    mean_size, rounded)};
  }
  // Returns the bound of element `i` of the row that has been read, which is
  // not normalized yet.
  SumBound BoundOf(int64_t i, int64_t first, const Moments& moments,
                   const RowErrors& errors) const {
    const int64_t part = first + i / (rule.run / rule.parts);
    const double x = row_numbers[static_cast<size_t>(i)];
    const double scale = rule.scale[static_cast<size_t>(part)];
    const double bias = BiasAt(part);
    const double y = (x - moments.mean) * moments.inverse * scale + bias;
    // Kernels may make one factor of the scale and the deviation.
    if (overflows(std::fabs(scale) * moments.inverse)) {
      return {kAnyError, kAnyError};
    }
    return {BoundAt(x, scale, bias, y, moments, errors.proved, rounded),
            BoundAt(x, scale, bias, y, moments, errors.expected, rounded)};
  }
};

}  // namespace

DLDataType StashType(int64_t number) {
  const auto dtype = DTypeFromOnnx(number);
  return dtype.ok() && IsFloat(*dtype) ? *dtype : kFloat64;
}

void RowStatistics::Resize(int64_t rows) {
  const auto count = static_cast<size_t>(rows);
  mean.resize(count);
  variance.resize(count);
  inverse_deviation.resize(count);
  proved.resize(count);
  expected.resize(count);
}

absl::Status NormalizeRows(EvalArgs& args, const NormRows& rule,
                           DLDataType dtype, RowStatistics* statistics) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y,
                            args.MakeOutput(0, args.shape(0), dtype));
  Bounds* const bounds = SizedBounds(args, 0, CountOf(y));
  if (statistics != nullptr) statistics->Resize(rule.rows);
  if (CountOf(y) == 0) return absl::OkStatus();
  const double work = 3 * static_cast<double>(rule.run);
  ParallelFor(rule.rows, work, [&](int64_t begin, int64_t end) {
    RowWorker worker{args, rule, y, bounds, statistics};
    for (int64_t row = begin; row < end; ++row) worker.Run(row);
  });
  return absl::OkStatus();
}

// With t = (x - mean) * inverse * scale, BoundAt() is at least 8 u |t| + 2 u
// |bias| + 4 HalfUlp(y), where the last is 2 u |y| or more: together 4 u |y|.
// What is stored of y is rounded, by far less than a fortieth.
double LeastBoundOfNormalized() { return 3.9; }

// Elements come in ascending order, so those of a row are neighbours in the
// list and its moments are found once.
void BoundNormalizedAt(const EvalArgs& args, const NormRows& rule,
                       const NDArray& y, absl::Span<const int64_t> elements,
                       Bounds* bounds) {
  ResizeBounds(static_cast<int64_t>(elements.size()), bounds);
  std::vector<size_t> begins;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i == 0 || elements[i] / rule.run != elements[i - 1] / rule.run) {
      begins.push_back(i);
    }
  }
  const auto rows = static_cast<int64_t>(begins.size());
  begins.push_back(elements.size());
  const double work = 2 * static_cast<double>(rule.run);
  ParallelFor(rows, work, [&](int64_t begin, int64_t end) {
    RowWorker worker{args, rule, y, bounds, nullptr};
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end);
         ++i) {
      worker.BoundSome(elements[begins[i]] / rule.run, elements, begins[i],
                       begins[i + 1]);
    }
  });
}

}  // namespace nodewise
