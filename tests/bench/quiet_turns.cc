#include "tests/bench/quiet_turns.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "fmt/format.h"
#include "nodewise/support/check.h"
#include "tests/bench/peer.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

// A thread that is woken takes some microseconds to get its processor even if
// that has nothing else to do.
constexpr double kMostWaited = 0.02;
// How many ticks the system's count of what processors did may be off.
constexpr double kTicks = 2;
constexpr size_t kFewestTurns = 4;  // That have a quartile.
constexpr int kWarmUps = 2;
constexpr int kWatchEveryMs = 5;
// On a busy machine there may never be enough turns that count.
constexpr std::chrono::seconds kLongest(60);

// The times of the turns that count, ours and the baseline's.
struct Judged {
  std::array<std::vector<double>, 2> times;
  std::array<double, 2> least_waited = {kNoLimit, kNoLimit};
  int turns = 0;  // That each has taken.
};

size_t Fewest(const Judged& judged) {
  return std::min(judged.times[0].size(), judged.times[1].size());
}

Judged TakeTurns(const QuietContest& contest) {
  const std::array<const TurnSide*, 2> sides = {&contest.ours,
                                                &contest.baseline};
  const auto enough = static_cast<size_t>(contest.turns);
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [start] {
    return std::chrono::steady_clock::now() - start > kLongest;
  };
  std::mt19937 random(1);
  Judged judged;
  for (int round = -kWarmUps; Fewest(judged) < enough && !is_late(); ++round) {
    const size_t first = random() % 2;
    for (const size_t side : {first, 1 - first}) {
      const Turn turn = (*sides[side])();
      judged.least_waited[side] =
          std::min(judged.least_waited[side], turn.waited);
      if (round < 0 || turn.waited > kMostWaited) continue;
      judged.times[side].push_back(turn.nanoseconds);
    }
    if (round >= 0) ++judged.turns;
  }
  return judged;
}

double TickLength() { return 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// What all processors have done since the machine started; what its host took
// for others is part of it.
double BusyNanoseconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, disk = 0, interrupts = 0,
         soft_interrupts = 0, stolen = 0;
  file >> name >> user >> nice >> system >> idle >> disk >> interrupts >>
      soft_interrupts >> stolen;
  NODEWISE_CHECK(file.good());
  const double ticks =
      user + nice + system + interrupts + soft_interrupts + stolen;
  return ticks * TickLength();
}

// What the children of this process that have ended have computed, with theirs.
double ChildrenNanoseconds() {
  rusage usage{};
  NODEWISE_CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
  const auto nanoseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e9 +
           static_cast<double>(time.tv_usec) * 1e3;
  };
  return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
}

}  // namespace

ThreadWaits WaitsOf(pid_t process) {
  ThreadWaits waits;
  std::error_code error;
  std::filesystem::directory_iterator thread(
      fmt::format("/proc/{}/task", process), error);
  // Threads may end while they are listed, and so may the process.
  for (; !error && thread != end(thread); thread.increment(error)) {
    std::ifstream file(thread->path() / "schedstat");
    uint64_t has_run = 0;
    uint64_t waited = 0;
    if (file >> has_run >> waited) {
      waits[std::stoi(thread->path().filename())] = waited;
    }
  }
  return waits;
}

double WaitedBetween(const ThreadWaits& before, const ThreadWaits& after) {
  double waited = 0;
  for (const auto& [thread, wait] : after) {
    const auto known = before.find(thread);
    waited +=
        static_cast<double>(wait - (known == before.end() ? 0 : known->second));
  }
  return waited;
}

Turn TimeProgram(const std::vector<std::string>& command) {
  ThreadWaits waits;
  const double time = NanosecondsOf([&] {
    const pid_t process = StartSilently(command);
    // glibc 2.36 has pidfd_open() for C only.
    const auto handle = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    NODEWISE_CHECK(handle >= 0);
    pollfd end = {handle, POLLIN, 0};
    for (bool has_ended = false; !has_ended;) {
      has_ended = poll(&end, 1, kWatchEveryMs) != 0;
      // The first thread can be asked until the ended process is waited for.
      for (const auto& [thread, waited] : WaitsOf(process)) {
        waits[thread] = waited;
      }
    }
    close(handle);
    NODEWISE_CHECK(EndsWell(process));
  });
  return {time, WaitedBetween({}, waits) / time};
}

Turn TimeProgramAndChildren(const std::vector<std::string>& command) {
  const double busy = BusyNanoseconds();
  const double ours = ChildrenNanoseconds();
  const double time =
      NanosecondsOf([&] { NODEWISE_CHECK(EndsWell(StartSilently(command))); });
  // The system counts what processors do in ticks of its clock.
  const double others = (BusyNanoseconds() - busy) -
                        (ChildrenNanoseconds() - ours) - kTicks * TickLength();
  return {time, std::max(0.0, others) / time};
}

bool RunQuietContest(const QuietContest& contest) {
  const Judged judged = TakeTurns(contest);
  const size_t ours = judged.times[0].size();
  const size_t baseline = judged.times[1].size();
  if (Fewest(judged) < kFewestTurns) {
    std::printf(
        "%s: not measured (%s) [threads waited in all but %zu and %zu of %d "
        "turns, %.1f %% and %.1f %% at least]\n",
        contest.name.c_str(), LimitText(contest.limit).c_str(), ours, baseline,
        judged.turns, 100 * judged.least_waited[0],
        100 * judged.least_waited[1]);
    std::fflush(stdout);
    return true;
  }
  const double our_time = Quantile(judged.times[0], 0.25);
  const double baseline_time = Quantile(judged.times[1], 0.25);
  const double ratio = our_time / baseline_time;
  std::printf(
      "%s: %.3f (%s) [ours %.0f ns, baseline %.0f ns: first quartiles of %zu "
      "and %zu of %d turns]",
      contest.name.c_str(), ratio, LimitText(contest.limit).c_str(), our_time,
      baseline_time, ours, baseline, judged.turns);
  return EndLine(ratio, contest.limit);
}

}  // namespace nodewise
