// A model in a lower precision: samples in, the passes, errors out.

#include <filesystem>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/runner/input_list.h"
#include "nodewise/session/precision_result.h"
#include "nodewise/session/session.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

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

// Faults of a file go into `diagnostics`.
absl::StatusOr<Sample> ReadSample(const InputList& list, const SampleSpec& spec,
                                  DiagnosticList* diagnostics) {
  std::error_code error;
  if (std::filesystem::is_directory(spec.path, error)) {
    return SampleInFolder(list, spec.path);
  }
  InputSpec inputs;
  inputs.seed = spec.seed;
  if (!spec.seed.has_value()) {
    inputs.files.push_back({"", spec.path});
    inputs.hints.how_to_give = [&](const std::string& name) {
      return fmt::format("{} in {}", name, spec.path);
    };
  }
  const std::vector<RunInput> collected =
      CollectInputs(inputs, list, InputFiles(), diagnostics);
  if (diagnostics->HasErrors()) return Sample();
  return MatchInputs(list, NameInputs(list, collected));
}

absl::StatusOr<std::vector<Sample>> ReadSamples(const PrecisionSpec& spec,
                                                const Network& network,
                                                DiagnosticList* diagnostics) {
  const auto list = ListInputs(network);
  std::vector<Sample> samples;
  for (const SampleSpec& each : spec.samples) {
    NODEWISE_ASSIGN_OR_RETURN(Sample sample,
                              ReadSample(*list, each, diagnostics));
    samples.push_back(std::move(sample));
  }
  NODEWISE_RETURN_IF_ERROR(diagnostics->ToStatus());
  return samples;
}

// Returns what the passes need to know.
absl::StatusOr<PrecisionOptions> OptionsOf(const PrecisionSpec& spec,
                                           const Network& network,
                                           absl::Span<const Sample> samples) {
  PrecisionOptions options;
  options.precision = *spec.precision;
  options.keep = spec.keep;
  const bool is_int8 = options.precision == Precision::kInt8;
  if (samples.empty() && (is_int8 || spec.ranks_operations)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there are no sample inputs, expected at least one",
                    is_int8 ? "int8" : "the ranking of operations"));
  }
  if (!is_int8) return options;
  options.most_weight = OneDnnMostWeight();
  NODEWISE_ASSIGN_OR_RETURN(options.calibration,
                            Calibrate(network, samples, spec.calibration));
  if (!options.calibration.empty()) return options;
  return absl::InvalidArgumentError(fmt::format(
      "int8: with {}, no float32 value of the model has a finite number, "
      "expected a range for one at least (other samples; a model without "
      "float32 values has nothing to lower)",
      CountOf(samples.size(), "sample input")));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PrecisionResult>> ChangePrecision(
    const PrecisionSpec& spec, Network* network, DiagnosticList* diagnostics) {
  if (!spec.precision.has_value()) return nullptr;
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<Sample> samples,
                            ReadSamples(spec, *network, diagnostics));
  NODEWISE_ASSIGN_OR_RETURN(const PrecisionOptions options,
                            OptionsOf(spec, *network, samples));
  PrecisionResult result;
  result.samples = samples.size();
  result.keep = spec.keep;
  if (spec.ranks_operations) {
    NODEWISE_ASSIGN_OR_RETURN(result.sensitivity,
                              MeasureSensitivity(*network, options, samples));
  }
  const bool measures = spec.measures_errors && !samples.empty();
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
