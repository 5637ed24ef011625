#include "tests/measure/run_case.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "tests/measure/effect.h"
#include "tests/measure/exact_effect.h"
#include "tests/measure/fixture_case.h"

namespace nodewise {
namespace {

using Outcome = Result::Outcome;

std::string TextOf(const Answer& answer) {
  std::vector<std::string> names;
  for (const Accusation& accused : answer.accused) {
    names.push_back(fmt::format("{} ({})", accused.node, accused.why));
  }
  return ListOf(names, 5);
}

// What a node with such a fault is to be named for.
std::string_view WhyOf(const FaultSource& source, const PlantedFault& fault) {
  if (fault.kind == FaultKind::kOverrun) return "overrun";
  if (source.sign == FaultSign::kVictims) return "plan fault";
  if (source.sign == FaultSign::kSometimes) return "not deterministic";
  if (fault.kind == FaultKind::kCrash) return "crashes";
  if (fault.kind == FaultKind::kHang) return "hangs";
  return "broken";
}

bool NamesVictim(const Accusation& accused, const GraphIndex& index,
                 const PlantedFault& fault) {
  if (!fault.victim.has_value()) return true;
  const std::string name = index.KeyOf(*fault.victim) + ",";
  return std::any_of(
      accused.victims.begin(), accused.victims.end(),
      [&](const std::string& victim) { return victim.starts_with(name); });
}

Outcome OutcomeOf(const FaultSource& source, const PlantedGraph& planted,
                  const Answer& answer) {
  const GraphIndex index(planted.graph);
  const std::string& key = index.KeyOf(planted.fault.node);
  const auto& accused = answer.accused;
  const auto found =
      std::find_if(accused.begin(), accused.end(),
                   [&](const Accusation& one) { return one.node == key; });
  if (found == accused.end()) {
    if (!accused.empty()) return Outcome::kOther;
    const auto& unsure = answer.inconclusive;
    return std::find(unsure.begin(), unsure.end(), key) == unsure.end()
               ? Outcome::kMissed
               : Outcome::kInconclusive;
  }
  if (accused.size() > 1) return Outcome::kExtra;
  return found->why == WhyOf(source, planted.fault) &&
                 NamesVictim(*found, index, planted.fault)
             ? Outcome::kExact
             : Outcome::kMisnamed;
}

// The larger of a second and ten times the sound run.
absl::StatusOr<int64_t> HangLimitMs(const SubjectTarget& sound,
                                    const std::vector<NamedTensor>& inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker, sound.Maker());
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  const auto begin = std::chrono::steady_clock::now();
  NODEWISE_RETURN_IF_ERROR(runner->Run(inputs).status());
  const auto taken = std::chrono::steady_clock::now() - begin;
  constexpr int64_t kLeastMs = 1000;
  return std::max<int64_t>(
      kLeastMs,
      10 *
          std::chrono::duration_cast<std::chrono::milliseconds>(taken).count());
}

}  // namespace

CaseRunner::CaseRunner(SubjectFolders folders) : folders_(std::move(folders)) {}

CaseRunner::~CaseRunner() = default;

Result CaseRunner::Run(const Case& wanted) {
  Result result;
  result.id = wanted;
  absl::Status status;
  switch (wanted.what) {
    case Case::What::kFault:
      status = RunFault(wanted, &result);
      break;
    case Case::What::kClean:
      status = RunClean(wanted, &result);
      break;
    case Case::What::kFixture:
      status = RunFixture(wanted.subject, &result);
      break;
    case Case::What::kForeign:
      status = RunForeignCase(wanted, &result);
      break;
  }
  if (status.ok()) return result;
  // What cannot be planted, or made in that precision, is not a case at all.
  result.outcome =
      absl::IsFailedPrecondition(status) || absl::IsUnimplemented(status)
          ? Outcome::kLeftOut
          : Outcome::kFailed;
  result.text = std::string(MessageOf(status));
  return result;
}

absl::StatusOr<const Subject*> CaseRunner::SubjectOf(const std::string& name) {
  if (subject_.name == name) return &subject_;
  planters_.clear();
  subject_ = Subject();
  NODEWISE_ASSIGN_OR_RETURN(Subject made, MakeSubject(name, folders_));
  NODEWISE_ASSIGN_OR_RETURN(
      unchanged_, TargetOf(made.name, made.graph, made.library, made.params));
  subject_ = std::move(made);
  return &subject_;
}

