#include "apps/nodewise/interpreted_run.h"

#include <utility>

#include "apps/nodewise/loaded_target.h"
#include "apps/nodewise/outputs.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

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

absl::StatusOr<RunResult> RunInterpreted(
    const std::string& path, const std::shared_ptr<const Network>& network,
    const InputOptions& inputs, const InputFiles& input_files,
    const std::string& output, uint64_t repeats, Outcome* outcome) {
  NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output, network->outputs().size()));
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker maker,
      MakerOf("interpreter", RunnerTarget{path, nullptr, network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  DiagnosticList diagnostics;
  const std::vector<RunInput> given = CollectInputs(
      inputs, runner->inputs(), input_files, &diagnostics, &HowToSize);
  if (diagnostics.HasErrors()) {
    outcome->AddErrors(diagnostics);
    return RunResult();
  }
  RunOptions options;
  options.repeats = repeats;
  auto result = runner->Run(NameInputs(runner->inputs(), given), options);
  if (!result.ok()) return At(path, result.status());
  ShowModel(path, *network, outcome);
  ShowInputs(runner->inputs(), given, inputs, outcome);
  return result;
}

}  // namespace nodewise
