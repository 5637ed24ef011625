#include "apps/nodewise/reference_run.h"

#include <utility>

#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/outputs.h"
#include "fmt/format.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Names the options that give the unknown sides of an input their sizes.
std::string HowToSize(const std::string& name, const TensorType& type) {
  if (!type.has_rank()) return "";
  std::string options;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& side = (*type.shape)[i];
    if (side.is_known()) continue;
    options += fmt::format(" --dim {}=N", NameOfSide(name, i, side));
  }
  return ":" + options;
}

void ShowModel(const std::string& path, const Network& network,
               Outcome* outcome) {
  outcome->text += fmt::format("{}: {}, {}\n", Printable(path),
                               CountOf(network.order().size(), "operation"),
                               CountOf(network.outputs().size(), "output"));
  outcome->json.BeginObject("target");
  outcome->json.Add("model", path);
  outcome->json.EndObject();
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> RunReference(
    const std::string& path, const ModelOptions& model,
    const InputOptions& inputs, const std::string& output, Outcome* outcome) {
  const auto fail = [&](const DiagnosticList& diagnostics) {
    outcome->AddErrors(diagnostics);
    return std::vector<NamedTensor>();
  };
  DiagnosticList diagnostics;
  auto loaded = LoadModel(path, model, &diagnostics);
  if (!loaded.ok()) {
    if (!diagnostics.HasErrors()) return loaded.status();
    return fail(diagnostics);
  }
  const auto network = std::make_shared<const Network>(*std::move(loaded));
  for (const Diagnostic& diagnostic : diagnostics.items()) {
    outcome->notes.push_back(diagnostic.ToString());
  }
  NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output, network->outputs().size()));
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker maker,
      MakerOf("interpreter", RunnerTarget{path, nullptr, network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  DiagnosticList input_diagnostics;
  const std::vector<RunInput> given = CollectInputs(
      inputs, runner->inputs(), InputFiles(), &input_diagnostics, &HowToSize);
  if (input_diagnostics.HasErrors()) return fail(input_diagnostics);
  auto result = runner->Run(NameInputs(runner->inputs(), given));
  if (!result.ok()) return At(path, result.status());
  ShowModel(path, *network, outcome);
  ShowInputs(runner->inputs(), given, inputs, outcome);
  ShowOutputs(result->outputs, outcome);
  const double milliseconds =
      1e-6 * static_cast<double>(result->durations_ns.back());
  outcome->text +=
      fmt::format("computed by the reference in {:.3f} ms\n", milliseconds);
  outcome->json.Add("reference_ms", milliseconds);
  return std::move(result->outputs);
}

}  // namespace nodewise
