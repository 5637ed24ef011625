#include "nodewise/ops/signal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/fourier.h"
#include "contrib/ops/util/inputs.h"
#include "contrib/ops/util/sum_bounds.h"
#include "contrib/ops/util/tensor_moves.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using ComplexDouble = std::complex<double>;

// A transform of a power of two is the usual one of Cooley and Tukey. Any other
// length n becomes a convolution (Bluestein): with k n = (k^2 + n^2 - (k -
// n)^2) / 2 the sum over exp(-2 pi i k n / N) is one over products of chirps,
// which two transforms of a padded power of two compute. Roots are taken from
// the library one by one, so that no error builds up along them.

// Plain product: the library's own looks for NaN, which takes longer.
ComplexDouble Times(const ComplexDouble& a, const ComplexDouble& b) {
  return {a.real() * b.real() - a.imag() * b.imag(),
          a.real() * b.imag() + a.imag() * b.real()};
}

// exp(-i turn), the angle in parts of a whole turn, each exact to a rounding.
ComplexDouble RootOfUnity(int64_t part, int64_t of) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(part) /
                       static_cast<double>(of);
  return {std::cos(angle), -std::sin(angle)};
}

// n is a power of two; roots are exp(-2 pi i k / n). The elements are put in
// the order of their reversed bits first, in place; then pairs of transforms of
// half the length become one, until a single one is left.
void TransformPowerOfTwo(std::vector<ComplexDouble>& data,
                         const std::vector<ComplexDouble>& roots) {
  const size_t n = data.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    const size_t step = n / (2 * half);
    for (size_t begin = 0; begin < n; begin += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const ComplexDouble odd =
            Times(data[begin + half + k], roots[k * step]);
        const ComplexDouble even = data[begin + k];
        data[begin + k] = even + odd;
        data[begin + half + k] = even - odd;
      }
    }
  }
}

constexpr int64_t kMostLength = int64_t{1} << 32;

// Real signals have spectra that are symmetric, so one half is enough either
// way.
struct DftRule {
  bool inverse = false;
  bool onesided = false;

  // Inverse and one-sided: from one half of a spectrum, whose other half is its
  // mirror image, back to real numbers.
  bool is_real_inverse() const { return inverse && onesided; }
  bool is_real_forward() const { return onesided && !inverse; }
  int64_t LengthFor(int64_t side) const {
    return is_real_inverse() ? 2 * (side - 1) : side;
  }
  int64_t OutputSide(int64_t length) const {
    return is_real_forward() ? length / 2 + 1 : length;
  }
};

// Requires the last side to be 1 (real) or 2 (complex).
absl::Status CheckParts(const Dim& parts) {
  if (!parts.is_known() || parts == Dim(1) || parts == Dim(2)) {
    return absl::OkStatus();
  }
  return WrongInput(0, "has a last side of {}, expected 1 or 2", parts.size());
}

absl::Status CheckDft(const DftRule& rule, const Inputs& in) {
  NODEWISE_RETURN_IF_ERROR(All(RequireFloat(in, 0),
                               RequireRank(in, 0, 2, INT32_MAX),
                               RequireIndex(in, 1), RequireRank(in, 1, 0, 1)));
  if (!in.type(0).has_rank()) return absl::OkStatus();
  const Dim& parts = in.type(0).shape->back();
  NODEWISE_RETURN_IF_ERROR(CheckParts(parts));
  if (rule.is_real_forward() && parts == Dim(2)) {
    return AttributeError("onesided", "is set, but the input is complex");
  }
  if (rule.is_real_inverse() && parts == Dim(1)) {
    return AttributeError("onesided", "is set, but the spectrum is real");
  }
  return absl::OkStatus();
}

// The last side holds real and imaginary parts and can be no axis.
absl::StatusOr<int> DftAxis(int64_t axis, int rank) {
  NODEWISE_ASSIGN_OR_RETURN(const int at, Axis(axis, rank));
  if (at < rank - 1) return at;
  return InvalidArgument("axis {} is the last one, which holds the parts",
                         axis);
}

