// Searches in a target, or a dump of it, whose nodes do not say what they
// compute: what they make is matched with a model, or with another build.
//
// Both sides run on the same inputs, and every tensor of both is recorded.
// Tensors that hold the same numbers in some order are pairs; with a second set
// of inputs that is not an accident any more. An entry that should have a
// partner, since those around it have theirs, and has none was made wrong by
// its node.

#include <algorithm>
#include <set>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/build_network.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/diagnose/model_beside.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/network_runner.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

// --- Both sides, run with the same inputs ---

std::vector<NamedTensor> InputsOfNetwork(const Session& target,
                                         const Network& network,
                                         absl::Span<const size_t> pairs) {
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < target.inputs.size() && i < pairs.size(); ++i) {
    inputs.push_back({network.value(network.inputs()[pairs[i]]).name,
                      target.inputs[i].tensor});
  }
  return inputs;
}

// Pairs by place alone are a guess that may be wrong, so that a note tells
// each.
absl::Status PairAll(const Session& target, const Network& network,
                     NetworkBeside* beside) {
  const InputList& compiled = target.target->inputs();
  const auto list = ListInputs(network);
  auto pairs = PairInputs(compiled, *list);
  if (!pairs.ok()) return At(beside->name, pairs.status());
  beside->inputs = *std::move(pairs);
  std::vector<std::string> needed;
  for (size_t i = 0; i < compiled.size(); ++i) {
    if (compiled.IsNeeded(i)) needed.push_back(compiled.Name(i));
  }
  for (const size_t i : PairsByPlace(compiled, *list, beside->inputs)) {
    beside->notes.push_back(fmt::format(
        "input {} is taken for {} of {}, by its place and its type: none there "
        "has its name",
        Printable(needed[i]), Printable(list->Name(beside->inputs[i])),
        beside->name));
  }
  return absl::OkStatus();
}

constexpr std::string_view kDiffers = "differs";

// Reads the model, with the sizes that the inputs of the target have. All its
// faults go into `diagnostics`. Fails as LoadModel() and PairInputs().
absl::StatusOr<NetworkBeside> ModelFor(const Session& target,
                                       const TargetSpec& model,
                                       DiagnosticList* diagnostics) {
  NetworkBeside beside;
  beside.name = model.path.empty() ? "the model" : model.path;
  NODEWISE_ASSIGN_OR_RETURN(Network network,
                            LoadNetworkOf(model, &beside.notes, diagnostics));
  NODEWISE_RETURN_IF_ERROR(PairAll(target, network, &beside));
  BindSizes(InputsOfNetwork(target, network, beside.inputs), &network);
  auto opaque = TakeOpaque(model.model, &network);
  if (!opaque.ok()) return At(beside.name, opaque.status());
  beside.opaque = *std::move(opaque);
  beside.network = std::make_shared<const Network>(std::move(network));
  return beside;
}

// Takes another build of the network for the model. Fails as NetworkOfBuild()
// and PairInputs().
absl::StatusOr<NetworkBeside> BuildFor(const Session& target,
                                       const Session& build) {
  NetworkBeside beside;
  beside.name = build.name;
  NODEWISE_ASSIGN_OR_RETURN(Network network, NetworkOfBuild(build.target));
  NODEWISE_RETURN_IF_ERROR(PairAll(target, network, &beside));
  beside.network = std::make_shared<const Network>(std::move(network));
  return beside;
}

// The inputs that both sides are run with: those of the target, and others that
// are drawn like them.
struct SetsOfInputs {
  uint64_t sets = kInputSets;
  uint64_t seed = 1;
  // One more has NaN, infinities and zeros in some places.
  bool has_special = false;
};

