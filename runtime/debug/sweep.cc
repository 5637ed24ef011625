#include "nodewise/runtime/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "nodewise/runtime/half.h"
#include "nodewise/runtime/tensor_stats.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/debug/sweep_memory.h"

namespace nodewise {
namespace {

template <typename T>
double Load(const uint8_t* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return static_cast<double>(value);
}

// The number at `element`; NaN if it is none.
double NumberAt(const uint8_t* element, DLDataType dtype) {
  const size_t bytes = (dtype.bits + 7u) / 8u;
  if (dtype.code == kDLFloat && dtype.bits == 64) return Load<double>(element);
  if (dtype.code == kDLFloat && dtype.bits == 32) return Load<float>(element);
  if (bytes == 2 && (dtype.code == kDLFloat || dtype.code == kDLBfloat)) {
    uint16_t bits = 0;
    std::memcpy(&bits, element, sizeof(bits));
    return dtype.code == kDLFloat ? HalfToFloat(bits) : BfloatToFloat(bits);
  }
  const bool is_signed = dtype.code == kDLInt;
  const bool is_unsigned = dtype.code == kDLUInt || dtype == kFfiBool;
  if (!is_signed && !is_unsigned) return NAN;
  switch (bytes) {
    case 1:
      return is_signed ? Load<int8_t>(element) : Load<uint8_t>(element);
    case 2:
      return is_signed ? Load<int16_t>(element) : Load<uint16_t>(element);
    case 4:
      return is_signed ? Load<int32_t>(element) : Load<uint32_t>(element);
    case 8:
      return is_signed ? Load<int64_t>(element) : Load<uint64_t>(element);
    default:
      return NAN;
  }
}

size_t BytesOf(const DLTensor& tensor) {
  return TensorBytes(ShapeOf(tensor), tensor.dtype).value_or(0);
}

bool IsHostMemory(const DLTensor& tensor) {
  return DeviceTypeOf(tensor.device) == kDLCPU;
}

// One run of the sweep. The first is what the others are held against.
struct Combination {
  int threads = 1;
  int layout = 0;
  int repeat = 0;
};

std::string BetweenText(const Combination& first, const Combination& other,
                        bool was_the_same_before) {
  const bool other_threads = other.threads != first.threads;
  if (was_the_same_before || (!other_threads && other.layout == first.layout)) {
    return "two runs of the same";
  }
  std::string threads =
      absl::StrFormat("%d and %d threads", first.threads, other.threads);
  if (other.layout == first.layout) return threads;
  const std::string layout = other.layout == 1 ? "two contents of unused memory"
                             : other.layout == 2
                                 ? "two addresses of the buffers"
                                 : "two addresses and contents of the buffers";
  return other_threads ? threads + ", and " + layout : layout;
}

// Watches every run: keeps what the first made and holds the others against it.
class SweepWatcher : public NodeObserver {
 public:
  void Begin(const DebugExecutor* executor, const Combination& combination) {
    executor_ = executor;
    now_ = combination;
    is_first_ = inputs_read_.empty() && made_.empty();
    if (is_first_) first_ = combination;
  }

  absl::Status BeforeNode(NodeId node) override {
    uint64_t hash = 0;
    for (const DLTensor* tensor : executor_->InputsOf(node)) {
      if (!IsHostMemory(*tensor)) continue;
      hash = hash * 31 + HashBytes(DataOf(*tensor), BytesOf(*tensor));
    }
    if (is_first_) inputs_read_[node] = hash;
    has_same_inputs_ = inputs_read_[node] == hash;
    return absl::OkStatus();
  }

  absl::Status AfterNode(NodeId node, NodeTime) override {
    const auto outputs = executor_->OutputsOf(node);
    for (uint32_t o = 0; o < outputs.size(); ++o) {
      const DLTensor& tensor = *outputs[o];
      if (!IsHostMemory(tensor)) continue;
      const auto* data = static_cast<const uint8_t*>(DataOf(tensor));
      std::vector<uint8_t>& expected = made_[{node, o}];
      if (is_first_) {
        expected.assign(data, data + BytesOf(tensor));
      } else if (!expected.empty() &&
                 std::memcmp(expected.data(), data, expected.size()) != 0) {
        Differs(node, o, tensor, expected);
      }
    }
    return absl::OkStatus();
  }

  void Finish(SweepReport* report) {
    for (auto& [place, finding] : findings_) {
      inheriting_.erase(place.first);
      report->findings.push_back(std::move(finding));
    }
    report->inherited = inheriting_.size();
  }

 private:
  using Place = std::pair<NodeId, uint32_t>;