// `axis` is none if it is not known. A length that is given cuts or pads the
// signal, so it replaces the side, known or not. An unknown axis may be any
// but the last, so all of them become unknown.
absl::StatusOr<OutputInfos> InferDft(const DftRule& rule, const Inputs& in,
                                     std::optional<int64_t> axis) {
  TensorType type = in.type(0);
  if (!type.has_rank()) return OutputInfos{type};
  Shape& shape = *type.shape;
  shape.back() = rule.is_real_inverse() ? 1 : 2;
  if (!axis.has_value()) {
    std::fill(shape.begin(), shape.end() - 1, Dim());
    return OutputInfos{type};
  }
  NODEWISE_ASSIGN_OR_RETURN(const int at, DftAxis(*axis, type.rank()));
  Dim& side = shape[static_cast<size_t>(at)];
  if (!in.has(1)) {
    if (side.is_known()) {
      const int64_t length = rule.LengthFor(side.size());
      if (length < 1 || length > kMostLength) {
        return WrongInput(0, "makes a signal of {}", length);
      }
      side = rule.OutputSide(length);
    } else if (rule.onesided) {
      side = Dim();
    }
    return OutputInfos{type};
  }
  const auto length = OneInt(in, 1);
  side = Dim();
  if (!length.has_value()) return OutputInfos{type};
  if (*length < 1 || *length > kMostLength) {
    return WrongInput(1, "is {}, expected 1 to 2^32", *length);
  }
  side = rule.OutputSide(*length);
  return OutputInfos{type};
}

// Signals in one tensor that have the same layout. A real signal has one part,
// and its imaginary part is 0.
struct Signals {
  std::vector<double> numbers;
  int64_t side;   // Numbers of one signal,
  int64_t step;   // elements from one to the next,
  int64_t parts;  // each of one part (real) or two.
};

// The numbers of the signal that begins at element `first`, as long as its
// transform: cut off or filled up with 0, and mirrored where only half of a
// spectrum is given.
void LoadSignal(const DftRule& rule, const Signals& from, int64_t first,
                std::vector<ComplexDouble>* signal) {
  const auto& [x, side, step, parts] = from;
  const auto length = static_cast<int64_t>(signal->size());
  std::ranges::fill(*signal, ComplexDouble());
  const int64_t given = rule.is_real_inverse() ? std::min(side, length / 2 + 1)
                                               : std::min(side, length);
  for (int64_t i = 0; i < given; ++i) {
    const auto at = static_cast<size_t>(first + i * step);
    (*signal)[static_cast<size_t>(i)] = {x[at], parts == 2 ? x[at + 1] : 0};
  }
  if (!rule.is_real_inverse()) return;
  for (int64_t i = 1; 2 * i < length; ++i) {
    (*signal)[static_cast<size_t>(length - i)] =
        std::conj((*signal)[static_cast<size_t>(i)]);
  }
  // Numbers of a spectrum that are their own mirror image are real.
  (*signal)[0].imag(0);
  if (length % 2 == 0) (*signal)[static_cast<size_t>(length / 2)].imag(0);
}

// Where transforms are written, and their bounds. Threads write to different
// elements of it.
struct SpectrumSink {
  DLDataType dtype;
  std::vector<double> values;
  Bounds* bounds;

  SpectrumSink(EvalArgs& args, const NDArray& y)
      : dtype(y.dtype()),
        values(static_cast<size_t>(CountOf(y))),
        bounds(SizedBounds(args, 0, CountOf(y))) {}
  void Write(size_t i, const ComplexDouble& number, int64_t parts,
             const SumOfTerms& terms, double scale) {
    WriteOne(i, number.real(), terms, scale);
    if (parts == 2) WriteOne(i + 1, number.imag(), terms, scale);
  }

 private:
  // The scale is 1 / N of inverse transforms; it is applied to the bounds, too.
  void WriteOne(size_t i, double value, const SumOfTerms& terms, double scale) {
    values[i] = value * scale;
    if (bounds == nullptr) return;
    SumOfTerms sum = terms;
    sum.result = value;
    const SumBound bound = BoundSum(dtype, sum);
    SumBound{bound.proved * scale, bound.expected * scale}.SetAt(i, bounds);
  }
};

// Every output is a sum of all numbers times roots of size 1, so all have one
// bound but for their own rounding.
SumOfTerms TermsOf(const std::vector<ComplexDouble>& signal) {
  // Each is multiplied by a root that is rounded as well.
  SumOfTerms terms;
  terms.terms = 2 * static_cast<double>(signal.size()) + 2;
  for (const ComplexDouble& number : signal) {
    terms.absolute += std::fabs(number.real()) + std::fabs(number.imag());
    terms.squares += std::norm(number);
  }
  return terms;
}

