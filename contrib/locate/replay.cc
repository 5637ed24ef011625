#include "nodewise/locate/replay.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "contrib/locate/node_report.h"
#include "contrib/locate/observed_run.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/partial_graph.h"
#include "contrib/locate/second_look.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"
#include "nodewise/tensors/tensor_source.h"

// A dump is visited twice at least. The first visit finds out what is there,
// and whether it is of this graph, without keeping any tensor; the second one
// has the reference compute the nodes of which all is there.

namespace nodewise {
namespace {

constexpr size_t kNamedNodes = 5;
// An operation that does not round to nearest is off by up to twice as much as
// the proved bounds allow for; as much again for what it makes of that.
constexpr double kMostOfAnotherRounding = 4;

double EpsilonOf(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return 0x1p-7;
  if (dtype.bits == 16) return 0x1p-10;
  return dtype.bits == 64 ? 0x1p-52 : 0x1p-23;
}

// Older dumps have hashes of another function, which tell nothing here.
RunHashes::Hash ComparableHash(const std::optional<TensorHash>& hash) {
  if (!hash.has_value() || hash->kind != HashKind::kXxh3) return std::nullopt;
  return hash->value;
}

absl::Status CheckType(const Graph& graph, const TensorItem& item,
                       EntryId entry) {
  const GraphEntry& expected = graph.entry(entry);
  const absl::Span<const int64_t> shape = ShapeOf(*item.tensor);
  const DLDataType dtype = item.tensor->dtype;
  // Files have TVM's older codes of some types.
  const bool fits = shape == absl::MakeConstSpan(expected.shape) &&
                    dtype.bits == expected.dtype.bits &&
                    dtype.lanes == expected.dtype.lanes;
  if (fits) return absl::OkStatus();
  return DataLoss("{}: tensor {} is {}, expected {} as in {}", item.key.source,
                  Printable(item.key.Name()), TypeToString(shape, dtype),
                  TypeToString(expected.shape, expected.dtype),
                  graph.text.name);
}

// Finds out what a dump has of the run of a graph, and whether it is of that
// graph at all.
struct DumpSurvey : public TensorSink {
  // The index must outlive it.
  explicit DumpSurvey(const GraphIndex& graph_index) : index(graph_index) {}

  // Fails with kDataLoss for what the graph does not have, or has of another
  // type, and for a tensor that is not what was hashed.
  absl::Status Consume(const TensorItem& item) override {
    if (const auto entry = nodes.MadeEntryOf(item)) {
      return RecordOutput(item, *entry);
    }
    const auto node = nodes.NodeOf(item);
    const bool is_read = node.has_value() &&
                         item.key.role == TensorRole::kInput &&
                         item.key.slot < hashes.read[*node].size();
    if (!is_read) {
      return DataLoss(
          "{}: tensor {} is of no node of {}, expected the dump of a run of "
          "that graph",
          item.key.source, Printable(item.key.Name()), graph.text.name);
    }
    RunHashes::Hash& read = hashes.read[*node][item.key.slot];
    read = ComparableHash(item.hash);
    has_read_hashes |= read.has_value();
    return absl::OkStatus();
  }

  absl::Status RecordOutput(const TensorItem& item, EntryId entry) {
    const RunHashes::Hash hash = ComparableHash(item.hash);
    hashes.made[entry] = hash;
    has[entry] = item.tensor != nullptr;
    why_absent[entry] = item.why_absent;
    if (item.tensor == nullptr) return absl::OkStatus();
    NODEWISE_RETURN_IF_ERROR(CheckType(graph, item, entry));
    const NDArray tensor = NDArray::Borrow(*item.tensor, nullptr);
    if (!hash.has_value() ||
        HashBytes(tensor.data(), tensor.bytes()) == *hash) {
      return absl::OkStatus();
    }
    return DataLoss(
        "{}: tensor {} is not what the run made (its hash is another one): the "
        "file has been changed",
        item.key.source, Printable(item.key.Name()));
  }

  // Returns why the node cannot be judged; empty if all tensors that it read
  // and made are there.
  std::string NotJudgeableReason(NodeId node) const {
    const auto why = [this](const char* role, size_t slot, EntryId entry) {
      return fmt::format("{} {} ({}): {}", role, slot, index.KeyOf(entry),
                         why_absent[entry]);
    };
    const std::vector<EntryRef>& refs = graph.node(node).inputs;
    for (size_t slot = 0; slot < refs.size(); ++slot) {
      const EntryId entry = graph.EntryOf(refs[slot]);
      if (!has[entry]) return why("its input", slot, entry);
    }
    for (const EntryId entry : EntriesMadeBy(graph, node)) {
      if (!has[entry]) return why("its output", index.OutputOf(entry), entry);
    }
    return "";
  }