absl::StatusOr<std::vector<RecordedPair>> RecordBoth(
    const Session& target, const NetworkBeside& beside,
    const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {target.name, target.target}));
  NODEWISE_ASSIGN_OR_RETURN(const auto compiled, maker());
  const auto network =
      MakeNetworkRunner("interpreter", beside.name, beside.network);
  const auto given = InputsOfNetwork(target, *beside.network, beside.inputs);
  std::vector<NamedTensor> inputs = given;
  std::vector<RecordedPair> pairs;
  for (uint64_t set = 0; set < sets.sets + (sets.has_special ? 1 : 0); ++set) {
    if (set == sets.sets) {
      NODEWISE_ASSIGN_OR_RETURN(inputs,
                                WithSpecialNumbers(inputs, sets.seed + set));
    } else if (set > 0) {
      NODEWISE_ASSIGN_OR_RETURN(inputs, DrawSimilar(given, sets.seed + set));
    }
    NODEWISE_ASSIGN_OR_RETURN(
        RecordedPair pair,
        RecordPair(compiled.get(), network.get(), beside.inputs, inputs));
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// --- Beside a model ---

// Returns how many operations with weights, which a compiler keeps, are named
// or lie in what is named, without a change that explains it; and how many
// there are.
// Operations with weights are the anchor: a compiler may fuse or drop any
// other, and a model of the same shape has them in the same places.
std::pair<size_t, size_t> WrongWeights(const ValueEvidence& evidence) {
  constexpr int64_t kFewestNumbers = 16;
  const Network& network = *evidence.network;
  std::set<OperationId> wrong;
  for (const ValueCulprit& culprit : evidence.result.culprits) {
    if (!culprit.explanations.empty()) continue;
    wrong.insert(culprit.region.begin(), culprit.region.end());
  }
  std::pair<size_t, size_t> counts;
  for (const OperationId id : network.order()) {
    const std::vector<ValueId>& inputs = network.operation(id).inputs;
    const bool has_weights = std::ranges::any_of(inputs, [&](ValueId input) {
      return input != kNoValue &&
             network.value(input).kind == NetworkValue::Kind::kConstant &&
             CountOf(network.value(input).data) >= kFewestNumbers;
    });
    if (!has_weights) continue;
    ++counts.second;
    if (wrong.count(id) > 0) ++counts.first;
  }
  return counts;
}

// Returns whether the model is likely to be another one than the network was
// compiled from: no node is right and of no wrong one it can be said what it
// should have made, or most weights seem to be others.
// Three wrong layers are too many for an accident and few enough for a small
// network.
bool IsOfOtherModel(const ValueEvidence& evidence) {
  constexpr size_t kFewest = 3;
  const std::vector<ValueCulprit>& culprits = evidence.result.culprits;
  if (culprits.empty()) return false;
  const auto [wrong, all] = WrongWeights(evidence);
  if (wrong >= kFewest && 2 * wrong > all) return true;
  for (const ValueCulprit& culprit : culprits) {
    if (culprit.share_explained > 0 || !culprit.explanations.empty()) {
      return false;
    }
  }
  const GraphIndex& index = *evidence.index;
  for (uint32_t e = 0; e < evidence.result.entries.size(); ++e) {
    const NodeId node = index.NodeOf(EntryId{e});
    if (index.graph().IsFunction(node) &&
        evidence.result.entries[e].state == EntryState::kHealthy) {
      return false;
    }
  }
  return true;
}

void SuggestOtherModel(ValueEvidence* evidence, Answer* answer) {
  if (!IsOfOtherModel(*evidence)) return;
  // If the model is unlike the network, one question says more than a list of
  // culprits.
  evidence->most_shown = 3;
  const auto [wrong, all] = WrongWeights(*evidence);
  answer->notes.push_back(fmt::format(
      "is {} the model of this network, with the weights that it was compiled "
      "with? {}",
      evidence->model,
      wrong > 0 ? fmt::format("{} of {} with weights make something else",
                              wrong, CountOf(all, "operation"))
                : "no node makes a tensor of it"));
}

// Aligning finds which entries hold which tensors; locating then asks of each
// entry whether it is made rightly of what its node has read.
absl::StatusOr<ValueEvidence> Examine(std::shared_ptr<const GraphIndex> index,
                                      std::shared_ptr<const Network> network,
                                      const std::vector<RecordedPair>& pairs,
                                      std::vector<ValueId> open) {
  ValueEvidence evidence;
  NODEWISE_ASSIGN_OR_RETURN(auto alignment, Align(*index, *network, pairs));
  alignment.open = std::move(open);
  NODEWISE_ASSIGN_OR_RETURN(
      evidence.result,
      LocateByValue(*index, *network, pairs, alignment, AllOperators()));
  evidence.index = std::move(index);
  evidence.network = std::move(network);
  return evidence;
}

// The recorded runs are left in `pairs`, unless that is null.
absl::StatusOr<ValueEvidence> ExamineBeside(
    const Session& judged, const NetworkBeside& beside,
    const SetsOfInputs& sets, std::vector<RecordedPair>* pairs = nullptr) {
  NODEWISE_ASSIGN_OR_RETURN(auto recorded, RecordBoth(judged, beside, sets));
  NODEWISE_ASSIGN_OR_RETURN(ValueEvidence evidence,
                            Examine(IndexOf(judged.target), beside.network,
                                    recorded, beside.opaque.open));
  evidence.model = beside.name;
  if (pairs != nullptr) *pairs = std::move(recorded);
  return evidence;
}

// --- Dumps ---

struct IndexedDump {
  DumpedRun run;
  StoragePlan plan;
  std::unique_ptr<const GraphIndex> index;
};

// The graph, its plan and its index lie together, since each refers to the one
// before it.
absl::StatusOr<std::shared_ptr<IndexedDump>> OpenIndexed(
    const std::string& path) {
  auto dump = std::make_shared<IndexedDump>();
  NODEWISE_ASSIGN_OR_RETURN(dump->run, OpenDumpedRun(path));
  NODEWISE_ASSIGN_OR_RETURN(dump->plan, PlanStorage(dump->run.graph, kDLCPU));
  dump->index = std::make_unique<const GraphIndex>(dump->run.graph, dump->plan);
  return dump;
}

// The dump says which sizes the run had that the model leaves open.
std::vector<VmInputType> TypesOfInputs(const GraphIndex& index) {
  const Graph& graph = index.graph();
  std::vector<VmInputType> types;
  for (const uint32_t node : graph.arg_nodes) {
    const GraphEntry& entry = graph.entry(graph.EntryOf(NodeId{node}, 0));
    types.push_back({index.KeyOf(NodeId{node}), entry.shape, entry.dtype});
  }
  return types;
}

// --- Between builds ---

// Values cannot tell the parts of a culprit apart, so any of them may be wrong.
std::set<std::string> KeysOf(const ValueCulprit& culprit,
                             const GraphIndex& index) {
  std::set<std::string> keys = {index.KeyOf(culprit.node)};
  for (const NodeId node : culprit.parts) keys.insert(index.KeyOf(node));
  return keys;
}

// The keys of the nodes of a build that differ from another one's.
// The third build takes the place of the model, so that its own nodes need not
// say what they compute either.
absl::StatusOr<std::set<std::string>> DifferingNodes(const Session& build,
                                                     const Session& other,
                                                     const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const NetworkBeside beside, BuildFor(build, other));
  NODEWISE_ASSIGN_OR_RETURN(const ValueEvidence evidence,
                            ExamineBeside(build, beside, sets));
  std::set<std::string> nodes;
  for (const ValueCulprit& culprit : evidence.result.culprits) {
    nodes.merge(KeysOf(culprit, *evidence.index));
  }
  return nodes;
}

