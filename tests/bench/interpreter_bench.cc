#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/bench/bench_list.h"
#include "tests/bench/model_peers.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

// The limit of the ratio of the interpreter's memory to the evaluator's.
constexpr double kMemoryLimit = 1;
// What all bounds cost is printed, and has no limit.
constexpr int kBoundRounds = 5;
// A run judged with lazy bounds against a plain one.
constexpr double kJudgedLimit = 3.5;
// OpenBLAS's threads go on spinning for a while when they are done.
constexpr std::chrono::milliseconds kRest(50);

struct Case {
  std::string name;  // The name of the line that is printed.
  std::string model;
  double limit;  // Ratio of our time to the evaluator's.
  int rounds;
  // On either side in a turn, one after the other: the first after the rest
  // also wakes the processors up, which may take as long as a short run.
  int runs;
  double tolerance;  // Relative to the largest output.
};

bool Bench(const Case& one) {
  const std::string stem = PrepareBenchModel(one.name, one.model);
  if (stem.empty()) return true;
  SetThreadsOfPeers(2);
  Peer ours(OurModelCommand("interpreter", stem));
  Peer theirs(TheirModelCommand("evaluator", stem));
  const auto side = [&one](Peer& peer, const char* line = "run") {
    return [&one, &peer, line] {
      std::this_thread::sleep_for(kRest);
      double time = 0;
      for (int run = 0; run < one.runs; ++run) time += peer.Ask(line);
      return time / one.runs;
    };
  };
  bool within =
      RunContest({one.name, one.limit, one.rounds, side(ours), side(theirs)});
  within &= ReportValue(one.name + "_memory",
                        ours.Ask("memory") / theirs.Ask("memory"), kMemoryLimit,
                        "of the evaluator's");
  within &= ReportValue(one.name + "_difference",
                        OutputDifference(ours, theirs, stem) / one.tolerance, 1,
                        "of the tolerance");
  // Last, since bounds take memory of their own.
  RunContest({one.name + "_bounds", kNoLimit, kBoundRounds,
              side(ours, "bounds"), side(ours)});
  return within;
}

// What it costs to judge the run of a graph node by node, beside a run of the
// interpreter alone.
bool BenchJudged(const std::string& name, const std::string& model) {
  const std::string stem = PrepareBenchModel(name, model);
  if (stem.empty()) return true;
  SetThreadsOfPeers(2);
  Peer peer(OurModelCommand("judge", stem));
  const auto side = [&peer](const char* line) {
    return [&peer, line] {
      std::this_thread::sleep_for(kRest);
      return peer.Ask(line);
    };
  };
  const bool within = RunContest(
      {name, kJudgedLimit, 2 * kBoundRounds, side("judged"), side("run")});
  RunContest(
      {name + "_bounds", kNoLimit, kBoundRounds, side("bounded"), side("run")});
  return within;
}

// Real models, as packages from PyPI bring them; see bench_models.py.
constexpr const char* kPackaged[] = {"silero_vad", "magika", "nudenet",
                                     "basic_pitch", "text_line"};
constexpr double kPackagedLimit = 2;
constexpr double kPackagedTolerance = 1e-3;

// Returns the ratio of our time to onnxruntime's, which runs the operations as
// they are; 0 if the model is not there.
double RatioOfPackaged(const std::string& name, const std::string& model,
                       bool* within) {
  constexpr int kRounds = 15;
  const std::string stem = PrepareBenchModel(name, model);
  if (stem.empty()) return 0;
  Peer ours(OurModelCommand("interpreter", stem));
  Peer theirs(TheirModelCommand("plain_onnxruntime", stem));
  const auto side = [](Peer& peer) {
    return [&peer] {
      peer.Ask("run");
      return std::min(peer.Ask("run"), peer.Ask("run"));
    };
  };
  const auto times = TimeInTurns({side(ours), side(theirs)}, kRounds);
  const double ratio = Quantile(times[0], 0.25) / Quantile(times[1], 0.25);
  ReportValue(name + "_" + model, ratio, kNoLimit, "of onnxruntime's time");
  *within &=
      ReportValue(name + "_" + model + "_difference",
                  OutputDifference(ours, theirs, stem) / kPackagedTolerance, 1,
                  "of the tolerance");
  return ratio;
}

}  // namespace

bool BenchInterpreterPackaged(const std::string& name) {
  if (!std::filesystem::exists(NODEWISE_BUILD_DIR
                               "/packaged_models/is_complete")) {
    std::printf(
        "%s: skipped: no models in build/packaged_models (./dev bench "
        "%s)\n",
        name.c_str(), name.c_str());
    return true;
  }
  SetThreadsOfPeers(1);
  std::vector<double> ratios;
  bool within = true;
  for (const char* model : kPackaged) {
    const double ratio = RatioOfPackaged(name, model, &within);
    if (ratio == 0) return within;
    ratios.push_back(ratio);
  }
  within &= ReportValue(name, Quantile(ratios, 0.5), kPackagedLimit,
                        "of onnxruntime's time, the median of these");
  return within;
}
bool BenchJudgedResidualNet(const std::string& name) {
  return BenchJudged(name, "residual_net");
}
bool BenchJudgedEncoder(const std::string& name) {
  return BenchJudged(name, "encoder");
}
bool BenchInterpreterResidualNet(const std::string& name) {
  return Bench({name, "residual_net", 1.0 / 3, 7, 1, 1e-5});
}
bool BenchInterpreterEncoder(const std::string& name) {
  return Bench({name, "encoder", 1.0 / 3, 15, 5, 1e-5});
}
bool BenchInterpreterChain(const std::string& name) {
  return Bench({name, "chain", 1.0 / 20, 51, 10, 1e-6});
}

}  // namespace nodewise