// A lane is one signal: its numbers are `inner` elements apart. All signals
// share the roots and differ only in where they begin.
absl::Status EvaluateDft(const DftRule& rule, EvalArgs& args, int64_t axis) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const absl::Span<const int64_t> shape = args.shape(0);
  NODEWISE_ASSIGN_OR_RETURN(const int at,
                            DftAxis(axis, static_cast<int>(shape.size())));
  const AxisSplit split = SplitAt(shape, at);
  const int64_t parts = shape.back();
  const int64_t out_side = y.shape()[static_cast<size_t>(at)];
  const int64_t out_parts = y.shape().back();
  int64_t length = rule.LengthFor(split.size);
  if (args.has(1)) {
    NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(1));
    length = given[0];
  }
  const Fourier fourier(length);
  const Signals signals{ToDoubles(args.in(0)), split.size, split.inner, parts};
  SpectrumSink sink(args, y);
  const int64_t lanes = split.inner / parts;
  const double scale = rule.inverse ? 1 / static_cast<double>(length) : 1;
  const double work = 50 * static_cast<double>(length);
  ParallelFor(split.outer * lanes, work, [&](int64_t begin, int64_t end) {
    std::vector<ComplexDouble> signal(static_cast<size_t>(length));
    for (int64_t lane = begin; lane < end; ++lane) {
      const int64_t outer = lane / lanes;
      const int64_t inner = lane % lanes;
      LoadSignal(rule, signals,
                 outer * split.size * split.inner + inner * parts, &signal);
      const SumOfTerms terms = TermsOf(signal);
      fourier.Transform(signal.data(), rule.inverse);
      for (int64_t k = 0; k < out_side; ++k) {
        const auto to = static_cast<size_t>(
            ((outer * out_side + k) * lanes + inner) * out_parts);
        sink.Write(to, signal[static_cast<size_t>(k)], out_parts, terms, scale);
      }
    }
  });
  StoreDoubles(sink.values.data(), 0, CountOf(y), y);
  return absl::OkStatus();
}

// The axis became an input, with another default, with opset 20. The axis of 1
// counts from the front, and skips the batch.
struct Dft17 : ops::DFT17 {
  static constexpr auto Fields() {
    return FieldList(Field<&Dft17::axis>("axis"),
                     Field<&Dft17::inverse>("inverse"),
                     Field<&Dft17::onesided>("onesided"));
  }

  absl::Status Check(const Inputs& in) const {
    return CheckDft({inverse, onesided}, in);
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferDft({inverse, onesided}, in, axis);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateDft({inverse, onesided}, args, axis);
  }
};

struct Dft : ops::DFT {
  static constexpr auto Fields() {
    return FieldList(Field<&Dft::inverse>("inverse"),
                     Field<&Dft::onesided>("onesided"));
  }

  absl::Status Check(const Inputs& in) const {
    return All(CheckDft({inverse, onesided}, in), RequireIndex(in, 2),
               RequireRank(in, 2, 0, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    return InferDft({inverse, onesided}, in,
                    in.has(2) ? OneInt(in, 2) : std::optional<int64_t>(-2));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    int64_t axis = -2;
    if (args.has(2)) {
      NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(2));
      if (given.size() != 1) return InputError(2, "is not one number");
      axis = given[0];
    }
    return EvaluateDft({inverse, onesided}, args, axis);
  }
};

// Frames overlap where the step is shorter than the window. Each is copied out
// of the signal, so that windowing does not change what the next one sees.
struct Stft : ops::STFT {
  static constexpr auto Fields() {
    return FieldList(Field<&Stft::onesided>("onesided"));
  }

