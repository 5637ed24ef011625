#include "nodewise/locate/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "contrib/locate/accumulated_rule.h"
#include "contrib/locate/dump_survey.h"
#include "contrib/locate/node_report.h"
#include "contrib/locate/output_error.h"
#include "contrib/locate/run_hashes.h"
#include "contrib/locate/subnormal_blame.h"
#include "fmt/format.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/locate/node_check.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"
#include "nodewise/tensors/dump_graph.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

constexpr size_t kNamedNodes = 5;
// An operation that does not round to nearest is off by up to twice as much as
// the proved bounds allow for; as much again for what it makes of that.
constexpr double kMostOfAnotherRounding = 4;

// The distance from 1 to the next number of a type.
double StepAtOne(DLDataType dtype) {
  if (dtype.code == kDLBfloat) return 0x1p-7;
  if (dtype.bits == 16) return 0x1p-10;
  return dtype.bits == 64 ? 0x1p-52 : 0x1p-23;
}

// Hands out what nodes that can be judged have read and made, and keeps the
// outputs of the graph.
class JudgedTensors : public TensorSource {
 public:
  JudgedTensors(TensorSource& dump, const GraphIndex& index,
                const ByNode<bool>& is_judged)
      : dump_(dump), is_needed_(index.graph()), outputs_(index.graph()) {
    const Graph& graph = index.graph();
    for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
      const NodeId node{n};
      nodes_.emplace(index.KeyOf(node), node);
      if (!is_judged[node]) continue;
      for (const EntryRef& ref : graph.nodes[n].inputs) {
        is_needed_[graph.EntryOf(ref)] = true;
      }
      for (uint32_t slot = 0; slot < graph.OutputsOf(node); ++slot) {
        is_needed_[graph.EntryOf(node, slot)] = true;
      }
    }
    // One may be an input that no node reads.
    for (const EntryRef& head : graph.heads) {
      is_output_.push_back(graph.EntryOf(head));
      is_needed_[is_output_.back()] = true;
    }
    graph_ = &graph;
  }

  const std::string& name() const override { return dump_.name(); }
  absl::Status Visit(TensorSink& sink) override {
    class Filter : public TensorSink {
     public:
      Filter(JudgedTensors& tensors, TensorSink& sink)
          : tensors_(tensors), sink_(sink) {}
      absl::Status Take(const TensorItem& item) override {
        return tensors_.HandOn(item, sink_);
      }

     private:
      JudgedTensors& tensors_;
      TensorSink& sink_;
    };
    Filter filter(*this, sink);
    return dump_.Visit(filter);
  }

  // Undefined for what was not handed out.
  std::vector<NamedTensor> Outputs(const GraphIndex& index) const {
    std::vector<NamedTensor> outputs;
    for (const EntryId entry : is_output_) {
      outputs.push_back({index.KeyOf(entry), outputs_[entry]});
    }
    return outputs;
  }

 private:
  absl::Status HandOn(const TensorItem& item, TensorSink& sink) {
    if (item.tensor == nullptr || item.key.role == TensorRole::kInput) {
      return absl::OkStatus();
    }
    const EntryId entry =
        graph_->EntryOf(nodes_.at(item.key.node), item.key.slot);
    if (!is_needed_[entry]) return absl::OkStatus();
    if (std::find(is_output_.begin(), is_output_.end(), entry) !=
        is_output_.end()) {
      NODEWISE_ASSIGN_OR_RETURN(outputs_[entry], item.Keep());
    }
    return sink.Take(item);
  }

  TensorSource& dump_;
  const Graph* graph_ = nullptr;
  std::unordered_map<std::string, NodeId> nodes_;  // By key.
  ByEntry<bool> is_needed_;
  std::vector<EntryId> is_output_;
  ByEntry<NDArray> outputs_;
};

class Replayer {
 public:
  Replayer(const DumpedRun& dump, const GraphIndex& index,
           const OpSet& operators, const ReplayOptions& options)
      : dump_(*dump.source),
        floats_(dump.floats),
        index_(index),
        graph_(index.graph()),
        operators_(operators),
        options_(options),
        survey_(index),
        is_judged_(graph_) {}

