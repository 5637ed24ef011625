#include "apps/nodewise/locate_by_value.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "apps/nodewise/aligned_model.h"
#include "apps/nodewise/locate_builds.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/graph/storage_plan.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/lower/region.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/bind_sizes.h"
#include "nodewise/runner/runner_list.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/text_table.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"

namespace nodewise {
namespace {

constexpr uint64_t kSets = 2;
constexpr std::string_view kBroken = "broken";
constexpr std::string_view kDiffers = "differs";
constexpr std::string_view kTarget = "target";
constexpr std::string_view kReference = "reference";

std::string_view NameOf(EntryState state) {
  switch (state) {
    case EntryState::kConstant:
      return "constant";
    case EntryState::kHealthy:
      return "healthy";
    case EntryState::kOnTheWay:
      return "on the way";
    case EntryState::kBroken:
      return "broken";
    case EntryState::kUnknown:
      return "unknown";
  }
  return "";
}

// What a result is about.
struct ReportWords {
  std::string model = "the model";
  std::string side;   // Empty, or which of two builds the nodes are of.
  std::string owner;  // Said of it behind a culprit's name.
  // What each culprit is: "broken", or what else is known.
  std::vector<std::string> kinds;
};

class ValueReport {
 public:
  ValueReport(const GraphIndex& index, const Network& network,
              const ValueLocateResult& result, const ReportWords& words)
      : index_(index), network_(network), result_(result), words_(words) {}

  void Show(Outcome* outcome) const {
    if (!result_.culprits.empty()) {
      outcome->status = Outcome::Status::kDiffers;
    }
    outcome->text += "\n";
    outcome->json.BeginArray("culprits");
    for (size_t i = 0; i < result_.culprits.size(); ++i) {
      AddCulprit(result_.culprits[i], KindOf(i), outcome);
    }
    outcome->json.EndArray();
    if (!words_.side.empty()) outcome->json.Add("side", words_.side);
    if (result_.culprits.empty()) outcome->text += "no culprit\n\n";
    AddVerdicts(outcome);
  }

 private:
  std::string KindOf(size_t culprit) const {
    return culprit < words_.kinds.size() ? words_.kinds[culprit]
                                         : std::string(kBroken);
  }

  std::vector<std::string> OutputsIn(
      const std::vector<OperationId>& region) const {
    std::vector<std::string> names;
    for (const OperationId id : region) {
      for (const ValueId output : network_.operation(id).outputs) {
        if (output != kNoValue) names.push_back(network_.value(output).name);
      }
    }
    return names;
  }

  std::vector<std::string> NamesOf(
      const std::vector<OperationId>& region) const {
    std::vector<std::string> names;
    for (const OperationId id : region) {
      names.push_back(network_.operation(id).name);
    }
    return names;
  }

  std::string ExpectedName(const ValueCulprit& culprit) const {
    return culprit.expected == kNoValue ? ""
                                        : network_.value(culprit.expected).name;
  }

  void AddCulprit(const ValueCulprit& culprit, const std::string& kind,
                  Outcome* outcome) const {
    const std::string key = index_.KeyOf(culprit.node);
    const std::string expected = ExpectedName(culprit);
    TextTable table;
    outcome->text +=
        fmt::format("culprit: {}{}, {}\n", Printable(key), words_.owner, kind);
    if (!culprit.operations.empty()) {
      table.AddRow({words_.side.empty() ? "operations" : "stands for",
                    ListOf(NamesOf(culprit.operations))});
    }
    const std::string reason = ReasonFor(culprit, kind);
    table.AddRow({"reason", reason});
    for (const Explanation& explanation : Shown(culprit)) {
      table.AddRow(
          {"explained by", network_.operation(explanation.operation).name +
                               ": " + explanation.what});
    }
    table.AddRow({"evidence", EvidenceFor(culprit)});
    outcome->text += table.ToString(2, 0) + "\n";
    JsonWriter& json = outcome->json;
    json.BeginObject();
    json.Add("node", key);
    json.Add("node_index", uint64_t{Index(culprit.node)});
    json.Add("output", uint64_t{index_.OutputOf(culprit.entry)});
    json.Add("kind", kind);
    json.Add("source_nodes", NamesOf(culprit.operations));
    json.Add("source_tensors", OutputsIn(culprit.operations));
    json.Add("region", NamesOf(culprit.region));
    json.BeginArray("explanations");
    for (const Explanation& explanation : culprit.explanations) {
      json.BeginObject();
      json.Add("source_node", network_.operation(explanation.operation).name);
      json.Add("what", explanation.what);
      json.EndObject();
    }
    json.EndArray();
    json.BeginObject("evidence");
    json.Add("reason", reason);
    json.Add("entry", index_.KeyOf(culprit.entry));
    json.Add("expected", expected);
    json.Add("share_explained", culprit.share_explained);
    json.EndObject();
    json.EndObject();
  }

