#include "nodewise/autotest/learn_deviations.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "fmt/format.h"
#include "nodewise/autotest/autotest_run.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/compare/compare.h"
#include "nodewise/locate/cause.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

using DeviationKind = KnownDeviation::Kind;

// Runtimes are years behind ONNX's newest opset, so that operators are tried as
// they are in this one.
constexpr int kLearnedOpset = 17;
// The largest error that still counts as an approximation.
constexpr double kMostTimes = 256;
// A kernel that rounds once more, or once less, is off by one or two roundings
// for each step of the operator.
constexpr double kMostRoundings = 8;
// The largest error of results that are all near 0, in halves of an ulp of 1.
constexpr double kTiny = 64;
// How far numbers reach from 0, and how far they do in every other set.
constexpr double kFar = 4, kFurther = 32;
// To find out why takes up to seconds. Small errors are alike and need few
// explanations; a large one that stays unexplained counts as those before it.
constexpr size_t kMostExplained = 24;
constexpr size_t kMostSmallExplained = 4;

// Learns about one operator with results of one type.
class Group {
 public:
  Group(std::string operation, std::string dtype)
      : learned_{std::move(operation), std::move(dtype)} {}

  void CountJudged() { ++learned_.judged; }

  // Takes a case that no correct kernel makes. After the first fault the others
  // are only counted: the operator gets no row in any case.
  void Add(const Network& network, const ValueSet& set,
           const std::vector<NDArray>& expected,
           const std::vector<NDArray>& found, const CaseVerdict& verdict) {
    ++learned_.deviating;
    if (!learned_.fault.empty()) return;
    if (!verdict.comparison.has_value()) return SetFault(verdict.reason);
    const TensorComparison& worst = *verdict.comparison;
    const double error = KnownError(worst);
    const bool is_small =
        std::isfinite(error) && (!worst.is_large || error <= kTiny);
    size_t& explained = is_small ? small_explained_ : explained_;
    const size_t most = is_small ? kMostSmallExplained : kMostExplained;
    std::optional<Cause> cause;
    if (explained++ < most) {
      cause =
          CauseOf({network, set.inputs, expected, found, verdict.output, worst},
                  AllOperators());
    } else if (!is_small) {
      return;  // As those before it: the largest error would be a guess.
    }
    const std::optional<KnownDeviation> row = RowFor(worst, error, cause);
    if (row.has_value()) return Keep(*row);
    SetFault(FaultText(worst, cause));
  }

  // A fault takes all rows with it: an approximation that was measured beside a
  // fault may be a part of the fault.
  LearnedOperator Finish() && {
    if (learned_.fault.empty()) {
      for (auto& [key, row] : rows_) learned_.rows.push_back(std::move(row));
    }
    return std::move(learned_);
  }

 private:
  void SetFault(std::string words) { learned_.fault = std::move(words); }

  // Returns the class that an error is of, if any. The cause, where one was
  // found, is asked before the size of the error: a step or a saturation may be
  // of any size. What is left is an approximation or a rounding if it is small,
  // and the rounding to a shorter type if the cause says so.
  std::optional<KnownDeviation> RowFor(
      const TensorComparison& worst, double error,
      const std::optional<Cause>& cause) const {
    KnownDeviation row{DeviationKind::kApproximation, learned_.operation,
                       learned_.dtype};
    const auto is = [&](Cause::Kind kind) {
      return cause.has_value() && cause->kind == kind;
    };
    if (is(Cause::Kind::kStep) || is(Cause::Kind::kSaturation)) {
      row.kind = is(Cause::Kind::kStep) ? DeviationKind::kStep
                                        : DeviationKind::kSaturation;
      return row;
    }
    if (is(Cause::Kind::kInfinity) || !std::isfinite(error)) {
      return std::nullopt;
    }
    // Where all results are near 0, any kind of mistake fits them, so that it
    // proves nothing.
    if (is(Cause::Kind::kMistake) && error > kTiny) return std::nullopt;
    row.times = std::max(error, 1.0);
    const bool is_small = !worst.is_large || error <= kTiny;
    const bool is_short =
        learned_.dtype == "float16" || learned_.dtype == "bfloat16";
    if (is_small && error <= (is_short ? kMostRoundings : kMostTimes)) {
      if (is_short) row.kind = DeviationKind::kRounding;
      return row;
    }
    // Results that are rounded to a shorter type are off by more than that.
    if (!is(Cause::Kind::kPrecision)) return std::nullopt;
    row.kind = DeviationKind::kShortType;
    row.type = cause->type;
    return row;
  }

  // The worst element, with as many digits as tell it from the right one.
  static std::string FaultText(const TensorComparison& worst,
                               const std::optional<Cause>& cause) {
    std::string text = worst.judgement.reason;
    if (!worst.is_equal()) {
      const ElementDifference& at = worst.Worst();
      const auto [found, expected] = FormatDistinct(at.actual, at.expected);
      text += fmt::format(" (found {}, expected {})", found, expected);
    }
    if (cause.has_value()) text += ": its " + cause->words;
    return text;
  }

