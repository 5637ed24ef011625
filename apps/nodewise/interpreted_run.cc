#include "apps/nodewise/interpreted_run.h"

#include <utility>

#include "apps/nodewise/outputs.h"
#include "apps/nodewise/target_text.h"
#include "fmt/format.h"
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

absl::StatusOr<RunResult> RunInterpreted(const std::string& path,
                                         const Session& session,
                                         const InputOptions& inputs,
                                         const std::string& output,
                                         uint64_t repeats, Outcome* outcome) {
  const Network& network = *session.network;
  NODEWISE_RETURN_IF_ERROR(CheckOutputPath(output, network.outputs().size()));
  NODEWISE_ASSIGN_OR_RETURN(
      const RunnerMaker maker,
      MakerOf("interpreter", RunnerTarget{path, nullptr, session.network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  RunOptions options;
  options.repeats = repeats;
  auto result = runner->Run(session.NamedInputs(), options);
  if (!result.ok()) return At(path, result.status());
  ShowModel(path, network, outcome);
  ShowInputs(runner->inputs(), session.inputs, inputs, outcome);
  return result;
}

}  // namespace nodewise
