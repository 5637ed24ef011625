#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/model_peers.h"
#include "tests/bench/quiet_turns.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

// The limit of the ratio of `locate` to what it joins: a run, and a run of the
// reference, each a command of its own.
constexpr double kRunsLimit = 4;
// Those of the ratios of our time and peak memory to Polygraphy's.
constexpr double kPeerTimeLimit = 1.0 / 5;
constexpr double kPeerMemoryLimit = 1.0 / 2;
constexpr int kTurns = 7;
constexpr int kPeerTurns = 5;

constexpr char kPolygraphy[] =
    NODEWISE_BUILD_DIR "/polygraphy_venv/bin/polygraphy";

using Words = std::vector<std::string>;

Words OurCommand(const std::string& verb, const std::string& stem,
                 const Words& options = {}) {
  Words command = {NODEWISE_BENCH_COMMAND, verb, stem + ".onnx", "--inputs",
                   stem + ".npz"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

// One after the other, as one turn.
Turn TimePrograms(const std::vector<Words>& commands) {
  Turn all;
  for (const Words& command : commands) {
    const Turn one = TimeProgram(command);
    all.waited += one.waited * one.nanoseconds;
    all.nanoseconds += one.nanoseconds;
  }
  all.waited /= all.nanoseconds;
  return all;
}

// The most memory that a program holds at a time.
double PeakOfProgram(const Words& command) {
  const pid_t process = StartSilently(command);
  int status = 0;
  rusage usage{};
  NODEWISE_CHECK(wait4(process, &status, 0, &usage) == process);
  NODEWISE_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return static_cast<double>(usage.ru_maxrss);
}

}  // namespace

bool BenchLocateResidualNet(const std::string& name) {
  const std::string stem = PrepareBenchModel(name, "residual_net");
  if (stem.empty()) return true;
  SetThreadsOfPeers(2);
  const std::vector<Words> runs = {OurCommand("run", stem),
                                   OurCommand("run", stem, {"--reference"})};
  return RunQuietContest(
      {name, kRunsLimit, kTurns,
       [&] { return TimeProgram(OurCommand("locate", stem)); },
       [&] { return TimePrograms(runs); }});
}

bool BenchLocatePolygraphy(const std::string& name) {
  const std::string stem = PrepareBenchModel(name, "residual_net");
  if (stem.empty()) return true;
  if (!std::filesystem::exists(NODEWISE_BUILD_DIR
                               "/polygraphy_venv/is_complete")) {
    std::printf(
        "%s: skipped: Polygraphy is not in build/polygraphy_venv (./dev "
        "setup)\n",
        name.c_str());
    return true;
  }
  SetThreadsOfPeers(2);
  const Words ours = OurCommand("locate", stem);
  const Words theirs = {kPolygraphy, "run",      stem + ".onnx",
                        "--onnxrt",  "--onnxrt", "--onnx-outputs",
                        "mark",      "all"};
  bool within = RunQuietContest({name, kPeerTimeLimit, kPeerTurns,
                                 [&] { return TimeProgram(ours); },
                                 [&] { return TimeProgram(theirs); }});
  // Polygraphy runs each side once, and looks for nothing that differs from run
  // to run.
  const Words once = OurCommand("locate", stem, {"--repeats", "0"});
  within &= RunQuietContest({name + "_once", kPeerTimeLimit, kPeerTurns,
                             [&] { return TimeProgram(once); },
                             [&] { return TimeProgram(theirs); }});
  within &=
      ReportValue(name + "_memory", PeakOfProgram(ours) / PeakOfProgram(theirs),
                  kPeerMemoryLimit, "of Polygraphy's peak");
  return within;
}

}  // namespace nodewise