  static std::string EvidenceFor(const ValueCulprit& culprit) {
    if (culprit.share_explained > 0) {
      return fmt::format("{:.0f} % of the next nodes are right then",
                         100 * culprit.share_explained);
    }
    return culprit.explanations.empty()
               ? "none: the nodes behind it could not be judged"
               : "the change explains all its numbers";
  }

  std::string ReasonFor(const ValueCulprit& culprit,
                        const std::string& kind) const {
    const std::string expected = ExpectedName(culprit);
    if (expected.empty()) return "holds no tensor of " + words_.model;
    const std::string by =
        std::isfinite(culprit.distance)
            ? fmt::format("{:.2g} of its size", culprit.distance)
            : "";
    if (kind != kBroken) {
      return fmt::format("differs from {}{}{}", expected,
                         by.empty() ? " by far" : " by ", by);
    }
    return by.empty()
               ? fmt::format("should hold {}, and is far from it", expected)
               : fmt::format("is off by {} from {}", by, expected);
  }

  // Several changes may have one effect; the document has them all.
  static absl::Span<const Explanation> Shown(const ValueCulprit& culprit) {
    constexpr size_t kMostShown = 4;
    return absl::MakeConstSpan(culprit.explanations).subspan(0, kMostShown);
  }

  void AddVerdicts(Outcome* outcome) const {
    const Graph& graph = index_.graph();
    std::vector<size_t> counts(5);
    size_t total = 0;
    outcome->json.BeginArray("verdicts");
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      if (!graph.IsFunction(NodeId{n})) continue;
      EntryState state = EntryState::kConstant;
      std::vector<std::string> tensors;
      for (uint32_t e = graph.node_row_ptr[n]; e < graph.node_row_ptr[n + 1];
           ++e) {
        state = std::max(state, result_.entries[e].state);
        for (const ValueId id : result_.entries[e].values) {
          tensors.push_back(network_.value(id).name);
        }
      }
      ++counts[static_cast<size_t>(state)];
      ++total;
      outcome->json.BeginObject();
      outcome->json.Add("node", index_.KeyOf(NodeId{n}));
      outcome->json.Add("node_index", uint64_t{n});
      outcome->json.Add("kind", NameOf(state));
      outcome->json.Add("source_tensors", tensors);
      outcome->json.EndObject();
    }
    outcome->json.EndArray();
    std::string_view comma = ":";
    outcome->text += CountOf(total, "function node");
    for (const EntryState state :
         {EntryState::kBroken, EntryState::kUnknown, EntryState::kHealthy,
          EntryState::kOnTheWay, EntryState::kConstant}) {
      const size_t count = counts[static_cast<size_t>(state)];
      if (count == 0) continue;
      outcome->text += fmt::format("{} {} {}", comma, count, NameOf(state));
      comma = ",";
    }
    outcome->text += "\n";
  }

