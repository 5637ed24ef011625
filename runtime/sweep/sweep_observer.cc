#include "runtime/sweep/sweep_observer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/float_environment.h"

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

std::string BetweenText(const SweepRun& one, const SweepRun& other) {
  if (other.threads == one.threads && other.layout == one.layout) {
    return "two runs of the same";
  }
  const std::string threads =
      fmt::format("{} and {} threads", one.threads, other.threads);
  if (other.layout == one.layout) return threads;
  const std::string layout = other.layout == 1 ? "two contents of unused memory"
                             : other.layout == 2
                                 ? "two addresses of the buffers"
                                 : "two addresses and contents of the buffers";
  return other.threads != one.threads ? threads + ", and " + layout : layout;
}

}  // namespace

void SweepObserver::Begin(const SweepRun& run) {
  is_first_ = !run_.has_value();
  if (is_first_) first_ = run;
  now_ = run;
}

const FindingKind& SweepObserver::KindOf(Moment moment) {
  switch (moment) {
    case Moment::kGiven:
      return sweep_kinds::kGivenDiffers;
    case Moment::kRead:
      return sweep_kinds::kReadDiffers;
    case Moment::kMade:
      return sweep_kinds::kMadeDiffers;
    case Moment::kLeft:
      return sweep_kinds::kLeftDiffers;
    case Moment::kEnd:
      break;
  }
  return sweep_kinds::kEndDiffers;
}

std::string SweepObserver::NameOf(NodeId node) const {
  return run_->index().TitleOf(node);
}

SweepRun SweepObserver::OtherRun() const {
  // Threads or layout would have made a repetition's first run differ already.
  return now_.repeat > 0 ? now_ : first_;
}

Finding* SweepObserver::NewFinding(const Place& place, EntryId id) {
  const auto [at, is_new] = findings_.try_emplace(place);
  if (!is_new) return nullptr;
  const auto& [node, moment, slot] = place;
  const bool is_input = moment == Moment::kRead || moment == Moment::kLeft;
  const SweepRun other = OtherRun();
  at->second = MakeFinding(KindOf(moment), PlaceOf(run_->index(), node, id), "",
                           {{is_input ? "input" : "output", uint64_t{slot}},
                            {"threads", int64_t{other.threads}},
                            {"other_threads", int64_t{now_.threads}},
                            {"layout", int64_t{other.layout}},
                            {"other_layout", int64_t{now_.layout}}});
  return &at->second;
}

bool SweepObserver::Look(const Place& place, EntryId id,
                         const DLTensor& tensor) {
  if (!IsHostMemory(tensor)) return true;
  const uint64_t hash = HashBytes(DataOf(tensor), run_->index().BytesOf(id));
  const bool is_same =
      is_first_ || hashes_.try_emplace(place, hash).first->second == hash;
  if (is_first_) hashes_[place] = hash;
  entries_[id] = {is_same, place};
  return is_same;
}

void SweepObserver::LookForChange(const Place& place, EntryId id,
                                  const DLTensor& tensor) {
  const Entry before = entries_[id];
  if (!Look(place, id, tensor) && before.is_same) {
    if (Finding* const finding = NewFinding(place, id)) {
      finding->found = MessageFor(place, before.last);
    }
  }
}

std::string SweepObserver::MessageFor(const Place& place,
                                      const Place& last) const {
  const auto& [last_node, last_moment, last_slot] = last;
  const std::string since =
      last_moment == Moment::kGiven  ? "before the first node"
      : last_moment == Moment::kRead ? "when it was read"
                                     : "after " + NameOf(last_node);
  const auto& [node, moment, slot] = place;
  const std::string between = BetweenText(OtherRun(), now_);
  switch (moment) {
    case Moment::kGiven:
      return fmt::format("differs between {} before the first node ran",
                         between);
    case Moment::kRead:
      return fmt::format(
          "input {} differs between {}, though it was the same {}: something "
          "wrote to it in between",
          slot, between, since);
    case Moment::kLeft:
      return fmt::format(
          "writes to its input {}, and what it leaves there differs between {}",
          slot, between);
    case Moment::kEnd:
      return fmt::format(
          "output {} differs between {} at the end of the run, though it was "
          "the same {}: something wrote to it in between",
          slot, between, since);
    case Moment::kMade:
      break;  // Measure() writes that message.
  }
  return "";
}

absl::Status SweepObserver::BeforePass(const RunView& run) {
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

absl::Status SweepObserver::BeforeNode(const NodeRun& node) {
  has_same_inputs_ = LookAtInputs(node, Moment::kRead, /*finds_changes=*/true);
  return absl::OkStatus();
}

absl::Status SweepObserver::AfterNode(const NodeRun& node) {
  if (node.floats != nullptr) {
    float_findings_.try_emplace(
        node.node,
        FloatFinding(PlaceOf(node.run.index(), node.node), *node.floats));
  }
  // If an output is in the memory of an input, the input differs with it.
  const bool has_same_outputs = LookAtOutputs(node);
  LookAtInputs(node, Moment::kLeft, /*finds_changes=*/has_same_outputs);
  return absl::OkStatus();
}

bool SweepObserver::LookAtInputs(const NodeRun& node, Moment moment,
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

bool SweepObserver::LookAtOutputs(const NodeRun& node) {
  bool are_same = true;
  for (uint32_t o = 0; o < node.outputs.size(); ++o) {
    LookAtOutput(node.node, o, *node.outputs[o]);
    const EntryId id = node.run.graph().EntryOf(node.node, o);
    are_same = are_same && entries_[id].is_same;
  }
  return are_same;
}

void SweepObserver::LookAtOutput(NodeId node, uint32_t output,
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
  if (Finding* const finding = NewFinding(place, id)) {
    Measure(tensor, expected, output, finding);
  }
}

void SweepObserver::AfterPass(const RunView& run, const absl::Status& status) {
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

void SweepObserver::Finish(SweepReport* report) {
  for (auto& [place, finding] : findings_) {
    inheriting_.erase(std::get<NodeId>(place));
    report->findings.push_back(std::move(finding));
  }
  report->inherited = inheriting_.size();
  for (auto& [node, finding] : float_findings_) {
    report->findings.push_back(std::move(finding));
  }
  std::stable_sort(report->findings.begin(), report->findings.end(),
                   [](const Finding& a, const Finding& b) {
                     return Index(a.node()->node) < Index(b.node()->node);
                   });
}

void SweepObserver::Measure(const DLTensor& tensor,
                            const std::vector<uint8_t>& expected,
                            uint32_t output, Finding* finding) const {
  const DefaultFloatEnvironment floats;
  const auto* data = static_cast<const uint8_t*>(DataOf(tensor));
  const DLDataType dtype = tensor.dtype;
  size_t step = ElementBytes(dtype);
  if (step % dtype.lanes == 0) step /= dtype.lanes;
  const size_t count = expected.size() / step;
  uint64_t differing = 0;
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const a = expected.data() + i * step;
    const uint8_t* const b = data + i * step;
    if (std::memcmp(a, b, step) == 0) continue;
    ++differing;
    const double distance = std::fabs(NumberAt(a, dtype) - NumberAt(b, dtype));
    // False for NaN.
    if (distance > largest) largest = distance;
  }
  finding->found =
      fmt::format("output {} differs between {} in {} of {} elements", output,
                  BetweenText(OtherRun(), now_), differing, count);
  if (largest > 0) finding->found += fmt::format(", by up to {:g}", largest);
  finding->numbers.push_back({"differing", differing});
  finding->numbers.push_back({"elements", uint64_t{count}});
  finding->numbers.push_back({"largest", largest});
}

}  // namespace nodewise
