#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "nodewise/profile/profiler.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Says which counters the kernel lets users without privileges have; messages
// quote it, since it is the usual reason for a refusal.
constexpr char kParanoid[] = "/proc/sys/kernel/perf_event_paranoid";

struct EventRow {
  const char* name;
  const char* unit;  // "" for a plain count.
  uint32_t type;
  uint64_t config;
  // The event occurs only in the kernel; without permission its count stays 0.
  bool in_kernel;
};

// Events of the processor are counted outside of the kernel alone, which needs
// the least permission.
constexpr EventRow Hardware(const char* name, uint64_t event) {
  return {name, "", PERF_TYPE_HARDWARE, event, false};
}

// Accesses to a cache by reads, or those of them that missed it.
constexpr EventRow CacheReads(const char* name, uint64_t cache, bool missed) {
  const uint64_t result = missed ? PERF_COUNT_HW_CACHE_RESULT_MISS
                                 : PERF_COUNT_HW_CACHE_RESULT_ACCESS;
  // The three fields lie as perf_event_open(2) has them.
  constexpr uint64_t kRead = PERF_COUNT_HW_CACHE_OP_READ;
  return {name, "", PERF_TYPE_HW_CACHE, cache | kRead << 8 | result << 16,
          false};
}

// Events of the kernel itself would stay 0 if the kernel were left out.
constexpr EventRow Software(const char* name, uint64_t event,
                            bool in_kernel = false, const char* unit = "") {
  return {name, unit, PERF_TYPE_SOFTWARE, event, in_kernel};
}

