#include "apps/nodewise/compare_with_model.h"

#include <memory>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/opaque_text.h"
#include "apps/nodewise/value_report.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

std::vector<VmInputType> TypesOfInputs(const GraphIndex& index) {
  const Graph& graph = index.graph();
  std::vector<VmInputType> types;
  for (const uint32_t node : graph.arg_nodes) {
    const GraphEntry& entry = graph.entry(graph.EntryOf(NodeId{node}, 0));
    types.push_back({index.KeyOf(NodeId{node}), entry.shape, entry.dtype});
  }
  return types;
}

}  // namespace

absl::Status CompareDumpWithModel(const std::string& dump,
                                  const std::string& model,
                                  const ModelOptions& options,
                                  Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(options));
  DiagnosticList diagnostics;
  auto read = LoadModel(model, spec, &diagnostics);
  if (!read.ok()) {
    if (!diagnostics.HasErrors()) return read.status();
    outcome->AddErrors(diagnostics);
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(dump));
  NODEWISE_ASSIGN_OR_RETURN(const StoragePlan plan,
                            PlanStorage(run.graph, kDLCPU));
  const GraphIndex index(run.graph, plan);
  BindSizes(TypesOfInputs(index), &*read);
  const auto opaque = TakeOpaque(spec, &*read);
  if (!opaque.ok()) return At(model, opaque.status());
  ShowOpaque(*opaque, outcome);
  const auto network = std::make_shared<const Network>(*std::move(read));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("interpreter", {model, nullptr, network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  KeepFreedMemory();
  std::vector<RecordedPair> pairs(1);
  NODEWISE_ASSIGN_OR_RETURN(
      pairs[0], RecordFromDump(index, run.source.get(), runner.get()));
  NODEWISE_ASSIGN_OR_RETURN(
      const ValueLocateResult result,
      LocateInRecorded(index, *network, pairs, opaque->open));
  outcome->json.Add("dump", dump);
  outcome->json.Add("model", model);
  ShowValueResult(index, *network, result, ReportWords(), outcome);
  return absl::OkStatus();
}

}  // namespace nodewise
