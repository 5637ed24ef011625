#include <optional>

#include "absl/strings/str_split.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/dump/dump.h"
#include "nodewise/foreign/foreign_dump.h"
#include "nodewise/profile/profiler.h"
#include "nodewise/report/debug_run_report.h"
#include "nodewise/report/run_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Each run leaves a dump, and its times until the table is made.
constexpr uint64_t kMostRunsDumped = 1'000'000;

class ProgressObserver : public NodeObserver {
 public:
  ProgressObserver(const Graph& graph, Progress* progress)
      : total_(graph.nodes.size()), progress_(*progress) {}
  absl::Status AfterNode(const NodeRun& node) override {
    progress_.Update(Index(node.node) + size_t{1}, total_);
    return absl::OkStatus();
  }

 private:
  size_t total_;
  Progress& progress_;
};

// Runs the network and keeps what every node makes, in folders that TVM's own
// tools read as well.
class DumpNetwork : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddLoadOptions(options, &load_);
    options->Add({
        {"--dump-root", "DIR",
         "where the dump goes (a fresh folder in $TMPDIR or /tmp)",
         &record_.root},
        {"--what", "LIST",
         "tensor, stats or tensor,stats (tensor): whole tensors, or what they "
         "are like",
         &what_},
        {"--select", "REGEX",
         "only nodes in whose name, function or key this is found",
         &record_.select},
        {"--nodes", "A:B", "only the nodes numbered A to B", &nodes_},
        {"--max-bytes", "N", "leaves out whole tensors that would make more",
         NumberOption{&max_bytes_, 1}},
        {"--runs", "N", "runs N times, a dump each (1)",
         NumberOption{&runs_, 1, kMostRunsDumped}},
        ThreadsOption(&threads_),
        {"--no-table", "",
         "leaves out the table of the nodes' times in these runs", &no_table_},
    });
    AddForeignOptions(options, &foreign_);
    options->Add({ObservationOption(&foreign_)});
  }

  absl::StatusOr<Report> Run() override {
    ShareWithOpaque(foreign_, &load_.model);
    NODEWISE_RETURN_IF_ERROR(ParseWhat());
    NODEWISE_RETURN_IF_ERROR(TakeNodes());
    record_.max_bytes = max_bytes_.value_or(0);
    if (NamesProgram(load_.target.target)) return DumpOtherProgram();
    NODEWISE_RETURN_IF_ERROR(CheckNoForeignOptions(foreign_, load_));
    UseThreads(threads_);
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded, LoadTarget(load_, &report));
    if (report.status != Report::Status::kOk) return report;
    const GraphTarget& target = *loaded.target;
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              MakerOfDebugExecutors(target, loaded.inputs)({}));
    // The plan is made here, and fails where no node is selected.
    NODEWISE_RETURN_IF_ERROR(
        At(SelectingOptions(), executor->StartRecording(record_)));
    ShowTarget(loaded, &report);
    ShowKernels(loaded, &report);
    ShowPlan(*executor->dump_plan(), &report);
    // An archive cannot have all of the tensors, so digests stand for them.
    if (keeps_archive()) AddDigestsOf(loaded, &report);
    // Watching must not have changed what the network computes.
    if (RunAll(executor.get(), &report)) {
      ShowCheck(CheckAgainstPlain(target, loaded.inputs, *executor), &report);
    }
    return report;
  }

 private:
  absl::StatusOr<Report> DumpOtherProgram() {
    const std::string& target = load_.target.target;
    if (threads_.has_value()) {
      return InvalidArgument(
          "--threads: means nothing for {}, which another program runs",
          target);
    }
    // That program may know operations which are not known here.
    load_.keeps_opaque = true;
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadForeign(load_, foreign_, &report));
    if (report.status != Report::Status::kOk) return report;
    ShowTarget(loaded, &report);
    // DumpForeign() selects the names, and may find none.
    auto dump =
        DumpForeign(*loaded.program, {loaded.network, loaded.model_file},
                    loaded.NamedInputs(), record_, runs_.value_or(1));
    if (absl::IsInvalidArgument(dump.status())) {
      return At(SelectingOptions(), dump.status());
    }
    NODEWISE_RETURN_IF_ERROR(dump.status());
    ShowForeignDump(*dump, &report);
    return report;
  }

  // "tensors" is accepted, too: it is what one would say.
  absl::Status ParseWhat() {
    if (what_.empty()) return absl::OkStatus();
    record_.tensors = record_.stats = false;
    for (const std::string& word :
         std::vector<std::string>(absl::StrSplit(what_, ','))) {
      if (word == "tensor" || word == "tensors") {
        record_.tensors = true;
      } else if (word == "stats") {
        record_.stats = true;
      } else {
        return BadValue("--what", word,
                        "tensor, stats or both with a comma" +
                            DidYouMean(word, {"tensor", "stats"}));
      }
    }
    return absl::OkStatus();
  }

  // Numbers are those of the graph, inputs and parameters among them.
  absl::Status TakeNodes() {
    if (nodes_.empty()) return absl::OkStatus();
    const size_t colon = nodes_.find(':');
    // An end that is left open stays as far out as it is.
    const auto number = [](std::string_view text, uint32_t* value) {
      return text.empty() || ReadNumber(text, value);
    };
    const std::string_view text = nodes_;
    if (colon != std::string::npos &&
        number(text.substr(0, colon), &record_.first_node) &&
        number(text.substr(colon + 1), &record_.last_node)) {
      return absl::OkStatus();
    }
    return BadValue("--nodes", nodes_, "A:B, as in 3:7, 3: or :7");
  }

  // A message about an empty selection names both options if either may be the
  // cause.
  std::string SelectingOptions() const {
    if (nodes_.empty()) return "--select";
    return record_.select.empty() ? "--nodes" : "--select, --nodes";
  }

  // Says before the run what it will leave: a dump may fill a disk.
  void ShowPlan(const DumpPlan& plan, Report* report) const {
    report->json.Add("entries", uint64_t{plan.items.size()});
    report->json.Add("tensor_bytes", uint64_t{plan.tensor_bytes});
    // The document has all of them; the text is cut where it becomes long.
    std::vector<std::string> left_out;
    for (const DumpPlan::Item& item : plan.left_out) {
      left_out.push_back(item.key);
    }
    report->json.Add("left_out", left_out);
    if (left_out.empty()) return;
    report->text += fmt::format("left out by --max-bytes: {}\n",
                                CountOf(left_out.size(), "tensor"));
    TextTable table;
    for (const DumpPlan::Item& item : plan.left_out) {
      table.AddRow({item.key, CountOf(item.bytes, "byte")});
    }
    report->text.Add(table, 2, kShownLines);
  }

  // Returns false if a run failed; what it recorded before is still a dump.
  bool RunAll(DebugExecutor* executor, Report* report) const {
    Progress bar("dump");
    ProgressObserver progress(executor->graph(), &bar);
    // The bar shows these runs alone, and not the plain one that follows.
    executor->AddObserver(&progress);
    RecordedRunOptions options;
    // The bound of --runs keeps it an int.
    options.runs = static_cast<int>(runs_.value_or(1));
    options.table.line_width = LineWidth();
    const RecordedRuns recorded = RunRecorded(executor, options);
    executor->RemoveObserver(&progress);
    ShowTable(executor->index(), recorded, report);
    const bool has_run = recorded.status.ok();
    // A run that failed is the last one, and its dump lacks what came after.
    for (size_t i = 0; i < recorded.dumps.size(); ++i) {
      const bool is_whole = has_run || i + 1 < recorded.dumps.size();
      report->text +=
          fmt::format("dump    {}: {}\n", Printable(recorded.dumps[i]),
                      is_whole ? TextOf(*executor->dump_plan())
                               : "what was made before the run failed");
    }
    if (!has_run) report->AddError(At(load_.target.target, recorded.status));
    // The run's result is still good: the rest of the report follows.
    if (!recorded.dump_status.ok()) report->AddError(recorded.dump_status);
    report->json.Add("dumps", recorded.dumps);
    return has_run;
  }

  // TVM's debug executor prints such a table in the same call.
  void ShowTable(const GraphIndex& index, const RecordedRuns& recorded,
                 Report* report) const {
    if (no_table_ || recorded.table.empty()) return;
    report->text += "\n" + recorded.table + "\n\n";
    report->json.AddRaw("profile",
                        ProfileJson(index, recorded.summary, recorded.profile));
  }

  std::string TextOf(const DumpPlan& plan) const {
    const std::string tensors = CountOf(plan.items.size(), "tensor");
    if (!record_.tensors) return "statistics of " + tensors;
    return tensors + ", " + CountOf(plan.tensor_bytes, "byte");
  }

  LoadOptions load_;
  RecordOptions record_;
  std::string what_, nodes_;
  std::optional<uint64_t> max_bytes_, runs_, threads_;
  bool no_table_ = false;
  ForeignOptions foreign_;
};

}  // namespace

const CommandRow kDumpCommand = {
    "dump", "records every tensor of a run, as TVM's debugger lays them out",
    R"(examples:
  nodewise dump build/mlp --random-inputs 1 --dump-root d
  nodewise dump build/mlp --random-inputs 1 --what stats --select conv
  nodewise dump ort:model.onnx --random-inputs 1 --dump-root d

Exit status: 0, 1 if the outputs were not those of a plain run or it failed,
2 if it did not run or the dump could not be written.
)",
    &MakeCommand<DumpNetwork>,
    /*runs_code=*/true};

}  // namespace nodewise