// Names are those of the perf command.
constexpr EventRow kEvents[] = {
    Hardware("cycles", PERF_COUNT_HW_CPU_CYCLES),
    Hardware("instructions", PERF_COUNT_HW_INSTRUCTIONS),
    Hardware("ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES),
    Hardware("bus-cycles", PERF_COUNT_HW_BUS_CYCLES),
    Hardware("cache-references", PERF_COUNT_HW_CACHE_REFERENCES),
    Hardware("cache-misses", PERF_COUNT_HW_CACHE_MISSES),
    Hardware("branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    Hardware("branch-misses", PERF_COUNT_HW_BRANCH_MISSES),
    Hardware("stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    Hardware("stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    CacheReads("L1-dcache-loads", PERF_COUNT_HW_CACHE_L1D, false),
    CacheReads("L1-dcache-load-misses", PERF_COUNT_HW_CACHE_L1D, true),
    CacheReads("LLC-loads", PERF_COUNT_HW_CACHE_LL, false),
    CacheReads("LLC-load-misses", PERF_COUNT_HW_CACHE_LL, true),
    CacheReads("dTLB-loads", PERF_COUNT_HW_CACHE_DTLB, false),
    CacheReads("dTLB-load-misses", PERF_COUNT_HW_CACHE_DTLB, true),
    Software("page-faults", PERF_COUNT_SW_PAGE_FAULTS),
    Software("minor-faults", PERF_COUNT_SW_PAGE_FAULTS_MIN),
    Software("major-faults", PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    Software("task-clock", PERF_COUNT_SW_TASK_CLOCK, false, "ns"),
    Software("context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES, true),
    Software("cpu-migrations", PERF_COUNT_SW_CPU_MIGRATIONS, true),
};

// Returns a descriptor, or minus the number of the error.
int Open(const EventRow& event, pid_t thread) {
  perf_event_attr attr{};
  attr.size = sizeof(attr);
  attr.type = event.type;
  attr.config = event.config;
  // The two times tell how much of the time the event had a counter, which
  // Advance() scales by.
  attr.read_format =
      PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  // Threads that a counted thread creates later are counted with it: a pool may
  // start its workers in the first run.
  attr.inherit = 1;
  attr.exclude_kernel = event.in_kernel ? 0 : 1;
  attr.exclude_hv = 1;
  // glibc has no function for it.
  const long fd =
      syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

std::string HintFor(const EventRow& event, int error,
                    const std::string& paranoid) {
  const int wanted = event.in_kernel ? 1 : 2;
  int level = wanted;
  std::from_chars(paranoid.data(), paranoid.data() + paranoid.size(), level);
  switch (error) {
    case EPERM:
    case EACCES:
      if (paranoid.empty() || level > wanted) {
        return fmt::format(
            "sysctl kernel.perf_event_paranoid={}, or run with CAP_PERFMON",
            wanted);
      }
      return "a seccomp filter or a container forbids it: allow "
             "perf_event_open there, or grant CAP_PERFMON";
    case ENOSYS:
      return "the kernel is built without perf events, or a sandbox hides "
             "them";
    case EMFILE:
      return "each thread takes a file for each event: raise ulimit -n, or "
             "ask for fewer events";
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
    case EINVAL:
      return event.type == PERF_TYPE_SOFTWARE
                 ? "this kernel does not count it"
                 : "this processor, or the virtual machine, does not offer "
                   "the counter; page-faults and task-clock need none";
    default:
      return "leave the event out";
  }
}

// The text has all that a user needs to find the reason without a look at the
// kernel's sources: the call, its error, the setting, and what would help.
absl::Status OpenError(const EventRow& event, int error) {
  std::string paranoid;
  std::ifstream file(kParanoid);
  std::getline(file, paranoid);
  return Unavailable(
      "perf event {}: perf_event_open said {} ({}), {} is {}, expected a "
      "counter ({})",
      event.name, std::strerror(error), error, kParanoid,
      paranoid.empty() ? "not readable" : paranoid,
      HintFor(event, error, paranoid));
}

std::vector<pid_t> Threads() {
  std::error_code ignored;
  std::vector<pid_t> threads = NumbersInFolder("/proc/self/task", &ignored);
  if (threads.empty()) threads.push_back(0);  // The calling one, without /proc.
  return threads;
}

class PerfEvents final : public Collector {
 public:
  explicit PerfEvents(std::vector<const EventRow*> events)
      : events_(std::move(events)) {}

  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const EventRow* event : events_) {
      names.push_back(*event->unit == '\0'
                          ? event->name
                          : fmt::format("{} ({})", event->name, event->unit));
    }
    return names;
  }

  // A counter belongs to one thread and one event, so there are as many as both
  // together. If one of them cannot be opened, none is kept: figures of some
  // threads alone would look like those of all.
  absl::Status Start() override {
    Stop();
    for (const pid_t thread : Threads()) {
      for (size_t e = 0; e < events_.size(); ++e) {
        const int fd = Open(*events_[e], thread);
        if (fd == -ESRCH) break;  // The thread has just ended.
        if (fd < 0) {
          Stop();
          return OpenError(*events_[e], -fd);
        }
        counters_.push_back({OpenDescriptor(fd), e, {}, 0});
      }
    }
    return absl::OkStatus();
  }

  // The counts of all threads add up by event, since a node's work may be
  // spread over them.
  void Read(absl::Span<double> values) override {
    std::fill(values.begin(), values.end(), 0.0);
    for (Counter& counter : counters_) {
      Advance(&counter);
      values[counter.event] += counter.total;
    }
  }

  void Stop() override { counters_.clear(); }

 private:
  // The fields that read(2) gives, in its order.
  struct Reading {
    uint64_t value = 0;
    uint64_t enabled_ns = 0;
    uint64_t running_ns = 0;
  };
  struct Counter {
    OpenDescriptor descriptor;
    size_t event;
    Reading last;
    double total;
  };

  // Scales what is new since the last reading by the share of the time in
  // which it was counted. Scaling totals instead would let them fall.
  static void Advance(Counter* counter) {
    Reading now;
    const int fd = counter->descriptor.get();
    if (read(fd, &now, sizeof(now)) != sizeof(now)) return;
    const uint64_t running = now.running_ns - counter->last.running_ns;
    // The event was not counted since; scaling makes up for it next time.
    if (running == 0 && now.value == counter->last.value) return;
    const auto enabled =
        static_cast<double>(now.enabled_ns - counter->last.enabled_ns);
    const auto count = static_cast<double>(now.value - counter->last.value);
    const double scale =
        running == 0 ? 1
                     : std::max(1.0, enabled / static_cast<double>(running));
    counter->total += count * scale;
    counter->last = now;
  }

  std::vector<const EventRow*> events_;
  std::vector<Counter> counters_;
};

// A misspelt name is answered with the nearest one and the whole list, since
// the names are those of another tool.
absl::StatusOr<const EventRow*> FindEvent(const std::string& name) {
  for (const EventRow& event : kEvents) {
    if (name == event.name) return &event;
  }
  const std::vector<std::string> names = PerfEventNames();
  return InvalidArgument("perf event {}: no such event, expected one of {}{}",
                         Shortened(name), absl::StrJoin(names, ", "),
                         DidYouMean(name, names));
}

}  // namespace

std::vector<std::string> PerfEventNames() {
  std::vector<std::string> names;
  for (const EventRow& event : kEvents) names.emplace_back(event.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Collector>> PerfCollector(
    absl::Span<const std::string> events) {
  if (events.empty()) {
    return InvalidArgument(
        "perf events: none was named, expected at least one");
  }
  std::vector<const EventRow*> rows;
  for (const std::string& name : events) {
    NODEWISE_ASSIGN_OR_RETURN(const EventRow* const row, FindEvent(name));
    if (std::find(rows.begin(), rows.end(), row) != rows.end()) {
      return InvalidArgument("perf event {}: named twice, expected each once",
                             name);
    }
    rows.push_back(row);
  }
  // Tried out on the calling thread, so that a refusal is known before the
  // network is loaded and run.
  for (const EventRow* row : rows) {
    const int fd = Open(*row, 0);
    if (fd < 0) return OpenError(*row, -fd);
    close(fd);
  }
  return std::make_unique<PerfEvents>(std::move(rows));
}

}  // namespace nodewise
