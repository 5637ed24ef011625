#include <charconv>
#include <string_view>
#include <utility>

#include "apps/nodewise/precision_options.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// More lines would hide the rest of the report; --json has all.
constexpr size_t kMostLeftAlone = 20;
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

// What has no samples cannot be calibrated.
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

std::string Number(double x) { return fmt::format("{:.3g}", x); }

size_t MergedProducts(const PrecisionResult& result) {
  return result.merges.CountOf("QLinearConv") +
         result.merges.CountOf("QLinearMatMul");
}

void ShowLeftAlone(const PrecisionResult& result, Outcome* outcome) {
  TextTable table;
  outcome->json.BeginArray("left_alone");
  for (const auto& [operation, kind, reason] : result.report.left_alone) {
    table.AddRow({operation, kind, reason});
    outcome->json.BeginObject();
    outcome->json.Add("operation", operation);
    outcome->json.Add("kind", kind);
    outcome->json.Add("reason", reason);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  if (result.report.left_alone.empty()) return;
  outcome->text += "left alone:\n";
  outcome->text += table.ToString(2, kMostLeftAlone, LineWidth());
}

void ShowErrors(const PrecisionResult& result, Outcome* outcome) {
  if (result.errors.empty()) return;
  TextTable table;
  table.AddRow({"operation", "kind", "max abs", "relative L2"});
  outcome->json.BeginArray("errors");
  for (const ValueError& error : result.errors) {
    table.AddRow({error.operation, error.kind, Number(error.max_abs),
                  Number(error.relative_l2)});
    outcome->json.BeginObject();
    outcome->json.Add("operation", error.operation);
    outcome->json.Add("kind", error.kind);
    outcome->json.Add("value", error.value);
    outcome->json.Add("max_abs", error.max_abs);
    outcome->json.Add("relative_l2", error.relative_l2);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += fmt::format("error against float32, over {}:\n",
                               CountOf(result.samples, "sample"));
  outcome->text += table.ToString(2, 0, LineWidth());
}

void ShowRanking(const Sensitivity& found, Outcome* outcome) {
  TextTable table;
  table.AddRow({"operation", "kind", "lowered alone"});
  outcome->json.BeginArray("ranking");
  for (const auto& [operation, kind, error] : found.ranking) {
    table.AddRow({operation, kind, Number(error)});
    outcome->json.BeginObject();
    outcome->json.Add("operation", operation);
    outcome->json.Add("kind", kind);
    outcome->json.Add("error", error);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += "relative L2 of the outputs against float32:\n";
  outcome->text += table.ToString(2, kShownLines + 1, LineWidth());
}

void ShowSensitivity(const PrecisionResult& result, Outcome* outcome) {
  if (!result.sensitivity.has_value()) return;
  const Sensitivity& found = *result.sensitivity;
  outcome->json.BeginObject("sensitivity");
  ShowRanking(found, outcome);
  TextTable table;
  table.AddRow({"first left alone", "all others lowered"});
  outcome->json.BeginArray("curve");
  for (const auto& [kept, error] : found.curve) {
    table.AddRow({std::to_string(kept), Number(error)});
    outcome->json.BeginObject();
    outcome->json.Add("kept", uint64_t{kept});
    outcome->json.Add("error", error);
    outcome->json.EndObject();
  }
  outcome->json.EndArray();
  outcome->text += table.ToString(2, 0, LineWidth());
  const std::string keep =
      found.suggested == 0 ? "" : found.KeepExpression(result.keep);
  outcome->json.Add("suggested_keep", keep);
  outcome->json.EndObject();
  outcome->text +=
      keep.empty() ? "no operation stands out: nothing to keep\n"
                   : fmt::format("suggested: --keep '{}'\n", Printable(keep));
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

std::string PrecisionLine(const PrecisionResult& result) {
  std::string line = fmt::format(
      "{}: {} lowered, {} left alone", ToString(result.report.precision),
      CountOf(result.report.changes.size(), "operation"),
      result.report.left_alone.size());
  if (result.report.precision == Precision::kInt8) {
    line += fmt::format(", {} merged into products of integers",
                        MergedProducts(result));
  }
  return line;
}

void ShowPrecision(const PrecisionResult& result, Outcome* outcome) {
  outcome->text += PrecisionLine(result) + '\n';
  outcome->json.BeginObject("precision");
  outcome->json.Add("name", ToString(result.report.precision));
  outcome->json.Add("samples", uint64_t{result.samples});
  outcome->json.Add("lowered", uint64_t{result.report.changes.size()});
  outcome->json.Add("merged", uint64_t{MergedProducts(result)});
  ShowLeftAlone(result, outcome);
  ShowErrors(result, outcome);
  ShowSensitivity(result, outcome);
  outcome->json.EndObject();
  for (const std::string& note : result.report.notes) {
    outcome->notes.push_back(note);
  }
}

}  // namespace nodewise
