#include "apps/nodewise/opaque_operations.h"

#include <utility>

#include "apps/nodewise/foreign_target.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/opaque_runner.h"
#include "nodewise/support/status_macros.h"
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

absl::Status UseOpaqueProgram(const ModelOptions& options) {
  if (options.opaque.empty()) return absl::OkStatus();
  ForeignOptions foreign;
  foreign.python = options.opaque_python;
  foreign.limit_s = options.opaque_limit_s;
  NODEWISE_ASSIGN_OR_RETURN(ForeignTarget program,
                            ProgramNamed("--opaque", options.opaque, foreign));
  NODEWISE_ASSIGN_OR_RETURN(
      auto runner, MakeOpaqueRunner(std::move(program), AllOperators()));
  SetOpaqueRunner(std::move(runner));
  return absl::OkStatus();
}

absl::StatusOr<OpaqueReport> TakeOpaque(const ModelOptions& options,
                                        Network* network) {
  OpaqueReport report;
  report.operators = OpaqueOperators(*network);
  report.text = TextOf(report.operators);
  report.program = options.opaque;
  NODEWISE_RETURN_IF_ERROR(UseOpaqueProgram(options));
  if (report.operators.empty() || !options.opaque.empty()) return report;
  NODEWISE_ASSIGN_OR_RETURN(KnownPart part, KnownPartOf(*network));
  *network = std::move(part.network);
  report.missing = std::move(part.missing);
  report.ends = std::move(part.ends);
  report.open = std::move(part.open);
  return report;
}

absl::Status OrderOpaque(Network* network) {
  return OrderOpaqueOperations(network);
}

bool HasOpenTypes(const Network& network) {
  for (const OperationId id : network.order()) {
    const Operation& operation = network.operation(id);
    if (operation.attrs.As<ops::Opaque>() == nullptr) continue;
    for (const ValueId output : operation.outputs) {
      if (output == kNoValue) continue;
      const TensorType& type = network.value(output).type;
      if (!type.has_dtype() || !type.is_static()) return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<std::pair<std::string, TensorType>>> FindOpenTypes(
    const Network& network, absl::Span<const NamedTensor> inputs) {
  std::vector<NDArray> tensors;
  for (const NamedTensor& input : inputs) tensors.push_back(input.tensor);
  std::vector<std::pair<std::string, TensorType>> types;
  InterpretOptions options;
  options.observe = [&](const OperationRun& run) -> absl::StatusOr<bool> {
    if (run.operation.attrs.As<ops::Opaque>() == nullptr) return false;
    for (size_t i = 0; i < run.operation.outputs.size(); ++i) {
      const ValueId output = run.operation.outputs[i];
      if (output == kNoValue) continue;
      types.emplace_back(network.value(output).name,
                         TensorType::Of(*run.result.outputs[i]));
    }
    return false;
  };
  NODEWISE_RETURN_IF_ERROR(
      Interpret(network, std::move(tensors), options).status());
  return types;
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