  absl::Status Check(const Inputs& in) const {
    NODEWISE_RETURN_IF_ERROR(
        All(RequireFloat(in, 0), RequireIndex(in, 1), RequireFloat(in, 2),
            RequireIndex(in, 3), RequireRank(in, 0, 3), RequireRank(in, 2, 1),
            RequireRank(in, 1, 0, 1), RequireRank(in, 3, 0, 1)));
    const Dim parts = SideOf(in, 0, 2);
    NODEWISE_RETURN_IF_ERROR(CheckParts(parts));
    if (onesided && parts == Dim(2)) {
      return AttributeError("onesided", "is set, but the signal is complex");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const DLDataType dtype = in.type(0).dtype;
    Shape shape{SideOf(in, 0, 0), Dim(), Dim(), 2};
    const auto step = OneInt(in, 1);
    // A frame is as long as frame_length says, else as the window, else as the
    // whole signal.
    Dim length = SideOf(in, 0, 1);
    if (in.has(2)) length = SideOf(in, 2, 0);
    if (in.has(3)) {
      const auto given = OneInt(in, 3);
      if (in.has(2) && length.is_known() && given.has_value() &&
          length.size() != *given) {
        return WrongInput(3, "is {}, expected {} as the window is long", *given,
                          length.size());
      }
      length = given.has_value() ? Dim(*given) : length;
    }
    if (step.has_value() && *step < 1) {
      return WrongInput(1, "is {}, expected 1 or more", *step);
    }
    if (!length.is_known()) return OneOutput(dtype, shape);
    if (length.size() < 1 || length.size() > kMostLength) {
      return WrongInput(3, "is {}, expected 1 to 2^32", length.size());
    }
    shape[2] = onesided ? length.size() / 2 + 1 : length.size();
    const Dim signal = SideOf(in, 0, 1);
    if (!step.has_value() || !signal.is_known()) return OneOutput(dtype, shape);
    if (signal.size() < length.size()) {
      return WrongInput(0, "is {} long, shorter than a frame of {}",
                        signal.size(), length.size());
    }
    shape[1] = (signal.size() - length.size()) / *step + 1;
    return OneOutput(dtype, shape);
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    NODEWISE_ASSIGN_OR_RETURN(const auto step, args.Ints(1));
    std::vector<double> window;
    int64_t length = args.shape(0)[1];
    if (args.has(2)) {
      window = ToDoubles(args.in(2));
      length = CountOf(args.in(2));
    }
    if (args.has(3)) {
      NODEWISE_ASSIGN_OR_RETURN(const auto given, args.Ints(3));
      length = given[0];
    }
    const Fourier fourier(length);
    SpectrumSink sink(args, y);
    const int64_t frames = y.shape()[1];
    const int64_t bins = y.shape()[2];
    const int64_t parts = args.shape(0)[2];
    const Signals signals{ToDoubles(args.in(0)), length, parts, parts};
    const double work = 50 * static_cast<double>(length);
    ParallelFor(y.shape()[0] * frames, work, [&](int64_t begin, int64_t end) {
      std::vector<ComplexDouble> signal(static_cast<size_t>(length));
      for (int64_t frame = begin; frame < end; ++frame) {
        const int64_t first =
            frame / frames * args.shape(0)[1] + frame % frames * step[0];
        LoadSignal({}, signals, first * parts, &signal);
        for (size_t i = 0; i < window.size(); ++i) signal[i] *= window[i];
        const SumOfTerms terms = TermsOf(signal);
        fourier.Transform(signal.data(), false);
        for (int64_t k = 0; k < bins; ++k) {
          const auto to = static_cast<size_t>((frame * bins + k) * 2);
          sink.Write(to, signal[static_cast<size_t>(k)], 2, terms, 1);
        }
      }
    });
    StoreDoubles(sink.values.data(), 0, CountOf(y), y);
    return absl::OkStatus();
  }
};

absl::Status CheckLength(const Inputs& in, size_t i, int64_t least) {
  const auto length = OneInt(in, i);
  if (!length.has_value() || *length >= least) return absl::OkStatus();
  return WrongInput(i, "is {}, expected {} or more", *length, least);
}

// A kernel may calculate in the output's type: cosines of angles that are off
// by a few roundings. Integers are cut off, and a number just below one may
// fall to either side.
void BoundByUnits(double units, const NDArray& y, Bounds* bounds) {
  const double step = IsFloat(y.dtype()) ? 0 : 1;
  SetAllBounds(CountOf(y), units * UnitRoundoff(y.dtype()) + step, bounds);
}

// w(n) = a - b cos(2 pi n / N) + c cos(4 pi n / N), where N is the size, or one
// less if the window is not periodic.
struct Cosines {
  double a;
  double b;
  double c;
};
constexpr Cosines CosinesOf(const ops::HannWindow&) { return {0.5, 0.5, 0}; }
constexpr Cosines CosinesOf(const ops::HammingWindow&) {
  return {25.0 / 46, 21.0 / 46, 0};
}
constexpr Cosines CosinesOf(const ops::BlackmanWindow&) {
  return {0.42, 0.5, 0.08};
}

absl::Status EvaluateWindow(bool periodic, const Cosines& cosines,
                            EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const int64_t size = CountOf(y);
  // A symmetric window of size 1 is its middle.
  const bool is_single = size == 1 && !periodic;
  const auto n = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> window(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const double part = is_single ? 0.5 : static_cast<double>(i) / n;
    const double angle = 2 * std::numbers::pi * part;
    // In this order 0.42, 0.08 and 0.5 are exactly 1 in the middle, which an
    // integer type would else make 0.
    window[static_cast<size_t>(i)] =
        (cosines.a + cosines.c * std::cos(2 * angle)) -
        cosines.b * std::cos(angle);
  }
  StoreDoubles(window.data(), 0, size, y);
  BoundByUnits(32, y, args.bounds(0));
  return absl::OkStatus();
}

// The three windows differ in their coefficients alone.
template <typename Class>
struct CosineWindow : Class {
  static constexpr auto Fields() {
    return FieldList(Field<&Class::output_datatype>("output_datatype"),
                     Field<&Class::periodic>("periodic"));
  }
  absl::Status Check(const Inputs& in) const {
    return All(RequireIndex(in, 0), RequireRank(in, 0, 0, 1),
               CheckLength(in, 0, 0));
  }
  OutputInfos Infer(const Inputs& in) const {
    const auto size = OneInt(in, 0);
    return OneOutput(this->output_datatype,
                     Shape{size.has_value() ? Dim(*size) : Dim()});
  }
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateWindow(this->periodic, CosinesOf(*this), args);
  }
};

// Places on the mel scale are logarithms of frequencies, on which bands are
// equally wide.
double MelOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

// The inputs are single numbers, so nothing is known of the shape unless the
// first two are constant.
struct MelWeightMatrix : ops::MelWeightMatrix {
  static constexpr auto Fields() {
    return FieldList(
        Field<&MelWeightMatrix::output_datatype>("output_datatype"));
  }

