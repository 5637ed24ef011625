// The searches that judge nodes one by one, or by halving a network, its
// builds or its functions. Those by values are in by_value.cc, those between
// two models in two_models.cc.
//
// Each search runs something, has a function of contrib/locate judge it, and
// takes over what that found: verdicts and culprits by TakeLocated(), all else
// as the evidence that the answer has a member for. A search fails only where
// nothing was found out; once something is known, what goes wrong becomes a
// doubt.

#include "contrib/diagnose/searches.h"

#include <algorithm>
#include <utility>

#include "nodewise/foreign/foreign_runner.h"
#include "nodewise/locate/bisect.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/locate/mix_builds.h"
#include "nodewise/locate/network_locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/locate/replay.h"
#include "nodewise/locate/series.h"
#include "nodewise/op/evaluate.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/file.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/tensors/channels_last.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

// --- What they share ---

template <typename Options>
Options OptionsFor(const Question& question) {
  Options options;
  options.node_limit_ms =
      question.node_limit_ms.value_or(options.node_limit_ms);
  options.progress = ProgressOf(question, "locate");
  return options;
}

// A method that was asked for by name does that and nothing beside it; what the
// usual one does in addition takes several runs of the network.
LocateOptions LocateOptionsOf(const Question& question) {
  auto options = OptionsFor<LocateOptions>(question);
  if (question.method != Method::kAuto) {
    options.repeats = 0;
    options.checks_storage = false;
    options.exact_inputs = ExactInputs::kNever;
  }
  if (question.uses_exact_inputs) options.exact_inputs = ExactInputs::kForAll;
  options.is_strict = question.is_strict;
  options.repeats = question.repeats.value_or(options.repeats);
  return options;
}

// Nodes of other compilers do not say what they compute, so that something must
// be there to compare with, unless they crash or hang.
absl::Status NotJudgedError(const Session& session,
                            const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status) || !DeclaresNoRegion(session)) {
    return At(session.name, status);
  }
  return FailedPrecondition(
      "{0}: its nodes do not say what they compute, as those of any compiler "
      "but nodewise's own, expected what to compare them with ({1} MODEL.onnx, "
      "the model that it was compiled from, or {1} BUILD, another build of "
      "that)",
      session.name, NameOf(Way::kReference));
}

RefereeMaker RefereeOf(const Question& question) {
  if (question.referee == nullptr) return nullptr;
  return [program = question.referee](std::shared_ptr<const Network> network) {
    return program->make({std::move(network)});
  };
}

// The answer names nodes by their keys, since its lists have orders of their
// own. REQUIRES: what was located is in the answer.
void AddOpinions(const std::vector<RefereeOpinion>& opinions, Answer* answer) {
  const LocateResult& located = *answer->evidence.located;
  for (const RefereeOpinion& opinion : opinions) {
    const Culprit& culprit = located.culprits[opinion.culprit];
    answer->evidence.opinions.emplace_back(located.nodes[culprit.report].key,
                                           opinion);
  }
}

// --- Layers ---

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

absl::Status CompareLayers(const LayerQuestion& question,
                           const std::vector<NamedTensor>& inputs,
                           Answer* answer) {
  constexpr char kReference[] = "Interpreter";
  std::unique_ptr<LayerComparator> comparator;
  if (question.is_recursive) {
    comparator = std::make_unique<RecursiveLayerComparator>(
        question.mod, kReference, question.candidate, question.rule);
  } else {
    comparator = std::make_unique<IntermediateLayerComparator>(
        question.mod, kReference, question.candidate, question.rule);
  }
  comparator->set_all_alone(question.all_alone);
  comparator->set_observer(question.observer);
  if (question.node_limit_ms.has_value()) {
    comparator->set_node_limit_ms(*question.node_limit_ms);
  }
  NODEWISE_RETURN_IF_ERROR(comparator->verify(inputs).status());
  answer->evidence.cost = comparator->cost();
  TakeLocated(LocatedLayers(question.mod, *comparator), /*judged_all=*/true,
              answer);
  return absl::OkStatus();
}

// --- Samples ---

// Messages about files name them already.
absl::Status AtSample(const std::string& sample, const absl::Status& status) {
  return MessageOf(status).starts_with(sample) ? status : At(sample, status);
}

