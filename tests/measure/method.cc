#include "tests/measure/method.h"

#include <chrono>

#include "fmt/format.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

Answer AnswerOf(const LocateResult& result) {
  Answer answer;
  for (const Culprit& culprit : result.culprits) {
    const NodeReport& node = result.nodes[culprit.report];
    answer.accused.push_back(
        {node.key, std::string(NameOf(node.verdict)), culprit.victims});
  }
  for (const NodeReport& node : result.nodes) {
    if (node.verdict != NodeVerdict::kInconclusive) continue;
    answer.inconclusive.push_back(node.key);
  }
  answer.are_outputs_wrong = result.AreOutputsWrong();
  return answer;
}

absl::StatusOr<Answer> LookWith(LocateOptions options,
                                const SubjectTarget& target,
                                const std::vector<NamedTensor>& inputs) {
  const auto begin = std::chrono::steady_clock::now();
  options.node_limit_ms = target.node_limit_ms;
  NODEWISE_ASSIGN_OR_RETURN(
      const LocateResult result,
      LocateInTarget({target.target, inputs}, AllOperators(), options));
  Answer answer = AnswerOf(result);
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  answer.seconds = taken.count();
  return answer;
}

absl::StatusOr<Answer> LookAuto(const SubjectTarget& target,
                                const std::vector<NamedTensor>& inputs) {
  return LookWith({}, target, inputs);
}

// As `locate --method intermediate` does it.
absl::StatusOr<Answer> LookIntermediate(
    const SubjectTarget& target, const std::vector<NamedTensor>& inputs) {
  LocateOptions options;
  options.repeats = 0;
  options.checks_storage = false;
  return LookWith(options, target, inputs);
}

bool SeesAll(FaultSign) { return true; }
bool SeesValues(FaultSign sign) { return sign == FaultSign::kWrongValues; }

constexpr Method kMethods[] = {
    {"auto", &SeesAll, &LookAuto},
    {"intermediate", &SeesValues, &LookIntermediate},
};

}  // namespace

absl::Span<const Method> Methods() { return kMethods; }

absl::StatusOr<Method> FindMethod(std::string_view name) {
  std::vector<std::string> names;
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
    names.emplace_back(method.name);
  }
  return absl::InvalidArgumentError(
      fmt::format("method: found \"{}\", expected one of {}", Printable(name),
                  ListOf(names)));
}

}  // namespace nodewise
