#include "runtime/sweep/sweep_watcher.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/float_mode.h"

namespace nodewise {
namespace {

// Returns the number at `element`; NaN for types without arithmetic.
double NumberAt(const uint8_t* element, DLDataType dtype) {
  dtype.lanes = 1;
  // Where bytes differ that are both true, so do their numbers.
  if (dtype == kBool || dtype == kFfiBool) dtype = {kDLUInt, 8, 1};
  const bool is_integer = dtype.code == kDLInt || dtype.code == kDLUInt;
  double number = NAN;
  if (is_integer || HasNumbers(dtype)) {
    DecodeToDoubles(dtype, element, 1, &number);
  }
  return number;
}

bool IsHostMemory(const DLTensor& tensor) {
  return DeviceTypeOf(tensor.device) == kDLCPU;
}

std::string BetweenText(const SweepRun& first, const SweepRun& other,
                        bool was_the_same_before) {
  const bool other_threads = other.threads != first.threads;
  if (was_the_same_before || (!other_threads && other.layout == first.layout)) {
    return "two runs of the same";
  }
  std::string threads =
      fmt::format("{} and {} threads", first.threads, other.threads);
  if (other.layout == first.layout) return threads;
  const std::string layout = other.layout == 1 ? "two contents of unused memory"
                             : other.layout == 2
                                 ? "two addresses of the buffers"
                                 : "two addresses and contents of the buffers";
  return other_threads ? threads + ", and " + layout : layout;
}

}  // namespace

void SweepWatcher::Begin(const SweepRun& run) {
  is_first_ = !run_.has_value();
  if (is_first_) first_ = run;
  now_ = run;
}

std::string SweepWatcher::NameOf(NodeId node) const {
  return run_->index().TitleOf(node);
}

SweepFinding* SweepWatcher::NewFinding(const Place& place) {
  const auto [at, is_new] = findings_.try_emplace(place);
  if (!is_new) return nullptr;
  SweepFinding& finding = at->second;
  std::tie(finding.node, finding.moment, finding.slot) = place;
  // Threads or layout would have made it differ in repeat 0 already.
  finding.between = BetweenText(first_, now_, now_.repeat > 0);
  return &finding;
}

bool SweepWatcher::Look(const Place& place, EntryId id,
                        const DLTensor& tensor) {
  if (!IsHostMemory(tensor)) return true;
  const uint64_t hash = HashBytes(DataOf(tensor), run_->index().BytesOf(id));
  const bool is_same =
      is_first_ || hashes_.try_emplace(place, hash).first->second == hash;
  if (is_first_) hashes_[place] = hash;
  entries_[id] = {is_same, place};
  return is_same;
}

void SweepWatcher::LookForChange(const Place& place, EntryId id,
                                 const DLTensor& tensor) {
  const Entry before = entries_[id];
  if (!Look(place, id, tensor) && before.is_same) {
    if (SweepFinding* const finding = NewFinding(place)) {
      finding->text = TextOf(*finding, before.last);
    }
  }
}

std::string SweepWatcher::TextOf(const SweepFinding& finding,
                                 const Place& last) const {
  const auto& [node, moment, slot] = last;
  const std::string since = moment == Moment::kGiven  ? "before the first node"
                            : moment == Moment::kRead ? "when it was read"
                                                      : "after " + NameOf(node);
  const std::string name = NameOf(finding.node);
  switch (finding.moment) {
    case Moment::kGiven:
      return fmt::format("{}: differs between {} before the first node ran",
                         name, finding.between);
    case Moment::kRead:
      return fmt::format(
          "{}: input {} differs between {}, though it was the same {}: "
          "something wrote to it in between",
          name, finding.slot, finding.between, since);
    case Moment::kLeft:
      return fmt::format(
          "{}: writes to its input {}, and what it leaves there differs "
          "between {}",
          name, finding.slot, finding.between);
    case Moment::kEnd:
      return fmt::format(
          "{}: output {} differs between {} at the end of the run, though it "
          "was the same {}: something wrote to it in between",
          name, finding.slot, finding.between, since);
    case Moment::kMade:
      break;  // Measure() writes that text.
  }
  return "";
}

absl::Status SweepWatcher::BeforePass(const RunView& run) {
  run_ = run;
  const Graph& graph = run.graph();
  entries_ = ByEntry<Entry>(graph);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.IsFunction(NodeId{n})) continue;
    const auto outputs = run.OutputsOf(NodeId{n});
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      LookForChange({NodeId{n}, Moment::kGiven, o}, graph.EntryOf(NodeId{n}, o),
                    *outputs[o]);
    }
  }
  return absl::OkStatus();
}

