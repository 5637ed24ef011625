#include "contrib/lab/autotest/draw/shrink_case.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "nodewise/op/tensor_loops.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Values = std::vector<uint64_t>;

// Lengths of stretches of choices that are left out on trial, beside whole
// groups.
constexpr size_t kLengths[] = {8, 4, 2, 1};

// Tensors of more elements are not made simpler one by one.
constexpr size_t kMostSingleElements = 64;
// A batch is judged in its order, and all behind the first success are for
// nothing.
constexpr size_t kMostTriesAtOnce = 64;
// The share of the time for other choices; what follows them says most about
// the cause.
constexpr double kShareOfChoices = 0.6;

// Shrinking must not wander from one fault to another one: the outcome stays,
// and numbers that are not finite do not become a small difference.
bool FailsAlike(const CaseVerdict& a, const CaseVerdict& b) {
  if (a.outcome != b.outcome) return false;
  const auto has_non_finite = [](const CaseVerdict& verdict) {
    return verdict.comparison.has_value() &&
           verdict.comparison->metrics.non_finite() > 0;
  };
  return has_non_finite(a) == has_non_finite(b);
}

// Makes a case simpler in three stages: by other choices, which reach any
// simpler case that the space draws; by cutting a network, which keeps the
// tensors that the reference makes at the cut; and by smaller sides and simpler
// elements, which no choice reaches. Each stage keeps some of the tries and of
// the time for those behind it.
class Shrinker {
 public:
  Shrinker(DrawOfCase draw, Candidate& candidate, size_t most, double seconds,
           FailingCase* best)
      : draw_(std::move(draw)),
        candidate_(candidate),
        most_(most),
        end_(After(seconds)),
        choices_end_(After(seconds * kShareOfChoices)),
        best_(*best) {}

  void Cut() {
    limit_ = most_;
    if (!best_.made.configuration.is_network()) return;
    ShrinkBy([this] { return CutsOf(best_); });
  }

  size_t Run() {
    // A quarter is left for the elements.
    limit_ = most_ - most_ / 4;
    chooses_ = true;
    bool has_changed = true;
    while (has_changed && HasTriesLeft()) {
      has_changed = ShrinkConfiguration();
      has_changed = ShrinkSet() || has_changed;
    }
    chooses_ = false;
    limit_ = most_;
    Cut();
    // A part that was cut out reads tensors as large as they were before, and
    // choices make a side shorter by its end alone.
    do {
      has_changed = ShrinkBy([this] { return SmallerSidesOf(best_); });
      has_changed = ShrinkElements() || has_changed;
    } while (has_changed && HasTriesLeft());
    return tries_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Build = CaseBuild;

  static Clock::time_point After(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(seconds));
  }

  bool HasTriesLeft() const {
    return tries_ < limit_ && Clock::now() < (chooses_ ? choices_end_ : end_);
  }

  // Tries cases in their order from `begin` on, a batch at a time, until one
  // fails alike, which becomes the best one. Returns its place, or how many
  // there are if none does.
  size_t TryInOrder(size_t begin, const std::vector<Build>& builds) {
    const size_t most = std::min(kMostTriesAtOnce, candidate_.jobs_at_once());
    std::vector<FailingCase> batch;
    std::vector<size_t> places;
    for (size_t i = begin; i < builds.size() && HasTriesLeft(); ++i) {
      auto made = builds[i]();
      if (made.ok()) {
        ++tries_;
        batch.push_back(*std::move(made));
        places.push_back(i);
      }
      const bool is_last = i + 1 == builds.size() || !HasTriesLeft();
      if (batch.size() < most && !is_last) continue;
      const size_t first = TakeFirst(&batch);
      if (first < places.size()) return places[first];
      batch.clear();
      places.clear();
    }
    return builds.size();
  }

  // Makes the best case simpler in the ways that `ways` returns for it, until
  // none of them helps. After a success the ways behind are tried first: those
  // before have not helped just now.
  bool ShrinkBy(const std::function<std::vector<Build>()>& ways) {
    bool has_changed = false;
    size_t begin = 0;
    size_t failed = 0;  // Since the last success.
    while (HasTriesLeft()) {
      const std::vector<Build> builds = ways();
      if (failed >= builds.size()) break;
      const size_t place = TryInOrder(begin, builds);
      failed += place - std::min(begin, place);
      if (place < builds.size()) {
        has_changed = true;
        failed = 0;
        begin = place;
      } else if (begin == 0) {
        break;
      } else {
        begin = 0;
      }
    }
    return has_changed;
  }

