#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "apps/nodewise/command.h"
#include "apps/nodewise/foreign_target.h"
#include "apps/nodewise/terminal.h"
#include "fmt/format.h"
#include "nodewise/autotest/autotest_report.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/candidate_list.h"
#include "nodewise/autotest/network_draw.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// The bound of --runs; a run that only time ends has it as well.
constexpr uint64_t kMostTestRuns = 1'000'000'000;
constexpr uint64_t kMostSetsOfOne = 4096;
constexpr uint64_t kMostRunSeconds = 7 * 86'400;
constexpr uint64_t kUsualRuns = 1000;
// To make a configuration ready costs more than to run it, above all where C is
// compiled, so several sets of values share one; networks vary more by shape.
constexpr uint64_t kUsualSets = 16;
constexpr uint64_t kUsualSetsOfNetworks = 4;
// Networks with more than three kinds of operators all count as one operator,
// so findings under that name may be of any; the usual 3 would be too few.
constexpr size_t kMostNetworks = 100;
constexpr int64_t kUsualLimitMs = 10'000;
// The share of a limited time that may go into shrinking one finding.
constexpr double kShrinkingShare = 0.2;

// Draws operations or networks with values, runs them in the candidate and by
// their definitions, and makes what differs as small as it can.
class TestOperators : public Command {
 public:
  void AddOptions(OptionList* options) override {
    options->Add({
        {"--op", "NAME", "an operator to test; may be given again (all)",
         &names_},
        {"--networks", "",
         "whole networks of these operators instead of one operation at a time",
         &networks_},
        {"--mutate", "PATH",
         "changed parts of this ONNX model, or of those in this folder, "
         "instead",
         &mutated_},
        {"--pass", "NAME",
         "rewrites each network first: merge (quantised operations) or split; "
         "may be given again (none)",
         &passes_},
        {"--attribute", "",
         "judges each finding again with one thing of the candidate switched "
         "off at a time",
         &attributes_},
        {"--candidate", "NAME",
         "what is tested: onednn, c (the C that is emitted, compiled), graph "
         "(the reference's own kernels as a graph), ort, onnx (the evaluator "
         "of ONNX's own Python package), or exec:COMMAND (onednn)",
         &candidate_},
        {"--with", "WHAT",
         "forward (the operators or networks), backward (the gradients of "
         "those that have one) or both (forward)",
         &with_},
        {"--runs", "N", "how many sets of values (1000)",
         NumberOption{&runs_, 1, kMostTestRuns}},
        {"--time", "SECONDS",
         "stops after so long, and runs without another limit unless --runs is "
         "given, too",
         NumberOption{&seconds_, 1, kMostRunSeconds}},
        {"--seed", "N",
         "draws the same cases again (one drawn anew, and shown)",
         NumberOption{&seed_}},
        {"--sets", "N",
         "how many sets of values for one configuration (16; of --networks 4)",
         NumberOption{&sets_, 1, kMostSetsOfOne}},
        {"--shard", "I/N",
         "runs part I of N, from 1 on; all parts together are the whole run",
         &shard_},
        {"--limit", "MS", "how long a case may take in this process (10000)",
         NumberOption{&limit_ms_, 1, 86'400'000}},
        {"-o,--output", "DIR",
         "writes a folder for each finding into this new folder", &folder_},
        {"--case", "FOLDER",
         "runs this case alone: a folder of -o, or of ONNX's own tests",
         &case_},
    });
    AddForeignOptions(options, &foreign_);
  }