absl::StatusOr<const Planter*> CaseRunner::PlanterOf(const Subject& subject,
                                                     uint64_t input_seed) {
  std::unique_ptr<const Planter>& planter = planters_[input_seed];
  if (planter != nullptr) return planter.get();
  PlanterOptions options;
  options.operators = AllOperators();
  options.params = subject.params;
  NODEWISE_ASSIGN_OR_RETURN(options.inputs, subject.DrawInputs(input_seed));
  auto made = Planter::Create(subject.graph, subject.library, options);
  // A sound network that does not run is an error, and not a fault that cannot
  // be planted.
  if (!made.ok())
    return absl::InternalError(std::string(MessageOf(made.status())));
  planter = *std::move(made);
  return planter.get();
}

absl::Status CaseRunner::RunFault(const Case& wanted, Result* result) {
  NODEWISE_ASSIGN_OR_RETURN(const FaultSource* const source,
                            FindFaultSource(wanted.kind));
  NODEWISE_ASSIGN_OR_RETURN(const Method method, FindMethod(wanted.method));
  NODEWISE_ASSIGN_OR_RETURN(const Subject* const subject,
                            SubjectOf(wanted.subject));
  const uint64_t input_seed = 1 + wanted.seed % kFaultInputs;
  NODEWISE_ASSIGN_OR_RETURN(const Planter* const planter,
                            PlanterOf(*subject, input_seed));
  NODEWISE_ASSIGN_OR_RETURN(const PlantedGraph planted,
                            source->plant(*planter, wanted.seed));
  result->node = planted.fault.name;
  result->effect = planted.fault.effect.value_or(0);
  result->text = planted.fault.what;
  NODEWISE_ASSIGN_OR_RETURN(const auto inputs, subject->DrawInputs(input_seed));
  if (source->sign == FaultSign::kWrongValues) {
    NODEWISE_ASSIGN_OR_RETURN(const EffectSize size,
                              MeasureEffect(*subject, planted, inputs));
    result->size = NameOf(size);
    if (size == EffectSize::kSmall && method.name == kExactMethod) {
      NODEWISE_ASSIGN_OR_RETURN(const ExactEffect exact,
                                MeasureExactEffect(*subject, planted, inputs));
      result->on_whole_numbers = NameOf(exact);
    }
  }
  NODEWISE_ASSIGN_OR_RETURN(SubjectTarget target,
                            TargetOf(wanted.subject, planted.graph,
                                     planted.library, subject->params));
  if (source->sign == FaultSign::kNoReturn) {
    NODEWISE_ASSIGN_OR_RETURN(target.node_limit_ms,
                              HangLimitMs(unchanged_, inputs));
  }
  const auto answer = LookWith(method, {target, inputs, folders_.scratch});
  if (!answer.ok())
    return absl::InternalError(std::string(MessageOf(answer.status())));
  result->seconds = answer->seconds;
  result->inconclusive = answer->inconclusive.size();
  result->outcome = OutcomeOf(*source, planted, *answer);
  if (result->outcome != Outcome::kExact) {
    result->text += fmt::format("; named: {}", TextOf(*answer));
    const auto exact = answer->on_exact_inputs.find(
        GraphIndex(planted.graph).KeyOf(planted.fault.node));
    if (exact != answer->on_exact_inputs.end()) {
      result->text += fmt::format("; on exact inputs: {}", exact->second);
    }
  }
  return absl::OkStatus();
}

absl::Status CaseRunner::RunForeignCase(const Case& wanted, Result* result) {
  if (foreign_.name != wanted.subject) {
    foreign_ = ForeignSubject();
    NODEWISE_ASSIGN_OR_RETURN(foreign_,
                              MakeForeignSubject(wanted.subject, folders_));
  }
  const absl::Status status =
      RunForeign(foreign_, wanted.seed, folders_, result);
  if (status.ok()) return status;
  return absl::InternalError(std::string(MessageOf(status)));
}

absl::Status CaseRunner::RunClean(const Case& wanted, Result* result) {
  NODEWISE_ASSIGN_OR_RETURN(const Method method, FindMethod(wanted.method));
  NODEWISE_ASSIGN_OR_RETURN(const Subject* const subject,
                            SubjectOf(wanted.subject));
  NODEWISE_ASSIGN_OR_RETURN(const auto inputs,
                            subject->DrawInputs(wanted.seed));
  const auto answer = LookWith(method, {unchanged_, inputs, folders_.scratch});
  if (!answer.ok())
    return absl::InternalError(std::string(MessageOf(answer.status())));
  result->seconds = answer->seconds;
  result->inconclusive = answer->inconclusive.size();
  result->outcome =
      answer->accused.empty() ? Outcome::kExact : Outcome::kAccused;
  result->text = TextOf(*answer);
  if (!answer->inconclusive.empty()) {
    result->text +=
        fmt::format("inconclusive: {}", ListOf(answer->inconclusive, 5));
  }
  if (answer->are_outputs_wrong) result->size = "outputs off";
  return absl::OkStatus();
}

}  // namespace nodewise