// A culprit in any sample is one. Without any, a sample that could not be
// judged keeps this from being a pass.
void SummariseSamples(const SamplesResult& result,
                      const std::vector<std::string>& names, Answer* answer) {
  const bool has_culprit = std::ranges::any_of(
      result.recurring, [](const RecurringVerdict& verdict) {
        return IsCulpritVerdict(verdict.kind);
      });
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
      answer->AddDoubt(
          FailedPrecondition("{}: the outputs are wrong, and it was not "
                             "examined ({} says how many are)",
                             name, NameOf(Way::kMostSamples)));
    }
  }
  for (const FailedSample& failed : result.failed) {
    answer->AddDoubt(AtSample(names[failed.sample], failed.why));
  }
}

// --- Programs ---

// Each run starts another program, which takes longer than a run here.
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
  // Opaque operations have what runs them since the model was opened.
  spec.keeps_opaque = true;
  spec.inputs.tensors = session.NamedInputs();
  DiagnosticList faults;
  NODEWISE_ASSIGN_OR_RETURN(Session made, OpenTarget(spec, &faults));
  Session changed = session;
  changed.target = made.target;
  changed.built_ins = made.built_ins;
  return changed;
}

// Rows of the file come behind those of the build, so that a runtime that both
// know has both.
absl::StatusOr<std::vector<KnownRuntime>> KnownRuntimesFor(
    const Question& question) {
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

// Locates in the network that a program runs, and says in the answer what that
// took of the program.
absl::StatusOr<NetworkLocated> LocateCounted(
    const NetworkLocateRequest& request, const LocateOptions& options,
    const Session& session, Answer* answer) {
  const bool is_counted = session.program != nullptr && session.program->runs;
  const ProgramRuns before =
      is_counted ? session.program->runs() : ProgramRuns();
  const int64_t start_ns = ClockNanoseconds();
  auto found = LocateInNetwork(request, options);
  if (is_counted) {
    answer->evidence.program_runs = session.program->runs() - before;
    answer->evidence.search_ns = ClockNanoseconds() - start_ns;
  }
  return found;
}

// --- Builds ---

// Returns the inputs of a target for another build of it: those of the same
// names, or in the same places if the types agree.
absl::StatusOr<std::vector<RunInput>> InputsLike(const Session& target,
                                                 const GraphTarget& build) {
  const InputList& wanted = build.inputs();
  const std::vector<NamedTensor> given = target.NamedInputs();
  std::vector<RunInput> inputs;
  // A place counts among the inputs that a run needs: parameters, which lie
  // between them, may be stored otherwise in another build.
  size_t place = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted.IsNeeded(i)) continue;
    auto found = std::ranges::find(given, wanted.Name(i), &NamedTensor::name);
    if (found == given.end() && place < given.size() &&
        IsOfType(given[place].tensor, wanted.Type(i))) {
      found = given.begin() + static_cast<ptrdiff_t>(place);
    }
    if (found == given.end()) {
      return InvalidArgument(
          "{}: input {}: {} has none of this name, or in its place and of its "
          "type",
          build.name(), wanted.Name(i), target.name);
    }
    inputs.push_back({i, target.name, found->tensor});
    ++place;
  }
  return inputs;
}

// --- Dumps ---

absl::StatusOr<std::unique_ptr<TensorSource>> OpenInModelOrder(
    const std::string& path) {
  NODEWISE_ASSIGN_OR_RETURN(auto source, OpenTensorSource(path));
  return InModelOrder(std::move(source));
}

// Inputs and parameters are not judged, but where one of them is not the same
// in both runs, it is what begins the difference.
void TakeDifference(const DumpDifference& where, Answer* answer) {
  const GraphIndex& index = *where.index;
  for (uint32_t n = 0; n < index.graph().nodes.size(); ++n) {
    const NodeId node{n};
    const bool begins = where.nodes[node] == DumpedNode::kBegins;
    const std::string kind(KindOf(where.nodes[node]));
    const std::string reason(begins ? ReasonFor(where, node) : "");
    if (begins) {
      answer->culprits.push_back(
          {MakeFinding(verdict_kinds::kDiffers, PlaceOf(index, node), reason),
           kind,
           {},
           {}});
    }
    if (!begins && !index.graph().IsFunction(node)) continue;
    answer->verdicts.push_back({index.KeyOf(node), node, kind, reason, begins});
  }
}

}  // namespace

