#include <cmath>
#include <filesystem>
#include <utility>

#include "apps/nodewise/build_parts.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "fmt/format.h"
#include "nodewise/compare/compare.h"
#include "nodewise/report/archive.h"
#include "nodewise/report/comparison_report.h"
#include "nodewise/report/tensor_summary.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/channels_last.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

// An option that was left out leaves the limit as the rule has it.
absl::Status TakeLimit(const char* option, const std::string& text,
                       double* limit) {
  if (text.empty()) return absl::OkStatus();
  double value = 0;
  if (ReadNumber(text, &value) && value >= 0 && std::isfinite(value)) {
    *limit = value;
    return absl::OkStatus();
  }
  return BadValue(option, Printable(text), "a number from 0 on");
}

// Nothing runs here: both sides are files that something has left behind. A
// model on one side turns the question into that of locate.
class CompareTensorSources : public Command {
 public:
  void AddOptions(OptionList* options) override {
    const std::string kinds =
        "a dump, a .npz, .npy, .params or .pb file, or an ONNX test set";
    options->Add({
        {"EXPECTED", "", "the reference: " + kinds, &expected_},
        {"ACTUAL", "", "what is compared with it, as EXPECTED", &actual_},
        {"--rule", "NAME", RuleHelp(), &rule_},
        {"--atol", "X", "the absolute part of --rule tolerance (0)", &atol_},
        {"--rtol", "X", "the relative part of --rule tolerance (0)", &rtol_},
        {"--threshold", "X", "the limit of --rule absolute (1e-5)",
         &threshold_},
        {"--map", "FILE",
         "which tensors are compared: on each line the name in EXPECTED and "
         "that in ACTUAL",
         &map_},
        {"--fuzzy", "",
         "pairs what has no partner of its name by spelling, order and words "
         "of the names",
         &is_fuzzy_},
        {"--convert", "",
         "compares elements of different types as the numbers they are",
         &may_convert_},
        {"--strict", "",
         "warnings and tensors that only one side has count as differences",
         &is_strict_},
        {"--sort", "HOW",
         "error: the worst first, and what a network is given last; order: as "
         "the reference has them (error)",
         &sort_},
        AllLinesOption(&all_),
    });
    AddOpaqueOption(options, &model_);
  }

