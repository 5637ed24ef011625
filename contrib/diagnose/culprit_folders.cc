// Culprits become folders.

#include "contrib/diagnose/culprit_folders.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "contrib/diagnose/searches.h"
#include "fmt/format.h"
#include "nodewise/align/source_region.h"
#include "nodewise/graph/params.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/anonymous.h"
#include "nodewise/repro/part_case.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/ways.h"

namespace nodewise {
namespace {

// Makes cases of the nodes of one target.
class CaseMaker {
 public:
  CaseMaker(const GraphTarget& target, const Network& network,
            const RecordedPair& recorded, const ValueLocateResult& located)
      : target_(target),
        index_(target.index()),
        network_(network),
        recorded_(recorded),
        located_(located),
        source_(SourceOf(target)) {}

  // Returns the case of an entry, judged. Fails as FindPart(), CutPart(),
  // RegionOfPart() and JudgeCase().
  absl::StatusOr<ReproCase> Make(EntryId entry) const {
    NODEWISE_ASSIGN_OR_RETURN(CompiledPart part,
                              FindPart(index_, located_, entry));
    NODEWISE_ASSIGN_OR_RETURN(
        PartCase cut, CutPart(
                          source_, {part.nodes, entry},
                          [this](EntryId read) { return TensorOf(read); },
                          [this](EntryId read) {
                            const EntryState state =
                                located_.entries[Index(read)].state;
                            return state == EntryState::kConstant;
                          }));
    ReproCase made = std::move(cut.node_case);
    std::vector<PartInput> inputs;
    for (size_t i = 0; i < cut.reads.size(); ++i) {
      inputs.push_back({cut.reads[i], made.inputs[i].name});
    }
    NODEWISE_ASSIGN_OR_RETURN(SourceRegion region,
                              RegionOfPart(index_, network_, located_, entry,
                                           inputs, source_.operators));
    made.beside = {std::move(region.in_own_layout),
                   region.clean_distance,
                   std::move(region.is_padding),
                   {}};
    made.region = std::move(region.region);
    part.nodes.pop_back();
    for (const NodeId node : part.nodes) {
      made.beside->other_nodes.push_back(index_.KeyOf(node));
    }
    NODEWISE_RETURN_IF_ERROR(JudgeCase(&made));
    return made;
  }

 private:
  absl::StatusOr<NDArray> TensorOf(EntryId entry) const {
    const std::vector<uint32_t>& inputs = index_.graph().arg_nodes;
    const auto found =
        std::find(inputs.begin(), inputs.end(), Index(index_.NodeOf(entry)));
    // Runs do not hand out parameters, which may be in the library, too.
    const auto number = static_cast<size_t>(found - inputs.begin());
    if (found != inputs.end() && !target_.inputs().IsNeeded(number)) {
      NODEWISE_ASSIGN_OR_RETURN(const auto executor, target_.MakeExecutor());
      NODEWISE_ASSIGN_OR_RETURN(const NDArray lent, executor->GetInput(number));
      return lent.CopyToHost();
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const size_t place,
        recorded_.compiled->Find(
            {index_.KeyOf(index_.NodeOf(entry)), index_.OutputOf(entry)}));
    return recorded_.compiled->Load(place);
  }

