#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nodewise {

// Processes that are timed in turns on a machine where others compute too: only
// turns count in which no thread had to wait for a processor, since what a
// thread waits for others says nothing of the program.

// The nanoseconds that each thread of a process has been ready to run without a
// processor to run on, by the thread's number. Empty once the process has
// ended, or if the system does not say.
using ThreadWaits = std::map<pid_t, uint64_t>;
ThreadWaits WaitsOf(pid_t process);

// How much longer these threads, and others that have been started since, have
// waited `after` than `before`. A thread that has ended does not count.
double WaitedBetween(const ThreadWaits& before, const ThreadWaits& after);

struct Turn {
  double nanoseconds = 0;  // The time of one run.
  // How long threads waited, all of them together, as a share of the turn.
  double waited = 0;
};
using TurnSide = std::function<Turn()>;

// Runs a program to its end without showing what it prints, and looks at its
// threads every few milliseconds. Ends this program if the other fails.
Turn TimeProgram(const std::vector<std::string>& command);

// Times a program that starts more others than there are processors, so that
// its own threads wait for each other. What counts as waited is what processors
// did meanwhile for other programs, and what this machine's host took. Does not
// show what the program prints either, and ends this one if it fails.
Turn TimeProgramAndChildren(const std::vector<std::string>& command);

struct QuietContest {
  std::string name;
  double limit = 0;  // Limit of the ratio.
  int turns = 0;     // How many of each side are to count.
  TurnSide ours;
  TurnSide baseline;
};

// Takes turns in random order, until enough of both sides count or a minute has
// passed, and prints
//   name: RATIO (limit L) [ours A ns, baseline B ns: first quartiles of N and M
//   of T turns]
// on one line. Returns whether the ratio of the quartiles is within the limit;
// also true if too few turns count for there to be a quartile: then it prints
//   name: not measured (limit L) [threads waited in all but N and M of T turns,
//   A % and B % at least]
// where A and B are the least shares of a turn of ours and of the baseline's.
bool RunQuietContest(const QuietContest& contest);

}  // namespace nodewise
