// Changes of a model before it runs: what is opaque in it gets a program
// or is left out, passes run, and its precision is lowered.

#include <filesystem>
#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/opaque_runner.h"
#include "nodewise/onednn/onednn.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/ops/ops.h"
#include "nodewise/passes/pass_list.h"
#include "nodewise/runner/runner.h"
#include "nodewise/session/session.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

// A folder is an ONNX test set, whose files go by the order of the inputs.
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
// An empty sample stands for one with faults, so that those of all samples are
// found in one go; the caller does not use any then.
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
  const auto collected = CollectInputs(inputs, list, InputFiles(), diagnostics);
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

// Only int8 needs ranges of numbers, and weights as small as the products of
// integers on this processor need them.
absl::StatusOr<PrecisionOptions> OptionsOf(const PrecisionSpec& spec,
                                           const Network& network,
                                           absl::Span<const Sample> samples) {
  PrecisionOptions options;
  options.precision = *spec.precision;
  options.keep = spec.keep;
  const bool is_int8 = options.precision == Precision::kInt8;
  if (samples.empty() && (is_int8 || spec.ranks_operations)) {
    return InvalidArgument(
        "{}: there are no sample inputs, expected at least one",
        is_int8 ? "int8" : "the ranking of operations");
  }
  if (!is_int8) return options;
  options.most_weight = OneDnnMostWeight();
  NODEWISE_ASSIGN_OR_RETURN(options.calibration,
                            Calibrate(network, samples, spec.calibration));
  if (!options.calibration.empty()) return options;
  return InvalidArgument(
      "int8: with {}, no float32 value of the model has a finite number, "
      "expected a range for one at least (other samples; a model without "
      "float32 values has nothing to lower)",
      CountOf(samples.size(), "sample input"));
}

}  // namespace

absl::Status UseOpaqueProgram(const ModelSpec& spec) {
  if (spec.opaque_program == nullptr) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      auto runner, MakeOpaqueRunner(*spec.opaque_program, AllOperators()));
  SetOpaqueRunner(std::move(runner));
  return absl::OkStatus();
}

// Without a program the operations that depend on what is opaque are cut off,
// and the report says what is lost by that.
absl::StatusOr<OpaqueReport> TakeOpaque(const ModelSpec& spec,
                                        Network* network) {
  OpaqueReport report;
  report.operators = OpaqueOperators(*network);
  report.text = TextOf(report.operators);
  if (spec.opaque_program != nullptr) {
    report.program = spec.opaque_program->name;
  }
  NODEWISE_RETURN_IF_ERROR(UseOpaqueProgram(spec));
  if (report.operators.empty() || !report.program.empty()) return report;
  NODEWISE_ASSIGN_OR_RETURN(KnownPart part, KnownPartOf(*network));
  *network = std::move(part.network);
  report.missing = std::move(part.missing);
  report.ends = std::move(part.ends);
  report.open = std::move(part.open);
  return report;
}

// Passes run one at a time, so that each can be told with the size that it
// left.
absl::StatusOr<PassesReport> RunPassList(const std::string& list,
                                         Network* network) {
  NODEWISE_ASSIGN_OR_RETURN(const auto rows, ParsePassList(list));
  PassesReport report;
  for (const PassRow* const row : rows) {
    QuantizationReport told;
    told.verb = "";
    const Pass pass = row->make(&told);
    NODEWISE_ASSIGN_OR_RETURN(auto left, RunPasses({&pass, 1}, {}, *network));
    const bool tells = !told.verb.empty();
    report.ran.push_back(
        {pass.name, tells ? told.ToString() : "", network->order().size()});
    for (PassFinding& each : left) {
      report.left.push_back(std::move(each.finding));
    }
  }
  return report;
}

// Errors are measured before products are merged: merging changes which values
// there are, and not what they are.
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