  void Keep(const KnownDeviation& row) {
    const auto [at, is_new] = rows_.emplace(std::pair(row.kind, row.type), row);
    at->second.times = std::max(at->second.times, row.times);
  }

  LearnedOperator learned_;
  std::map<std::pair<DeviationKind, std::string>, KnownDeviation> rows_;
  size_t explained_ = 0;
  size_t small_explained_ = 0;
};

class DeviationLearner {
 public:
  DeviationLearner(const std::vector<const OperatorDef*>& rows,
                   Candidate& candidate, const LearnOptions& options)
      : rows_(rows), candidate_(candidate), options_(options) {}

  // Progress is told once for each batch, since its cases run together.
  absl::StatusOr<Learned> Run(std::string runtime) {
    const size_t all = rows_.size() * options_.configurations;
    std::vector<PreparedCase> batch;
    for (size_t number = 0; number < all; ++number) {
      Prepare(number, &batch);
      if (batch.size() < candidate_.jobs_at_once()) continue;
      Flush(&batch);
      if (options_.progress != nullptr) options_.progress(number + 1, all);
    }
    Flush(&batch);
    if (learned_.sets == 0) {
      return FailedPrecondition(
          "{} ran no operator{}{}", candidate_.name(),
          why_refused_.empty() ? "" : ", first: ",
          why_refused_.substr(0, why_refused_.find('\n')));
    }
    return Finish(std::move(runtime));
  }

 private:
  // Operators take turns, as in a test. A set that the reference refuses is
  // left out, and so is a configuration that cannot be drawn.
  void Prepare(size_t number, std::vector<PreparedCase>* batch) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    auto made = DrawNumber(*source_, options_.seed, number, &choices, &refused);
    if (!made.ok()) return;
    PreparedCase lesson(*std::move(made));
    const Configuration further = WithWiderRanges(lesson.made.configuration);
    for (uint64_t set = 0; set < options_.sets; ++set) {
      Choices drawn(RandomSource(options_.seed,
                                 fmt::format("lesson {}.{}", number, set)));
      auto values = DrawInputs(
          set % 2 == 0 ? lesson.made.configuration : further, &drawn);
      if (!values.ok()) return;
      lesson.Add({*std::move(values)});
    }
    if (!lesson.sets.empty()) batch->push_back(std::move(lesson));
  }

  // Far from zero many functions flatten, and kernels approximate them in
  // another way there.
  static Configuration WithWiderRanges(Configuration configuration) {
    for (CaseInput& input : configuration.inputs) {
      InputDomain& domain = input.domain;
      if (domain.is_whole) continue;
      if (domain.least == -kFar) domain.least = -kFurther;
      if (domain.most == kFar) domain.most = kFurther;
    }
    return configuration;
  }

  void Flush(std::vector<PreparedCase>* batch) {
    if (!batch->empty()) {
      RunPrepared(
          candidate_, *batch,
          [this](const PreparedCase& lesson, const CandidateAnswer& answer) {
            LearnFrom(lesson, answer);
          });
    }
    batch->clear();
  }

  // A set that ended in a crash or a hang counts as judged, and is a fault.
  void LearnFrom(const PreparedCase& lesson, const CandidateAnswer& answer) {
    const std::string title(TitleOf(lesson.made));
    tried_.insert(title);
    for (size_t set = 0; set < lesson.sets.size(); ++set) {
      const CandidateOutputs& found = answer.sets[set];
      const CandidateOutputs& expected = lesson.expected[set];
      const CaseVerdict verdict =
          lesson.reference->Judge(lesson.sets[set], expected, found);
      if (verdict.outcome == CaseOutcome::kCandidateRefuses) {
        why_refused_ = verdict.reason;
        continue;
      }
      ++learned_.sets;
      // Groups are by the type of the output that was judged worst.
      const NDArray& output = (*expected)[verdict.output];
      const std::string dtype = ToString(output.dtype());
      Group& group =
          groups_.try_emplace({title, dtype}, title, dtype).first->second;
      group.CountJudged();
      if (!IsFinding(verdict.outcome)) continue;
      group.Add(*lesson.made.network, lesson.sets[set], *expected,
                found.ok() ? *found : std::vector<NDArray>(), verdict);
    }
  }

  // Operators that were tried and have no group have been refused each time.
  Learned Finish(std::string runtime) {
    learned_.known.runtime = std::move(runtime);
    learned_.known.instructions = InstructionSet();
    for (auto& [key, group] : groups_) {
      tried_.erase(key.first);
      LearnedOperator one = std::move(group).Finish();
      learned_.known.rows.insert(learned_.known.rows.end(), one.rows.begin(),
                                 one.rows.end());
      learned_.operators.push_back(std::move(one));
    }
    learned_.refused.assign(tried_.begin(), tried_.end());
    return std::move(learned_);
  }

  const std::vector<const OperatorDef*>& rows_;
  const std::unique_ptr<CaseSource> source_ = OperatorSource(rows_);
  Candidate& candidate_;
  const LearnOptions& options_;
  std::map<std::pair<std::string, std::string>, Group> groups_;
  std::set<std::string> tried_;
  std::string why_refused_;
  Learned learned_;
};

