#include "nodewise/autotest/autotest_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "contrib/lab/autotest/candidates/run_executor.h"
#include "contrib/lab/autotest/draw/shrink_case.h"
#include "contrib/lab/autotest/networks/case_network.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 3;  // For a finding, to see whether it is flaky.

struct Turn {
  const OperatorDef* def = nullptr;
  bool is_backward = false;
};

// Operators take turns in this order. A gradient comes right behind its
// operator, so that a run that ends early has mostly tested both.
std::vector<Turn> AlternatingCases(absl::Span<const OperatorDef* const> rows,
                                   AutotestWith with) {
  std::vector<Turn> turns;
  for (const OperatorDef* row : rows) {
    if (with != AutotestWith::kBackward) turns.push_back({row, false});
    if (with != AutotestWith::kForward && HasBackwardSpace(*row)) {
      turns.push_back({row, true});
    }
  }
  return turns;
}

// The streams of a configuration, and of its sets. Each configuration has its
// own, so that any can be drawn without those before it: by another shard, or
// again.
Choices ChoicesOf(uint64_t seed, uint64_t number, uint64_t attempt) {
  return Choices(
      RandomSource(seed, fmt::format("case {}.{}", number, attempt)));
}
uint64_t SeedOfSets(uint64_t seed, uint64_t number) {
  return RandomSource(seed, fmt::format("sets of case {}", number)).Next();
}
Choices ChoicesOfSet(uint64_t seed_of_sets, uint64_t set) {
  return Choices(RandomSource(seed_of_sets + set));
}

// A case that can be drawn again, by its number and those of its sets.
struct NumberedCase : PreparedCase {
  using PreparedCase::PreparedCase;
  std::string name;  // Under which it is counted.
  uint64_t number = 0;
  std::vector<uint64_t> choices;
  std::vector<uint64_t> set_numbers;
};

