// Nodes become folders: what each has read, what it made, and what shows that
// this is wrong.
//
// A folder has to show the fault without the network. So the node runs alone
// first, on what it has read; if it is right then, the nodes before it are
// added until it fails. Inputs that show a fault are made simpler as long as
// they do, and names and numbers are exchanged where others may have the
// folder.

#include "nodewise/diagnose/repro_folders.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/source_region.h"
#include "nodewise/graph/params.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/locate_target.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/repro/write_repro.h"
#include "nodewise/runner/mixed_target.h"
#include "nodewise/runners/runner_list.h"
#include "nodewise/support/status.h"
#include "nodewise/support/ways.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A folder is told of as the command of the folder would find it, which
// may be less than the search knew: a node may be right when it runs alone.
std::string DescribeRepro(const ReproCase& node_case) {
  if (node_case.plan_fault.has_value()) {
    return fmt::format("{}: writes over {}, which {} still reads",
                       node_case.verdict, node_case.plan_fault->tensor,
                       node_case.plan_fault->reader);
  }
  if (!node_case.region.has_value()) {
    return "not judged: " + node_case.why_no_region;
  }
  const std::string simpler =
      node_case.is_shrunk() ? ", with simpler inputs"
      : node_case.earlier_nodes.empty()
          ? ""
          : fmt::format(", after {} before it",
                        CountOf(node_case.earlier_nodes.size(), "node"));
  if (node_case.failure.has_value()) {
    if (node_case.fails_alone == false) return "came to its end alone";
    return node_case.verdict + ": " + node_case.failure->what + simpler;
  }
  const ReproOutput* const wrong = node_case.FindWrong();
  if (wrong == nullptr) {
    return node_case.verdict.empty() ? "right" : "right when it ran alone";
  }
  return "wrong: " + wrong->comparison->judgement.reason + simpler;
}

// Returns what the search says first of a case, as the command of its folder
// would: the verdict of the first culprit; none if it accuses nothing.
absl::StatusOr<std::optional<NodeVerdict>> SearchCase(
    const ReproCase& node_case) {
  NODEWISE_ASSIGN_OR_RETURN(
      auto target, GraphTarget::FromArtefact(
                       node_case.node,
                       {node_case.graph, node_case.library, Params()}, {kCpu}));
  TargetRequest request{std::move(target)};
  for (const auto* inputs : {&node_case.inputs, &node_case.earlier_inputs}) {
    for (const ReproInput& input : *inputs) {
      request.inputs.push_back({input.name, input.tensor});
    }
  }
  const LocateOptions options{.node_limit_ms = node_case.node_limit_ms,
                              .most_explain_ns = 0};
  NODEWISE_ASSIGN_OR_RETURN(const LocateResult located,
                            LocateInTarget(request, AllOperators(), options));
  if (located.culprits.empty()) return std::nullopt;
  return located.nodes[located.culprits[0].report].verdict;
}

// If a search accuses a node of the case, it must accuse drawn replacements of
// the same. A node that hangs is not searched, since each search would wait for
// it, nor one beside a model, of which a search knows nothing.
DrawOptions DrawOptionsFor(const ReproCase& node_case) {
  DrawOptions options;
  const bool fails = node_case.failure.has_value() || node_case.harms_others ||
                     !node_case.verdict.empty() ||
                     node_case.FindWrong() != nullptr;
  const bool hangs = node_case.failure.has_value() &&
                     node_case.failure->kind == NodeFailure::Kind::kHang;
  if (!fails || hangs || node_case.beside.has_value()) return options;
  const auto found = SearchCase(node_case);
  if (!found.ok() || !found->has_value()) return options;
  options.accuses =
      [verdict = **found](const ReproCase& other) -> absl::StatusOr<bool> {
    NODEWISE_ASSIGN_OR_RETURN(const auto now, SearchCase(other));
    return now == verdict;
  };
  return options;
}

// Runs all nodes but those that end runs or spoil memory.
absl::StatusOr<std::unique_ptr<Runner>> MakeSafeRunner(
    std::shared_ptr<const GraphTarget> target,
    const std::set<std::string>& failing) {
  if (!failing.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(target,
                              WithStandIns(*target, AllOperators(),
                                           [failing](const std::string& node) {
                                             return failing.count(node) > 0;
                                           }));
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {target->name(), target}));
  return maker();
}

