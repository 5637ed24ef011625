// Searches where something else runs the model, or is taken for right.

#include <utility>

#include "contrib/diagnose/searches.h"
#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/file.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// Another program is started for each run, which takes longer.
constexpr int kProgramRepeats = 1;

// The other program's tensors lie in the model's order.
absl::StatusOr<Session> WithoutLayouts(const Session& session) {
  if (session.network == nullptr || !session.lowering.chooses_layouts) {
    return session;
  }
  TargetSpec spec;
  spec.path = session.name;
  spec.network = session.network;
  spec.lowering = session.lowering;
  spec.lowering.chooses_layouts = false;
  // They have what runs them since the model was opened.
  spec.keeps_opaque = true;
  spec.inputs.tensors = session.NamedInputs();
  DiagnosticList faults;
  NODEWISE_ASSIGN_OR_RETURN(Session made, OpenTarget(spec, &faults));
  Session changed = session;
  changed.target = made.target;
  changed.built_ins = made.built_ins;
  return changed;
}

absl::StatusOr<std::vector<KnownRuntime>> KnownTo(const Question& question) {
  std::vector<KnownRuntime> known = BuiltInKnownRuntimes();
  if (question.known_file.empty()) return known;
  NODEWISE_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(question.known_file));
  NODEWISE_ASSIGN_OR_RETURN(
      std::vector<KnownRuntime> more,
      ParseKnownRuntimes(file.text(), question.known_file));
  known.insert(known.end(), more.begin(), more.end());
  return known;
}

}  // namespace

absl::Status SearchInProgram(const Question& question, Answer* answer) {
  const Session& session = question.target;
  LocateOptions options = LocateOptionsOf(question);
  if (options.repeats > 0 && !question.repeats.has_value()) {
    options.repeats = kProgramRepeats;
  }
  options.progress = ProgressOf(question, "locate");
  NODEWISE_ASSIGN_OR_RETURN(const auto known, KnownTo(question));
  options.known = [&known](const std::string& runtime) {
    return RowsOf(known, runtime);
  };
  const auto candidate = [&](const std::vector<std::string>& observed) {
    return MakeNetworkRunner(session, observed);
  };
  NetworkLocateRequest request{*session.network, AllOperators(), candidate,
                               ObservableValues(*session.network),
                               session.NamedInputs()};
  request.by_parts = [&](const std::vector<std::string>& observed) {
    return MakeNetworkRunner(session, observed, /*ends_at_each=*/true);
  };
  if (question.referee != nullptr) {
    request.referee = [&](std::shared_ptr<const Network> network) {
      return question.referee->make({std::move(network)});
    };
  }
  const bool is_counted = session.program != nullptr && session.program->runs;
  const ProgramRuns before =
      is_counted ? session.program->runs() : ProgramRuns();
  const int64_t start_ns = ClockNanoseconds();
  auto found = LocateInNetwork(request, options);
  if (is_counted) {
    answer->evidence.program_runs = session.program->runs() - before;
    answer->evidence.search_ns = ClockNanoseconds() - start_ns;
  }
  if (!found.ok()) return At(session.name, found.status());
  const std::shared_ptr<const Lowered> lowered = found->graph;
  answer->evidence.index = std::make_shared<const GraphIndex>(lowered->graph);
  answer->evidence.graph = lowered;
  TakeLocated(std::move(found->result), /*judged_all=*/true, answer);
  answer->evidence.unobserved = std::move(found->unobserved);
  answer->evidence.vanishes = found->vanishes;
  answer->evidence.change = found->change;
  answer->evidence.most_changed = found->most_changed;
  const LocateResult& located = *answer->evidence.located;
  for (const RefereeOpinion& opinion : found->opinions) {
    const Culprit& culprit = located.culprits[opinion.culprit];
    answer->evidence.opinions.emplace_back(located.nodes[culprit.report].key,
                                           opinion);
  }
  if (found->is_gone) {
    answer->AddDoubt(absl::FailedPreconditionError(
        "outputs differ from the reference's, but only when the runtime is "
        "given the file itself: the fault vanishes when the model is written "
        "to be observed, no matter which values are observed"));
  }
  return absl::OkStatus();
}

absl::Status SearchByProgram(const Question& question, Answer* answer) {
  NODEWISE_ASSIGN_OR_RETURN(const Session session,
                            WithoutLayouts(question.target));
  TargetSpec spec = question.reference.spec;
  if (spec.inputs.is_empty()) {
    spec.inputs.tensors = session.NamedInputs();
  }
  DiagnosticList faults;
  auto opened = OpenTarget(spec, &faults);
  if (answer->AddDoubts(faults)) return absl::OkStatus();
  if (!opened.ok()) return At(NameOf(Way::kReference), opened.status());
  const Session& right = *opened;
  if (session.network != nullptr && !IsOwnFile(question) &&
      !AreOneModel(*right.network, *session.network)) {
    return SearchTwoModels(question, right.network, answer);
  }
  const GraphTarget& target = *session.target;
  NODEWISE_ASSIGN_OR_RETURN(const GraphIndex* index, target.PlannedIndex());
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(session.target));
  LocateOptions options = LocateOptionsOf(question);
  options.progress = ProgressOf(question, "locate");
  auto found =
      LocateByOutsideReference({*index, AllOperators(), std::move(makers),
                                [&right] { return MakeNetworkRunner(right); },
                                right.name, session.NamedInputs()},
                               options);
  if (!found.ok()) return At(session.name, found.status());
  answer->target = session;
  answer->evidence.reference = right.name;
  answer->evidence.index = IndexOf(session.target);
  answer->evidence.referee = "interpreter";
  for (const OutsideAccusation& accusation : found->accusations) {
    answer->evidence.opinions.emplace_back(
        found->result.nodes[accusation.report].key,
        RefereeOpinion{0, accusation.side, accusation.why_not,
                       accusation.from_reference, accusation.from_candidate});
  }
  TakeLocated(std::move(found->result), /*judged_all=*/true, answer);
  return absl::OkStatus();
}

}  // namespace nodewise
