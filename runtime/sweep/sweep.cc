#include "nodewise/sweep/sweep.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "nodewise/device/device.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ndarray/elements.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"

namespace nodewise {
namespace {

constexpr size_t kPage = 4096;
// TVM's kAllocAlignment since 0.8.
constexpr size_t kPromised = 64;
// Room to move a buffer about, and to read past its end.
constexpr size_t kSlack = 5 * kPage;

// Layouts 0 and 1 share their addresses, layouts 0 and 2 their bytes, so the
// first runs that differ show whether bytes or addresses matter.
uint8_t FillOf(int layout) {
  // NaN and -1, then plain numbers.
  static constexpr uint8_t kFills[] = {0xff, 0x41, 0x3c, 0x80};
  if (layout == 0 || layout == 2) return 0;
  return kFills[(layout / 2) % 4];
}

// Returns another place in another page. It differs between slots, since a
// fault may depend on the distance between two of them.
size_t OffsetOf(uint32_t slot, int layout) {
  const size_t address = layout < 2 ? 0 : static_cast<size_t>(layout) - 1;
  // Other addresses are aligned as TVM promises, and no better.
  const size_t in_page =
      address * (5 + 2 * (slot % 8)) % (kPage / kPromised) * kPromised;
  return in_page + (address + address * slot) % 4 * kPage;
}

// Gives the executors of one sweep their slots, one executor after the other:
// the same addresses and the same bytes for the same layout.
class SweepMemory : public std::enable_shared_from_this<SweepMemory> {
 public:
  SweepMemory() = default;
  SweepMemory(const SweepMemory&) = delete;
  SweepMemory& operator=(const SweepMemory&) = delete;
  ~SweepMemory() {
    for (const Region& region : regions_) {
      if (region.data != nullptr) munmap(region.data, region.bytes);
    }
  }