std::function<void(size_t done, size_t total)> ProgressOf(
    const Question& question, std::string_view what) {
  return [&question, what](size_t done, size_t total) {
    if (question.progress != nullptr) question.progress(what, done, total);
  };
}

std::shared_ptr<const GraphIndex> IndexOf(
    std::shared_ptr<const GraphTarget> target) {
  const GraphIndex* const index = &target->index();
  return {std::move(target), index};
}

absl::StatusOr<Session> OpenReference(const Session& target,
                                      const TargetSpec& spec,
                                      DiagnosticList* diagnostics) {
  TargetSpec opened = spec;
  if (opened.inputs.files.empty() && opened.inputs.tensors.empty()) {
    opened.inputs.tensors = target.NamedInputs();
  }
  InputFiles files;
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            OpenWithoutInputs(opened, &files, diagnostics));
  if (session.target == nullptr) return session;
  NODEWISE_ASSIGN_OR_RETURN(session.inputs,
                            InputsLike(target, *session.target));
  return session;
}

// Faults of a model are an answer about that model and no failure.
absl::StatusOr<std::optional<Session>> OpenBuild(const Question& question,
                                                 const TargetSpec& spec,
                                                 std::string_view side,
                                                 Answer* answer) {
  DiagnosticList faults;
  auto session = OpenReference(question.target, spec, &faults);
  if (answer->AddDoubts(faults)) return std::nullopt;
  if (!session.ok()) return At(side, session.status());
  return std::optional<Session>(*std::move(session));
}

// This costs no run, and where the sides differ a run would blame the wrong
// node: each computes what it says.
bool AreSidesAlike(const GraphTarget& target, const GraphTarget& reference,
                   Answer* answer) {
  const Artefact& expected = reference.artefact();
  const Artefact& found = target.artefact();
  auto differences = CompareSides({expected.graph, expected.params},
                                  {found.graph, found.params});
  const bool are_alike = differences.empty();
  if (!are_alike) answer->state = Answer::State::kWrong;
  answer->evidence.differences = std::move(differences);
  return are_alike;
}

// The index of the graph is kept in the answer, since reports draw the graph
// long after the search.
absl::Status SearchNodes(const Question& question, Answer* answer) {
  const Session& session = question.target;
  std::vector<RefereeOpinion> opinions;
  auto located =
      LocateInTarget({session.target, session.NamedInputs(), session.stand_ins,
                      RefereeOf(question), &opinions},
                     AllOperators(), LocateOptionsOf(question));
  if (!located.ok()) return NotJudgedError(session, located.status());
  answer->evidence.index = IndexOf(session.target);
  TakeLocated(*std::move(located), /*judged_all=*/true, answer);
  AddOpinions(opinions, answer);
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
  auto result = Bisect(request, OptionsFor<BisectOptions>(question));
  if (!result.ok()) return NotJudgedError(session, result.status());
  answer->evidence.index = IndexOf(session.target);
  TakeLocated(result->located, /*judged_all=*/false, answer);
  answer->evidence.bisected = *std::move(result);
  AddNanInputDoubt(request.inputs, answer);
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
  if (!compared.ok()) return NotJudgedError(session, compared);
  AddNanInputDoubt(session.NamedInputs(), answer);
  return WriteCulprits(question, answer);
}

absl::StatusOr<Answer> DiagnoseLayers(const LayerQuestion& question,
                                      const std::vector<NamedTensor>& inputs) {
  Answer answer;
  answer.search = Search::kLayers;
  answer.did =
      question.is_recursive
          ? "for each layer what leads to it was run on both backends"
          : "the network was run once on both backends, and each layer that "
            "differs alone";
  answer.target.name = question.mod.name;
  NODEWISE_RETURN_IF_ERROR(CompareLayers(question, inputs, &answer));
  return answer;
}