  absl::StatusOr<LocateResult> Run() {
    NODEWISE_RETURN_IF_ERROR(dump_.Visit(survey_));
    NODEWISE_RETURN_IF_ERROR(ChooseNodes());
    NODEWISE_RETURN_IF_ERROR(CheckRecords());
    NODEWISE_RETURN_IF_ERROR(CheckChosen());
    std::sort(result_.nodes.begin(), result_.nodes.end(),
              [](const NodeReport& a, const NodeReport& b) {
                return a.node < b.node;
              });
    JudgeMemory();
    for (const auto& [node, change] : floats_) {
      NodeReport* const report = FindReport(node);
      if (report != nullptr) NoteFloats(change, report);
    }
    for (size_t i = 0; i < result_.nodes.size(); ++i) {
      Finish(&result_.nodes[i]);
      if (!Accuses(result_.nodes[i].verdict)) continue;
      result_.culprits.push_back(
          {i, std::nullopt,
           VictimsOf(index_, overwritten_, result_.nodes[i].node)});
    }
    NODEWISE_RETURN_IF_ERROR(JudgeRemarks());
    FindGain(&result_);
    return std::move(result_);
  }

 private:
  absl::Status ChooseNodes() {
    std::string first;
    bool any = false;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (!graph_.IsFunction(node)) continue;
      std::string why = survey_.WhyNot(node);
      is_judged_[node] = why.empty();
      any |= why.empty();
      if (why.empty()) continue;
      if (first.empty())
        first = fmt::format(": {}: {}", index_.KeyOf(node), why);
      result_.nodes.push_back(ReportOf(
          index_, SkippedNode{node, index_.KeyOf(node), std::move(why)}));
    }
    if (any) return absl::OkStatus();
    return absl::FailedPreconditionError(fmt::format(
        "{}: no node could be judged{} (nodewise dump records whole tensors of "
        "all nodes)",
        dump_.name(), first));
  }

  // A tensor that was not hashed could not be seen to be written over.
  absl::Status CheckRecords() const {
    if (!survey_.HasReadHashes()) return absl::OkStatus();
    std::vector<std::string> without;
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const NodeId node{n};
      if (is_judged_[node] && !survey_.HasReadHashesOf(node)) {
        without.push_back(index_.KeyOf(node));
      }
    }
    if (without.empty()) return absl::OkStatus();
    return absl::DataLossError(fmt::format(
        "{}/_nodewise_nodes.bin: has no hashes of what {} read ({}), expected "
        "those of all nodes: the file is cut short",
        dump_.name(), CountOf(without.size(), "node"),
        ListOf(without, kNamedNodes)));
  }

  absl::Status CheckChosen() {
    const bool is_complete = survey_.HasAll();
    JudgedTensors tensors(dump_, index_, is_judged_);
    NodeCheckOptions check;
    check.with_accumulated = is_complete;
    check.selects = [this](NodeId node) { return bool{is_judged_[node]}; };
    check.progress = options_.progress;
    NODEWISE_ASSIGN_OR_RETURN(const NodeChecks checks,
                              CheckNodes(index_, operators_, tensors, check));
    for (const NodeCheck& checked : checks.nodes) {
      result_.nodes.push_back(ReportOf(index_, checked));
    }
    for (const SkippedNode& skipped : checks.skipped) {
      if (!is_judged_[skipped.node]) continue;
      result_.nodes.push_back(ReportOf(index_, skipped));
    }
    if (!is_complete) return absl::OkStatus();
    reference_outputs_ = checks.reference_outputs;
    NODEWISE_ASSIGN_OR_RETURN(
        result_.outputs,
        CompareNetworkOutputs(checks.reference_outputs, tensors.Outputs(index_),
                              AccumulatedTolerance(graph_)));
    return absl::OkStatus();
  }

  absl::Status JudgeRemarks() {
    constexpr size_t kMostTried = 32;
    JudgedTensors tensors(dump_, index_, is_judged_);
    return BlameForSubnormals(
        {index_, operators_, tensors, reference_outputs_, kMostTried},
        &result_);
  }

  // Compares what was read with what had been made, by the recorded hashes.
  void JudgeMemory() {
    if (!survey_.HasReadHashes()) {
      result_.notes.push_back(fmt::format(
          "{}: has no hashes of what nodes read, so that faults of the storage "
          "plan cannot be seen",
          dump_.name()));
    }
    overwritten_ = FindOverwritten(index_, index_.plan(), survey_.hashes());
    for (const Overwriting& found : overwritten_) {
      NodeReport* const reader = FindReport(found.reader);
      if (reader != nullptr) reader->evidence.read_overwritten = true;
      NodeReport* const writer = FindReport(found.writer);
      if (writer != nullptr) {
        writer->evidence.wrote_over = true;
        continue;
      }
      result_.notes.push_back(
          fmt::format("{}: something has written over it, but by the storage "
                      "plan no node does",
                      index_.KeyOf(found.victim)));
    }
  }

  // What a node read that was written over is known by its hash alone: what the
  // reference made of other bits says nothing about it.
  void Finish(NodeReport* report) {
    NodeEvidence& evidence = report->evidence;
    const bool read_unknown =
        evidence.read_overwritten && evidence.isolated != Verdict::kPass;
    if (read_unknown) evidence.isolated = Verdict::kInconclusive;
    const std::optional<Heirloom> floats = FloatsFor(report->node);
    const bool is_excused = floats.has_value() &&
                            evidence.isolated != Verdict::kPass &&
                            MayBeRounding(*report);
    if (is_excused) {
      // A run that is judged puts the environment back: it would see what the
      // node makes by itself.
      evidence.isolated = Verdict::kPass;
      evidence.accumulated = Verdict::kError;
    }
    Conclude(index_, overwritten_, report);
    if (is_excused && report->verdict == NodeVerdict::kInherits) {
      report->reason = fmt::format("ran with floats as {} had left them: {}",
                                   index_.KeyOf(floats->from),
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
    const Graph& graph = index_.graph();
    const DLDataType dtype = graph.entry(graph.EntryOf(report.node, 0)).dtype;
    return report.worst->metrics.relative_error() <=
           kMostOfAnotherRounding * StepAtOne(dtype);
  }

  // The floating-point environment that a node ran in, and the node that left
  // it.
  struct Heirloom {
    NodeId from;
    FloatChange change;
  };
  // None if normal numbers come out as in the environment that the run began
  // with.
  std::optional<Heirloom> FloatsFor(NodeId node) const {
    std::optional<Heirloom> found;
    for (const auto& [from, change] : floats_) {
      if (Index(from) >= Index(node)) break;
      const FloatChange all{floats_.front().second.before, change.after};
      if (!ChangesResults(all)) {
        found.reset();
      } else if (!found.has_value()) {
        found = Heirloom{from, all};
      }
    }
    return found;
  }

  // Returns null if the node is not a function node.
  NodeReport* FindReport(NodeId node) {
    const auto found = std::find_if(
        result_.nodes.begin(), result_.nodes.end(),
        [node](const NodeReport& report) { return report.node == node; });
    return found == result_.nodes.end() ? nullptr : &*found;
  }

  TensorSource& dump_;
  const std::vector<std::pair<NodeId, FloatChange>>& floats_;
  const GraphIndex& index_;
  const Graph& graph_;
  const OpSet& operators_;
  const ReplayOptions& options_;
  DumpSurvey survey_;
  ByNode<bool> is_judged_;
  std::vector<Overwriting> overwritten_;
  // The outputs of the reference, if its dump is complete.
  std::vector<NDArray> reference_outputs_;
  LocateResult result_;
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
  return Replayer(run, index, operators, options).Run();
}

}  // namespace nodewise
