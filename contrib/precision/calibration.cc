#include "nodewise/precision/calibration.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "nodewise/interp/interpreter.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Histograms = std::map<std::string, RangeHistogram>;

void AddTensor(const std::string& name, const NDArray& tensor,
               Histograms* histograms) {
  // Only float32 becomes int8; shapes and indices stay what they are.
  if (!tensor.defined() || !(tensor.dtype() == kFloat32)) return;
  const size_t count = tensor.bytes() / sizeof(float);
  (*histograms)[name].Add({tensor.As<float>(), count});
}

absl::Status AddSample(const Network& network, const Interpreter& interpreter,
                       const Sample& sample, Histograms* histograms) {
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    for (size_t i = 0; i < run.result.outputs.size(); ++i) {
      if (run.operation.outputs[i] == kNoValue) continue;
      AddTensor(network.value(run.operation.outputs[i]).name,
                run.result.outputs[i], histograms);
    }
    return false;
  };
  NODEWISE_RETURN_IF_ERROR(interpreter.Run(sample, options).status());
  // After the run, which has checked that the sample fits the network.
  for (size_t i = 0; i < sample.size(); ++i) {
    AddTensor(network.value(network.inputs()[i]).name, sample[i], histograms);
  }
  return absl::OkStatus();
}

}  // namespace

void RangeHistogram::Widen() {
  for (size_t i = 0; i < kBins / 4; ++i) {
    // From the middle outwards, so that nothing is overwritten before it is
    // read. Two neighbours become one bin of twice the width; the outer halves
    // are then empty.
    const size_t above = kBins / 2 + i;
    const size_t below = kBins / 2 - 1 - i;
    const size_t far_above = kBins / 2 + 2 * i;
    const size_t far_below = kBins / 2 - 1 - 2 * i;
    bins_[above] = bins_[far_above] + bins_[far_above + 1];
    bins_[below] = bins_[far_below] + bins_[far_below - 1];
  }
  std::fill(bins_.begin(), bins_.begin() + kBins / 4, 0);
  std::fill(bins_.end() - kBins / 4, bins_.end(), 0);
  limit_ *= 2;
}

void RangeHistogram::Add(absl::Span<const float> numbers) {
  for (const float number : numbers) {
    // An infinity would take the whole range for itself.
    if (!std::isfinite(number)) continue;
    const double x = number;
    low_ = count_ == 0 ? x : std::min(low_, x);
    high_ = count_ == 0 ? x : std::max(high_, x);
    ++count_;
    // Zeros have no place on either side of the middle, and a network with Relu
    // makes mostly zeros.
    if (x == 0) {
      ++zeros_;
      continue;
    }
    if (limit_ == 0) {
      bins_.assign(kBins, 0);
      // A power of two, so that doubling it keeps the borders of bins exact.
      limit_ = std::exp2(std::ceil(std::log2(std::fabs(x))));
    }
    while (std::fabs(x) > limit_) Widen();
    const auto bin = static_cast<int>((x / limit_ + 1) * (kBins / 2));
    ++bins_[static_cast<size_t>(std::clamp(bin, 0, kBins - 1))];
  }
}

double RangeHistogram::Quantile(double share) const {
  const double wanted = share * static_cast<double>(count_);
  const double width = limit_ / (kBins / 2);
  double seen = 0;
  for (int i = 0; i < kBins && limit_ > 0; ++i) {
    // Zeros stand between the two middle bins.
    if (i == kBins / 2) {
      if (seen + static_cast<double>(zeros_) >= wanted) return 0;
      seen += static_cast<double>(zeros_);
    }
    const auto here = static_cast<double>(bins_[static_cast<size_t>(i)]);
    if (here > 0 && seen + here >= wanted) {
      // Within a bin, numbers count as spread evenly.
      return -limit_ + width * (i + (wanted - seen) / here);
    }
    seen += here;
  }
  return high_;
}

ValueRange RangeHistogram::Percentile(double percent) const {
  // Both ends are cut off by the same share.
  const double cut = (1 - percent / 100) / 2;
  if (cut <= 0) return MinMax();
  return {std::clamp(Quantile(cut), low_, high_),
          std::clamp(Quantile(1 - cut), low_, high_)};
}

absl::StatusOr<CalibrationMethod> ParseCalibrationMethod(
    const std::string& text) {
  constexpr std::string_view kPercentile = "percentile";
  if (text == "minmax") return CalibrationMethod{};
  if (text == kPercentile) return CalibrationMethod{99.9};
  double percent = 0;
  if (text.starts_with("percentile=")) {
    const char* const begin = text.data() + kPercentile.size() + 1;
    const char* const end = text.data() + text.size();
    // Unlike strtod(), it does not depend on the locale.
    const auto [stop, error] = std::from_chars(begin, end, percent);
    if (error == std::errc() && stop == end && percent > 0 && percent <= 100) {
      return CalibrationMethod{percent};
    }
  }
  return InvalidArgument(
      "calibration: found \"{}\", expected minmax, percentile or percentile=N "
      "with a number above 0 and up to 100, as in 99.9",
      text);
}

absl::StatusOr<Calibration> Calibrate(const Network& network,
                                      absl::Span<const Sample> samples,
                                      const CalibrationMethod& method) {
  if (samples.empty()) {
    return InvalidArgument(
        "calibration: has no sample inputs, expected at least one");
  }
  Histograms histograms;
  const Interpreter interpreter(network);
  for (const Sample& sample : samples) {
    NODEWISE_RETURN_IF_ERROR(
        AddSample(network, interpreter, sample, &histograms));
  }
  Calibration calibration;
  // A value of which no number is finite has no range, which reports give as
  // the reason.
  for (const auto& [name, histogram] : histograms) {
    if (histogram.empty()) continue;
    calibration[name] = histogram.Percentile(method.percent);
  }
  return calibration;
}

}  // namespace nodewise
