#include <optional>
#include <utility>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/output_files.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/profile/profile.h"
#include "nodewise/profile/profiler.h"
#include "nodewise/report/debug_run_report.h"
#ifdef NODEWISE_USE_ONNX
#include "nodewise/report/profile_report.h"
#endif
#include "nodewise/report/run_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/runner/debug_runner.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// All times of all runs stay in memory until the table is made.
constexpr uint64_t kMostRuns = 1'000'000;
// The profiler takes its numbers as TVM's functions do.
constexpr uint64_t kMostInt = INT32_MAX;
// The usual number of pairs of runs by which two builds are compared.
constexpr uint64_t kRunsAgainst = 30;

// The options with the meaning of TVM's run(), if given.
struct IsolatedNumbers {
  std::optional<uint64_t> number, repeat, min_repeat_ms, limit_zero_time,
      cooldown_ms, repeats_to_cooldown;

  bool Any() const {
    return number || repeat || min_repeat_ms || limit_zero_time ||
           cooldown_ms || repeats_to_cooldown;
  }
  // What was not said stays as the profiler has it, which is as in TVM.
  RepeatOptions Options() const {
    RepeatOptions options;
    const auto take = [](const std::optional<uint64_t>& from, int* to) {
      if (from.has_value()) *to = static_cast<int>(*from);
    };
    take(number, &options.number);
    take(repeat, &options.repeat);
    take(min_repeat_ms, &options.min_repeat_ms);
    take(limit_zero_time, &options.limit_zero_time_iterations);
    take(cooldown_ms, &options.cooldown_interval_ms);
    take(repeats_to_cooldown, &options.repeats_to_cooldown);
    return options;
  }
};

// Times nodes where they run, in the network, and each pass is paired with one
// that nothing watches; --isolated times each node by itself besides, as TVM's
// debugger does.
class ProfileNetwork : public Command {
 public:
  void AddOptions(OptionList* options) override {
    AddLoadOptions(options, &load_);
    AddForeignOptions(options, &foreign_);
    options->Add({
        {"--runs", "N",
         "in place: N timed passes, each paired with a plain run (10)",
         NumberOption{&runs_, 1, kMostRuns}},
        {"--warm-up", "N", "pairs before those (3)",
         NumberOption{&warm_up_, 0, kMostRuns}},
        {"--isolated", "",
         "times every node by itself too, as TVM's debugger does; so does each "
         "option that begins with \"isolated\"",
         &isolated_},
    });
    AddIsolatedOptions(options);
    options->Add({
        {"--counter", "NAME",
         "reads a counter of the processor or the kernel around every node: "
         "cycles, instructions, cache-misses, page-faults, ...; may be given "
         "again",
         &counters_},
        ThreadsOption(&threads_),
        {"--sort", "ORDER", "rows by time, or in graph order", &sort_},
        {"--layout", "NAME",
         "clock: with start and end times; measurements: as TVM 0.9 and later "
         "(clock; measurements with --isolated)",
         &layout_},
        {"--top", "N",
         "only the N slowest nodes, or the first N rows in the order of --sort",
         NumberOption{&top_, 1, kMostInt}},
        {"--all", "",
         "every row of lists that are cut otherwise, for --against and other "
         "programs",
         &all_},
        {"--csv", "", "a CSV with all figures in place of the table", &csv_},
        {"--by", "GROUPS",
         "time by kind (of operator) or by module, in place of the table of "
         "nodes",
         &by_},
        {"--depth", "N",
         "modules by so many parts of their names (as many as tell two apart)",
         NumberOption{&depth_, 1, kMostInt}},
        {"--against", "TARGET",
         "another build of the network, run in turns with this one on the same "
         "inputs: which nodes are slower here",
         &against_},
        {"--trace", "FILE",
         "writes a trace that Perfetto and chrome://tracing open", &trace_},
    });
  }