  // Sets the layout that the next executor gets. REQUIRES: the one before is
  // gone.
  void SetLayout(int layout) { layout_ = layout; }
  // A region is kept for the next executor and grows if that needs more. Memory
  // of other devices cannot be laid out, and is taken as it comes.
  absl::StatusOr<NDArray> Allocate(uint32_t slot, size_t bytes,
                                   DLDevice device) {
    if (DeviceTypeOf(device) != kDLCPU) {
      return NDArray::Empty({static_cast<int64_t>(bytes)}, {kDLUInt, 8, 1},
                            device);
    }
    if (slot >= regions_.size()) regions_.resize(slot + 1);
    Region& region = regions_[slot];
    if (region.data == nullptr || region.bytes - kSlack < bytes) {
      void* const data =
          bytes > SIZE_MAX - kSlack
              ? MAP_FAILED
              : mmap(nullptr, bytes + kSlack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (data == MAP_FAILED) {
        return ResourceExhausted("sweep: no memory for {} bytes", bytes);
      }
      if (region.data != nullptr) munmap(region.data, region.bytes);
      region = {static_cast<uint8_t*>(data), bytes + kSlack};
    }
    std::memset(region.data, FillOf(layout_), region.bytes);
    return NDArray::BorrowBytes(region.data + OffsetOf(slot, layout_), bytes,
                                device, shared_from_this());
  }

 private:
  struct Region {
    uint8_t* data = nullptr;
    size_t bytes = 0;
  };

  int layout_ = 0;
  std::vector<Region> regions_;  // By slot.
};

// One run of a sweep. The others are compared with the first.
struct SweepRun {
  int threads = 1;
  int layout = 0;
  int repeat = 0;
};

// Returns the number at `element`; NaN for types without arithmetic.
double NumberAt(const uint8_t* element, DLDataType dtype) {
  dtype.lanes = 1;
  // Bytes may differ and both mean true; as numbers they differ, too.
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

// Looks at every tensor whenever it should be what it was: when it is given,
// made or read, once more after a node that read it, and at the end. In the
// first run it keeps what it sees, in the others it compares. A tensor that is
// no longer the same as when it was last looked at has been written to in
// between: there a difference begins, as it does where a node makes another
// output from the same inputs.
class SweepObserver : public NodeObserver {
 public:
  void Begin(const SweepRun& run) {
    is_first_ = !run_.has_value();
    if (is_first_) first_ = run;
    now_ = run;
  }

  absl::Status BeforePass(const RunView& run) override {
    run_ = run;
    const Graph& graph = run.graph();
    entries_ = ByEntry<Entry>(graph);
    for (const NodeId node : AllNodes(graph)) {
      if (graph.IsFunction(node)) continue;
      const auto outputs = run.OutputsOf(node);
      for (uint32_t o = 0; o < outputs.size(); ++o) {
        SweepEntry({node, Moment::kGiven, o}, graph.EntryOf(node, o),
                   *outputs[o]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status BeforeNode(const NodeRun& node) override {
    has_same_inputs_ = SweepInputs(node, Moment::kRead, /*finds_changes=*/true);
    return absl::OkStatus();
  }

  absl::Status AfterNode(const NodeRun& node) override {
    if (node.floats != nullptr) {
      float_findings_.try_emplace(
          node.node,
          FloatFinding(PlaceOf(node.run.index(), node.node), *node.floats));
    }
    // If an output is in the memory of an input, the input differs with it.
    const bool has_same_outputs = LookAtOutputs(node);
    SweepInputs(node, Moment::kLeft, /*finds_changes=*/has_same_outputs);
    return absl::OkStatus();
  }

  void AfterPass(const RunView& run, const absl::Status& status) override {
    if (!status.ok()) return;
    const Graph& graph = run.graph();
    for (const EntryRef& head : graph.heads) {
      const NodeId node{head.node};
      SweepEntry({node, Moment::kEnd, head.output}, graph.EntryOf(head),
                 *run.OutputsOf(node)[head.output]);
    }
  }

  void Finish(SweepReport* report) {
    for (auto& [place, finding] : findings_) {
      inheriting_.erase(std::get<NodeId>(place));
      report->findings.push_back(std::move(finding));
    }
    report->inherited = inheriting_.size();
    for (auto& [node, finding] : float_findings_) {
      report->findings.push_back(std::move(finding));
    }
    std::ranges::stable_sort(report->findings, {}, [](const Finding& finding) {
      return finding.node()->node;
    });
  }

 private:
  // When a tensor is looked at. In the order of the findings, and of their
  // kinds in sweep_kinds::kAll.
  enum class Moment { kGiven, kRead, kMade, kLeft, kEnd };
  // A moment that occurs in every run: a node, and which of its tensors.
  using Place = std::tuple<NodeId, Moment, uint32_t>;

  struct Entry {
    bool is_same = true;  // As in the first run, when last looked at.
    Place last;           // Where it was last looked at.
  };

  bool IsAsInFirstRun(const Place& place, EntryId id, const DLTensor& tensor) {
    if (!IsHostMemory(tensor)) return true;
    const uint64_t hash = HashBytes(DataOf(tensor), run_->index().BytesOf(id));
    if (is_first_) hashes_[place] = hash;
    const bool is_same = hashes_.try_emplace(place, hash).first->second == hash;
    entries_[id] = {is_same, place};
    return is_same;
  }

  void SweepEntry(const Place& place, EntryId id, const DLTensor& tensor) {
    const Entry before = entries_[id];
    if (IsAsInFirstRun(place, id, tensor) || !before.is_same) return;
    if (Finding* const finding = NewFinding(place, id)) {
      finding->found = MessageFor(place, before.last);
    }
  }

  bool SweepInputs(const NodeRun& node, Moment moment, bool finds_changes) {
    const Graph& graph = node.run.graph();
    bool are_same = true;
    for (uint32_t i = 0; i < node.inputs.size(); ++i) {
      const EntryId id = graph.EntryOf(graph.node(node.node).inputs[i]);
      const Place place = {node.node, moment, i};
      if (finds_changes) {
        SweepEntry(place, id, *node.inputs[i]);
      } else {
        IsAsInFirstRun(place, id, *node.inputs[i]);
      }
      are_same = are_same && entries_[id].is_same;
    }
    return are_same;
  }

  bool LookAtOutputs(const NodeRun& node) {
    bool are_same = true;
    for (uint32_t o = 0; o < node.outputs.size(); ++o) {
      SweepOutput(node.node, o, *node.outputs[o]);
      const EntryId id = node.run.graph().EntryOf(node.node, o);
      are_same = are_same && entries_[id].is_same;
    }
    return are_same;
  }

  void SweepOutput(NodeId node, uint32_t output, const DLTensor& tensor) {
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

  // Adds a finding without its message; returns null if this place has one
  // already.
  Finding* NewFinding(const Place& place, EntryId id) {
    const auto [at, is_new] = findings_.try_emplace(place);
    if (!is_new) return nullptr;
    const auto& [node, moment, slot] = place;
    const bool is_input = moment == Moment::kRead || moment == Moment::kLeft;
    const SweepRun other = OtherRun();
    at->second = MakeFinding(sweep_kinds::kAll[static_cast<size_t>(moment)],
                             PlaceOf(run_->index(), node, id), "",
                             {{is_input ? "input" : "output", uint64_t{slot}},
                              {"threads", int64_t{other.threads}},
                              {"other_threads", int64_t{now_.threads}},
                              {"layout", int64_t{other.layout}},
                              {"other_layout", int64_t{now_.layout}}});
    return &at->second;
  }

  // `last` is where the tensor was last as in the first run.
  std::string MessageFor(const Place& place, const Place& last) const {
    const auto& [last_node, last_moment, last_slot] = last;
    const std::string since = last_moment == Moment::kGiven
                                  ? "before the first node"
                              : last_moment == Moment::kRead
                                  ? "when it was read"
                                  : "after " + run_->index().TitleOf(last_node);
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
            "writes to its input {}, and what it leaves there differs between "
            "{}",
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

  SweepRun OtherRun() const {
    // Threads or layout would have made a repetition's first run differ
    // already.
    return now_.repeat > 0 ? now_ : first_;
  }

  // Compared element by element as bytes, so that NaN with the same bits count
  // as equal; the distance is for the reader alone.
  void Measure(const DLTensor& tensor, const std::vector<uint8_t>& expected,
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
      const double distance =
          std::fabs(NumberAt(a, dtype) - NumberAt(b, dtype));
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

  std::optional<RunView> run_;  // The last one that was watched.
  SweepRun first_;
  SweepRun now_;
  bool is_first_ = true;
  bool has_same_inputs_ = true;
  ByEntry<Entry> entries_;  // The state in this run.
  // In the first run: a hash of each tensor, and what nodes made.
  std::map<Place, uint64_t> hashes_;
  std::map<Place, std::vector<uint8_t>> made_;
  std::map<Place, Finding> findings_;
  std::map<NodeId, Finding> float_findings_;
  std::set<NodeId> inheriting_;
};

absl::Status CheckOptions(const SweepOptions& options) {
  if (options.layouts < 1 || options.repeats < 1) {
    return InvalidArgument(
        "sweep: found {} layouts and {} repeats, expected 1 or more of each",
        options.layouts, options.repeats);
  }
  for (const int threads : options.threads) {
    if (threads >= 1 && threads <= kMaxTasks) continue;
    return InvalidArgument(
        "sweep: found a thread count of {}, expected 1 to {}", threads,
        kMaxTasks);
  }
  return absl::OkStatus();
}

// Returns all runs. Those that differ from the first in one thing come before
// those that differ in two, so that findings are attributed to the one. All
// combinations; thread counts that occur twice in the options are taken once.
std::vector<SweepRun> RunsOf(const SweepOptions& options) {
  std::vector<int> threads = options.threads;
  if (threads.empty()) threads = {1, 2, 3, NumThreads()};
  std::vector<int> once;
  for (const int count : threads) {
    if (std::find(once.begin(), once.end(), count) == once.end()) {
      once.push_back(count);
    }
  }
  std::vector<SweepRun> all;
  for (const int count : once) {
    for (int layout = 0; layout < options.layouts; ++layout) {
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        all.push_back({count, layout, repeat});
      }
    }
  }
  const auto things = [&](const SweepRun& c) {
    return (c.threads != once[0] ? 1 : 0) + (c.layout != 0 ? 1 : 0);
  };
  std::ranges::stable_sort(all, {}, things);
  return all;
}

}  // namespace

absl::StatusOr<SweepReport> Sweep(const ExecutorMaker& make,
                                  const SweepOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckOptions(options));
  const absl::Cleanup restore_threads = [before = NumThreads()] {
    SetNumThreads(before);
  };
  const auto memory = std::make_shared<SweepMemory>();
  SweepObserver observer;
  SweepReport report;
  const std::vector<SweepRun> runs = RunsOf(options);
  for (const SweepRun& run : runs) {
    memory->SetLayout(run.layout);
    SetNumThreads(run.threads);
    DebugExecutor::DebugOptions debug_options;
    debug_options.records = false;
    debug_options.allocate = std::bind_front(&SweepMemory::Allocate, memory);
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              make(std::move(debug_options)));
    observer.Begin(run);
    executor->AddObserver(&observer);
    executor->SetPutsFloatsBack(true);
    const absl::Status status = executor->Run();
    executor->RemoveObserver(&observer);
    // A failure of the first run is returned as it is.
    if (!status.ok() && report.runs > 0) {
      return At(fmt::format("run {} of the sweep (threads: {}, layout: {})",
                            report.runs + 1, run.threads, run.layout + 1),
                status);
    }
    NODEWISE_RETURN_IF_ERROR(status);
    ++report.runs;
    if (options.progress) options.progress(report.runs, runs.size());
  }
  observer.Finish(&report);
  return report;
}

}  // namespace nodewise
