// What the options about precision mean.

#include <charconv>
#include <string_view>
#include <utility>

#include "apps/nodewise/precision_options.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

constexpr std::string_view kRandom = "random:";

absl::StatusOr<uint64_t> SeedIn(const std::string& text) {
  const char* const begin = text.data() + kRandom.size();
  const char* const end = text.data() + text.size();
  uint64_t seed = 0;
  const auto [stop, error] = std::from_chars(begin, end, seed);
  if (error == std::errc() && stop == end) return seed;
  return absl::InvalidArgumentError(
      fmt::format("--calibrate: found \"{}\", expected random:SEED with a "
                  "whole number, as in random:1",
                  text));
}

absl::Status CheckNothingElse(const PrecisionChoice& choice) {
  const std::pair<bool, const char*> given[] = {
      {!choice.calibrate.empty(), "--calibrate"},
      {!choice.calibration.empty(), "--calibration"},
      {!choice.keep.empty(), "--keep"},
      {choice.sensitivity, "--sensitivity"},
  };
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: is given without --precision", name));
  }
  return absl::OkStatus();
}

// A model without samples cannot be calibrated.
absl::Status CheckHasSamples(const PrecisionChoice& choice) {
  const bool is_int8 = choice.precision == ToString(Precision::kInt8);
  if (!choice.calibrate.empty() || (!is_int8 && !choice.sensitivity)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: there are no sample inputs, expected at least one "
                  "(--calibrate FILE, or --calibrate random:SEED)",
                  is_int8 ? "--precision int8" : "--sensitivity"));
}

}  // namespace

absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice& choice) {
  PrecisionSpec spec;
  if (choice.precision.empty()) {
    NODEWISE_RETURN_IF_ERROR(CheckNothingElse(choice));
    return spec;
  }
  auto precision = ParsePrecision(choice.precision);
  if (!precision.ok()) return At("--precision", precision.status());
  spec.precision = *precision;
  NODEWISE_RETURN_IF_ERROR(CheckHasSamples(choice));
  for (const std::string& text : choice.calibrate) {
    SampleSpec sample{text};
    if (text.starts_with(kRandom)) {
      sample.path.clear();
      NODEWISE_ASSIGN_OR_RETURN(sample.seed, SeedIn(text));
    }
    spec.samples.push_back(std::move(sample));
  }
  if (!choice.calibration.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(spec.calibration,
                              ParseCalibrationMethod(choice.calibration));
  }
  spec.keep = choice.keep;
  spec.measures_errors = choice.measure_errors;
  spec.ranks_operations = choice.sensitivity;
  return spec;
}

}  // namespace nodewise
