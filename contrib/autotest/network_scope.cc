// Which operators and versions networks are drawn from.

#include <algorithm>
#include <iterator>
#include <utility>

#include "nodewise/autotest/network_draw.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"

namespace nodewise {
namespace {

// The simplest first; the newest one counts more, since most versions of
// operators are in it.
constexpr int kOpsets[] = {21, kNewestOpset, kNewestOpset, kNewestOpset, 24, 23,
                           22, 20,           19,           18,           17, 16,
                           15, 14,           13,           12,           11, 10,
                           9,  8,            7};
// First draws of each operator, of which one must be taken.
constexpr uint64_t kTries = 4;

// A case with its inputs, to be asked about.
struct Question {
  OperatorCase made;
  std::vector<std::vector<NDArray>> sets;
};

// Returns for each question whether the candidate refuses it.
std::vector<bool> Refused(const std::vector<Question>& questions,
                          Candidate& candidate) {
  std::vector<bool> refused;
  for (size_t begin = 0; begin < questions.size();
       begin += candidate.jobs_at_once()) {
    std::vector<CandidateJob> jobs;
    const size_t end =
        std::min(begin + candidate.jobs_at_once(), questions.size());
    for (size_t i = begin; i < end; ++i) {
      jobs.push_back({questions[i].made.network.get(), questions[i].sets});
    }
    for (const CandidateAnswer& answer : RunJobs(candidate, jobs)) {
      const absl::Status& status = answer.sets[0].status();
      // What crashes is not refused.
      refused.push_back(!status.ok() && !absl::IsAborted(status) &&
                        !absl::IsDeadlineExceeded(status));
    }
  }
  return refused;
}

std::vector<int> OpsetsTaken(Candidate& candidate) {
  std::vector<Question> questions;
  for (const int opset : kOpsets) {
    Question& question = questions.emplace_back();
    Configuration& configuration = question.made.configuration;
    configuration.def = AllOperators().Find("", "Relu", opset);
    configuration.opset = opset;
    configuration.inputs = {{true, kFloat32, {2}}};
    configuration.outputs = {true};
    Choices choices((std::vector<uint64_t>()));
    auto network = NetworkOf(configuration);
    auto inputs = DrawInputs(configuration, &choices);
    if (!network.ok() || !inputs.ok()) return {};
    question.made.network =
        std::make_shared<const Network>(*std::move(network));
    question.sets = {*std::move(inputs)};
  }
  const std::vector<bool> refused = Refused(questions, candidate);
  std::vector<int> opsets;
  for (size_t i = 0; i < std::size(kOpsets); ++i) {
    if (!refused[i]) opsets.push_back(kOpsets[i]);
  }
  return opsets;
}

}  // namespace

NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows) {
  return {{rows.begin(), rows.end()},
          {std::begin(kOpsets), std::end(kOpsets)}};
}

NetworkScope ScopeOf(absl::Span<const OperatorDef* const> rows,
                     Candidate& candidate, uint64_t seed) {
  std::vector<Question> questions;
  std::vector<size_t> row_of;
  for (uint64_t number = 0; number < kTries * rows.size(); ++number) {
    std::vector<uint64_t> choices;
    uint64_t refused = 0;
    auto made = DrawNumber(rows, seed, number, &choices, &refused);
    if (!made.ok()) continue;
    Choices simple((std::vector<uint64_t>()));
    auto inputs = DrawInputs(made->configuration, &simple);
    if (!inputs.ok()) continue;
    questions.push_back({*std::move(made), {*std::move(inputs)}});
    row_of.push_back(number % rows.size());
  }
  const std::vector<bool> refused = Refused(questions, candidate);
  std::vector<bool> is_taken(rows.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    if (!refused[i]) is_taken[row_of[i]] = true;
  }
  NetworkScope scope;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (is_taken[i]) scope.rows.push_back(rows[i]);
  }
  scope.opsets = OpsetsTaken(candidate);
  return scope;
}

}  // namespace nodewise