// The verdicts of one sample are shown; those of the others only recur or not.
absl::Status SearchSamples(const Question& question, Answer* answer) {
  const Session& session = question.target;
  const std::vector<InputSample>& samples = session.samples;
  for (const InputSample& sample : samples) {
    answer->evidence.sample_names.push_back(sample.name);
  }
  LocateOptions options = LocateOptionsOf(question);
  // Samples are counted, and not the nodes of each.
  options.progress = nullptr;
  SamplesOptions ranking;
  ranking.most_located = question.most_samples.value_or(ranking.most_located);
  ranking.node_limit_ms = options.node_limit_ms;
  ranking.progress = ProgressOf(question, "samples");
  auto result =
      LocateSamplesInTarget({session.target, {}, session.stand_ins}, samples,
                            AllOperators(), options, ranking);
  if (!result.ok()) return NotJudgedError(session, result.status());
  answer->evidence.index = IndexOf(session.target);
  // All is said about the sample with the largest error that was examined.
  const auto worst = std::ranges::find_if(
      result->ranked,
      [](const RankedSample& ranked) { return ranked.located.has_value(); });
  if (worst != result->ranked.end()) {
    answer->evidence.shown_sample = samples[worst->sample].name;
    TakeLocated(*worst->located, /*judged_all=*/true, answer);
  }
  SummariseSamples(*result, answer->evidence.sample_names, answer);
  answer->evidence.samples = *std::move(result);
  return absl::OkStatus();
}

absl::Status SearchInProgram(const Question& question, Answer* answer) {
  const Session& session = question.target;
  LocateOptions options = LocateOptionsOf(question);
  if (options.repeats > 0 && !question.repeats.has_value()) {
    options.repeats = kProgramRepeats;
  }
  NODEWISE_ASSIGN_OR_RETURN(const auto known, KnownRuntimesFor(question));
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
  request.referee = RefereeOf(question);
  auto found = LocateCounted(request, options, session, answer);
  if (!found.ok()) return At(session.name, found.status());
  Evidence& evidence = answer->evidence;
  const std::shared_ptr<const Lowered> lowered = found->graph;
  evidence.index = std::make_shared<const GraphIndex>(lowered->graph);
  evidence.graph = lowered;
  TakeLocated(std::move(found->result), /*judged_all=*/true, answer);
  evidence.unobserved = std::move(found->unobserved);
  evidence.vanishes = found->vanishes;
  evidence.change = found->change;
  evidence.most_changed = found->most_changed;
  AddOpinions(found->opinions, answer);
  if (found->is_gone) {
    answer->AddDoubt(FailedPrecondition(
        "outputs differ from the reference's, but only when the runtime is "
        "given the file itself: the fault vanishes when the model is written "
        "to be observed, no matter which values are observed"));
  }
  return absl::OkStatus();
}