  absl::StatusOr<Report> Run() override {
    NODEWISE_RETURN_IF_ERROR(CheckWords());
    ShareWithOpaque(foreign_, &load_.model);
    if (NamesProgram(load_.target.target)) return RunProgram();
    NODEWISE_RETURN_IF_ERROR(CheckNoForeignOptions(foreign_, load_));
    NODEWISE_RETURN_IF_ERROR(At("--trace", CheckFilePath(trace_)));
    UseThreads(threads_);
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded, LoadTarget(load_, &report));
    if (report.status != Report::Status::kOk) return report;
    const GraphTarget& target = *loaded.target;
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              MakerOfDebugExecutors(target, loaded.inputs)({}));
    // With --against, the answer is about both builds, and has no table of one.
    if (!against_.empty()) {
      return ProfileBoth(loaded, executor.get(), std::move(report));
    }
    // A summary is what all tables and documents are made of.
    NODEWISE_ASSIGN_OR_RETURN(const Profile profile, Measure(executor.get()));
    const ProfileSummary summary = SummariseProfile(executor->index(), profile);
    ShowTarget(loaded, &report);
    ShowKernels(loaded, &report);
    Show(*executor, loaded, summary, profile, &report);
    // Times of a run that computes something else would be of no use.
    const OutputCheck check =
        CheckAgainstPlain(target, loaded.inputs, *executor);
    ShowCheck(check, &report);
    if (!trace_.empty()) ShowTrace(*executor, profile, &report);
    if (keeps_archive()) AddDigestsOf(loaded, &report);
    if (csv_) {
      // Only the CSV goes to stdout; what else there is to say becomes notes.
      report.notes.push_back(check.text);
      report.text.clear();
      report.text += ProfileCsv(executor->graph(), summary, profile);
    }
    return report;
  }

 private:
  void AddIsolatedOptions(OptionList* options) {
    options->Add({
        {"--number", "N", "isolated: calls in a repeat (10)",
         NumberOption{&numbers_.number, 1, kMostInt}},
        {"--repeat", "N", "isolated: measurements (1)",
         NumberOption{&numbers_.repeat, 1, kMostRuns}},
        {"--min-repeat-ms", "MS",
         "isolated: more calls until a repeat takes this (0)",
         NumberOption{&numbers_.min_repeat_ms, 0, kMostInt}},
        {"--limit-zero-time", "N",
         "isolated: gives up after N repeats of no time (100)",
         NumberOption{&numbers_.limit_zero_time, 0, kMostInt}},
        {"--cooldown-ms", "MS", "isolated: sleeps between repeats (0)",
         NumberOption{&numbers_.cooldown_ms, 0, kMostInt}},
        {"--repeats-to-cooldown", "N",
         "isolated: sleeps after the first of every N repeats (1)",
         NumberOption{&numbers_.repeats_to_cooldown, 1, kMostInt}},
    });
  }

  // Options that shape the table mean nothing where another thing is shown in
  // its place, and are refused, as silence would look like obedience.
  absl::Status CheckWords() const {
    const auto check = [](const char* option, const std::string& word,
                          const char* a, const char* b) {
      if (word.empty() || word == a || word == b) return absl::OkStatus();
      return BadValue(
          option, word,
          fmt::format("{} or {}{}", a, b, DidYouMean(word, {a, b})));
    };
    NODEWISE_RETURN_IF_ERROR(check("--sort", sort_, "time", "graph"));
    NODEWISE_RETURN_IF_ERROR(check("--by", by_, "kind", "module"));
    if (!against_.empty() && (csv_ || !by_.empty() || !trace_.empty() ||
                              !counters_.empty() || IsIsolated())) {
      return InvalidArgument(
          "--against: compares the times of nodes in place, expected no --by, "
          "--csv, --trace, --counter or --isolated with it");
    }
    if (!by_.empty() && csv_) {
      return InvalidArgument(
          "--by: shows groups of nodes, expected no --csv with it");
    }
    NODEWISE_RETURN_IF_ERROR(
        check("--layout", layout_, "clock", "measurements"));
    const bool shapes_table =
        !sort_.empty() || !layout_.empty() || top_.has_value();
    if (!csv_ || !shapes_table) return absl::OkStatus();
    return InvalidArgument(
        "--csv: has all figures of all nodes in the graph's order, expected no "
        "--sort, --layout or --top with it");
  }

  bool IsIsolated() const { return isolated_ || numbers_.Any(); }

  absl::StatusOr<Profile> Measure(DebugExecutor* executor) const {
    Profiler::Options options;
    // The profiler knows how many runs are usual.
    options.runs = static_cast<int>(runs_.value_or(options.runs));
    options.warm_up = static_cast<int>(warm_up_.value_or(options.warm_up));
    if (IsIsolated()) options.isolated = numbers_.Options();
    // Only a trace shows what the other threads do, and looking costs time.
    options.watches_workers = !trace_.empty();
    // A counter that this machine lacks is left out, and said to be; a name
    // that means nothing is an error of the user's.
    std::vector<std::unique_ptr<Collector>> collectors;
    std::vector<std::string> notes;
    for (const std::string& name : counters_) {
      const std::string names[] = {name};
      auto collector = PerfCollector(names);
      if (collector.ok()) {
        options.collectors.push_back(collector->get());
        collectors.push_back(*std::move(collector));
        continue;
      }
      if (!absl::IsUnavailable(collector.status())) {
        return At("--counter", collector.status());
      }
      notes.emplace_back(MessageOf(collector.status()));
    }
    Progress progress("profile");
    options.progress = progress.Updater();
    auto profile = Profiler(executor).Run(options);
    if (!profile.ok()) return At(load_.target.target, profile.status());
    profile->notes.insert(profile->notes.end(), notes.begin(), notes.end());
    return profile;
  }

  // Another program hands out no times of what is inside.
  absl::StatusOr<Report> RunProgram() const {
#ifdef NODEWISE_USE_ONNX
    if (IsIsolated() || csv_ || !trace_.empty() || !counters_.empty() ||
        !against_.empty() || !by_.empty() || threads_.has_value()) {
      return InvalidArgument(
          "{}: another program runs it, whose operations are timed alone, "
          "expected no option but --runs and --top",
          Printable(load_.target.target));
    }
    Report report;
    NODEWISE_ASSIGN_OR_RETURN(const Session loaded,
                              LoadForeign(load_, foreign_, &report));
    if (report.status != Report::Status::kOk) return report;
    Progress progress("profile");
    const auto times = TimeOperations(
        loaded, runs_.value_or(Profiler::Options().runs), progress.Updater());
    if (!times.ok()) return At(loaded.name, times.status());
    ShowTarget(loaded, &report);
    ShowOperationTimes(*times, MostRows(), &report);
    return report;
#else
    return Unimplemented(
        "this build has no operators, expected one with USE_ONNX");
#endif
  }

  // 0 stands for all rows.
  size_t MostRows() const {
    return all_ ? 0 : static_cast<size_t>(top_.value_or(kShownLines));
  }

  // CheckWords() has refused all other words.
  std::optional<ProfileGrouping> Grouping() const {
    if (by_.empty()) return std::nullopt;
    return by_ == "kind" ? ProfileGrouping::kKind : ProfileGrouping::kModule;
  }

  absl::StatusOr<Session> LoadOther(const Session& loaded,
                                    Report* report) const {
    LoadOptions other = load_;
    other.target = {};
    other.target.target = against_;
    other.target.devices = load_.target.devices;
    NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(other));
    // Drawn numbers would depend on how each build calls its inputs.
    spec.inputs = {};
    spec.inputs.tensors = loaded.NamedInputs();
    return OpenReported(spec, report);
  }

  // Runs both in turns, so that what slows the machine down slows both.
  absl::StatusOr<Report> ProfileBoth(const Session& loaded,
                                     DebugExecutor* executor,
                                     Report report) const {
    NODEWISE_ASSIGN_OR_RETURN(const Session other, LoadOther(loaded, &report));
    if (report.status != Report::Status::kOk) return report;
    NODEWISE_ASSIGN_OR_RETURN(
        const auto second,
        MakerOfDebugExecutors(*other.target, other.inputs)({}));
    // The first of each pair is this build, the second the other one.
    Profile profiles[2] = {BeginProfile(), BeginProfile()};
    DebugExecutor* const executors[2] = {executor, second.get()};
    // More runs than for one build: a difference is smaller than a time.
    const uint64_t runs = runs_.value_or(kRunsAgainst);
    const uint64_t warm_up = warm_up_.value_or(Profiler::Options().warm_up);
    Progress progress("profile");
    const auto update = progress.Updater();
    for (uint64_t run = 0; run < warm_up + runs; ++run) {
      update(run, warm_up + runs);
      for (size_t turn = 0; turn < 2; ++turn) {
        // The builds take turns at being first, so that neither always runs
        // behind the other.
        const size_t side = (turn + run) % 2;
        const absl::Status status = executors[side]->RunTimed();
        if (!status.ok()) {
          return At(side == 0 ? load_.target.target : against_, status);
        }
        if (run < warm_up) continue;
        profiles[side].runs.push_back(executors[side]->times());
      }
    }
    ShowTarget(loaded, &report);
    ShowProfileChanges(CompareProfiles(second->index(), profiles[1],
                                       executor->index(), profiles[0]),
                       other.name, loaded.name,
                       static_cast<size_t>(top_.value_or(kShownLines)),
                       &report);
    return report;
  }

  void Show(const DebugExecutor& executor, const Session& loaded,
            const ProfileSummary& summary, const Profile& profile,
            Report* report) const {
    const Graph& graph = executor.graph();
    TableOptions table;
    // The layout with a clock has no place for what --isolated asks for.
    if (layout_ == "measurements" || (layout_.empty() && IsIsolated())) {
      table.layout = TableLayout::kMeasurements;
    }
    // "The N slowest" is what --top asks for unless an order is named.
    table.sort_by_time = sort_ == "time" || (sort_.empty() && top_.has_value());
    table.max_rows = static_cast<size_t>(top_.value_or(0));
    table.line_width = LineWidth();
    // A CSV is read by programs: all else would have to be cut away first.
    if (csv_) {
      report->notes.insert(report->notes.end(), profile.notes.begin(),
                           profile.notes.end());
    } else {
      // --by asks for groups in place of nodes: with both tables, each time
      // would be shown twice.
      if (!Grouping().has_value()) {
        report->text +=
            "\n" + ProfileTable(graph, summary, profile, table) + "\n\n";
      }
      ShowProfileGroups(loaded, summary, Grouping(),
                        static_cast<size_t>(depth_.value_or(0)), report);
      const std::string footer = ProfileFooter(summary, profile);
      report->text += footer;
      if (!footer.ends_with('\n')) report->text += '\n';
    }
    report->json.AddRaw("profile",
                        ProfileJson(executor.index(), summary, profile));
  }

  // A trace that cannot be written does not take the times away.
  void ShowTrace(const DebugExecutor& executor, const Profile& profile,
                 Report* report) const {
    const absl::Status status =
        WriteWholeFile(trace_, ProfileTrace(executor.index(), profile));
    if (!status.ok()) return report->AddError(status);
    if (!csv_) report->text += fmt::format("wrote {}\n", Printable(trace_));
    report->json.Add("trace", trace_);
  }

  LoadOptions load_;
  ForeignOptions foreign_;
  std::optional<uint64_t> runs_, warm_up_, threads_, top_, depth_;
  IsolatedNumbers numbers_;
  bool isolated_ = false, csv_ = false, all_ = false;
  std::vector<std::string> counters_;
  std::string sort_, layout_, trace_, by_, against_;
};

}  // namespace

const CommandRow kProfileCommand = {"profile",
                                    "times every node, in place and by itself",
                                    R"(examples:
  nodewise profile build/mlp --random-inputs 1
  nodewise profile build/mlp --random-inputs 1 --runs 100 --sort time
  nodewise profile build/mlp --random-inputs 1 --trace t.json
  nodewise profile model.onnx --dim batch=1 --random-inputs 1
  nodewise profile build/mlp --random-inputs 1 --isolated --repeat 5
  nodewise profile build/new --against build/old --random-inputs 1
  nodewise profile ort:model.onnx --random-inputs 1

Exit status: 0, 1 if the outputs were not those of a plain run or it failed,
2 if it did not run.
)",
                                    &MakeCommand<ProfileNetwork>,
                                    /*runs_code=*/true};

}  // namespace nodewise