absl::StatusOr<std::vector<std::string>> KindsByThird(
    const Session& target, const Session& reference, const Session& third,
    const ValueEvidence& evidence, const SetsOfInputs& sets) {
  NODEWISE_ASSIGN_OR_RETURN(const auto in_target,
                            DifferingNodes(target, third, sets));
  NODEWISE_ASSIGN_OR_RETURN(const auto in_reference,
                            DifferingNodes(reference, third, sets));
  std::vector<std::string> kinds;
  for (const ValueCulprit& culprit : evidence.result.culprits) {
    const auto is_in = [](const std::set<std::string>& nodes) {
      return [&nodes](const std::string& key) { return nodes.contains(key); };
    };
    const auto keys = KeysOf(culprit, *evidence.index);
    const auto operations =
        OperationNames(*evidence.network, culprit.operations);
    bool is_target = std::ranges::any_of(keys, is_in(in_target));
    bool is_reference = std::ranges::any_of(operations, is_in(in_reference));
    // The third one may name another node of a pair, where the nodes of builds
    // do not go together one by one.
    if (!is_target && !is_reference) {
      is_target = !in_target.empty();
      is_reference = !in_reference.empty();
    }
    if (is_target == is_reference) {
      kinds.emplace_back(is_target ? "differs, and both from the third build"
                                   : kDiffers);
    } else {
      kinds.push_back(is_target ? "broken" : "right, and the reference broken");
    }
  }
  return kinds;
}

}  // namespace

absl::StatusOr<AlignAnswer> AlignWith(const Session& target,
                                      const Reference& reference, uint64_t sets,
                                      DiagnosticList* diagnostics) {
  AlignAnswer answer;
  answer.target = target;
  if (reference.kind == Reference::Kind::kModel) {
    NODEWISE_ASSIGN_OR_RETURN(answer.beside,
                              ModelFor(target, reference.spec, diagnostics));
  } else {
    NODEWISE_ASSIGN_OR_RETURN(
        const Session build,
        OpenReference(target, reference.spec, diagnostics));
    NODEWISE_ASSIGN_OR_RETURN(answer.beside, BuildFor(target, build));
    answer.notes = build.notes;
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::vector<RecordedPair> pairs,
      RecordBoth(target, answer.beside,
                 {sets, target.seed.value_or(1), /*has_special=*/false}));
  NODEWISE_ASSIGN_OR_RETURN(
      answer.alignment,
      Align(target.target->index(), *answer.beside.network, pairs));
  return answer;
}