  size_t TakeFirst(std::vector<FailingCase>* batch) {
    if (batch->empty()) return 0;
    std::vector<std::vector<std::vector<NDArray>>> sets;
    for (const FailingCase& each : *batch) sets.push_back({each.set.inputs});
    std::vector<CandidateJob> jobs;
    for (size_t i = 0; i < batch->size(); ++i) {
      jobs.push_back({(*batch)[i].made.network.get(), sets[i],
                      (*batch)[i].made.backward.get()});
    }
    std::vector<CandidateAnswer> answers = RunJobs(candidate_, jobs);
    for (size_t i = 0; i < batch->size(); ++i) {
      FailingCase& each = (*batch)[i];
      each.actual = std::move(answers[i].sets[0]);
      each.verdict =
          CaseReference(each.made).Judge(each.set, each.expected, each.actual);
      if (!FailsAlike(each.verdict, best_.verdict)) continue;
      best_ = std::move(each);
      return i;
    }
    return batch->size();
  }

  static absl::Status Expect(FailingCase* each) {
    each->expected = CaseReference(each->made).Run(each->set.inputs);
    return each->expected.status();
  }

  // Fails if the case is not simpler than the best one so far: a draw adds
  // choices that are missing, and makes those smaller that are too large.
  absl::StatusOr<FailingCase> Redraw(const Values& configuration,
                                     const Values& set) const {
    FailingCase made;
    Choices first(configuration);
    NODEWISE_ASSIGN_OR_RETURN(made.made, draw_(&first));
    Choices second(set);
    NODEWISE_ASSIGN_OR_RETURN(made.set, DrawSet(made.made, &second));
    made.configuration_choices = ValuesOf(first.made());
    made.set_choices = ValuesOf(second.made());
    if (!IsSimpler(made.configuration_choices, best_.configuration_choices) &&
        !(made.configuration_choices == best_.configuration_choices &&
          IsSimpler(made.set_choices, best_.set_choices))) {
      return AlreadyExists("no simpler");
    }
    NODEWISE_RETURN_IF_ERROR(Expect(&made));
    return made;
  }

  // Drawing the best case again by `redo` gives its choices with their limits
  // and groups; `build` draws a case from each simpler sequence.
  bool ShrinkChoices(
      const Values FailingCase::*which,
      const std::function<void(Choices*)>& redo,
      const std::function<absl::StatusOr<FailingCase>(const Values&)>& build) {
    return ShrinkBy([&] {
      Choices choices(best_.*which);
      redo(&choices);
      std::vector<Build> builds;
      for (Values& simpler :
           SimplerSequences(choices.made(), choices.groups(), most_)) {
        builds.push_back(
            [&build, values = std::move(simpler)] { return build(values); });
      }
      return builds;
    });
  }

  bool ShrinkConfiguration() {
    return ShrinkChoices(
        &FailingCase::configuration_choices,
        [this](Choices* choices) { (void)draw_(choices); },
        [this](const Values& values) {
          return Redraw(values, best_.set_choices);
        });
  }

  bool ShrinkSet() {
    return ShrinkChoices(
        &FailingCase::set_choices,
        [this](Choices* choices) { (void)DrawSet(best_.made, choices); },
        [this](const Values& values) {
          return Redraw(best_.configuration_choices, values);
        });
  }

  absl::StatusOr<FailingCase> WithNumbers(size_t input,
                                          std::vector<double> numbers) const {
    FailingCase made = best_;
    const NDArray& before = best_.set.inputs[input];
    NODEWISE_ASSIGN_OR_RETURN(
        made.set.inputs[input],
        TensorOfDoubles(before.dtype(), before.shape(), numbers));
    NODEWISE_RETURN_IF_ERROR(Expect(&made));
    return made;
  }