  const GraphTarget& target_;
  const GraphIndex& index_;
  const Network& network_;
  const RecordedPair& recorded_;
  const ValueLocateResult& located_;
  const ReproSource source_;
};

// Writes the inputs that show what the given ones do not: they are gone
// otherwise.
absl::Status KeepInputs(const GraphIndex& index,
                        const std::vector<RecordedPair>& recorded,
                        const ValueLocateResult& located,
                        const std::string& dir, WrittenRepros* written) {
  std::set<size_t> sets;
  for (const ValueCulprit& culprit : located.culprits) {
    if (!culprit.sets.empty() && culprit.sets.front() > 0) {
      sets.insert(culprit.sets.front());
    }
  }
  std::vector<std::string>& paths = written->kept_inputs.emplace();
  for (const size_t set : sets) {
    std::vector<NamedTensor> inputs;
    for (const PairedInput& input : recorded[set].inputs) {
      NODEWISE_ASSIGN_OR_RETURN(const EntryId entry,
                                index.FindEntry(input.compiled));
      NODEWISE_ASSIGN_OR_RETURN(
          const size_t place,
          recorded[set].compiled->Find(
              {index.KeyOf(index.NodeOf(entry)), index.OutputOf(entry)}));
      NODEWISE_ASSIGN_OR_RETURN(NDArray tensor,
                                recorded[set].compiled->Load(place));
      inputs.push_back({input.compiled, std::move(tensor)});
    }
    paths.push_back(fmt::format("{}/inputs_{}.params", dir, set));
    NODEWISE_RETURN_IF_ERROR(WriteParams(paths.back(), inputs));
  }
  return absl::OkStatus();
}

// They have the names and the numbers of the network.
void NoteInputsNotKept(const ValueLocateResult& located,
                       WrittenRepros* written) {
  for (const ValueCulprit& culprit : located.culprits) {
    if (culprit.sets.empty() || culprit.sets.front() == 0) continue;
    written->notes.push_back(fmt::format(
        "{}: the inputs that show what the given ones do not are not written "
        "with {}",
        NameOf(Way::kReproFolder), NameOf(Way::kAnonymous)));
    return;
  }
}

// Writes the next folder of a node beside a model.
absl::Status WriteBeside(const Question& question, ReproCase made,
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

// The nodes behind one that ends runs can only be run, and its right results
// only be known, where the reference stands in for it.
bool WasReplaced(const LocateResult& located, const NodeReport& node) {
  return !node.failure.has_value() ||
         std::find(located.stand_ins.begin(), located.stand_ins.end(),
                   node.key) != located.stand_ins.end();
}

// Notes why a culprit gets no folder.
void NoteNotWritten(const std::string& node, std::string_view why,
                    Answer* answer) {
  answer->notes.push_back(fmt::format("{}: {}: is not written, since {}",
                                      NameOf(Way::kReproFolder), node, why));
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
      NoteNotWritten(node.key, "no run shows which tensor it writes over",
                     answer);
      return std::nullopt;
    }
    const WrittenOver& first = culprit.written_over[0];
    folder.plan_fault = {node.node, first.victim, first.reader};
  }
  if (!WasReplaced(located, node)) {
    NoteNotWritten(node.key,
                   "it does not say what it computes, so nothing could run in "
                   "its place",
                   answer);
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
        std::optional<ReproFolder> folder,
        FolderOf(located, culprit, target->index(), path, answer));
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
  // The findings stand all the same.
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
  const auto named = [](const absl::Status& status) {
    return At(NameOf(Way::kReproFolder), status);
  };
  const absl::Status made_root = MakeReproRoot(dir);
  if (!made_root.ok()) return made_root;
  WrittenRepros& written = answer->repros.emplace();
  // The findings stand all the same where a folder cannot be written.
  for (size_t i = 0; i < culprits.size(); ++i) {
    const ValueCulprit& culprit = culprits[i];
    const std::string key = evidence.index->KeyOf(culprit.node);
    const size_t set = culprit.sets.empty() ? 0 : culprit.sets.front();
    auto made = CaseMaker(*session.target, *evidence.network, recorded[set],
                          evidence.result)
                    .Make(culprit.entry);
    absl::Status status = made.status();
    if (made.ok()) {
      made->verdict = kBrokenKind;
      made->reason = ReasonFor(evidence, i);
      status = WriteBeside(question, *std::move(made), &written);
    }
    const bool cannot_be =
        absl::IsUnimplemented(status) || absl::IsNotFound(status) ||
        absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
    if (cannot_be) {
      written.notes.push_back(fmt::format("{}: {}: is not written: {}",
                                          NameOf(Way::kReproFolder), key,
                                          MessageOf(status)));
    } else if (!status.ok()) {
      answer->AddDoubt(named(status));
      return absl::OkStatus();
    }
  }
  if (question.is_anonymous) {
    NoteInputsNotKept(evidence.result, &written);
    return absl::OkStatus();
  }
  const absl::Status kept =
      KeepInputs(*evidence.index, recorded, evidence.result, dir, &written);
  if (!kept.ok()) answer->AddDoubt(named(kept));
  return absl::OkStatus();
}

}  // namespace nodewise