// The program is run as it is: what it makes is taken for right, and the
// definitions are asked where the target is beyond its bound from that.
absl::Status SearchByProgram(const Question& question, Answer* answer) {
  NODEWISE_ASSIGN_OR_RETURN(const Session session,
                            WithoutLayouts(question.target));
  TargetSpec spec = question.reference.spec;
  if (spec.inputs.is_empty()) spec.inputs.tensors = session.NamedInputs();
  DiagnosticList faults;
  auto opened = OpenTarget(spec, &faults);
  if (answer->AddDoubts(faults)) return absl::OkStatus();
  if (!opened.ok()) return At(NameOf(Way::kReference), opened.status());
  const Session& right = *opened;
  if (session.network != nullptr && !IsOwnFile(question) &&
      !AreOneModel(*right.network, *session.network)) {
    return SearchTwoModels(question, right.network, answer);
  }
  NODEWISE_ASSIGN_OR_RETURN(const GraphIndex* index,
                            session.target->PlannedIndex());
  NODEWISE_ASSIGN_OR_RETURN(CandidateMakers makers, MakersOf(session.target));
  auto found =
      LocateByOutsideReference({*index, AllOperators(), std::move(makers),
                                [&right] { return MakeNetworkRunner(right); },
                                right.name, session.NamedInputs()},
                               LocateOptionsOf(question));
  if (!found.ok()) return At(session.name, found.status());
  answer->target = session;
  answer->evidence.reference = right.name;
  answer->evidence.index = IndexOf(session.target);
  // The definitions are the referee between the two programs.
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

absl::Status SearchByMixing(const Question& question, const Session& reference,
                            Answer* answer) {
  const Session& target = question.target;
  const std::vector<NamedTensor> inputs = target.NamedInputs();
  auto result = MixBuilds(target.target, reference.target, inputs,
                          OptionsFor<MixOptions>(question));
  if (!result.ok()) return At(target.name, result.status());
  answer->evidence.index = IndexOf(target.target);
  TakeLocated(result->located, /*judged_all=*/false, answer);
  if (result->is_in_storage) {
    answer->state = Answer::State::kWrong;
    answer->doubts.clear();
  }
  answer->evidence.mixed = *std::move(result);
  AddNanInputDoubt(inputs, answer);
  return absl::OkStatus();
}

// Builds are opened when it is their turn and not kept: a series may be long,
// and each has its own parameters.
absl::Status SearchInSeries(const Question& question, Answer* answer) {
  const std::vector<TargetSpec>& specs = question.reference.builds;
  const Session& first = question.target;
  if (first.network != nullptr) {
    return InvalidArgument("{}: {} is a model, expected builds of one",
                           NameOf(Way::kSeries), first.name);
  }
  const auto open = [&](size_t build) -> absl::StatusOr<Session> {
    DiagnosticList faults;
    auto session = OpenReference(first, specs[build], &faults);
    NODEWISE_RETURN_IF_ERROR(faults.ToStatus());
    return session;
  };
  std::vector<SeriesBuild> builds;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string& name =
        specs[i].library.empty() ? specs[i].path : specs[i].library;
    answer->evidence.builds.push_back(name);
    builds.push_back(
        {name,
         [&open, i]() -> absl::StatusOr<std::shared_ptr<const GraphTarget>> {
           NODEWISE_ASSIGN_OR_RETURN(const Session session, open(i));
           return session.target;
         }});
  }
  const std::vector<NamedTensor> given = first.NamedInputs();
  NODEWISE_ASSIGN_OR_RETURN(
      const SeriesResult found,
      FindFirstBad(builds, given,
                   {.progress = ProgressOf(question, "builds")}));
  answer->evidence.series = found;
  if (!found.first_bad.has_value()) {
    AddNanInputDoubt(given, answer);
    return absl::OkStatus();
  }
  answer->state = Answer::State::kWrong;
  NODEWISE_ASSIGN_OR_RETURN(const Session good, open(found.last_good));
  NODEWISE_ASSIGN_OR_RETURN(Session bad, open(*found.first_bad));
  if (!AreSidesAlike(*bad.target, *good.target, answer)) {
    return absl::OkStatus();
  }
  Question mixed = question;
  mixed.target = std::move(bad);
  return SearchByMixing(mixed, good, answer);
}

absl::Status SearchDump(const Question& question, Answer* answer) {
  NODEWISE_RETURN_IF_ERROR(UseOpaqueProgram(question.reference.spec.model));
  NODEWISE_ASSIGN_OR_RETURN(LocateResult located,
                            ReplayDump(question.target.dump, AllOperators(),
                                       {ProgressOf(question, "locate")}));
  TakeLocated(std::move(located), /*judged_all=*/true, answer);
  return absl::OkStatus();
}

// A dump that is not complete has still been compared, as far as it goes; the
// doubt keeps that from being taken for a match.
absl::Status SearchBetweenDumps(const Question& question, Answer* answer) {
  const std::string& right = question.reference.spec.path;
  const std::string& target = question.target.dump;
  NODEWISE_ASSIGN_OR_RETURN(const auto expected, OpenInModelOrder(right));
  NODEWISE_ASSIGN_OR_RETURN(const auto actual, OpenInModelOrder(target));
  NODEWISE_ASSIGN_OR_RETURN(
      Comparison comparison,
      CompareSources(
          *expected, *actual,
          {.compare = {.rule = {Rule::Kind::kBounds}, .describe = true}}));
  NODEWISE_ASSIGN_OR_RETURN(DumpDifference where,
                            LocateDumpDifference(right, target, comparison));
  for (TensorSource* source : {expected.get(), actual.get()}) {
    const absl::Status complete = source->CheckComplete();
    if (!complete.ok()) answer->AddDoubt(complete);
  }
  TakeDifference(where, answer);
  for (const DumpedNode state :
       {DumpedNode::kBegins, DumpedNode::kUnclear, DumpedNode::kFollows}) {
    if (!where.NodesThat(state).empty()) answer->state = Answer::State::kWrong;
  }
  answer->evidence.reference = right;
  answer->evidence.index = where.index;
  answer->evidence.dumps = {std::move(comparison), std::move(where)};
  return absl::OkStatus();
}

}  // namespace nodewise
