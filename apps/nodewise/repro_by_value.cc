#include "apps/nodewise/repro_by_value.h"

#include <algorithm>
#include <set>
#include <utility>

#include "apps/nodewise/repro_folders.h"
#include "apps/nodewise/value_report.h"
#include "fmt/format.h"
#include "nodewise/align/source_region.h"
#include "nodewise/graph/params.h"
#include "nodewise/ops/ops.h"
#include "nodewise/repro/part_case.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"

namespace nodewise {
namespace {

// Makes cases of the nodes of one target.
class CaseMaker {
 public:
  CaseMaker(const Session& loaded, const Network& network,
            const RecordedPair& recorded, const ValueLocateResult& located)
      : target_(*loaded.target),
        index_(loaded.target->index()),
        network_(network),
        recorded_(recorded),
        located_(located),
        source_(SourceOf(*loaded.target)) {}

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
                        const std::string& dir, Outcome* outcome) {
  std::set<size_t> sets;
  for (const ValueCulprit& culprit : located.culprits) {
    if (!culprit.sets.empty() && culprit.sets.front() > 0) {
      sets.insert(culprit.sets.front());
    }
  }
  std::vector<std::string> paths;
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
    outcome->text += fmt::format(
        "wrote  {}  the inputs that show what the given ones do not: "
        "--inputs takes them\n",
        paths.back());
  }
  outcome->json.Add("kept_inputs", paths);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteValueRepros(const Session& loaded, const Network& network,
                              const std::vector<RecordedPair>& recorded,
                              const ValueLocateResult& located,
                              const std::string& dir, Outcome* outcome) {
  if (located.culprits.empty()) return absl::OkStatus();
  NODEWISE_RETURN_IF_ERROR(MakeReproRoot(dir));
  TextTable table;
  outcome->json.BeginArray("repros");
  absl::Status status;
  size_t number = 0;
  for (const ValueCulprit& culprit : located.culprits) {
    const std::string key = loaded.target->index().KeyOf(culprit.node);
    const size_t set = culprit.sets.empty() ? 0 : culprit.sets.front();
    auto made =
        CaseMaker(loaded, network, recorded[set], located).Make(culprit.entry);
    status = made.status();
    if (made.ok()) {
      made->verdict = kBroken;
      made->reason = ReasonFor(culprit, network);
      status = WriteCase(*made, ReproPath(dir, ++number, key), &table,
                         &outcome->json);
    }
    const bool cannot_be = absl::IsUnimplemented(status) ||
                           absl::IsNotFound(status) ||
                           absl::IsInvalidArgument(status);
    if (cannot_be) {
      outcome->notes.push_back(fmt::format("--repro: {}: is not written: {}",
                                           key, MessageOf(status)));
      status = absl::OkStatus();
    }
    if (!status.ok()) break;
  }
  outcome->json.EndArray();
  outcome->text += "\n" + table.ToString(0, 0);
  if (status.ok()) {
    status =
        KeepInputs(loaded.target->index(), recorded, located, dir, outcome);
  }
  return At("--repro", status);
}

}  // namespace nodewise
