#include "nodewise/ops/window_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "contrib/ops/op_families.h"
#include "contrib/ops/util/tensor_moves.h"
#include "fmt/format.h"
#include "nodewise/op/op_row.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckLength(const Inputs& in, size_t i, int64_t least) {
  const auto length = OneInt(in, i);
  if (!length.has_value() || *length >= least) return absl::OkStatus();
  return InputError(i,
                    fmt::format("is {}, expected {} or more", *length, least));
}

// A kernel may calculate in the output's type: cosines of angles that are off
// by a few roundings.
void BoundByUnits(double units, const NDArray& y, Bounds* bounds) {
  if (bounds == nullptr) return;
  const double step = IsFloat(y.dtype()) ? 0 : 1;
  bounds->proved.assign(static_cast<size_t>(CountOf(y)),
                        units * UnitRoundoff(y.dtype()) + step);
  bounds->expected = bounds->proved;
}

OutputInfos InferWindow(const ops::CosineWindowAttributes& attributes,
                        const Inputs& in) {
  const auto size = OneInt(in, 0);
  return OneOutput(attributes.output_datatype,
                   Shape{size.has_value() ? Dim(*size) : Dim()});
}

// w(n) = a - b cos(2 pi n / N) + c cos(4 pi n / N), where N is the size, or one
// less if the window is not periodic.
absl::Status EvaluateWindow(const ops::CosineWindowAttributes& attributes,
                            double a, double b, double c, EvalArgs& args) {
  NODEWISE_ASSIGN_OR_RETURN(const NDArray y, args.MakeOutput(0));
  const int64_t size = CountOf(y);
  const bool periodic = attributes.periodic;
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
        (a + c * std::cos(2 * angle)) - b * std::cos(angle);
  }
  StoreDoubles(window.data(), 0, size, y);
  BoundByUnits(32, y, args.bounds(0));
  return absl::OkStatus();
}

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
  OutputInfos Infer(const Inputs& in) const { return InferWindow(*this, in); }
};

struct HannWindow : CosineWindow<ops::HannWindow> {
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateWindow(*this, 0.5, 0.5, 0, args);
  }
};

struct HammingWindow : CosineWindow<ops::HammingWindow> {
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateWindow(*this, 25.0 / 46, 21.0 / 46, 0, args);
  }
};

struct BlackmanWindow : CosineWindow<ops::BlackmanWindow> {
  absl::Status Evaluate(EvalArgs& args) const {
    return EvaluateWindow(*this, 0.42, 0.5, 0.08, args);
  }
};

double MelOf(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

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
    NODEWISE_RETURN_IF_ERROR(CheckShape(shape));
    return OneOutput(output_datatype, shape);
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

constexpr OperatorDef kWindowFunctions[] = {
    Row<ops::HannWindow, HannWindow>({.name = "HannWindow",
                                      .since = 17,
                                      .inputs = {"size"},
                                      .outputs = {"output"},
                                      .bound = kSum}),
    Row<ops::HammingWindow, HammingWindow>({.name = "HammingWindow",
                                            .since = 17,
                                            .inputs = {"size"},
                                            .outputs = {"output"},
                                            .bound = kSum}),
    Row<ops::BlackmanWindow, BlackmanWindow>({.name = "BlackmanWindow",
                                              .since = 17,
                                              .inputs = {"size"},
                                              .outputs = {"output"},
                                              .bound = kSum}),
    Row<ops::MelWeightMatrix, MelWeightMatrix>(
        {.name = "MelWeightMatrix",
         .since = 17,
         .inputs = {"num_mel_bins", "dft_length", "sample_rate",
                    "lower_edge_hertz", "upper_edge_hertz"},
         .outputs = {"output"},
         .bound = kSum}),
};

}  // namespace

absl::Span<const OperatorDef> WindowFunctionOperators() {
  return kWindowFunctions;
}

}  // namespace nodewise