// Begins an object with what rows and faults have in common.
void BeginOperator(const LearnedOperator& one, JsonWriter* json) {
  json->BeginObject();
  json->Add("operator", one.operation);
  json->Add("dtype", one.dtype);
  json->Add("judged", one.judged);
  json->Add("deviating", one.deviating);
}

void ShowRows(const LearnedOperator& one, TextTable* table, JsonWriter* json) {
  for (const KnownDeviation& row : one.rows) {
    table->AddRow({one.operation, one.dtype, fmt::format("{}", one.judged),
                   fmt::format("{}", one.deviating), WordsOf(row)});
    BeginOperator(one, json);
    json->Add("kind", NameOf(row.kind));
    if (!row.type.empty()) json->Add("type", row.type);
    if (HasTimes(row.kind)) json->Add("bound", row.times);
    json->EndObject();
  }
}

void ShowFault(const LearnedOperator& one, Report* report) {
  report->text += fmt::format("fault: {} of {}: {}\n", one.operation, one.dtype,
                              Printable(one.fault));
  BeginOperator(one, &report->json);
  report->json.Add("reason", one.fault);
  report->json.EndObject();
}

}  // namespace

std::vector<const OperatorDef*> RowsToLearn(const OpSet& operators) {
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : operators.rows()) {
    if (!HasSpace(*row) || !row->domain.empty()) continue;
    const OperatorDef* there = operators.Find("", row->name, kLearnedOpset);
    // An operator that is newer than this opset is tried in its first version.
    const bool is_first = there == nullptr && row->since > kLearnedOpset;
    if (there != row && !is_first) continue;
    const bool is_there = std::ranges::any_of(
        rows, [&](const OperatorDef* one) { return one->name == row->name; });
    if (!is_there) rows.push_back(row);
  }
  return rows;
}

absl::StatusOr<Learned> LearnDeviations(
    const std::vector<const OperatorDef*>& rows, std::string runtime,
    Candidate& candidate, const LearnOptions& options) {
  return DeviationLearner(rows, candidate, options).Run(std::move(runtime));
}

absl::StatusOr<std::string> RuntimeOf(ForeignTarget program) {
  NODEWISE_ASSIGN_OR_RETURN(LeastTask task, MakeLeastTask());
  program.network = std::make_shared<const Network>(std::move(task.network));
  const std::string name = program.command.name;
  NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                            MakeForeignRunner(std::move(program)));
  const std::vector<NamedTensor> inputs = {{"x", task.input}};
  NODEWISE_ASSIGN_OR_RETURN(const RunResult result, runner->Run(inputs));
  if (!result.runtime.empty()) return result.runtime;
  return FailedPrecondition(
      "{}: does not say which runtime it is, expected \"runtime\" in its "
      "answer, such as \"onnxruntime 1.32.0\"",
      name);
}

// Rows are shown as a table, faults one by one, since each is a text.
Report ReportOf(const Learned& learned, const LearnOptions& options,
                const std::string& file) {
  Report report;
  report.text +=
      fmt::format("{} on {}: {} of operators and types, seed {}\n\n",
                  Printable(learned.known.runtime), learned.known.instructions,
                  CountOf(learned.sets, "set"), options.seed);
  report.json.Add("runtime", learned.known.runtime);
  report.json.Add("instructions", learned.known.instructions);
  report.json.Add("seed", options.seed);
  report.json.Add("sets", learned.sets);
  TextTable table;
  table.AddRow({"Operator", "Type", "Sets", "Deviate", "Is"});
  report.json.BeginArray("known");
  for (const LearnedOperator& one : learned.operators) {
    ShowRows(one, &table, &report.json);
  }
  report.json.EndArray();
  if (!learned.known.rows.empty()) {
    report.text.Add(table, 0, 0);
    report.text += "\n";
  }
  report.json.BeginArray("faults");
  for (const LearnedOperator& one : learned.operators) {
    if (one.fault.empty()) continue;
    ShowFault(one, &report);
    report.status = Report::Status::kDiffers;
  }
  report.json.EndArray();
  if (!learned.refused.empty()) {
    report.text += fmt::format("not run: {}\n", ListOf(learned.refused, 8));
  }
  report.json.Add("refused", learned.refused);
  report.text +=
      fmt::format("{}{}\n", CountOf(learned.known.rows.size(), "row"),
                  file.empty() ? ""
                               : fmt::format(" in {}, for {}", Printable(file),
                                             NameOf(Way::kKnownFile)));
  return report;
}

}  // namespace nodewise