  const GraphIndex& index;
  const Graph& graph = index.graph();
  const KeyedNodes nodes{index};
  ByEntry<bool> has{graph};
  ByEntry<std::string> why_absent{graph, "was not recorded"};
  RunHashes hashes{graph};
  bool has_read_hashes = false;
};

// Hands out what nodes that can be judged have read and made, and keeps the
// outputs of the graph.
class JudgedTensors : public TensorSource {
 public:
  JudgedTensors(TensorSource& dump, const GraphIndex& index,
                const ByNode<bool>& is_judged)
      : dump_(dump), nodes_(index), is_needed_(index.graph()) {
    const Graph& graph = index.graph();
    for (const NodeId node : FunctionNodesOf(graph)) {
      if (!is_judged[node]) continue;
      for (const EntryRef& ref : graph.node(node).inputs) {
        is_needed_[graph.EntryOf(ref)] = true;
      }
      for (const EntryId entry : EntriesMadeBy(graph, node)) {
        is_needed_[entry] = true;
      }
    }
    // One may be an input that no node reads.
    for (const EntryRef& head : graph.heads) {
      heads_.push_back(graph.EntryOf(head));
      is_needed_[heads_.back()] = true;
      outputs.push_back({index.KeyOf(heads_.back()), NDArray()});
    }
  }

  const std::string& name() const override { return dump_.name(); }
  absl::Status Visit(TensorSink& sink) override {
    return VisitEach(dump_, [&](const TensorItem& item) {
      return ForwardEntry(item, sink);
    });
  }

  // Undefined for what was not handed out.
  std::vector<NamedTensor> outputs;

 private:
  absl::Status ForwardEntry(const TensorItem& item, TensorSink& sink) {
    const auto entry = nodes_.MadeEntryOf(item);
    const bool is_wanted =
        entry.has_value() && item.tensor != nullptr && is_needed_[*entry];
    if (!is_wanted) return absl::OkStatus();
    for (size_t i = 0; i < heads_.size(); ++i) {
      if (heads_[i] != *entry) continue;
      NODEWISE_ASSIGN_OR_RETURN(outputs[i].tensor, item.Keep());
    }
    return sink.Consume(item);
  }

  TensorSource& dump_;
  const KeyedNodes nodes_;
  ByEntry<bool> is_needed_;
  std::vector<EntryId> heads_;
};

struct Replayer {
  const DumpedRun& run;
  const GraphIndex& index;
  const OpSet& operators;
  const ReplayOptions& options;
  TensorSource& dump = *run.source;
  const Graph& graph = index.graph();
  DumpSurvey survey{index};
  ByNode<bool> is_judged{graph};
  std::vector<Overwriting> overwritten = {};
  // The outputs of the reference, if its dump is complete.
  std::vector<NDArray> reference_outputs = {};
  LocateResult result = {};

  absl::StatusOr<LocateResult> Run() {
    NODEWISE_RETURN_IF_ERROR(dump.Visit(survey));
    NODEWISE_RETURN_IF_ERROR(ChooseNodes());
    NODEWISE_RETURN_IF_ERROR(CheckRecords());
    NODEWISE_RETURN_IF_ERROR(CheckChosen());
    std::ranges::sort(result.nodes, {}, &NodeReport::node);
    JudgeMemory();
    for (const auto& [node, change] : run.floats) {
      NoteFloats(change, FindReport(node, &result));
    }
    for (size_t i = 0; i < result.nodes.size(); ++i) {
      Finish(&result.nodes[i]);
      if (!IsCulpritVerdict(result.nodes[i].verdict)) continue;
      result.culprits.push_back(
          {i, std::nullopt,
           VictimsOf(index, overwritten, result.nodes[i].node)});
    }
    NODEWISE_RETURN_IF_ERROR(JudgeRemarks());
    FindGain(&result);
    return std::move(result);
  }

  absl::Status ChooseNodes() {
    // If no node can be judged, one reason says more than that.
    std::string first;
    bool any = false;
    for (const NodeId node : FunctionNodesOf(graph)) {
      const std::string why = survey.NotJudgeableReason(node);
      is_judged[node] = why.empty();
      any |= why.empty();
      if (why.empty()) continue;
      if (first.empty()) {
        first = fmt::format(": {}: {}", index.KeyOf(node), why);
      }
      result.nodes.push_back(ReportUnchecked(index, node, why));
    }
    if (any) return absl::OkStatus();
    return FailedPrecondition(
        "{}: no node could be judged{} (nodewise dump records whole tensors of "
        "all nodes)",
        dump.name(), first);
  }

  // A tensor that was not hashed could not be seen to be written over.
  absl::Status CheckRecords() const {
    if (!survey.has_read_hashes) return absl::OkStatus();
    std::vector<std::string> without;
    for (const NodeId node : FunctionNodesOf(graph)) {
      const bool is_hashed = std::ranges::all_of(survey.hashes.read[node],
                                                 &RunHashes::Hash::has_value);
      if (is_judged[node] && !is_hashed) without.push_back(index.KeyOf(node));
    }
    if (without.empty()) return absl::OkStatus();
    return DataLoss(
        "{}/_nodewise_nodes.bin: has no hashes of what {} read ({}), expected "
        "those of all nodes: the file is cut short",
        dump.name(), CountOf(without.size(), "node"),
        ListOf(without, kNamedNodes));
  }

