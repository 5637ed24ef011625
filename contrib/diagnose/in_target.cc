// Searches in a target whose nodes say what they compute, or in one that only
// crashes or hangs.

#include <algorithm>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Nodes of other compilers do not say what they compute, so that something must
// be there to compare with, unless they crash or hang.
absl::Status WhyNotJudged(const Session& session, const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status) || !SaysNothing(session)) {
    return At(session.name, status);
  }
  return absl::FailedPreconditionError(fmt::format(
      "{0}: its nodes do not say what they compute, as those of any compiler "
      "but nodewise's own, expected what to compare them with ({1} MODEL.onnx, "
      "the model that it was compiled from, or {1} BUILD, another build of "
      "that)",
      session.name, NameOf(Way::kReference)));
}

RefereeMaker RefereeOf(const Question& question) {
  if (question.referee == nullptr) return nullptr;
  return [program = question.referee](std::shared_ptr<const Network> network) {
    return program->make({std::move(network)});
  };
}

void TakeOpinions(const std::vector<RefereeOpinion>& opinions, Answer* answer) {
  const LocateResult& located = *answer->evidence.located;
  for (const RefereeOpinion& opinion : opinions) {
    const Culprit& culprit = located.culprits[opinion.culprit];
    answer->evidence.opinions.emplace_back(located.nodes[culprit.report].key,
                                           opinion);
  }
}

class LayerProgress : public LayerObserver {
 public:
  LayerProgress(const Graph& graph,
                std::function<void(size_t done, size_t total)> progress)
      : progress_(std::move(progress)) {
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      total_ += IsLayer(graph, NodeId{n}) ? 1 : 0;
    }
  }
  absl::Status Ends(const LayerResult&) override {
    progress_(++done_, total_);
    return absl::OkStatus();
  }

 private:
  std::function<void(size_t done, size_t total)> progress_;
  size_t done_ = 0;
  size_t total_ = 0;
};

// Messages about files name them already.
absl::Status AtSample(const std::string& sample, const absl::Status& status) {
  return MessageOf(status).starts_with(sample) ? status : At(sample, status);
}

// A culprit in any sample is one. Without any, a sample that could not be
// judged keeps this from being a pass.
void SettleSamples(const SamplesResult& result,
                   const std::vector<std::string>& names, Answer* answer) {
  const bool has_culprit = std::any_of(
      result.recurring.begin(), result.recurring.end(),
      [](const RecurringVerdict& verdict) { return Accuses(verdict.kind); });
  if (has_culprit) {
    answer->state = Answer::State::kWrong;
    answer->doubts.clear();
    return;
  }
  for (const RankedSample& ranked : result.ranked) {
    const std::string& name = names[ranked.sample];
    if (!ranked.not_located.ok()) {
      answer->AddDoubt(AtSample(name, ranked.not_located));
    } else if (!ranked.located.has_value() && ranked.is_wrong) {
      answer->AddDoubt(absl::FailedPreconditionError(fmt::format(
          "{}: the outputs are wrong, and it was not examined ({} says how "
          "many are)",
          name, NameOf(Way::kMostSamples))));
    }
  }
  for (const FailedSample& failed : result.failed) {
    answer->AddDoubt(AtSample(names[failed.sample], failed.why));
  }
}

}  // namespace

absl::Status SearchNodes(const Question& question, Answer* answer) {
  const Session& session = question.target;
  LocateOptions options = LocateOptionsOf(question);
  options.progress = ProgressOf(question, "locate");
  std::vector<RefereeOpinion> opinions;
  auto located =
      LocateInTarget({session.target, session.NamedInputs(), session.stand_ins,
                      RefereeOf(question), &opinions},
                     AllOperators(), options);
  if (!located.ok()) return WhyNotJudged(session, located.status());
  answer->evidence.index = IndexOf(session.target);
  TakeLocated(*std::move(located), /*judged_all=*/true, answer);
  if (question.referee != nullptr) TakeOpinions(opinions, answer);
  return WriteCulprits(question, answer);
}

absl::Status SearchByBisecting(const Question& question, Answer* answer) {
  const Session& session = question.target;
  const GraphTarget& target = *session.target;
  NODEWISE_ASSIGN_OR_RETURN(const GraphIndex* index, target.PlannedIndex());
  BisectRequest request{*index, AllOperators(), nullptr, session.NamedInputs()};
  // A node that crashes ends a run and not this process.
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(session.target));
  request.candidate = std::move(makers.candidate);
  request.stand_ins = session.stand_ins;
  request.with_stand_ins = [&](const std::vector<std::string>& nodes) {
    return MakersWithStandIns(target, AllOperators(), nodes);
  };
  BisectOptions options;
  options.node_limit_ms =
      question.node_limit_ms.value_or(options.node_limit_ms);
  options.progress = ProgressOf(question, "locate");
  auto result = Bisect(request, options);
  if (!result.ok()) return WhyNotJudged(session, result.status());
  answer->evidence.index = IndexOf(session.target);
  TakeLocated(result->located, /*judged_all=*/false, answer);
  answer->evidence.bisected = *std::move(result);
  DoubtGivenNan(request.inputs, answer);
  return absl::OkStatus();
}

absl::Status SearchLayers(const Question& question, Answer* answer) {
  const Session& session = question.target;
  const Artefact& artefact = session.target->artefact();
  const LayerModule mod{session.name, artefact.graph, artefact.params,
                        session.NamedInputs()};
  LayerProgress progress(mod.graph, ProgressOf(question, "locate"));
  LayerQuestion layers{mod, LayerBackend(session.name, artefact.library)};
  layers.is_recursive = true;
  layers.node_limit_ms =
      question.node_limit_ms.value_or(LocateOptions().node_limit_ms);
  layers.observer = &progress;
  answer->evidence.index = IndexOf(session.target);
  const absl::Status compared = CompareLayers(layers, mod.inputs, answer);
  if (!compared.ok()) return WhyNotJudged(session, compared);
  DoubtGivenNan(session.NamedInputs(), answer);
  return WriteCulprits(question, answer);
}

absl::Status SearchSamples(const Question& question, Answer* answer) {
  const Session& session = question.target;
  const std::vector<InputSample>& samples = session.samples;
  for (const InputSample& sample : samples) {
    answer->evidence.sample_names.push_back(sample.name);
  }
  const LocateOptions options = LocateOptionsOf(question);
  SamplesOptions ranking;
  ranking.most_located = question.most_samples.value_or(ranking.most_located);
  ranking.node_limit_ms = options.node_limit_ms;
  ranking.progress = ProgressOf(question, "samples");
  auto result =
      LocateSamplesInTarget({session.target, {}, session.stand_ins}, samples,
                            AllOperators(), options, ranking);
  if (!result.ok()) return WhyNotJudged(session, result.status());
  answer->evidence.index = IndexOf(session.target);
  // All is said about the sample with the largest error that was examined.
  const auto worst = std::find_if(
      result->ranked.begin(), result->ranked.end(),
      [](const RankedSample& ranked) { return ranked.located.has_value(); });
  if (worst != result->ranked.end()) {
    answer->evidence.shown_sample = samples[worst->sample].name;
    TakeLocated(*worst->located, /*judged_all=*/true, answer);
  }
  SettleSamples(*result, answer->evidence.sample_names, answer);
  answer->evidence.samples = *std::move(result);
  return absl::OkStatus();
}

}  // namespace nodewise
