#include "apps/nodewise/opaque_text.h"

#include "fmt/format.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

constexpr size_t kMostListed = 8;

void AddOperators(const std::vector<OpaqueOperator>& operators,
                  JsonWriter* json) {
  json->BeginArray("operators");
  for (const OpaqueOperator& each : operators) {
    json->BeginObject();
    json->Add("name", each.name);
    json->Add("operations", each.operations);
    json->EndObject();
  }
  json->EndArray();
}

void AddDocument(const OpaqueReport& report, JsonWriter* json) {
  json->BeginObject("opaque");
  json->Add("program", report.program);
  AddOperators(report.operators, json);
  json->BeginArray("missing_outputs");
  for (const MissingOutput& output : report.missing) {
    json->BeginObject();
    json->Add("name", output.name);
    json->Add("because", output.because);
    json->EndObject();
  }
  json->EndArray();
  json->Add("ends", report.ends);
  json->EndObject();
}

}  // namespace

std::string DescribeOpaque(const Network& network, JsonWriter* json) {
  const std::vector<OpaqueOperator> operators = OpaqueOperators(network);
  if (operators.empty()) return "";
  json->BeginObject("opaque");
  AddOperators(operators, json);
  json->EndObject();
  return TextOf(operators);
}

void AddOpaqueOption(OptionList* options, ModelOptions* model) {
  options->AddText("--opaque", "PROGRAM",
                   "of an ONNX model: what runs the operations that are not "
                   "known here, each as a model of its own: ort or "
                   "exec:COMMAND",
                   &model->opaque);
}

void ShowOpaque(const OpaqueReport& report, Outcome* outcome) {
  if (report.operators.empty()) return;
  AddDocument(report, &outcome->json);
  outcome->text += fmt::format("opaque  {}", report.text);
  if (!report.program.empty()) {
    outcome->text += fmt::format(" (run by {})\n", Printable(report.program));
    return;
  }
  outcome->text += " (not run; --opaque PROGRAM has a program run them)\n";
  for (const MissingOutput& output : report.missing) {
    outcome->text += fmt::format("  without output {}, which depends on {}\n",
                                 Printable(output.name),
                                 ListOf(output.because, kMostListed));
  }
  if (!report.ends.empty()) {
    outcome->text +=
        fmt::format("  in its place outputs that these operations read: {}\n",
                    ListOf(report.ends, kMostListed));
  }
}

void AddMissingOutputs(const OpaqueReport& report, Outcome* outcome) {
  for (const MissingOutput& output : report.missing) {
    outcome->AddError(absl::UnimplementedError(fmt::format(
        "output {}: was not computed, since it depends on what is opaque ({}), "
        "expected a program that runs that (--opaque ort)",
        Printable(output.name), ListOf(output.because, kMostListed))));
  }
}

}  // namespace nodewise