  const GraphIndex& index_;
  const Network& network_;
  const ValueLocateResult& result_;
  const ReportWords& words_;
};

absl::StatusOr<ValueLocateResult> LocateInRecorded(
    const GraphIndex& index, const Network& network,
    const std::vector<RecordedPair>& pairs) {
  NODEWISE_ASSIGN_OR_RETURN(const Alignment alignment,
                            Align(index, network, pairs));
  return LocateByValue(index, network, pairs, alignment, AllOperators());
}

absl::StatusOr<ValueLocateResult> LocateBeside(const LoadedTarget& loaded,
                                               const ModelOfTarget& source,
                                               uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<RecordedPair> pairs,
                            RecordBoth(loaded, source, kSets, seed));
  return LocateInRecorded(loaded.target->index(), *source.network, pairs);
}

std::vector<VmInputType> TypesOfInputs(const GraphIndex& index) {
  const Graph& graph = index.graph();
  std::vector<VmInputType> types;
  for (const uint32_t node : graph.arg_nodes) {
    const GraphEntry& entry = graph.entry(graph.EntryOf(NodeId{node}, 0));
    types.push_back({index.KeyOf(NodeId{node}), entry.shape, entry.dtype});
  }
  return types;
}

// The keys of the nodes of a build that differ from another one's.
absl::StatusOr<std::set<std::string>> DifferingNodes(const LoadedTarget& loaded,
                                                     const LoadedTarget& other,
                                                     uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            BuildAsModel(loaded, other));
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(loaded, source, seed));
  std::set<std::string> nodes;
  for (const ValueCulprit& culprit : result.culprits) {
    nodes.insert(loaded.target->index().KeyOf(culprit.node));
  }
  return nodes;
}

// What a third build says of each difference.
absl::StatusOr<std::vector<std::string>> KindsByThird(
    const LoadedTarget& loaded, const LoadedTarget& reference,
    const LoadedTarget& third, const Network& reference_network,
    const ValueLocateResult& result, uint64_t seed) {
  NODEWISE_ASSIGN_OR_RETURN(const auto in_target,
                            DifferingNodes(loaded, third, seed));
  NODEWISE_ASSIGN_OR_RETURN(const auto in_reference,
                            DifferingNodes(reference, third, seed));
  std::vector<std::string> kinds;
  for (const ValueCulprit& culprit : result.culprits) {
    bool is_target =
        in_target.count(loaded.target->index().KeyOf(culprit.node)) > 0;
    bool is_reference = std::any_of(
        culprit.operations.begin(), culprit.operations.end(),
        [&](OperationId id) {
          return in_reference.count(reference_network.operation(id).name) > 0;
        });
    // The third one may name another node of a pair, where the nodes of builds
    // do not go together one by one.
    if (!is_target && !is_reference) {
      is_target = !in_target.empty();
      is_reference = !in_reference.empty();
    }
    if (is_target == is_reference) {
      kinds.push_back(
          fmt::format("{}{}", kDiffers,
                      is_target ? ", and both from the third build" : ""));
    } else {
      kinds.push_back(is_target ? std::string(kBroken)
                                : "right, and the reference broken");
    }
  }
  return kinds;
}

}  // namespace

absl::Status CompareDumpWithModel(const std::string& dump,
                                  const std::string& model,
                                  const ModelOptions& options,
                                  Outcome* outcome) {
  DiagnosticList diagnostics;
  auto read = LoadModel(model, options, &diagnostics);
  if (!read.ok()) {
    if (!diagnostics.HasErrors()) return read.status();
    outcome->AddErrors(diagnostics);
    return absl::OkStatus();
  }
  NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(dump));
  NODEWISE_ASSIGN_OR_RETURN(const StoragePlan plan,
                            PlanStorage(run.graph, kDLCPU));
  const GraphIndex index(run.graph, plan);
  BindSizes(TypesOfInputs(index), &*read);
  const auto network = std::make_shared<const Network>(*std::move(read));
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("interpreter", {model, nullptr, network}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  KeepFreedMemory();
  std::vector<RecordedPair> pairs(1);
  NODEWISE_ASSIGN_OR_RETURN(
      pairs[0], RecordFromDump(index, run.source.get(), runner.get()));
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateInRecorded(index, *network, pairs));
  outcome->json.Add("dump", dump);
  outcome->json.Add("model", model);
  const ReportWords words;
  ValueReport(index, *network, result, words).Show(outcome);
  return absl::OkStatus();
}