  absl::Status Check(const Inputs& in) const {
    for (size_t i = 0; i < 5; ++i) {
      NODEWISE_RETURN_IF_ERROR(
          All(RequireRank(in, i, 0, 1),
              i < 3 ? RequireIndex(in, i) : RequireFloat(in, i)));
    }
    return All(CheckLength(in, 0, 0), CheckLength(in, 1, 0),
               CheckLength(in, 2, 1));
  }
  absl::StatusOr<OutputInfos> Infer(const Inputs& in) const {
    const auto bins = OneInt(in, 0);
    const auto length = OneInt(in, 1);
    Shape shape(2);
    if (length.has_value()) shape[0] = *length / 2 + 1;
    if (bins.has_value()) shape[1] = *bins;
    return CheckedOutput(output_datatype, std::move(shape));
  }
  absl::Status Evaluate(EvalArgs& args) const {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
    std::vector<double> numbers;
    for (size_t i = 0; i < 5; ++i) numbers.push_back(ToDoubles(args.in(i))[0]);
    const int64_t rows = y.shape()[0];
    const int64_t columns = y.shape()[1];
    std::vector<double> weights(static_cast<size_t>(rows * columns), 0);
    const auto set = [&](int64_t row, int64_t column, double weight) {
      if (row < 0 || row >= rows) return;
      weights[static_cast<size_t>(row * columns + column)] = weight;
    };
    // Each band rises from the centre of the one before to its own, and falls
    // to that of the next. Bands narrower than a bin keep a weight of 1 at
    // their middle.
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t low = BinOf(numbers, i, rows);
      const int64_t middle = BinOf(numbers, i + 1, rows);
      const int64_t high = BinOf(numbers, i + 2, rows);
      const auto rise = static_cast<double>(middle - low);
      const auto fall = static_cast<double>(high - middle);
      if (middle == low) set(middle, i, 1);
      for (int64_t j = low; middle > low && j <= middle; ++j) {
        set(j, i, static_cast<double>(j - low) / rise);
      }
      for (int64_t j = middle; j < high; ++j) {
        set(j, i, static_cast<double>(high - j) / fall);
      }
    }
    StoreDoubles(weights.data(), 0, CountOf(y), y);
    BoundByUnits(4, y, args.bounds(0));
    return absl::OkStatus();
  }