  absl::StatusOr<Report> Run() override {
    if (IsModel(expected_) || IsModel(actual_)) return RunWithModel();
    NODEWISE_RETURN_IF_ERROR(
        CheckNoModelOptions(GivenOptionsOf(model_), actual_));
    SourceOptions options;
    NODEWISE_ASSIGN_OR_RETURN(options.compare.rule, ChosenRule());
    options.compare.may_convert = may_convert_;
    // The report shows where the worst element lies.
    options.compare.describe = true;
    options.pair_fuzzily = is_fuzzy_;
    if (map_.empty()) {
      options.names = NamesOfSingleTensors();
    } else {
      NODEWISE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(map_));
      NODEWISE_ASSIGN_OR_RETURN(options.names, ParseNameMap(file.text(), map_));
    }
    NODEWISE_ASSIGN_OR_RETURN(auto expected, OpenTensorSource(expected_));
    NODEWISE_ASSIGN_OR_RETURN(auto actual, OpenTensorSource(actual_));
    // A dump of a network of ours may have channels last where the other side
    // has the order of the model.
    expected = InModelOrder(std::move(expected));
    actual = InModelOrder(std::move(actual));
    NODEWISE_ASSIGN_OR_RETURN(const Comparison comparison,
                              CompareSources(*expected, *actual, options));
    Report report;
    report.json.Add("expected", expected->name());
    report.json.Add("actual", actual->name());
    report.json.Add("rule", NameOf(options.compare.rule.kind));
    const auto order = ParseComparisonOrder(sort_);
    if (!order.ok()) return At("--sort", order.status());
    const ComparisonView view{all_ ? 0 : kShownLines, *order};
    // Only two dumps of one graph can say where a difference begins; for all
    // else the status says why not, which is not worth a word.
    const auto where = LocateDumpDifference(expected_, actual_, comparison);
    ShowComparison(comparison, where.ok() ? &*where : nullptr, view, &report);
    if (where.ok()) AddGraph(*where->index, &report.json);
    if (keeps_archive()) AddDigestsOf(*expected, *actual, &report);
    // A dump that was cut short has been compared as far as it goes, and that
    // is shown, but it cannot be called equal.
    if (Differs(comparison)) report.status = Report::Status::kDiffers;
    for (TensorSource* source : {expected.get(), actual.get()}) {
      const absl::Status complete = source->CheckComplete();
      if (!complete.ok()) report.AddError(complete);
    }
    return report;
  }

 private:
  // A .npy file has one tensor, whose name is the file's and says nothing.
  NameMap NamesOfSingleTensors() const {
    const std::filesystem::path expected(expected_), actual(actual_);
    if (expected.extension() != ".npy" || actual.extension() != ".npy") {
      return {};
    }
    return {{expected.stem(), actual.stem()}};
  }

  absl::StatusOr<Report> RunWithModel() const {
    // The search has rules of its own, by operators, and pairs by values.
    const bool judges_otherwise = !rule_.empty() || !atol_.empty() ||
                                  !rtol_.empty() || !threshold_.empty() ||
                                  !map_.empty() || is_fuzzy_ || may_convert_ ||
                                  is_strict_;
    if (judges_otherwise || (IsModel(expected_) && IsModel(actual_))) {
      return InvalidArgument(
          "compare: finds a model, expected a dump of what was compiled from "
          "it beside it, and no option about pairs and rules");
    }
    // Either side may be the model: the dump is what is judged.
    const bool is_second = IsModel(actual_);
    NODEWISE_ASSIGN_OR_RETURN(const ModelSpec spec, SpecOf(model_));
    return DiagnoseDump(is_second ? expected_ : actual_,
                        is_second ? actual_ : expected_, spec);
  }

  static std::string RuleHelp() {
    // A new rule appears in the help by being in the table.
    std::string help = "what judges, bounds unless told:";
    for (const RuleName& row : AllRules())
      help += fmt::format(" {},", row.name);
    help.pop_back();
    return help;
  }

  // A tolerance says which rule it belongs to.
  absl::StatusOr<Rule> ChosenRule() const {
    const bool has_tolerance = !atol_.empty() || !rtol_.empty();
    // Bounds need no number of the user's, so they judge where nothing is said.
    std::string name = rule_;
    if (name.empty() && has_tolerance) name = "tolerance";
    if (name.empty() && !threshold_.empty()) name = "absolute";
    if (name.empty()) name = "bounds";
    auto rule = RuleOfName(name);
    if (!rule.ok()) return At("--rule", rule.status());
    if (rule->kind == Rule::Kind::kTolerance && !has_tolerance) {
      return InvalidArgument(
          "--rule tolerance: found no tolerance, expected --atol or --rtol");
    }
    NODEWISE_RETURN_IF_ERROR(CheckOptionsFit(*rule, has_tolerance));
    Tolerance& tolerance = rule->tolerance;
    NODEWISE_RETURN_IF_ERROR(TakeLimit("--atol", atol_, &tolerance.absolute));
    NODEWISE_RETURN_IF_ERROR(TakeLimit("--rtol", rtol_, &tolerance.relative));
    NODEWISE_RETURN_IF_ERROR(
        TakeLimit("--threshold", threshold_, &tolerance.absolute));
    return rule;
  }

  // A limit that the rule does not look at would be believed to judge.
  absl::Status CheckOptionsFit(const Rule& rule, bool has_tolerance) const {
    if (has_tolerance && rule.kind != Rule::Kind::kTolerance) {
      return InvalidArgument(
          "{}: the rule is {}, expected --rule tolerance with it",
          atol_.empty() ? "--rtol" : "--atol", NameOf(rule.kind));
    }
    if (!threshold_.empty() && rule.kind != Rule::Kind::kAbsolute) {
      return InvalidArgument(
          "--threshold: the rule is {}, expected --rule absolute with it",
          NameOf(rule.kind));
    }
    return absl::OkStatus();
  }

  // What cannot be judged is not fine, unless one side alone has it: networks
  // that were compiled otherwise have other tensors.
  bool Differs(const Comparison& comparison) const {
    using Kind = SkippedTensor::Kind;
    const size_t faults = comparison.CountOf(Verdict::kError) +
                          comparison.CountOf(Verdict::kInconclusive) +
                          comparison.CountOf(Kind::kOtherType) +
                          comparison.CountOf(Kind::kOtherHash);
    const size_t doubts = comparison.CountOf(Verdict::kWarning) +
                          comparison.CountOf(Kind::kMissing);
    return faults > 0 || (is_strict_ && doubts > 0);
  }

  std::string expected_, actual_;
  std::string rule_, atol_, rtol_, threshold_, map_, sort_ = "error";
  bool is_fuzzy_ = false, may_convert_ = false, is_strict_ = false,
       all_ = false;
  ModelOptions model_;
};

}  // namespace

const CommandRow kCompareCommand = {
    "compare", "compares two sets of tensors, and says whether they may differ",
    R"(examples:
  nodewise compare expected.npz actual.npz
  nodewise compare dumps/run_0 dumps/run_1 --json
  nodewise compare a.npz b.npz --atol 1e-4 --rtol 1e-3
  nodewise compare onnx.npz dump --fuzzy --rule ascend
  nodewise compare dump model.onnx

Of two dumps of one graph it says which node differs though what it reads is
alike: there it begins.

Beside the model that it was compiled from, a dump is searched for the broken
node as locate --reference MODEL does it, and nothing of it runs.

Exit status: 0 if they agree, 1 if a tensor is wrong or inconclusive, or of
another type, 2 if nothing could be compared, or a dump is cut short.
)",
    &MakeCommand<CompareTensorSources>};

}  // namespace nodewise
