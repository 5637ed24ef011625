// A model in a lower precision: samples in, the passes, errors out.

#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/nodewise/precision_options.h"
#include "fmt/format.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/runner/input_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_source.h"

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

absl::StatusOr<Sample> SampleInFolder(const InputList& list,
                                      const std::string& path) {
  TestSetNames names;
  for (size_t i = 0; i < list.size(); ++i) names.inputs.push_back(list.Name(i));
  NODEWISE_ASSIGN_OR_RETURN(const auto source, OpenTensorSource(path, names));
  std::vector<NamedTensor> given;
  for (const std::string& name : names.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, source->Find({.node = name}));
    given.push_back({name, std::move(tensor)});
  }
  return MatchInputs(list, given);
}

// Returns the sample that one --calibrate names; faults of a file go into
// `diagnostics`.
absl::StatusOr<Sample> SampleAt(const InputList& list, const std::string& text,
                                DiagnosticList* diagnostics) {
  std::error_code error;
  if (std::filesystem::is_directory(text, error)) {
    return SampleInFolder(list, text);
  }
  const InputFiles files;
  InputCollector collector(list, files, diagnostics);
  InputCollector::Hints hints;
  std::optional<uint64_t> seed;
  if (text.starts_with(kRandom)) {
    NODEWISE_ASSIGN_OR_RETURN(seed, SeedIn(text));
  } else {
    collector.Give({"", text});
    hints.how_to_give = [&](const std::string& name) {
      return fmt::format("{} in {}", name, text);
    };
  }
  collector.Complete(seed, hints);
  if (diagnostics->HasErrors()) return Sample();
  return MatchInputs(list, NameInputs(list, collector.Inputs()));
}

absl::StatusOr<std::vector<Sample>> SamplesOf(const PrecisionChoice& choice,
                                              const Network& network,
                                              DiagnosticList* diagnostics) {
  const auto list = ListInputs(network);
  std::vector<Sample> samples;
  for (const std::string& text : choice.calibrate) {
    NODEWISE_ASSIGN_OR_RETURN(Sample sample,
                              SampleAt(*list, text, diagnostics));
    samples.push_back(std::move(sample));
  }
  return samples;
}

absl::Status CheckChoice(const PrecisionChoice& choice) {
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

// Returns what the passes need to know.
absl::StatusOr<PrecisionOptions> OptionsOf(const PrecisionChoice& choice,
                                           const Network& network,
                                           absl::Span<const Sample> samples) {
  PrecisionOptions options;
  auto precision = ParsePrecision(choice.precision);
  if (!precision.ok()) return At("--precision", precision.status());
  options.precision = *precision;
  options.keep = choice.keep;
  CalibrationMethod method;
  if (!choice.calibration.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(method,
                              ParseCalibrationMethod(choice.calibration));
  }
  const bool is_int8 = options.precision == Precision::kInt8;
  if (samples.empty() && (is_int8 || choice.sensitivity)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there are no sample inputs, expected at least one "
                    "(--calibrate FILE, or --calibrate random:SEED)",
                    is_int8 ? "--precision int8" : "--sensitivity"));
  }
  if (!is_int8) return options;
  options.most_weight = OneDnnMostWeight();
  NODEWISE_ASSIGN_OR_RETURN(options.calibration,
                            Calibrate(network, samples, method));
  if (!options.calibration.empty()) return options;
  return absl::InvalidArgumentError(fmt::format(
      "--precision int8: with {}, no float32 value of the model has a finite "
      "number, expected a range for one at least (--calibrate another; a model "
      "without float32 values has nothing to lower)",
      CountOf(samples.size(), "sample input")));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionChoice& choice, Network* network, Outcome* outcome) {
  if (choice.precision.empty()) {
    NODEWISE_RETURN_IF_ERROR(CheckChoice(choice));
    return nullptr;
  }
  DiagnosticList diagnostics;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Sample> samples,
                            SamplesOf(choice, *network, &diagnostics));
  if (diagnostics.HasErrors()) {
    outcome->AddErrors(diagnostics);
    return nullptr;
  }
  NODEWISE_ASSIGN_OR_RETURN(const PrecisionOptions options,
                            OptionsOf(choice, *network, samples));
  PrecisionResult result;
  result.samples = samples.size();
  result.keep = choice.keep;
  if (choice.sensitivity) {
    NODEWISE_ASSIGN_OR_RETURN(result.sensitivity,
                              MeasureSensitivity(*network, options, samples));
  }
  const bool measures = choice.measure_errors && !samples.empty();
  std::optional<Network> original;
  if (measures) original = *network;
  NODEWISE_ASSIGN_OR_RETURN(result.report, LowerPrecision(options, *network));
  if (measures) {
    NODEWISE_ASSIGN_OR_RETURN(
        result.errors,
        MeasureErrors(*original, *network, result.report, samples));
  }
  if (options.precision == Precision::kInt8) {
    result.merges = MergeQuantization(*network);
  }
  return std::make_shared<const PrecisionResult>(std::move(result));
}

}  // namespace nodewise
