#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/nodewise/artefact_folder.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/demo_text.h"
#include "apps/nodewise/output_check.h"
#include "apps/nodewise/tensor_summary.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/lower/lower.h"
#include "nodewise/ops/ops.h"
#include "nodewise/planter/planter.h"
#include "nodewise/profile/recorded_run.h"
#include "nodewise/runner/built_in_functions.h"
#include "nodewise/runner/debug_target.h"
#include "nodewise/support/foreign_words.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/tensor_collector.h"
#include "nodewise/tensors/tensor_observer.h"
#include "nodewise/zoo/demo_network.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// The table is long enough for a first look, and fits a usual window.
constexpr size_t kTableRows = 8;
constexpr size_t kTableWidth = 100;

class Demonstrate : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->AddNumber("--seed", "N",
                       "draws the weights, the input and the fault (1)",
                       {&seed_given_});
    options->AddText("-o,--output", "DIR",
                     "where the artefact and the dump go (nodewise_demo)",
                     &folder_);
    options->AddText("--fault", "KIND",
                     "the kind of fault (scale); \"list\" lists the kinds",
                     &fault_name_);
  }

  absl::StatusOr<Outcome> Run() override {
    if (fault_name_ == "list") return ListFaults();
    NODEWISE_ASSIGN_OR_RETURN(fault_, ChosenFault());
    seed_ = seed_given_.value_or(1);
    if (folder_.empty()) folder_ = "nodewise_demo";
    Outcome outcome;
    NODEWISE_RETURN_IF_ERROR(MakeNetwork(&outcome));
    NODEWISE_RETURN_IF_ERROR(WriteArtefact());
    NODEWISE_RETURN_IF_ERROR(RunAndRecord(&outcome));
    NODEWISE_RETURN_IF_ERROR(CompareNodes(&outcome));
    NODEWISE_RETURN_IF_ERROR(FindPlanted(&outcome));
    ShowNext(&outcome);
    return outcome;
  }

 private:
  // Only what is wrong in the values of every run is seen by comparing one.
  static bool IsSeenInOneRun(const FaultKindRow& row) {
    return row.sign == FaultSign::kWrongValues;
  }

  absl::StatusOr<FaultKind> ChosenFault() const {
    if (fault_name_.empty()) return FaultKind::kScale;
    auto kind = ParseFaultKind(fault_name_);
    if (!kind.ok()) return At("--fault", kind.status());
    const FaultKindRow& row = RowOf(*kind);
    if (IsSeenInOneRun(row)) return kind;
    return absl::InvalidArgumentError(fmt::format(
        "--fault {}: {}, which the values of one run do not show, expected a "
        "kind that \"--fault list\" lists",
        row.name, row.means));
  }

  static Outcome ListFaults() {
    Outcome outcome;
    TextTable table;
    outcome.json.BeginArray("faults");
    for (const FaultKindRow& row : FaultKinds()) {
      if (!IsSeenInOneRun(row)) continue;
      table.AddRow({std::string(row.name), std::string(row.means)});
      outcome.json.BeginObject();
      outcome.json.Add("kind", row.name);
      outcome.json.Add("means", row.means);
      outcome.json.EndObject();
    }
    outcome.json.EndArray();
    outcome.text = table.ToString(0, 0, LineWidth());
    return outcome;
  }

  std::string ArtefactFolder() const { return fs::path(folder_) / "net"; }

  absl::Status MakeNetwork(Outcome* outcome) {
    NODEWISE_ASSIGN_OR_RETURN(Network network,
                              MakeDemoNetwork(AllOperators(), seed_));
    NODEWISE_ASSIGN_OR_RETURN(Lowered lowered, Lower(network, "demo"));
    const size_t functions =
        lowered.graph.nodes.size() - lowered.graph.arg_nodes.size();
    const size_t operations = network.order().size();
    outcome->json.Add("seed", seed_);
    outcome->json.Add("operations", uint64_t{operations});
    outcome->json.Add("function_nodes", uint64_t{functions});
    outcome->text += fmt::format(
        "A small network with random weights (seed {}): residual convolutions, "
        "pooling,\nself-attention, layer norm, a classifier. {} became a graph "
        "of {}, as a\ncompiler would make it.\n",
        seed_, CountOf(operations, "operation"),
        CountOf(functions, "function node"));
    network_ = std::make_unique<const Network>(std::move(network));
    NODEWISE_ASSIGN_OR_RETURN(
        target_, GraphTarget::FromArtefact("demo",
                                           {std::move(lowered.graph),
                                            BuiltInFunctions(AllOperators()),
                                            Params{std::move(lowered.params)}},
                                           {kCpu}));
    return DrawInputs();
  }

  // The same numbers as `--random-inputs` with that seed draws.
  absl::Status DrawInputs() {
    DiagnosticList diagnostics;
    const InputFiles files;
    InputCollector collector(target_->inputs(), files, &diagnostics);
    collector.Complete(seed_, {});
    inputs_ = collector.Inputs();
    return diagnostics.ToStatus();
  }

  absl::Status WriteArtefact() const {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
      return absl::UnavailableError(fmt::format(
          "{}: cannot make the folder: {}", folder_, error.message()));
    }
    const Artefact& artefact = target_->artefact();
    return WriteArtefactFolder(ArtefactFolder(),
                               {std::string(artefact.graph.text.text), ""},
                               artefact.params);
  }

  absl::Status RunAndRecord(Outcome* outcome) {
    NODEWISE_ASSIGN_OR_RETURN(executor_,
                              MakerOfDebugExecutors(*target_, inputs_)({}));
    // The first run of a process pays for memory that it touches first.
    NODEWISE_RETURN_IF_ERROR(executor_->Run());
    RecordOptions record;
    record.root = fs::path(folder_) / "dump";
    NODEWISE_RETURN_IF_ERROR(executor_->StartRecording(record));
    RecordedRunOptions options;
    options.table.sort_by_time = true;
    options.table.max_rows = kTableRows;
    options.table.line_width = LineWidth() > 0 ? LineWidth() : kTableWidth;
    const RecordedRuns recorded = RunRecorded(executor_.get(), options);
    executor_->StopRecording();
    NODEWISE_RETURN_IF_ERROR(recorded.status);
    NODEWISE_RETURN_IF_ERROR(recorded.dump_status);
    const std::string& dump = recorded.dumps.at(0);
    const std::string trace = fs::path(dump) / "_tvmdbg_execution_trace.json";
    outcome->text += fmt::format(
        "\n1. The debug executor ran it node by node, timed each and recorded "
        "all tensors.\n\n{}\n\n  dump   {}\n  trace  {}\n         (for "
        "ui.perfetto.dev)\n  ",
        recorded.table, Printable(dump), Printable(trace));
    ShowCheck(CheckAgainstPlain(*target_, inputs_, *executor_), outcome);
    outcome->json.AddRaw(
        "profile",
        ProfileJson(executor_->index(), recorded.summary, recorded.profile));
    outcome->json.Add("dump", dump);
    outcome->json.Add("trace", trace);
    return absl::OkStatus();
  }

  static std::unique_ptr<TensorSource> RunsOf(DebugExecutor* executor) {
    return SourceOfRuns(executor, {.source = "demo", .with_node_inputs = true});
  }

  absl::Status CompareNodes(Outcome* outcome) {
    outcome->text +=
        "\n2. Every node was compared with the reference, which computed it "
        "again from what\n   the node had really read. A bound says how much "
        "of an error may be rounding.\n\n";
    NODEWISE_ASSIGN_OR_RETURN(
        const NodeChecks checks,
        CheckNodes(target_->graph(), AllOperators(), *RunsOf(executor_.get()),
                   {.with_all_bounds = true}));
    ShowChecks("checks", target_->graph(), checks, outcome);
    if (checks.FirstWrong() != nullptr) {
      outcome->status = Outcome::Status::kDiffers;
    }
    return CompareOutput(outcome);
  }

  // From end to end, where small errors add up and no bound is known.
  absl::Status CompareOutput(Outcome* outcome) {
    std::vector<NDArray> inputs;
    for (const RunInput& input : inputs_) inputs.push_back(input.tensor);
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> expected,
                              Interpret(*network_, std::move(inputs)));
    NODEWISE_ASSIGN_OR_RETURN(const NDArray actual, executor_->GetOutput(0));
    const TensorKey key{network_->value(network_->outputs()[0]).name};
    TensorItem reference{key};
    reference.tensor = expected[0].tensor();
    NODEWISE_ASSIGN_OR_RETURN(const TensorComparison compared,
                              CompareTensors(reference, *actual));
    outcome->json.Add("end_to_end_error", compared.metrics.largest_error.error);
    outcome->text += fmt::format(
        "  from end to end, not judged: {} differs by {} at most\n",
        Printable(key.node), ShortNumber(compared.metrics.largest_error.error));
    return absl::OkStatus();
  }

  absl::Status FindPlanted(Outcome* outcome) {
    const Artefact& artefact = target_->artefact();
    NODEWISE_ASSIGN_OR_RETURN(PlantedGraph planted, PlantChosen(artefact));
    NODEWISE_ASSIGN_OR_RETURN(
        const auto target,
        GraphTarget::FromArtefact("demo with a fault",
                                  {std::move(planted.graph),
                                   std::move(planted.library), artefact.params},
                                  {kCpu}));
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              MakerOfDebugExecutors(*target, inputs_)({}));
    outcome->text +=
        fault_name_.empty()
            ? "\n3. A fault was planted: one node's results are now a little "
              "too large or too\n   small. The comparison was not told "
              "which.\n\n"
            : fmt::format(
                  "\n3. A fault was planted into one node: {}.\n   The "
                  "comparison was not told which.\n\n",
                  RowOf(fault_).means);
    const auto faulty = RunsOf(executor.get());
    NODEWISE_ASSIGN_OR_RETURN(const NodeChecks checks,
                              CheckNodes(target->graph(), AllOperators(),
                                         *faulty, {.with_all_bounds = true}));
    ShowChecks("planted_checks", target->graph(), checks, outcome);
    return ShowFound(planted.fault, checks, *faulty, outcome);
  }

  // The usual fault needs no trial.
  absl::StatusOr<PlantedGraph> PlantChosen(const Artefact& artefact) const {
    if (fault_ == FaultKind::kScale) {
      return PlantScale(artefact.graph, artefact.library, seed_);
    }
    PlanterOptions options;
    options.operators = AllOperators();
    options.params = artefact.params.tensors;
    options.inputs = NameInputs(target_->inputs(), inputs_);
    NODEWISE_ASSIGN_OR_RETURN(
        const auto planter,
        Planter::Create(artefact.graph, artefact.library, std::move(options)));
    return planter->Plant(fault_, seed_);
  }

  absl::Status ShowFound(const PlantedFault& fault, const NodeChecks& checks,
                         TensorSource& faulty, Outcome* outcome) {
    NODEWISE_ASSIGN_OR_RETURN(const Comparison changes,
                              CompareSources(*RunsOf(executor_.get()), faulty));
    size_t changed = 0, tensors = 0;
    for (const TensorComparison& tensor : changes.tensors) {
      if (tensor.key.role == TensorRole::kInput) continue;
      const auto node = target_->index().FindNode(tensor.key.node);
      if (!node.ok() || !target_->graph().IsFunction(*node)) continue;
      ++tensors;
      if (!tensor.is_equal()) ++changed;
    }
    ShowAnswer(target_->graph(), fault, checks, changed, tensors, outcome);
    return absl::OkStatus();
  }

  void ShowNext(Outcome* outcome) const {
    outcome->json.Add("artefact", ArtefactFolder());
    outcome->text += fmt::format(
        "\nNext, with this network, which lies in {0} as an artefact:\n"
        "  nodewise profile {0} --random-inputs {1}   where the time goes\n"
        "or with a model, or an artefact folder, of your own:\n"
        "  nodewise run MODEL.onnx --random-inputs 1\n"
        "  nodewise profile MODEL.onnx --random-inputs 1\n"
        "  nodewise dump MODEL.onnx --random-inputs 1 --dump-root DIR\n"
        "  nodewise convert MODEL.onnx -o FOLDER      "
        "then: nodewise run FOLDER ...\n",
        ShellWord(ArtefactFolder()), seed_);
  }

  std::optional<uint64_t> seed_given_;
  uint64_t seed_ = 1;
  std::string fault_name_;
  FaultKind fault_ = FaultKind::kScale;
  std::string folder_;
  std::unique_ptr<const Network> network_;
  std::shared_ptr<const GraphTarget> target_;
  std::vector<RunInput> inputs_;
  std::unique_ptr<DebugExecutor> executor_;
};

}  // namespace

const CommandRow kDemoCommand = {
    "demo", "shows the main job on a made-up network: time, dump, find a fault",
    "examples:\n"
    "  nodewise demo\n"
    "  nodewise demo --seed 7 -o d\n"
    "  nodewise demo --fault wrong-order --seed 3\n"
    "\nExit status: 0 if the planted fault was found and nothing else is "
    "wrong, 1 if\nnot, 2 if it did not run.\n",
    [] { return std::unique_ptr<Command>(new Demonstrate); }};

}  // namespace nodewise