 private:
  // Edge `i` of the triangles, as a bin of the spectrum; edges far beyond its
  // end are clamped to one a bit beyond it.
  static int64_t BinOf(const std::vector<double>& numbers, int64_t i,
                       int64_t rows) {
    const double low = MelOf(numbers[3]);
    const double step = (MelOf(numbers[4]) - low) / (numbers[0] + 2);
    const double mel = static_cast<double>(i) * step + low;
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    const double bin = std::floor((numbers[1] + 1) * hertz / numbers[2]);
    const double most = 4 * static_cast<double>(rows) + 4;
    return FromDouble<int64_t>(std::clamp(bin, -most, most));
  }
};

template <typename Class>
constexpr OperatorDef WindowRow(const char* name) {
  return Row<Class, CosineWindow<Class>>(name, 17, {"size"}, {"output"}, kSum);
}

constexpr OperatorDef kSignalRows[] = {
    Row<ops::DFT17, Dft17>("DFT", 17, {"input", Optional("dft_length")},
                           {"output"}, kSum),
    Row<ops::DFT, Dft>("DFT", 20,
                       {"input", Optional("dft_length"), Optional("axis")},
                       {"output"}, kSum),
    Row<ops::STFT, Stft>(
        "STFT", 17,
        {"signal", "frame_step", Optional("window"), Optional("frame_length")},
        {"output"}, kSum),
    WindowRow<ops::HannWindow>("HannWindow"),
    WindowRow<ops::HammingWindow>("HammingWindow"),
    WindowRow<ops::BlackmanWindow>("BlackmanWindow"),
    Row<ops::MelWeightMatrix, MelWeightMatrix>(
        "MelWeightMatrix", 17,
        {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
         "upper_edge_hertz"},
        {"output"}, kSum),
};

}  // namespace

Fourier::Fourier(int64_t length) : length_(length) {
  if (length < 1) return;
  const auto n = static_cast<uint64_t>(length);
  const bool is_power = std::has_single_bit(n);
  padded_ = static_cast<int64_t>(is_power ? n : std::bit_ceil(2 * n));
  for (int64_t k = 0; k < padded_; ++k)
    roots_.push_back(RootOfUnity(k, padded_));
  if (is_power) return;
  for (int64_t k = 0; k < length; ++k) {
    // The square is reduced modulo the circle before it loses digits.
    const int64_t circle = 2 * length;
    const auto square = static_cast<__int128>(k) * k % circle;
    chirp_.push_back(RootOfUnity(static_cast<int64_t>(square), circle));
  }
  filter_.assign(static_cast<size_t>(padded_), {});
  for (size_t k = 0; k < chirp_.size(); ++k) {
    filter_[k] = std::conj(chirp_[k]);
    if (k > 0) filter_[filter_.size() - k] = filter_[k];
  }
  TransformPowerOfTwo(filter_, roots_);
}

void Fourier::Transform(ComplexDouble* data, bool is_inverse) const {
  if (length_ < 1) return;
  const auto n = static_cast<size_t>(length_);
  std::vector<ComplexDouble> work(data, data + n);
  const auto conjugate = [&] {
    for (ComplexDouble& number : work) number = std::conj(number);
  };
  if (is_inverse) conjugate();
  if (chirp_.empty()) {
    TransformPowerOfTwo(work, roots_);
  } else {
    for (size_t k = 0; k < n; ++k) work[k] = Times(work[k], chirp_[k]);
    work.resize(filter_.size());
    TransformPowerOfTwo(work, roots_);
    for (size_t k = 0; k < work.size(); ++k) {
      work[k] = std::conj(Times(work[k], filter_[k]));
    }
    TransformPowerOfTwo(work, roots_);
    const double scale = 1 / static_cast<double>(padded_);
    for (size_t k = 0; k < n; ++k) {
      work[k] = Times(std::conj(work[k]) * scale, chirp_[k]);
    }
    work.resize(n);
  }
  if (is_inverse) conjugate();
  std::ranges::copy(work, data);
}

absl::Span<const OperatorDef> SignalOperators() { return kSignalRows; }

}  // namespace nodewise
