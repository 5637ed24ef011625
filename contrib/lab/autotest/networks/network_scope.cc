// Which operators and opsets networks are drawn of.

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/autotest/network_draw.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"

namespace nodewise {
namespace {

// The simplest first; the newest one counts more, since most versions of
// operators are in it.
constexpr int kOpsets[] = {
    21, kNewestOpset, kNewestOpset, kNewestOpset, 24, 23, 22, 20, 19, 18, 17,
    16, 15,           14,           13,           12, 11, 10, 9,  8,  7};
// How many draws of an operator the candidate is asked about at most; it is
// enough that it takes one.
constexpr uint64_t kTries = 3;

struct Question {
  OperatorCase made;
  std::vector<std::vector<NDArray>> sets;
};

std::vector<bool> Refused(const std::vector<Question>& questions,
                          Candidate& candidate) {
  std::vector<bool> refused;
  const size_t most = candidate.jobs_at_once();
  for (size_t begin = 0; begin < questions.size(); begin += most) {
    std::vector<CandidateJob> jobs;
    const size_t end = std::min(begin + most, questions.size());
    for (size_t i = begin; i < end; ++i) {
      const OperatorCase& made = questions[i].made;
      jobs.push_back(
          {made.network.get(), questions[i].sets, made.backward.get()});
    }
    for (const CandidateAnswer& answer : RunJobs(candidate, jobs)) {
      const absl::Status& status = answer.sets[0].status();
      // A crash is a finding, not a refusal.
      refused.push_back(!status.ok() && !absl::IsAborted(status) &&
                        !absl::IsDeadlineExceeded(status));
    }
  }
  return refused;
}

// Asks with a Relu, which every runtime has, in a network of each opset. If the
// question cannot be made for one opset there is no answer at all, or opsets
// would be left out by chance.
std::vector<int> OpsetsTaken(Candidate& candidate) {
  std::vector<Question> questions;
  for (const int opset : kOpsets) {
    Question& asked = questions.emplace_back();
    Configuration& configuration = asked.made.configuration;
    configuration = {.def = AllOperators().Find("", "Relu", opset),
                     .opset = opset,
                     .inputs = {{true, kFloat32, {2}}},
                     .outputs = {true}};
    Choices choices((std::vector<uint64_t>()));
    auto network = NetworkOf(configuration);
    auto inputs = DrawInputs(configuration, &choices);
    if (!network.ok() || !inputs.ok()) return {};
    asked.made.network = std::make_shared<const Network>(*std::move(network));
    asked.sets = {*std::move(inputs)};
  }
  const std::vector<bool> refused = Refused(questions, candidate);
  std::vector<int> opsets;
  for (size_t i = 0; i < std::size(kOpsets); ++i) {
    if (!refused[i]) opsets.push_back(kOpsets[i]);
  }
  return opsets;
}

// Returns the newest of these opsets in which the row holds; 0: there is none.
int OpsetFor(const OperatorDef& row, const std::vector<int>& opsets) {
  if (!row.domain.empty()) return row.since;
  int newest = 0;
  for (const int opset : opsets) {
    if (row.since <= opset && opset < row.until) {
      newest = std::max(newest, opset);
    }
  }
  return newest;
}

// Draws until the operator's own rules accept one. Its numbers are the
// simplest, since it is only asked whether the candidate takes the operator.
void AddQuestion(const OperatorDef& row, int opset, AutotestWith with,
                 Choices* choices, std::vector<Question>* questions) {
  for (int draws = 0; draws < kMostRefusedDraws; ++draws) {
    ConfigurationDraw draw(row, opset, choices);
    auto made = DrawCase(draw);
    if (!made.ok()) continue;
    // An operator without a gradient may be part of such a network, too.
    if (with == AutotestWith::kBackward && HasBackwardSpace(row)) {
      made = BackwardOf(*made);
      if (!made.ok()) continue;
    }
    Choices simple((std::vector<uint64_t>()));
    auto set = DrawSet(*made, &simple);
    if (!set.ok()) continue;
    questions->push_back({*std::move(made), {std::move(set->inputs)}});
    return;
  }
}

}  // namespace

NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows) {
  return {{rows.begin(), rows.end()}, {std::begin(kOpsets), std::end(kOpsets)}};
}

// An operator is taken if one of its first draws is. Those that were refused
// are asked again with other draws; asking is cheap, since a batch holds many.
NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows,
                     Candidate& candidate, uint64_t seed, AutotestWith with) {
  NetworkScope scope;
  scope.opsets = OpsetsTaken(candidate);
  std::vector<const OperatorDef*> open(rows.begin(), rows.end());
  std::set<const OperatorDef*> taken;
  for (uint64_t attempt = 0; attempt < kTries && !open.empty(); ++attempt) {
    std::vector<Question> questions;
    for (const OperatorDef* row : open) {
      const int opset = OpsetFor(*row, scope.opsets);
      if (opset == 0) continue;
      Choices choices(RandomSource(
          seed, fmt::format("{} {} {}", row->name, row->since, attempt)));
      AddQuestion(*row, opset, with, &choices, &questions);
    }
    const std::vector<bool> refused = Refused(questions, candidate);
    for (size_t i = 0; i < questions.size(); ++i) {
      if (!refused[i]) taken.insert(questions[i].made.configuration.def);
    }
    std::erase_if(open, [&](const OperatorDef* row) {
      return taken.count(row) > 0 || OpsetFor(*row, scope.opsets) == 0;
    });
  }
  std::ranges::copy_if(
      rows, std::back_inserter(scope.rows),
      [&](const OperatorDef* row) { return taken.count(row) > 0; });
  return scope;
}

}  // namespace nodewise