void AddBuildChoice(OptionList* options, BuildChoice* choice) {
  options->AddText("--trust", "SIDE",
                   "target or reference: which of two builds is right whose "
                   "nodes do not say what they compute (neither: only where "
                   "they differ is said)",
                   &choice->trust);
  options->AddText("--third", "BUILD",
                   "a third build of that network, which decides which of the "
                   "two is right",
                   &choice->third);
}

absl::Status BuildChoice::WhereItMeansNothing() const {
  return absl::InvalidArgumentError(fmt::format(
      "{}: means nothing but with two builds whose nodes do not say what they "
      "compute, TARGET and that of --reference, and no --method but auto",
      trust.empty() ? "--third" : "--trust"));
}

absl::Status BuildChoice::Check(bool are_two_builds) const {
  if (!any()) return absl::OkStatus();
  if (!are_two_builds) return WhereItMeansNothing();
  if (!trust.empty() && trust != kTarget && trust != kReference) {
    return absl::InvalidArgumentError(
        fmt::format("--trust: found \"{}\", expected {} or {}",
                    Printable(trust), kTarget, kReference));
  }
  if (trust.empty() || third.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--third: is given with --trust, expected one of the two");
}

bool SaysNothing(const LoadedTarget& loaded) {
  const std::vector<GraphNode>& nodes = loaded.target->graph().nodes;
  return std::none_of(nodes.begin(), nodes.end(), &SaysItsRegion);
}

absl::Status LocateByValueIn(const LoadedTarget& loaded,
                             const std::string& model,
                             const ModelOptions& options, uint64_t seed,
                             Outcome* outcome) {
  NODEWISE_ASSIGN_OR_RETURN(const ModelOfTarget source,
                            LoadModelOf(loaded, model, options, outcome));
  if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(loaded, source, seed));
  outcome->json.Add("model", model);
  const ReportWords words;
  ValueReport(loaded.target->index(), *source.network, result, words)
      .Show(outcome);
  return absl::OkStatus();
}

absl::Status LocateBetweenBuilds(const LoadedTarget& loaded,
                                 const LoadedTarget& reference,
                                 const BuildChoice& choice,
                                 const LoadOptions& options,
                                 const InputOptions& inputs, Outcome* outcome) {
  std::optional<LoadedTarget> third;
  if (!choice.third.empty()) {
    NODEWISE_ASSIGN_OR_RETURN(
        third, LoadBuild("--third", choice.third, options, inputs, outcome));
    if (outcome->status != Outcome::Status::kOk) return absl::OkStatus();
  }
  KeepFreedMemory();
  const uint64_t seed = inputs.seed.value_or(1);
  const bool is_swapped = choice.trust == kTarget;
  const LoadedTarget& judged = is_swapped ? reference : loaded;
  NODEWISE_ASSIGN_OR_RETURN(
      const ModelOfTarget source,
      BuildAsModel(judged, is_swapped ? loaded : reference));
  NODEWISE_ASSIGN_OR_RETURN(const ValueLocateResult result,
                            LocateBeside(judged, source, seed));
  ReportWords words;
  words.model = source.path;
  words.side = is_swapped ? kReference : kTarget;
  if (is_swapped) words.owner = " of " + judged.target->name();
  if (third.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        words.kinds,
        KindsByThird(loaded, reference, *third, *source.network, result, seed));
  } else if (choice.trust.empty()) {
    words.kinds.assign(result.culprits.size(), std::string(kDiffers));
    if (!result.culprits.empty()) {
      outcome->notes.push_back(
          "nobody says which of the two is right (--trust SIDE does, or "
          "--third BUILD, or a model)");
    }
  }
  outcome->json.Add("model", source.path);
  ValueReport(judged.target->index(), *source.network, result, words)
      .Show(outcome);
  return absl::OkStatus();
}

}  // namespace nodewise
