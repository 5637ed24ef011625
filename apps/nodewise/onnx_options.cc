// What the options about precision and passes mean: only a build with the
// operators of ONNX can lower or change a network.

#include <algorithm>
#include <utility>

#include "apps/nodewise/build_parts.h"
#include "apps/nodewise/load_options.h"
#include "fmt/format.h"
#include "nodewise/passes/pass_list.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// "random:SEED" in the place of a file of samples draws one.
constexpr std::string_view kRandom = "random:";

absl::StatusOr<uint64_t> SeedIn(const std::string& text) {
  uint64_t seed = 0;
  if (ReadNumber(std::string_view(text).substr(kRandom.size()), &seed)) {
    return seed;
  }
  return BadValue("--calibrate", text,
                  "random:SEED with a whole number, as in random:1");
}

// A model without samples cannot be calibrated, nor its operations ranked.
absl::Status CheckHasSamples(const PrecisionChoice& choice) {
  const bool is_int8 = choice.precision == ToString(Precision::kInt8);
  if (!choice.calibrate.empty() || (!is_int8 && !choice.sensitivity)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "{}: there are no sample inputs, expected at least one (--calibrate "
      "FILE, or --calibrate random:SEED)",
      is_int8 ? "--precision int8" : "--sensitivity");
}

}  // namespace

// Float16 and bfloat16 need no samples: only the ranges of int8 come from
// numbers that a run has seen.
absl::StatusOr<PrecisionSpec> SpecOf(const PrecisionChoice& choice) {
  PrecisionSpec spec;
  if (choice.precision.empty()) {
    NODEWISE_RETURN_IF_ERROR(
        RefuseGiven({{!choice.calibrate.empty(), "--calibrate"},
                     {!choice.calibration.empty(), "--calibration"},
                     {!choice.keep.empty(), "--keep"},
                     {choice.sensitivity, "--sensitivity"}},
                    "", ": is given without --precision"));
    return spec;
  }
  auto precision = ParsePrecision(choice.precision);
  if (!precision.ok()) return At("--precision", precision.status());
  spec.precision = *precision;
  NODEWISE_RETURN_IF_ERROR(CheckHasSamples(choice));
  for (const std::string& text : choice.calibrate) {
    SampleSpec sample{text};
    // A drawn sample has a seed in the place of a path.
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

std::string PassHelp() {
  // The names line up, however long that of the next pass will be.
  size_t width = 0;
  for (const PassRow& row : PassRows()) {
    width = std::max(width, row.name.size());
  }
  std::string text = "passes, in the order in which --passes names them:\n";
  for (const PassRow& row : PassRows()) {
    text += fmt::format("  {:<{}}  {}\n", row.name, width, row.what);
  }
  return text;
}

// A list that names no pass would fail only when the model has been read.
absl::Status CheckPasses(const std::string& list) {
  return list.empty() ? absl::OkStatus()
                      : At("--passes", ParsePassList(list).status());
}

}  // namespace nodewise
