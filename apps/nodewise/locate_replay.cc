#include "apps/nodewise/locate_replay.h"

#include <algorithm>

#include "apps/nodewise/compare_with_model.h"
#include "apps/nodewise/locate_text.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/progress.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/locate/replay.h"
#include "nodewise/lower/region.h"
#include "nodewise/ops/ops.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

// More are in the document.
constexpr size_t kMostNotJudged = 20;

absl::Status CheckNothingRuns(const LoadOptions& load,
                              const InputOptions& inputs, bool has_model) {
  const TargetOptions& target = load.target;
  const LoweringOptions& lowering = load.lowering;
  const std::pair<bool, const char*> given[] = {
      {!target.library.empty(), "--lib"},
      {!target.params.empty(), "--params"},
      {!target.function.empty(), "--function"},
      {!target.devices.empty(), "--device"},
      {!inputs.inputs.empty(), "--input"},
      {!inputs.inputs_files.empty(), "--inputs"},
      {inputs.seed.has_value(), "--random-inputs"},
      {!lowering.backend.empty(), "--backend"},
      {lowering.no_fuse, "--no-fuse"},
      {lowering.no_reuse, "--no-reuse"},
      {lowering.no_layouts, "--no-layouts"},
      {!load.model.dims.empty() && !has_model, "--dim"},
      {!load.model.freeze.empty() && !has_model, "--freeze"},
      {!load.precision.precision.empty(), "--precision"},
      {!load.precision.calibrate.empty(), "--calibrate"},
      {!load.precision.calibration.empty(), "--calibration"},
      {!load.precision.keep.empty(), "--keep"},
  };
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: means nothing with --method replay, which runs no network", name));
  }
  return absl::OkStatus();
}

// What other compilers made is judged by the model that it was made of.
absl::Status WithHint(const absl::Status& status, const std::string& path) {
  const auto run = OpenDumpedRun(path);
  if (!run.ok() || std::any_of(run->graph.nodes.begin(), run->graph.nodes.end(),
                               &SaysItsRegion)) {
    return status;
  }
  return absl::Status(
      status.code(),
      fmt::format("{} (give the model that it was compiled from: --reference "
                  "MODEL.onnx)",
                  MessageOf(status)));
}

void ShowNotJudged(const LocateResult& located, Outcome* outcome) {
  TextTable table;
  for (const NodeReport& node : located.nodes) {
    if (node.verdict != NodeVerdict::kInconclusive) continue;
    table.AddRow({"not judged", node.key, node.reason});
  }
  outcome->text += table.ToString(0, kMostNotJudged, LineWidth());
}

}  // namespace

absl::StatusOr<Outcome> LocateReplay(const LoadOptions& load,
                                     const InputOptions& inputs,
                                     const std::string& reference) {
  const bool has_model = IsModel(reference);
  if (!has_model && !reference.empty() && reference != "interpreter") {
    return absl::InvalidArgumentError(
        fmt::format("--reference: found \"{}\", expected interpreter or a "
                    "model with --method replay",
                    Printable(reference)));
  }
  NODEWISE_RETURN_IF_ERROR(CheckNothingRuns(load, inputs, has_model));
  const std::string& path = load.target.target;
  if (has_model) {
    Outcome outcome;
    NODEWISE_RETURN_IF_ERROR(
        CompareDumpWithModel(path, reference, load.model, &outcome));
    return outcome;
  }
  NODEWISE_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(load.model));
  NODEWISE_RETURN_IF_ERROR(UseOpaqueProgram(spec));
  Progress progress("locate");
  const auto located = ReplayDump(path, AllOperators(), {progress.Updater()});
  if (!located.ok()) return WithHint(located.status(), path);
  Outcome outcome;
  outcome.text = fmt::format(
      "{}: the reference computes what is in the dump\n\n", Printable(path));
  outcome.json.BeginObject("target");
  outcome.json.Add("dump", path);
  outcome.json.EndObject();
  ShowLocated(*located, &outcome);
  ShowNotJudged(*located, &outcome);
  return outcome;
}

}  // namespace nodewise