// The target's own seed draws the further inputs, so that a search can be
// repeated.
absl::Status SearchBesideModel(const Question& question, Answer* answer) {
  const Session& session = question.target;
  DiagnosticList faults;
  const auto beside = ModelFor(session, question.reference.spec, &faults);
  if (answer->AddDoubts(faults)) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(beside.status());
  AddNotes(beside->notes, answer);
  answer->evidence.opaque = beside->opaque;
  const SetsOfInputs sets{question.input_sets.value_or(kInputSets),
                          session.seed.value_or(1),
                          question.has_special_inputs};
  std::vector<RecordedPair> pairs;
  NODEWISE_ASSIGN_OR_RETURN(ValueEvidence evidence,
                            ExamineBeside(session, *beside, sets, &pairs));
  evidence.called = "the model";
  for (size_t set = 0; set < pairs.size(); ++set) {
    evidence.sets.push_back(set == 0 ? "the given inputs"
                            : set < sets.sets
                                ? "inputs drawn like them"
                                : "inputs with NaN and infinities");
  }
  SuggestOtherModel(&evidence, answer);
  TakeByValue(std::move(evidence), answer);
  if (question.repro_folder.empty()) return absl::OkStatus();
  return WriteValueRepros(question, session, pairs, answer);
}

// Nodes are judged in one of the builds, by the tensors of the other. Which one
// that is makes a difference for the names alone, so it is the target unless
// that is trusted.
absl::Status SearchBetweenBuilds(const Question& question, Answer* answer) {
  const Session& target = question.target;
  NODEWISE_ASSIGN_OR_RETURN(const std::optional<Session> reference,
                            OpenBuild(question, question.reference.spec,
                                      NameOf(Way::kReference), answer));
  if (!reference.has_value()) return absl::OkStatus();
  std::optional<Session> third;
  if (question.third.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(third, OpenBuild(question, *question.third,
                                               NameOf(Way::kThird), answer));
    if (!third.has_value()) return absl::OkStatus();
  }
  const SetsOfInputs sets{question.input_sets.value_or(kInputSets),
                          target.seed.value_or(1)};
  const bool is_swapped = question.trust == Trust::kTarget;
  const Session& judged = is_swapped ? *reference : target;
  NODEWISE_ASSIGN_OR_RETURN(const NetworkBeside beside,
                            BuildFor(judged, is_swapped ? target : *reference));
  NODEWISE_ASSIGN_OR_RETURN(auto evidence, ExamineBeside(judged, beside, sets));
  AddNotes(beside.notes, answer);
  evidence.called = beside.name;
  evidence.side = is_swapped ? "reference" : "target";
  if (is_swapped) evidence.owner = " of " + judged.name;
  if (third.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        evidence.kinds,
        KindsByThird(target, *reference, *third, evidence, sets));
  } else if (question.trust == Trust::kNeither) {
    evidence.kinds.assign(evidence.result.culprits.size(),
                          std::string(kDiffers));
    if (!evidence.kinds.empty()) {
      answer->notes.push_back(
          fmt::format("nothing says which of the two is right ({} SIDE does, "
                      "or {} BUILD, or a model)",
                      NameOf(Way::kTrust), NameOf(Way::kThird)));
    }
  }
  TakeByValue(std::move(evidence), answer);
  return absl::OkStatus();
}

// A dump has one run, so there is one set of inputs: those that it was made
// with. The model is run on them here.
absl::Status SearchDumpBesideModel(const Question& question, Answer* answer) {
  const TargetSpec& model = question.reference.spec;
  NODEWISE_ASSIGN_OR_RETURN(const auto read,
                            NetworkOfReference(question, answer));
  if (read == nullptr) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(const auto dump, OpenIndexed(question.target.dump));
  Network bound = *read;
  BindSizes(TypesOfInputs(*dump->index), &bound);
  auto opaque = TakeOpaque(model.model, &bound);
  if (!opaque.ok()) return At(model.path, opaque.status());
  const auto network = std::make_shared<const Network>(std::move(bound));
  const auto runner = MakeNetworkRunner("interpreter", model.path, network);
  std::vector<RecordedPair> pairs(1);
  NODEWISE_ASSIGN_OR_RETURN(
      pairs[0],
      RecordFromDump(*dump->index, dump->run.source.get(), runner.get()));
  NODEWISE_ASSIGN_OR_RETURN(
      ValueEvidence evidence,
      Examine({dump, dump->index.get()}, network, pairs, opaque->open));
  answer->evidence.opaque = *std::move(opaque);
  evidence.model = model.path;
  evidence.called = "the model";
  TakeByValue(std::move(evidence), answer);
  return absl::OkStatus();
}

}  // namespace nodewise