  absl::Status CheckChosen() {
    // The reference can only go on from its own results if it has all of them.
    const bool is_complete = std::ranges::all_of(survey.has, std::identity());
    JudgedTensors tensors(dump, index, is_judged);
    const auto selects = [this](NodeId node) { return bool{is_judged[node]}; };
    NODEWISE_ASSIGN_OR_RETURN(const NodeChecks checks,
                              CheckNodes(index, operators, tensors,
                                         {.with_accumulated = is_complete,
                                          .selects = selects,
                                          .progress = options.progress}));
    for (const NodeCheck& checked : checks.nodes) {
      result.nodes.push_back(ReportOf(index, checked));
    }
    for (const SkippedNode& skipped : checks.skipped) {
      if (!is_judged[skipped.node]) continue;
      result.nodes.push_back(ReportUnchecked(index, skipped.node, skipped.why));
    }
    if (!is_complete) return absl::OkStatus();
    reference_outputs = checks.reference_outputs;
    NODEWISE_ASSIGN_OR_RETURN(
        result.outputs,
        CompareNetworkOutputs(checks.reference_outputs, tensors.outputs,
                              AccumulatedTolerance(graph)));
    return absl::OkStatus();
  }

  absl::Status JudgeRemarks() {
    // Each is one more visit of the dump; in a live run, as many culprits are
    // confirmed (LocateOptions::most_confirmed).
    constexpr size_t kMostTried = 32;
    JudgedTensors tensors(dump, index, is_judged);
    return BlameForSubnormals(
        {index, operators, tensors, reference_outputs, kMostTried}, &result);
  }

  // Compares what was read with what had been made, by the recorded hashes.
  void JudgeMemory() {
    if (!survey.has_read_hashes) {
      result.notes.push_back(fmt::format(
          "{}: has no hashes of what nodes read, so that faults of the storage "
          "plan cannot be seen",
          dump.name()));
    }
    overwritten = FindOverwritten(index, survey.hashes);
    NoteOverwritten(index, overwritten, "", &result);
  }

  // A tensor that was written over is known by its hash alone: what the
  // reference made of other bits says nothing about it.
  void Finish(NodeReport* report) {
    NodeEvidence& evidence = report->evidence;
    const bool read_unknown =
        evidence.read_overwritten && evidence.isolated != Verdict::kPass;
    if (read_unknown) evidence.isolated = Verdict::kInconclusive;
    const std::optional<InheritedFloats> floats = FloatsFor(report->node);
    const bool is_excused = floats.has_value() &&
                            evidence.isolated != Verdict::kPass &&
                            MayBeRounding(*report);
    if (is_excused) {
      // A run that is judged puts the environment back: it would see what the
      // node makes by itself.
      evidence.isolated = Verdict::kPass;
      evidence.accumulated = Verdict::kError;
    }
    Conclude(index, overwritten, report);
    if (is_excused && report->verdict == NodeVerdict::kInherits) {
      report->reason = fmt::format("ran with floats as {} had left them: {}",
                                   index.KeyOf(floats->from),
                                   DescribeChange(floats->change));
    }
    if (report->verdict != NodeVerdict::kInconclusive || !read_unknown) return;
    report->reason =
        "what it read had been written over, and the dump has no more than the "
        "hash of what lay there";
  }

  bool MayBeRounding(const NodeReport& report) const {
    if (!report.worst.has_value() || !report.worst->bounds.has_value()) {
      return false;
    }
    const double ratio = report.worst->bounds->ratio;
    if (!std::isinf(ratio)) return ratio <= kMostOfAnotherRounding;
    // Operations that round once have bounds of no width: they are rounded to
    // nearest, or wrong.
    const EntryId output = graph.EntryOf(report.node, 0);
    const DLDataType dtype = graph.entry(output).dtype;
    return report.worst->metrics.relative_error() <=
           kMostOfAnotherRounding * EpsilonOf(dtype);
  }

  // The floating-point environment that a node ran in, and the node that left
  // it.
  struct InheritedFloats {
    NodeId from;
    FloatChange change;
  };
  // None if normal numbers come out as in the environment that the run began
  // with.
  std::optional<InheritedFloats> FloatsFor(NodeId node) const {
    std::optional<InheritedFloats> found;
    for (const auto& [from, change] : run.floats) {
      if (Index(from) >= Index(node)) break;
      // A later node may put back what an earlier one has changed.
      const FloatChange all{run.floats.front().second.before, change.after};
      if (!ChangesResults(all)) {
        found.reset();
      } else if (!found.has_value()) {
        found = InheritedFloats{from, all};
      }
    }
    return found;
  }
};

}  // namespace

absl::StatusOr<LocateResult> ReplayDump(const std::string& path,
                                        const OpSet& operators,
                                        const ReplayOptions& options) {
  const DefaultFloatEnvironment floats;
  NODEWISE_ASSIGN_OR_RETURN(const DumpedRun run, OpenDumpedRun(path));
  NODEWISE_ASSIGN_OR_RETURN(const StoragePlan plan,
                            PlanStorage(run.graph, kDLCPU));
  const GraphIndex index(run.graph, plan);
  return Replayer{run, index, operators, options}.Run();
}

}  // namespace nodewise