  void Differs(NodeId node, uint32_t output, const DLTensor& tensor,
               const std::vector<uint8_t>& expected) {
    if (!has_same_inputs_) {
      inheriting_.insert(node);
      return;
    }
    const auto [place, is_new] = findings_.try_emplace({node, output});
    if (!is_new) return;
    SweepFinding& finding = place->second;
    finding.node = node;
    finding.output = output;
    // It would have been found in the first of these.
    finding.between = BetweenText(first_, now_, now_.repeat > 0);
    Measure(tensor, expected, &finding);
  }

  void Measure(const DLTensor& tensor, const std::vector<uint8_t>& expected,
               SweepFinding* finding) {
    const auto* data = static_cast<const uint8_t*>(DataOf(tensor));
    DLDataType dtype = tensor.dtype;
    size_t step = ElementBytes(dtype);
    if (step % dtype.lanes == 0) step /= dtype.lanes;
    const size_t count = expected.size() / step;
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* const a = expected.data() + i * step;
      const uint8_t* const b = data + i * step;
      if (std::memcmp(a, b, step) == 0) continue;
      ++finding->differing;
      const double distance =
          std::fabs(NumberAt(a, dtype) - NumberAt(b, dtype));
      // False for NaN.
      if (distance > finding->largest) finding->largest = distance;
    }
    finding->text = absl::StrFormat(
        "%s: output %d differs between %s in %d of %d elements",
        NodeTitle(executor_->graph(), finding->node), finding->output,
        finding->between, finding->differing, count);
    if (finding->largest > 0) {
      finding->text += absl::StrFormat(", by up to %g", finding->largest);
    }
  }

  const DebugExecutor* executor_ = nullptr;
  Combination first_;
  Combination now_;
  bool is_first_ = true;
  bool has_same_inputs_ = true;
  std::map<NodeId, uint64_t> inputs_read_;  // A hash of all, in the first run.
  std::map<Place, std::vector<uint8_t>> made_;  // In the first run.
  std::map<Place, SweepFinding> findings_;
  std::set<NodeId> inheriting_;
};

// Sets the number of threads, and back at the end.
class ThreadCount {
 public:
  ThreadCount() : before_(NumThreads()) {}
  ~ThreadCount() { SetNumThreads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

absl::Status CheckOptions(const SweepOptions& options) {
  if (options.layouts < 1 || options.repeats < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("sweep: found %d layouts and %d repeats, expected 1 or "
                        "more of each",
                        options.layouts, options.repeats));
  }
  for (const int threads : options.threads) {
    if (threads >= 1 && threads <= kMaxTasks) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("sweep: found a thread count of %d, expected 1 to %d",
                        threads, kMaxTasks));
  }
  return absl::OkStatus();
}

// All combinations, those that differ from the first in one thing ahead of
// those that differ in two: what is found is put down to that one.
std::vector<Combination> Combinations(const SweepOptions& options) {
  std::vector<int> threads = options.threads;
  if (threads.empty()) threads = {1, 2, 3, NumThreads()};
  std::vector<int> once;
  for (const int count : threads) {
    if (std::find(once.begin(), once.end(), count) == once.end()) {
      once.push_back(count);
    }
  }
  std::vector<Combination> all;
  for (const int count : once) {
    for (int layout = 0; layout < options.layouts; ++layout) {
      for (int repeat = 0; repeat < options.repeats; ++repeat) {
        all.push_back({count, layout, repeat});
      }
    }
  }
  const auto things = [&](const Combination& c) {
    return (c.threads != once[0] ? 1 : 0) + (c.layout != 0 ? 1 : 0);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Combination& a, const Combination& b) {
                     return things(a) < things(b);
                   });
  return all;
}

}  // namespace

absl::StatusOr<SweepReport> Sweep(const ExecutorMaker& make,
                                  const SweepOptions& options) {
  NODEWISE_RETURN_IF_ERROR(CheckOptions(options));
  const ThreadCount restored;
  const auto memory = std::make_shared<SweepMemory>();
  SweepWatcher watcher;
  SweepReport report;
  const std::vector<Combination> combinations = Combinations(options);
  for (const Combination& combination : combinations) {
    memory->SetLayout(combination.layout);
    SetNumThreads(combination.threads);
    DebugExecutor::DebugOptions debug_options;
    debug_options.records = false;
    debug_options.allocate = [memory](uint32_t slot, size_t bytes,
                                      DLDevice device) {
      return memory->Allocate(slot, bytes, device);
    };
    NODEWISE_ASSIGN_OR_RETURN(const auto executor,
                              make(std::move(debug_options)));
    watcher.Begin(executor.get(), combination);
    executor->AddObserver(&watcher);
    const absl::Status status = executor->Run();
    executor->RemoveObserver(&watcher);
    NODEWISE_RETURN_IF_ERROR(status);
    ++report.runs;
    if (options.progress) options.progress(report.runs, combinations.size());
  }
  watcher.Finish(&report);
  return report;
}

}  // namespace nodewise