absl::Status SweepWatcher::BeforeNode(const NodeRun& node) {
  has_same_inputs_ = LookAtInputs(node, Moment::kRead, /*finds_changes=*/true);
  return absl::OkStatus();
}

absl::Status SweepWatcher::AfterNode(const NodeRun& node) {
  // If an output is in the memory of an input, the input differs with it.
  const bool has_same_outputs = LookAtOutputs(node);
  LookAtInputs(node, Moment::kLeft, /*finds_changes=*/has_same_outputs);
  return absl::OkStatus();
}

bool SweepWatcher::LookAtInputs(const NodeRun& node, Moment moment,
                                bool finds_changes) {
  const Graph& graph = node.run.graph();
  bool are_same = true;
  for (uint32_t i = 0; i < node.inputs.size(); ++i) {
    const EntryId id = graph.EntryOf(graph.node(node.node).inputs[i]);
    const Place place = {node.node, moment, i};
    if (finds_changes) {
      LookForChange(place, id, *node.inputs[i]);
    } else {
      Look(place, id, *node.inputs[i]);
    }
    are_same = are_same && entries_[id].is_same;
  }
  return are_same;
}

bool SweepWatcher::LookAtOutputs(const NodeRun& node) {
  bool are_same = true;
  for (uint32_t o = 0; o < node.outputs.size(); ++o) {
    LookAtOutput(node.node, o, *node.outputs[o]);
    const EntryId id = node.run.graph().EntryOf(node.node, o);
    are_same = are_same && entries_[id].is_same;
  }
  return are_same;
}

void SweepWatcher::LookAtOutput(NodeId node, uint32_t output,
                                const DLTensor& tensor) {
  if (!IsHostMemory(tensor)) return;
  const Place place = {node, Moment::kMade, output};
  const EntryId id = run_->graph().EntryOf(node, output);
  Entry& entry = entries_[id];
  const auto* data = static_cast<const uint8_t*>(DataOf(tensor));
  std::vector<uint8_t>& expected = made_[place];
  if (is_first_) expected.assign(data, data + run_->index().BytesOf(id));
  entry.is_same = expected.empty() ||
                  std::memcmp(expected.data(), data, expected.size()) == 0;
  entry.last = place;
  if (entry.is_same) return;
  if (!has_same_inputs_) {
    inheriting_.insert(node);
    return;
  }
  if (SweepFinding* const finding = NewFinding(place)) {
    Measure(tensor, expected, finding);
  }
}

void SweepWatcher::AfterPass(const RunView& run, const absl::Status& status) {
  if (!status.ok()) return;
  const Graph& graph = run.graph();
  for (uint32_t h = 0; h < graph.heads.size(); ++h) {
    const EntryId id = graph.EntryOf(graph.heads[h]);
    const auto outputs = run.OutputsOf(NodeId{graph.heads[h].node});
    LookForChange(
        {NodeId{graph.heads[h].node}, Moment::kEnd, graph.heads[h].output}, id,
        *outputs[graph.heads[h].output]);
  }
}

void SweepWatcher::Finish(SweepReport* report) {
  for (auto& [place, finding] : findings_) {
    inheriting_.erase(finding.node);
    report->findings.push_back(std::move(finding));
  }
  report->inherited = inheriting_.size();
}

void SweepWatcher::Measure(const DLTensor& tensor,
                           const std::vector<uint8_t>& expected,
                           SweepFinding* finding) const {
  const DefaultFloatMode mode;
  const auto* data = static_cast<const uint8_t*>(DataOf(tensor));
  const DLDataType dtype = tensor.dtype;
  size_t step = ElementBytes(dtype);
  if (step % dtype.lanes == 0) step /= dtype.lanes;
  const size_t count = expected.size() / step;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const a = expected.data() + i * step;
    const uint8_t* const b = data + i * step;
    if (std::memcmp(a, b, step) == 0) continue;
    ++finding->differing;
    const double distance = std::fabs(NumberAt(a, dtype) - NumberAt(b, dtype));
    // False for NaN.
    if (distance > finding->largest) finding->largest = distance;
  }
  finding->text =
      fmt::format("{}: output {} differs between {} in {} of {} elements",
                  NameOf(finding->node), finding->slot, finding->between,
                  finding->differing, count);
  if (finding->largest > 0) {
    finding->text += fmt::format(", by up to {:g}", finding->largest);
  }
}

}  // namespace nodewise