  bool ShrinkElements() {
    return ShrinkBy([this] {
      std::vector<Build> builds;
      size_t given = 0;
      for (const CaseInput& input : best_.made.configuration.inputs) {
        if (!input.is_given || input.is_constant) continue;
        if (!input.fixed.defined()) AddSimplerNumbers(given, &builds);
        ++given;
      }
      // The tensors behind those of the configuration are cotangents.
      for (; given < best_.set.inputs.size(); ++given) {
        AddSimplerNumbers(given, &builds);
      }
      return builds;
    });
  }

  void AddSimplerNumbers(size_t input, std::vector<Build>* builds) const {
    const std::vector<double> numbers = ToDoubles(best_.set.inputs[input]);
    const auto add = [&](std::vector<double> simpler) {
      if (simpler == numbers) return;
      builds->push_back([this, input, simpler = std::move(simpler)] {
        return WithNumbers(input, simpler);
      });
    };
    add(std::vector<double>(numbers.size(), 0));
    for (size_t length = numbers.size() / 2; length > 0; length /= 2) {
      if (length == 1 && numbers.size() > kMostSingleElements) break;
      for (size_t begin = 0; begin < numbers.size(); begin += length) {
        std::vector<double> zeros = numbers;
        std::ranges::fill(absl::MakeSpan(zeros).subspan(begin, length), 0);
        add(std::move(zeros));
      }
    }
    std::vector<double> ones = numbers;
    std::vector<double> whole = numbers;
    for (size_t i = 0; i < numbers.size(); ++i) {
      // The failure may be about a NaN, an infinity or a sign.
      if (numbers[i] > 0 && std::isfinite(numbers[i])) ones[i] = 1;
      if (std::fabs(numbers[i]) >= 1) whole[i] = std::trunc(numbers[i]);
    }
    add(std::move(ones));
    add(std::move(whole));
  }

  const DrawOfCase draw_;
  Candidate& candidate_;
  const size_t most_;
  const Clock::time_point end_;
  const Clock::time_point choices_end_;
  bool chooses_ = false;  // Other choices are tried, not cuts and elements.
  FailingCase& best_;
  size_t tries_ = 0;
  size_t limit_ = 0;  // The most tries at this stage.
};

}  // namespace

// Sequences that make the greatest difference come first: all zero, then
// groups, the outer ones first, then parts of any place, then single numbers,
// which are made 0, half and one less. The order decides how soon shrinking
// succeeds, not to what.
std::vector<Values> SimplerSequences(absl::Span<const Choice> made,
                                     absl::Span<const ChoiceSpan> groups,
                                     size_t most) {
  const Values values = ValuesOf(made);
  std::vector<Values> simpler;
  const auto without = [&](size_t begin, size_t end) {
    Values shorter = values;
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(begin),
                  shorter.begin() + static_cast<ptrdiff_t>(end));
    simpler.push_back(std::move(shorter));
  };
  const auto zero = [&](size_t begin, size_t end) {
    Values zeros = values;
    std::ranges::fill(absl::MakeSpan(zeros).subspan(begin, end - begin), 0);
    if (zeros != values) simpler.push_back(std::move(zeros));
  };
  zero(0, values.size());
  // A group is noted when it ends, so that outer ones come last in the list.
  for (size_t i = groups.size(); i-- > 0;) {
    without(groups[i].begin, groups[i].end);
    zero(groups[i].begin, groups[i].end);
  }
  for (const size_t length : kLengths) {
    for (size_t at = 0; at + length <= values.size(); ++at) {
      without(at, at + length);
    }
  }
  for (size_t at = 0; at < values.size(); ++at) {
    for (const uint64_t smaller :
         {uint64_t{0}, values[at] / 2, values[at] - 1}) {
      if (smaller >= values[at]) continue;
      Values less = values;
      less[at] = smaller;
      simpler.push_back(std::move(less));
    }
  }
  if (simpler.size() > most) simpler.resize(most);
  return simpler;
}

bool IsSimpler(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b) {
  if (a.size() != b.size()) return a.size() < b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

void CutCase(Candidate& candidate, size_t most, double seconds,
             FailingCase* failing) {
  Shrinker(nullptr, candidate, most, seconds, failing).Cut();
}

size_t ShrinkCase(const DrawOfCase& draw, Candidate& candidate, size_t most,
                  double seconds, FailingCase* failing) {
  return Shrinker(draw, candidate, most, seconds, failing).Run();
}

}  // namespace nodewise