  absl::StatusOr<Report> Run() override {
    NODEWISE_RETURN_IF_ERROR(TakeShard());
    NODEWISE_RETURN_IF_ERROR(ParseDirection());
    if (networks_ && !mutated_.empty()) {
      return InvalidArgument(
          "--networks and --mutate: expected one of them, not both");
    }
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<const OperatorDef*> rows,
                              Rows());
    // One compiler serves all candidates: looking whether it works takes longer
    // than most cases.
    if (candidate_ == "c") {
      NODEWISE_ASSIGN_OR_RETURN(compiler_, CCompiler::Create());
    }
    auto made = MakeAutotestCandidate(ForCandidate());
    if (!made.ok()) return At("--candidate", made.status());
    const std::unique_ptr<Candidate> candidate = *std::move(made);
    // A case is repeated as it was, and draws nothing.
    if (!case_.empty()) return RunCase(*candidate);
    if (!folder_.empty()) {
      NODEWISE_RETURN_IF_ERROR(MakeFindingsFolder(folder_));
    }
    KeepFreedMemory();
    // The report says which seed was drawn, so that the run can be repeated.
    options_.seed = seed_.value_or(std::random_device()());
    options_.runs =
        runs_.value_or(seconds_.has_value() ? kMostTestRuns : kUsualRuns);
    options_.sets =
        sets_.value_or(DrawsNetworks() ? kUsualSetsOfNetworks : kUsualSets);
    if (DrawsNetworks()) options_.most_findings = kMostNetworks;
    options_.seconds = static_cast<double>(seconds_.value_or(0));
    // Shrinking goes on while findings are still to be made, so it has a share
    // of the time, which is never too little to make anything smaller.
    if (seconds_.has_value()) {
      options_.most_shrinking_seconds =
          std::clamp(options_.seconds * kShrinkingShare, 5.0, 60.0);
    }
    AutotestResult result;
    {
      Progress progress("testing");
      options_.progress = [&](uint64_t runs, size_t) {
        progress.Update(runs, options_.runs / options_.shards);
      };
      NODEWISE_ASSIGN_OR_RETURN(const auto source,
                                MakeSource(rows, *candidate));
      result = RunAutotest(*source, *candidate, options_);
    }
    // Other programs may fail on single cases; a compiler that has worked does
    // so only where the machine has changed.
    if (compiler_ != nullptr && !result.unavailable.ok()) {
      return result.unavailable;
    }
    // Only findings cost more runs here, and there are few.
    if (attributes_) {
      const auto variants = VariantsOf(ForCandidate());
      for (AutotestFinding& finding : result.findings) {
        finding.attribution = Attribute(finding, variants);
      }
    }
    Report report = ReportOf(result, candidate->name(), options_);
    NODEWISE_RETURN_IF_ERROR(WriteFolders(result, &report));
    return report;
  }

 private:
  // A folder has all that its case was found with, so nothing is drawn.
  absl::StatusOr<Report> RunCase(Candidate& candidate) const {
    NODEWISE_ASSIGN_OR_RETURN(const AutotestFinding finding,
                              JudgeFolder(case_, candidate));
    return ReportOfCase(finding, candidate.name());
  }

  absl::Status TakeShard() {
    if (shard_.empty()) return absl::OkStatus();
    uint64_t part = 0, parts = 0;
    if (!ReadShard(shard_, &part, &parts)) {
      return BadValue("--shard", Printable(shard_), "I/N, such as 1/4");
    }
    options_.shard = part - 1;
    options_.shards = parts;
    return absl::OkStatus();
  }

  // Forward unless told, since not every operator has a gradient.
  absl::Status ParseDirection() {
    constexpr std::pair<std::string_view, AutotestWith> kWords[] = {
        {"", AutotestWith::kForward},
        {"forward", AutotestWith::kForward},
        {"backward", AutotestWith::kBackward},
        {"both", AutotestWith::kBoth}};
    for (const auto& [word, with] : kWords) {
      if (with_ != word) continue;
      options_.with = with;
      return absl::OkStatus();
    }
    return BadValue("--with", Printable(with_), "forward, backward or both");
  }

  absl::StatusOr<std::vector<const OperatorDef*>> Rows() const {
    std::vector<const OperatorDef*> rows;
    std::vector<std::string> known;
    // Names are crossed out as they are found; what is left does not exist.
    std::vector<std::string> missing = names_;
    for (const OperatorDef* row : AllOperators().rows()) {
      // Operators with a body, as If and Loop, are drawn in networks alone.
      if (!HasSpace(*row)) continue;
      known.emplace_back(row->name);
      if (!names_.empty() && std::ranges::count(names_, row->name) == 0) {
        continue;
      }
      std::erase(missing, row->name);
      // A network has gradients as far as its operators have.
      if (options_.with == AutotestWith::kBackward && !DrawsNetworks() &&
          !HasBackwardSpace(*row)) {
        continue;
      }
      rows.push_back(row);
    }
    if (missing.empty() && rows.empty()) {
      return InvalidArgument("--with backward: {} has no gradient",
                             Printable(names_[0]));
    }
    if (missing.empty()) return rows;
    if (AllOperators().Find("", missing[0], kNewestOpset) != nullptr) {
      return InvalidArgument(
          "--op: {} has no cases of its own (--networks draws If, Loop, Scan)",
          Printable(missing[0]));
    }
    return BadValue(
        "--op", Printable(missing[0]),
        "the name of an operator of ONNX" + DidYouMean(missing[0], known));
  }

  // Variants of the candidate, which have something switched off, begin with
  // these options.
  CandidateOptions ForCandidate() const {
    CandidateOptions options;
    options.name = candidate_;
    options.program = SpecOf(foreign_, candidate_);
    options.limit_ms = static_cast<int64_t>(
        limit_ms_.value_or(static_cast<uint64_t>(kUsualLimitMs)));
    options.networks = DrawsNetworks() || !case_.empty();
    options.passes = passes_;
    options.compiler = compiler_;
    return options;
  }

  // Both options make whole networks, whose cases cost more than those of
  // operators.
  bool DrawsNetworks() const { return networks_ || !mutated_.empty(); }

  absl::StatusOr<std::unique_ptr<CaseSource>> MakeSource(
      absl::Span<const OperatorDef* const> rows, Candidate& candidate) const {
    if (!DrawsNetworks()) return OperatorSource(rows, options_.with);
    // Operators take turns within one source; networks need one for each way.
    if (options_.with != AutotestWith::kBoth) {
      return NetworksWith(options_.with, rows, candidate);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        auto forward, NetworksWith(AutotestWith::kForward, rows, candidate));
    NODEWISE_ASSIGN_OR_RETURN(
        auto backward, NetworksWith(AutotestWith::kBackward, rows, candidate));
    return AlternatingCases(std::move(forward), std::move(backward));
  }

  absl::StatusOr<std::unique_ptr<CaseSource>> NetworksWith(
      AutotestWith with, absl::Span<const OperatorDef* const> rows,
      Candidate& candidate) const {
    std::unique_ptr<CaseSource> source;
    if (networks_) {
      source = NetworkSource(ScopeOf(rows, candidate, options_.seed, with));
    } else {
      NODEWISE_ASSIGN_OR_RETURN(auto models, LoadModelsOf(mutated_));
      source = MutationSource(std::move(models));
    }
    if (source == nullptr) {
      return InvalidArgument("--mutate: {}: no model has an operation",
                             mutated_);
    }
    if (with == AutotestWith::kForward) return source;
    return GradientSource(std::move(source));
  }

  // A folder's number is that of the finding in the report.
  absl::Status WriteFolders(const AutotestResult& result,
                            Report* report) const {
    if (folder_.empty()) return absl::OkStatus();
    for (size_t i = 0; i < result.findings.size(); ++i) {
      const std::string path = fmt::format("{}/{:03}_{}", folder_, i + 1,
                                           TitleOf(result.findings[i].made));
      NODEWISE_RETURN_IF_ERROR(WriteFindingFolder(
          result.findings[i],
          {candidate_.empty() ? "onednn" : candidate_, foreign_.ort_level},
          path));
      report->text += fmt::format("written: {}\n", Printable(path));
    }
    return absl::OkStatus();
  }

  std::vector<std::string> names_, passes_;
  std::string candidate_, with_, mutated_, shard_, folder_, case_;
  bool networks_ = false, attributes_ = false;
  std::optional<uint64_t> runs_, seconds_, seed_, sets_, limit_ms_;
  ForeignOptions foreign_;
  AutotestOptions options_;
  std::shared_ptr<const CCompiler> compiler_;
};

}  // namespace

const CommandRow kAutotestCommand = {
    "autotest", "tests operators and networks on random cases",
    R"(examples:
  nodewise autotest --op Conv --candidate onednn --runs 10000
  nodewise autotest --candidate ort --time 600 -o findings
  nodewise autotest --candidate c --seed 7 --shard 2/4 --runs 100000
  nodewise autotest --networks --candidate ort --ort-level all --attribute
  nodewise autotest --mutate models --candidate c --runs 10000

Exit status: 0 if nothing was found, 1 if something was, 2 if it did not run.
)",
    &MakeCommand<TestOperators>,
    /*runs_code=*/true};

}  // namespace nodewise