// Notes why a node gets no folder, or none that others may have.
void NoteNotWritten(Way way, const std::string& node, std::string_view why,
                    std::vector<std::string>* notes) {
  notes->push_back(
      fmt::format("{}: {}: is not written{}", NameOf(way), node, why));
}

// Writes folders one after the other: first those that one run of the network
// is enough for, then those of nodes that do not fail alone, and at last those
// of several nodes.
class FolderWriter {
 public:
  FolderWriter(const std::shared_ptr<const GraphTarget>& target,
               absl::Span<const NamedTensor> inputs,
               const std::vector<ReproFolder>& folders,
               const ReproFolderOptions& options, WrittenRepros* written)
      : shared_target_(target),
        folders_(folders),
        options_(options),
        written_(*written),
        inputs_(inputs.begin(), inputs.end()) {}

  absl::Status Write() {
    std::vector<NodeId> nodes;
    for (const ReproFolder& folder : folders_) {
      const std::string key = target_.index().KeyOf(folder.node);
      if (folder.victim.has_value()) continue;
      if (folder.failure.has_value()) failing_.insert(key);
      if (folder.plan_fault.has_value()) continue;
      nodes.push_back(folder.node);
      by_node_[key] = &folder;
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              MakeSafeRunner(shared_target_, failing_));
    source_.may_run = [&](NodeId node) {
      return failing_.count(target_.index().KeyOf(node)) == 0;
    };
    if (!nodes.empty()) {
      NODEWISE_RETURN_IF_ERROR(VisitCases(
          source_, nodes, *runner, inputs_,
          [&](ReproCase node_case) { return Begin(std::move(node_case)); }));
    }
    // These need further runs of the network.
    for (ReproCase& node_case : needy_) {
      const ReproFolder& folder = *by_node_[node_case.node];
      NODEWISE_RETURN_IF_ERROR(AddEarlierNodes(source_, folder.node, *runner,
                                               inputs_, {}, &node_case));
      NODEWISE_RETURN_IF_ERROR(Finish(&node_case, folder));
    }
    for (const ReproFolder& folder : folders_) {
      if (folder.victim.has_value()) {
        NODEWISE_RETURN_IF_ERROR(WriteVictim(folder));
      } else if (folder.plan_fault.has_value()) {
        NODEWISE_RETURN_IF_ERROR(WritePlanFault(folder, *runner));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Those that are complete are written at once, so that no more than the needy
  // ones are held in memory.
  absl::Status Begin(ReproCase node_case) {
    const ReproFolder& folder = *by_node_[node_case.node];
    node_case.verdict = folder.verdict;
    node_case.reason = folder.reason;
    node_case.harms_others =
        folder.verdict == NameOf(NodeVerdict::kChangesFloats);
    node_case.failure = folder.failure;
    node_case.node_limit_ms = options_.node_limit_ms;
    if (folder.failure.has_value()) CheckFailsAlone(&node_case);
    if (!MayNeedOthers(node_case)) return Finish(&node_case, folder);
    needy_.push_back(std::move(node_case));
    return absl::OkStatus();
  }

  // Only functions of a library keep something from call to call.
  static bool MayNeedOthers(const ReproCase& node_case) {
    if (node_case.library_file.empty() || !node_case.region.has_value()) {
      return false;
    }
    if (node_case.failure.has_value()) return node_case.fails_alone == false;
    return node_case.verdict == NameOf(NodeVerdict::kBroken) &&
           node_case.FindWrong() == nullptr;
  }

  absl::Status Finish(ReproCase* node_case, const ReproFolder& folder) {
    NODEWISE_RETURN_IF_ERROR(Draw(node_case));
    // Earlier nodes read what the node does not, so its inputs stay.
    if (node_case->earlier_nodes.empty()) {
      NODEWISE_RETURN_IF_ERROR(ShrinkCase(options_.shrink, node_case));
    }
    return WriteOne(*node_case, folder);
  }

  // Numbers are drawn before inputs are made simpler, so that the simpler ones
  // are made of drawn numbers.
  absl::Status Draw(ReproCase* node_case) const {
    if (!options_.is_anonymous) return absl::OkStatus();
    DrawOptions draw = DrawOptionsFor(*node_case);
    // Inputs that stay as complex as they are may be drawn all the same.
    draw.bounds.most_runs =
        std::max(draw.bounds.most_runs, options_.shrink.most_runs);
    return DrawTensors(draw, source_.operators, node_case);
  }

  // One of several that cannot be anonymous does not keep the others back.
  absl::Status WriteOne(const ReproCase& node_case, const ReproFolder& folder) {
    absl::Status status = WriteCase(node_case, folder.path, &written_);
    const bool is_another = options_.is_anonymous && folders_.size() > 1 &&
                            absl::IsFailedPrecondition(status);
    if (!is_another) return status;
    NoteNotWritten(Way::kAnonymous, node_case.node,
                   fmt::format(": {}", MessageOf(status)), &written_.notes);
    return absl::OkStatus();
  }

  // How the victim ends a run of the network; none if it only computes
  // something else.
  absl::StatusOr<std::optional<NodeFailure>> FailureOfVictim(
      const std::string& victim) const {
    NODEWISE_ASSIGN_OR_RETURN(const auto makers, MakersOf(shared_target_));
    NODEWISE_ASSIGN_OR_RETURN(const auto runner, makers.candidate());
    RunOptions options;
    options.node_limit_ms = options_.node_limit_ms;
    auto failure = FailureOf(runner->Run(inputs_, options).status());
    if (failure.has_value() && failure->node != victim) failure.reset();
    return failure;
  }

  absl::Status WriteVictim(const ReproFolder& folder) {
    const std::string victim = target_.index().KeyOf(*folder.victim);
    NODEWISE_ASSIGN_OR_RETURN(const auto failure, FailureOfVictim(victim));
    std::set<std::string> failing = failing_;
    if (failure.has_value()) failing.insert(victim);
    NODEWISE_ASSIGN_OR_RETURN(const auto runner,
                              MakeSafeRunner(shared_target_, failing));
    return VisitCases(
        source_, {*folder.victim}, *runner, inputs_,
        [&](ReproCase node_case) -> absl::Status {
          node_case.verdict = "harmed by a side effect";
          node_case.reason = folder.reason;
          node_case.failure = failure;
          node_case.node_limit_ms = options_.node_limit_ms;
          if (failure.has_value()) CheckFailsAlone(&node_case);
          NODEWISE_RETURN_IF_ERROR(AddEarlierNodes(
              source_, *folder.victim, *runner, inputs_, {}, &node_case));
          NODEWISE_RETURN_IF_ERROR(Draw(&node_case));
          return WriteOne(node_case, folder);
        });
  }

  // A fault of the plan takes several nodes, and cannot be cut out of every
  // graph.
  absl::Status WritePlanFault(const ReproFolder& folder, Runner& runner) {
    auto made = CutPlanFault(source_, *folder.plan_fault, runner, inputs_);
    if (absl::IsUnimplemented(made.status())) {
      NoteNotWritten(Way::kReproFolder, target_.index().KeyOf(folder.node),
                     fmt::format(": {}", MessageOf(made.status())),
                     &written_.notes);
      return absl::OkStatus();
    }
    NODEWISE_RETURN_IF_ERROR(made.status());
    made->verdict = folder.verdict;
    made->reason = folder.reason;
    NODEWISE_RETURN_IF_ERROR(Draw(&*made));
    return WriteOne(*made, folder);
  }

  const std::shared_ptr<const GraphTarget>& shared_target_;
  const GraphTarget& target_ = *shared_target_;
  const std::vector<ReproFolder>& folders_;
  const ReproFolderOptions& options_;
  WrittenRepros& written_;
  ReproSource source_ = SourceOf(target_);
  const std::vector<NamedTensor> inputs_;
  std::map<std::string, const ReproFolder*> by_node_;  // By its key.
  std::set<std::string> failing_;
  std::vector<ReproCase> needy_;  // They do not fail alone.
};

absl::StatusOr<NDArray> RecordedTensor(const RecordedPair& recorded,
                                       const GraphIndex& index, EntryId entry) {
  NODEWISE_ASSIGN_OR_RETURN(
      const size_t place,
      recorded.compiled->Find(
          {index.KeyOf(index.NodeOf(entry)), index.OutputOf(entry)}));
  return recorded.compiled->Load(place);
}

struct CaseMaker {
  const GraphTarget& target;
  const GraphIndex& index;
  const Network& network;
  const RecordedPair& recorded;
  const ValueLocateResult& located;

  // Returns the case of an entry, judged. Fails as FindPart(), CutPart(),
  // RegionOfPart() and JudgeCase().
  absl::StatusOr<ReproCase> Make(EntryId entry) const {
    const ReproSource source = SourceOf(target);
    NODEWISE_ASSIGN_OR_RETURN(auto part, FindPart(index, located, entry));
    NODEWISE_ASSIGN_OR_RETURN(
        PartCase cut, CutPart(
                          source, {part.nodes, entry},
                          [this](EntryId read) { return TensorOf(read); },
                          [this](EntryId read) {
                            return located.entries[Index(read)].state ==
                                   EntryState::kConstant;
                          }));
    ReproCase made = std::move(cut.node_case);
    std::vector<PartInput> inputs;
    for (size_t i = 0; i < cut.reads.size(); ++i) {
      inputs.push_back({cut.reads[i], made.inputs[i].name});
    }
    NODEWISE_ASSIGN_OR_RETURN(
        SourceRegion region,
        RegionOfPart(index, network, located, entry, inputs, source.operators));
    made.beside = {std::move(region.in_own_layout),
                   region.clean_distance,
                   std::move(region.is_padding),
                   {}};
    made.region = std::move(region.region);
    // The last node of the part makes the entry; the case has it already.
    part.nodes.pop_back();
    for (const NodeId node : part.nodes) {
      made.beside->other_nodes.push_back(index.KeyOf(node));
    }
    NODEWISE_RETURN_IF_ERROR(JudgeCase(&made));
    return made;
  }

  absl::StatusOr<NDArray> TensorOf(EntryId entry) const {
    const std::vector<uint32_t>& inputs = index.graph().arg_nodes;
    const auto found = std::ranges::find(inputs, Index(index.NodeOf(entry)));
    // Runs do not hand out parameters, which may be in the library, too.
    const auto number = static_cast<size_t>(found - inputs.begin());
    if (found == inputs.end() || target.inputs().IsNeeded(number)) {
      return RecordedTensor(recorded, index, entry);
    }
    NODEWISE_ASSIGN_OR_RETURN(const auto executor, target.MakeExecutor());
    NODEWISE_ASSIGN_OR_RETURN(const NDArray lent, executor->GetInput(number));
    return lent.CopyToHost();
  }
};

// Returns the sets of inputs that show what the given ones, set 0, do not: the
// first set that shows a culprit, for each.
std::set<size_t> SetsToKeep(const ValueLocateResult& located) {
  std::set<size_t> sets;
  for (const ValueCulprit& culprit : located.culprits) {
    if (!culprit.sets.empty() && culprit.sets.front() > 0) {
      sets.insert(culprit.sets.front());
    }
  }
  return sets;
}

// Writes the inputs that show what the given ones do not: they are gone
// otherwise.
absl::Status KeepInputs(const GraphIndex& index,
                        const std::vector<RecordedPair>& recorded,
                        const std::set<size_t>& sets, const std::string& dir,
                        WrittenRepros* written) {
  std::vector<std::string>& paths = written->kept_inputs.emplace();
  for (const size_t set : sets) {
    std::vector<NamedTensor> inputs;
    for (const PairedInput& input : recorded[set].inputs) {
      NODEWISE_ASSIGN_OR_RETURN(const EntryId entry,
                                index.FindEntry(input.compiled));
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                                RecordedTensor(recorded[set], index, entry));
      inputs.push_back({input.compiled, std::move(tensor)});
    }
    paths.push_back(fmt::format("{}/inputs_{}.params", dir, set));
    NODEWISE_RETURN_IF_ERROR(WriteParams(paths.back(), inputs));
  }
  return absl::OkStatus();
}

// Writes the next folder of a node beside a model.
// Numbers are drawn before the case is written, while it still has its names.
absl::Status WriteModelRepro(const Question& question, ReproCase made,
                             WrittenRepros* written) {
  std::string name = made.node;
  if (question.is_anonymous) {
    name = HiddenName(made, AllOperators());
    NODEWISE_RETURN_IF_ERROR(DrawTensors({}, AllOperators(), &made));
  }
  return WriteCase(
      made, ReproPath(question.repro_folder, written->folders.size() + 1, name),
      written);
}

// Errors of these kinds say that a node is unfit for a folder. That is not a
// failure of writing one, so the other nodes still get theirs.
bool IsUnfitForRepro(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

// Returns the folder of a culprit; none, with a note, where it cannot be one.
absl::StatusOr<std::optional<ReproFolder>> FolderOf(const LocateResult& located,
                                                    const Culprit& culprit,
                                                    const GraphIndex& index,
                                                    const std::string& path,
                                                    Answer* answer) {
  const NodeReport& node = located.nodes[culprit.report];
  ReproFolder folder{node.node, path, std::string(NameOf(node.verdict)),
                     node.reason, node.failure};
  if (node.verdict == NodeVerdict::kPlanFault) {
    if (culprit.written_over.empty()) {
      NoteNotWritten(Way::kReproFolder, node.key,
                     ", since no run shows which tensor it writes over",
                     &answer->notes);
      return std::nullopt;
    }
    const WrittenOver& first = culprit.written_over[0];
    folder.plan_fault = {node.node, first.victim, first.reader};
  }
  // The nodes behind one that ends runs can only be run, and its right results
  // only be known, where the reference stands in for it.
  if (node.failure.has_value() &&
      std::ranges::count(located.stand_ins, node.key) == 0) {
    NoteNotWritten(Way::kReproFolder, node.key,
                   ", since it does not say what it computes, so nothing could "
                   "run in its place",
                   &answer->notes);
    return std::nullopt;
  }
  if (node.failure.has_value() && !node.failure->victim.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(folder.victim,
                              index.FindNode(node.failure->victim));
    folder.reason = fmt::format("{} {}", node.key, node.failure->what);
  }
  return std::optional<ReproFolder>(std::move(folder));
}

}  // namespace

// A library that is loaded apart has state of its own, as it will have in the
// process of the folder.
ReproSource SourceOf(const GraphTarget& target) {
  ReproSource source{target.index(),
                     AllOperators(),
                     target.artefact().library,
                     target.files().library,
                     {}};
  for (const NamedTensor& param : target.artefact().params.tensors) {
    source.params.push_back(param.name);
  }
  if (source.library_file.empty()) return source;
  // A library that cannot be loaded apart runs with what the network has left
  // behind.
  auto apart = LoadPrivateCopy(target.files());
  if (apart.ok()) source.library = *std::move(apart);
  return source;
}

absl::Status WriteCase(const ReproCase& node_case, const std::string& path,
                       WrittenRepros* written) {
  WrittenRepro repro;
  if (node_case.anonymity.has_value()) {
    ReproCase hidden = node_case;
    NODEWISE_RETURN_IF_ERROR(
        HideNames(DrawOptionsFor(node_case), AllOperators(), &hidden));
    NODEWISE_RETURN_IF_ERROR(WriteRepro(hidden, path));
    repro.kept = std::move(hidden.anonymity->kept);
  } else {
    NODEWISE_RETURN_IF_ERROR(WriteRepro(node_case, path));
  }
  repro.node = node_case.node;
  repro.folder = path;
  repro.is_judged = node_case.is_judged();
  repro.is_wrong = node_case.FindWrong() != nullptr;
  if (node_case.failure.has_value()) {
    repro.failure = NameOf(node_case.failure->kind);
    repro.fails_alone = node_case.fails_alone;
  }
  repro.earlier_nodes = node_case.earlier_nodes;
  repro.is_shrunk = node_case.is_shrunk();
  repro.shrink_runs = node_case.shrink_runs;
  repro.shows = DescribeRepro(node_case);
  written->folders.push_back(std::move(repro));
  return absl::OkStatus();
}

// Numbers keep folders in the order of the culprits, and apart where two names
// become one.
std::string ReproPath(const std::string& dir, size_t number,
                      const std::string& key) {
  const std::filesystem::path path(dir);
  return (path / fmt::format("{:03}_{}", number, PlainName(key))).string();
}

absl::Status MakeReproRoot(const std::string& dir) {
  NODEWISE_RETURN_IF_ERROR(CheckReproFolder(dir));
  std::error_code error;
  std::filesystem::create_directory(dir, error);
  if (!error) return absl::OkStatus();
  return Unavailable("{}: cannot make the folder: {}", dir, error.message());
}

absl::Status WriteReproFolders(const std::shared_ptr<const GraphTarget>& target,
                               absl::Span<const NamedTensor> inputs,
                               const std::vector<ReproFolder>& folders,
                               const ReproFolderOptions& options,
                               WrittenRepros* written) {
  return FolderWriter(target, inputs, folders, options, written).Write();
}

absl::Status WriteCulprits(const Question& question, Answer* answer) {
  const std::string& dir = question.repro_folder;
  if (dir.empty()) return absl::OkStatus();
  const std::shared_ptr<const GraphTarget>& target = question.target.target;
  const LocateResult& located = *answer->evidence.located;
  std::vector<ReproFolder> folders;
  for (const Culprit& culprit : located.culprits) {
    const NodeReport& node = located.nodes[culprit.report];
    const std::string path =
        ReproPath(dir, folders.size() + 1,
                  question.is_anonymous
                      ? HiddenName(target->graph(), node.node, AllOperators())
                      : node.key);
    NODEWISE_ASSIGN_OR_RETURN(
        auto folder, FolderOf(located, culprit, target->index(), path, answer));
    if (folder.has_value()) folders.push_back(*std::move(folder));
  }
  if (folders.empty()) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(MakeReproRoot(dir));
  ReproFolderOptions options;
  options.node_limit_ms =
      question.node_limit_ms.value_or(options.node_limit_ms);
  options.is_anonymous = question.is_anonymous;
  const absl::Status status =
      WriteReproFolders(target, question.target.NamedInputs(), folders, options,
                        &answer->repros.emplace());
  // The findings stand even if no folder could be written.
  if (!status.ok()) answer->AddDoubt(At(NameOf(Way::kReproFolder), status));
  return absl::OkStatus();
}

absl::Status WriteValueRepros(const Question& question, const Session& session,
                              const std::vector<RecordedPair>& recorded,
                              Answer* answer) {
  const std::string& dir = question.repro_folder;
  const ValueEvidence& evidence = *answer->evidence.by_value;
  const std::vector<ValueCulprit>& culprits = evidence.result.culprits;
  if (culprits.empty()) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(MakeReproRoot(dir));
  WrittenRepros& written = answer->repros.emplace();
  // The findings stand all the same where a folder cannot be written.
  for (size_t i = 0; i < culprits.size(); ++i) {
    const ValueCulprit& culprit = culprits[i];
    const size_t set = culprit.sets.empty() ? 0 : culprit.sets.front();
    auto made = CaseMaker{*session.target, session.target->index(),
                          *evidence.network, recorded[set], evidence.result}
                    .Make(culprit.entry);
    absl::Status status = made.status();
    if (made.ok()) {
      made->verdict = kBrokenKind;
      made->reason = ReasonFor(evidence, i);
      status = WriteModelRepro(question, *std::move(made), &written);
    }
    if (IsUnfitForRepro(status)) {
      NoteNotWritten(Way::kReproFolder, evidence.index->KeyOf(culprit.node),
                     fmt::format(": {}", MessageOf(status)), &written.notes);
    } else if (!status.ok()) {
      answer->AddDoubt(At(NameOf(Way::kReproFolder), status));
      return absl::OkStatus();
    }
  }
  const std::set<size_t> sets = SetsToKeep(evidence.result);
  if (!question.is_anonymous) {
    const absl::Status kept =
        KeepInputs(*evidence.index, recorded, sets, dir, &written);
    if (!kept.ok()) answer->AddDoubt(At(NameOf(Way::kReproFolder), kept));
  } else if (!sets.empty()) {
    // The kept inputs have the names and the numbers of the network.
    written.notes.push_back(fmt::format(
        "{}: the inputs that show what the given ones do not are not written "
        "with {}",
        NameOf(Way::kReproFolder), NameOf(Way::kAnonymous)));
  }
  return absl::OkStatus();
}

}  // namespace nodewise
