#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "nlohmann/json.hpp"
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
// What recursion may take: this many times the largest live set, and bytes.
constexpr double kBytesPerMib = 1 << 20;
constexpr double kLiveSets = 4;
constexpr double kBytesBeside = 32 * kBytesPerMib;
// What a run of a folder may take of memory and of processor time, as a share
// of a run of the model that it was made of.
constexpr double kFolderLimit = 1.3;
constexpr int kFolderTurns = 3;
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
    const Turn one = TimeProgramAndChildren(command);
    all.waited += one.waited * one.nanoseconds;
    all.nanoseconds += one.nanoseconds;
  }
  all.waited /= all.nanoseconds;
  return all;
}

// The most memory that a program holds at a time. The kernel counts what the
// process held before it became the program, too, and that is this one's: after
// other benchmarks it was more than the program's.
struct Use {
  double peak = 0;     // In KiB.
  double seconds = 0;  // Processor time.
};

Use UseOfProgram(const Words& command) {
  malloc_trim(0);
  const pid_t process = StartSilently(command);
  int status = 0;
  rusage usage{};
  NODEWISE_CHECK(wait4(process, &status, 0, &usage) == process);
  NODEWISE_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return {static_cast<double>(usage.ru_maxrss),
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

double PeakOfProgram(const Words& command) {
  return UseOfProgram(command).peak;
}

// The least of several runs: what other programs do only adds to it.
Use LeastUseOfProgram(const Words& command) {
  Use least = UseOfProgram(command);
  for (int turn = 1; turn < kFolderTurns; ++turn) {
    const Use use = UseOfProgram(command);
    least.peak = std::min(least.peak, use.peak);
    least.seconds = std::min(least.seconds, use.seconds);
  }
  return least;
}

std::string InQuotes(const std::string& word) { return "'" + word + "'"; }

// What a program prints.
std::string OutputOf(const Words& command) {
  std::string line;
  for (const std::string& word : command) line += InQuotes(word) + " ";
  std::FILE* const from = popen(line.c_str(), "r");
  NODEWISE_CHECK(from != nullptr);
  std::string all;
  char part[4096];
  while (const size_t got = std::fread(part, 1, sizeof(part), from)) {
    all.append(part, got);
  }
  NODEWISE_CHECK(pclose(from) == 0);
  return all;
}

// Prints the peak memory of locate --method recursive as a share of its limit,
// and both.
bool ReportRecursiveMemory(const std::string& name, const std::string& stem) {
  const auto document = nlohmann::json::parse(OutputOf(
      OurCommand("locate", stem, {"--method", "recursive", "--json"})));
  const double peak = document.at("peak_bytes").get<double>();
  const double live = document.at("live_bytes").get<double>();
  const double limit = kLiveSets * live + kBytesBeside;
  std::printf(
      "%s: %.2f (%s) [peak %.1f MiB, largest live set %.1f MiB, at most %.1f "
      "MiB, %.1f s]",
      name.c_str(), peak / limit, LimitText(1).c_str(), peak / kBytesPerMib,
      live / kBytesPerMib, limit / kBytesPerMib,
      document.at("seconds").get<double>());
  return EndLine(peak / limit, 1);
}

bool ReportFolder(const std::string& name, const std::string& stem) {
  const std::string folder = stem + ".folder";
  OutputOf(OurCommand("convert", stem, {"-o", folder}));
  const Use model = LeastUseOfProgram(OurCommand("run", stem));
  const Use made = LeastUseOfProgram(
      {NODEWISE_BENCH_COMMAND, "run", folder, "--inputs", stem + ".npz"});
  std::filesystem::remove_all(folder);
  const double ratio =
      std::max(made.peak / model.peak, made.seconds / model.seconds);
  constexpr double kKibPerMib = 1024;
  std::printf("%s: %.2f (%s) [folder %.1f MiB, %.2f s; model %.1f MiB, %.2f s]",
              name.c_str(), ratio, LimitText(kFolderLimit).c_str(),
              made.peak / kKibPerMib, made.seconds, model.peak / kKibPerMib,
              model.seconds);
  return EndLine(ratio, kFolderLimit);
}

}  // namespace

bool BenchFolder(const std::string& name) {
  bool within = true;
  for (const char* const model :
       {"residual_net", "encoder", "alex_net", "chain", "nudenet", "text_line",
        "silero_vad", "magika", "basic_pitch"}) {
    const std::string stem = PrepareBenchModel(name, model);
    if (!stem.empty()) within &= ReportFolder(name + "_" + model, stem);
  }
  return within;
}

bool BenchRecursiveMemory(const std::string& name) {
  SetThreadsOfPeers(2);
  bool within = true;
  for (const char* const model : {"residual_net", "encoder", "alex_net"}) {
    const std::string stem = PrepareBenchModel(name, model);
    if (stem.empty()) return true;
    within &= ReportRecursiveMemory(name + "_" + model, stem);
  }
  return within;
}

bool BenchLocateResidualNet(const std::string& name) {
  const std::string stem = PrepareBenchModel(name, "residual_net");
  if (stem.empty()) return true;
  SetThreadsOfPeers(2);
  const std::vector<Words> runs = {OurCommand("run", stem),
                                   OurCommand("run", stem, {"--reference"})};
  return RunQuietContest(
      {name, kRunsLimit, kTurns,
       [&] { return TimeProgramAndChildren(OurCommand("locate", stem)); },
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
  bool within =
      RunQuietContest({name, kPeerTimeLimit, kPeerTurns,
                       [&] { return TimeProgramAndChildren(ours); },
                       [&] { return TimeProgramAndChildren(theirs); }});
  // Polygraphy runs each side once, and looks for nothing that differs from run
  // to run.
  const Words once = OurCommand("locate", stem, {"--repeats", "0"});
  within &= RunQuietContest({name + "_once", kPeerTimeLimit, kPeerTurns,
                             [&] { return TimeProgramAndChildren(once); },
                             [&] { return TimeProgramAndChildren(theirs); }});
  within &=
      ReportValue(name + "_memory", PeakOfProgram(ours) / PeakOfProgram(theirs),
                  kPeerMemoryLimit, "of Polygraphy's peak");
  return within;
}

}  // namespace nodewise