// The cause of a finding tells what it is about: the operator, how it fails,
// which attributes it needs, and what the wrong elements have in common. The
// case is shrunk before, so that attributes that do not matter are gone.
// Numbers and shapes are left out, or one fault would count as many.
std::string CauseOf(const FailingCase& failing) {
  std::vector<std::string> parts = {
      TitleOf(failing.made),
      failing.made.backward != nullptr ? "backward" : "forward",
      std::string(NameOf(failing.verdict.outcome)),
      fmt::format("output {}", failing.verdict.output)};
  for (const NamedAttr& attr : failing.made.configuration.attributes) {
    parts.push_back(attr.name);
  }
  const auto& comparison = failing.verdict.comparison;
  if (comparison.has_value()) {
    parts.push_back(comparison->type.substr(0, comparison->type.find(' ')));
    if (comparison->metrics.non_finite() > 0) parts.emplace_back("not finite");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

class AutotestRun {
 public:
  AutotestRun(const CaseSource& source, Candidate& candidate,
              const AutotestOptions& options)
      : source_(source), candidate_(candidate), options_(options) {}

  // Configurations are gathered until the candidate has as many as it likes at
  // once; the time is looked at before each, as one batch may take long.
  AutotestResult Run() {
    const auto start = Clock::now();
    const auto is_over = [&] {
      return options_.seconds > 0 &&
             std::chrono::duration<double>(Clock::now() - start).count() >=
                 options_.seconds;
    };
    const uint64_t sets = std::max<uint64_t>(options_.sets, 1);
    std::vector<NumberedCase> batch;
    if (source_.is_empty) return std::move(result_);
    for (uint64_t number = options_.shard; number * sets < options_.runs;
         number += options_.shards) {
      if (is_over()) break;
      Prepare(number, std::min(sets, options_.runs - number * sets), &batch);
      if (batch.size() >= candidate_.jobs_at_once()) Flush(&batch);
    }
    Flush(&batch);
    return std::move(result_);
  }

 private:
  // Sets that the reference refuses never reach the candidate.
  void Prepare(uint64_t number, uint64_t sets,
               std::vector<NumberedCase>* batch) {
    const std::string name = source_.name_of(number);
    OperatorCount& count = result_.operators[name];
    std::vector<uint64_t> drawn_with;
    auto made = DrawNumber(source_, options_.seed, number, &drawn_with,
                           &count.refused_draws);
    if (!made.ok()) {
      count.why_no_case = std::string(made.status().message());
      return;
    }
    ++count.configurations;
    NumberedCase prepared(*std::move(made));
    prepared.name = name;
    prepared.number = number;
    prepared.choices = std::move(drawn_with);
    const uint64_t seed_of_sets = SeedOfSets(options_.seed, number);
    for (uint64_t set = 0; set < sets; ++set) {
      Choices choices = ChoicesOfSet(seed_of_sets, set);
      auto values = DrawSet(prepared.made, &choices);
      if (!values.ok()) {
        count.why_no_case = std::string(values.status().message());
        return;
      }
      ++result_.runs;
      if (prepared.Add(*std::move(values))) {
        prepared.set_numbers.push_back(set);
      } else {
        ++count.outcomes[static_cast<size_t>(CaseOutcome::kReferenceRefuses)];
      }
    }
    if (!prepared.sets.empty()) batch->push_back(std::move(prepared));
  }

  // Answers are taken as they come: a finding is cut and shrunk in the middle
  // of the batch, with other jobs for the same candidate.
  void Flush(std::vector<NumberedCase>* batch) {
    if (batch->empty()) return;
    RunPrepared(candidate_, *batch,
                [this](NumberedCase& prepared, CandidateAnswer answer) {
                  AddAnswer(&prepared, std::move(answer));
                });
    batch->clear();
    if (options_.progress != nullptr) {
      options_.progress(result_.runs, result_.findings.size());
    }
  }

  void AddAnswer(NumberedCase* prepared, CandidateAnswer answer) {
    OperatorCount& count = result_.operators[prepared->name];
    bool has_found = false;
    for (size_t set = 0; set < prepared->sets.size(); ++set) {
      const CaseVerdict verdict = prepared->reference->Judge(
          prepared->sets[set], prepared->expected[set], answer.sets[set]);
      ++count.outcomes[static_cast<size_t>(verdict.outcome)];
      if (absl::IsUnavailable(answer.sets[set].status())) {
        result_.unavailable.Update(answer.sets[set].status());
      }
      if (verdict.outcome == CaseOutcome::kCandidateRefuses) {
        count.why_refused = verdict.reason;
      }
      if (!IsFinding(verdict.outcome) || has_found) continue;
      // The other sets of a configuration say the same, most of the time.
      has_found = true;
      AddFinding(prepared, set, std::move(answer.sets[set]), verdict);
    }
  }

  void AddFinding(NumberedCase* prepared, size_t set, CandidateOutputs actual,
                  const CaseVerdict& verdict) {
    FailingCase failing{prepared->choices,
                        ChoicesMadeFor(*prepared, set),
                        prepared->made,
                        prepared->sets[set],
                        prepared->expected[set],
                        std::move(actual),
                        verdict};
    // The limit counts findings by the part that fails, which for a single
    // operator is the whole case.
    FailingCase part = failing;
    CutCase(candidate_, options_.most_tries, options_.most_shrinking_seconds,
            &part);
    size_t& looked_at = looked_at_[TitleOf(part.made)];
    if (looked_at >= options_.most_findings) {
      ++result_.not_looked_at;
      return;
    }
    ++looked_at;  // Before shrinking, which may end at a cause that is known.
    const auto draw = [this, number = prepared->number](Choices* choices) {
      return source_.draw(number, choices);
    };
    const size_t tries = ShrinkCase(draw, candidate_, options_.most_tries,
                                    options_.most_shrinking_seconds, &failing);
    // A slow candidate leaves ShrinkCase no time for cuts, and then the part
    // that was cut before is the simpler case.
    if (CountOperations(part) < CountOperations(failing)) failing = part;
    const std::string cause = CauseOf(failing);
    const auto known =
        std::ranges::find(result_.findings, cause, &AutotestFinding::cause);
    if (known != result_.findings.end()) {
      ++known->times;
      return;
    }
    result_.findings.push_back({.made = failing.made,
                                .set = failing.set,
                                .verdict = failing.verdict,
                                .expected = failing.expected,
                                .actual = failing.actual,
                                .configuration = prepared->number,
                                .set_number = prepared->set_numbers[set],
                                .tries = tries,
                                .is_flaky = IsFlaky(failing),
                                .cause = cause});
  }

  // The choices of a set are not kept but drawn again: only sets that fail need
  // them, which are few.
  std::vector<uint64_t> ChoicesMadeFor(const NumberedCase& prepared,
                                       size_t set) const {
    Choices choices = ChoicesOfSet(SeedOfSets(options_.seed, prepared.number),
                                   prepared.set_numbers[set]);
    (void)DrawSet(prepared.made, &choices);
    return ValuesOf(choices.made());
  }

  // A gradient counts as many operations as the network that it differentiates.
  static size_t CountOperations(const FailingCase& failing) {
    return SubjectOf(failing.made).order().size();
  }

  // One job, so that a candidate that compiles its networks does so once.
  bool IsFlaky(const FailingCase& failing) {
    const std::vector<std::vector<NDArray>> sets(kRepeats, failing.set.inputs);
    const CandidateJob job{failing.made.network.get(), sets,
                           failing.made.backward.get()};
    const CaseReference reference(failing.made);
    const auto answers = RunJobs(candidate_, {&job, 1});
    return std::ranges::any_of(
        answers[0].sets, [&](const CandidateOutputs& outputs) {
          return reference.Judge(failing.set, failing.expected, outputs)
                     .outcome != failing.verdict.outcome;
        });
  }

  const CaseSource& source_;
  Candidate& candidate_;
  const AutotestOptions& options_;
  AutotestResult result_;
  std::map<std::string, size_t> looked_at_;  // By rough cause.
};

}  // namespace

uint64_t AutotestResult::CountOf(CaseOutcome outcome) const {
  uint64_t all = 0;
  for (const auto& [name, count] : operators) {
    all += count.outcomes[static_cast<size_t>(outcome)];
  }
  return all;
}

std::unique_ptr<CaseSource> OperatorSource(
    absl::Span<const OperatorDef* const> rows, AutotestWith with) {
  const std::vector<Turn> turns = AlternatingCases(rows, with);
  return std::make_unique<CaseSource>(CaseSource{
      [turns](uint64_t number) {
        const Turn& turn = turns[number % turns.size()];
        return fmt::format("{} {}{}", turn.def->name, turn.def->since,
                           turn.is_backward ? " backward" : "");
      },
      [turns](uint64_t number, Choices* choices) {
        const Turn& turn = turns[number % turns.size()];
        return DrawCase(*turn.def, turn.is_backward, choices);
      },
      turns.empty()});
}

// A case whose gradient cannot be made counts as refused, and is drawn again.
std::unique_ptr<CaseSource> GradientSource(std::unique_ptr<CaseSource> source) {
  CaseSource forward = std::move(*source);
  source->name_of = [name_of = std::move(forward.name_of)](uint64_t number) {
    return name_of(number) + " backward";
  };
  source->draw = [draw = std::move(forward.draw)](
                     uint64_t number,
                     Choices* choices) -> absl::StatusOr<OperatorCase> {
    NODEWISE_ASSIGN_OR_RETURN(const OperatorCase made, draw(number, choices));
    return BackwardOf(made);
  };
  return source;
}

// Each source gets numbers without gaps, so that one which takes turns itself
// leaves none out.
std::unique_ptr<CaseSource> AlternatingCases(
    std::unique_ptr<CaseSource> first, std::unique_ptr<CaseSource> second) {
  const CaseSource both[] = {std::move(*first), std::move(*second)};
  return std::make_unique<CaseSource>(CaseSource{
      [both](uint64_t number) { return both[number % 2].name_of(number / 2); },
      [both](uint64_t number, Choices* choices) {
        return both[number % 2].draw(number / 2, choices);
      },
      both[0].is_empty || both[1].is_empty});
}

AutotestResult RunAutotest(const CaseSource& source, Candidate& candidate,
                           const AutotestOptions& options) {
  return AutotestRun(source, candidate, options).Run();
}

// Operators take turns, so that a short run has seen each.
AutotestResult RunAutotest(absl::Span<const OperatorDef* const> rows,
                           Candidate& candidate,
                           const AutotestOptions& options) {
  return RunAutotest(*OperatorSource(rows, options.with), candidate, options);
}

absl::StatusOr<OperatorCase> DrawNumber(
    absl::Span<const OperatorDef* const> rows, uint64_t seed, uint64_t number,
    std::vector<uint64_t>* choices, uint64_t* refused) {
  return DrawNumber(*OperatorSource(rows), seed, number, choices, refused);
}

// Each attempt has a stream of its own: what the first has used up does not
// matter to the second.
absl::StatusOr<OperatorCase> DrawNumber(const CaseSource& source, uint64_t seed,
                                        uint64_t number,
                                        std::vector<uint64_t>* choices,
                                        uint64_t* refused) {
  absl::Status last;
  for (uint64_t attempt = 0; attempt < kMostRefusedDraws; ++attempt) {
    Choices drawn = ChoicesOf(seed, number, attempt);
    auto made = source.draw(number, &drawn);
    if (made.ok()) {
      *choices = ValuesOf(drawn.made());
      return made;
    }
    ++*refused;
    last = made.status();
  }
  return NotFound("none of {} draws is a legal case; the last reason: {}",
                  kMostRefusedDraws, MessageOf(last));
}

// A variant that cannot be made says nothing, and one that refuses the case has
// not made it right: only what agrees, or may agree, makes the finding go away.
std::string Attribute(const AutotestFinding& finding,
                      const std::vector<CandidateVariant>& variants) {
  if (variants.empty()) return "nothing of this candidate can be switched off";
  const CaseReference reference(finding.made);
  std::vector<std::string> gone;
  for (const CandidateVariant& variant : variants) {
    const auto candidate = variant.make();
    if (!candidate.ok()) continue;
    const CandidateOutputs actual =
        RunOnce(**candidate, *finding.made.network, finding.set.inputs,
                finding.made.backward.get());
    const CaseVerdict verdict =
        reference.Judge(finding.set, finding.expected, actual);
    if (verdict.outcome <= CaseOutcome::kInconclusive) {
      gone.push_back(variant.without);
    }
  }
  if (!gone.empty()) {
    return fmt::format("goes away without {}",
                       fmt::join(gone, ", or without "));
  }
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> names;
  for (const CandidateVariant& variant : variants) {
    if (names.size() < kMostNamed) names.push_back(variant.without);
  }
  return fmt::format("stays, no matter what is switched off ({}{})",
                     fmt::join(names, ", "),
                     variants.size() > kMostNamed ? ", ..." : "");
}

}  // namespace nodewise
