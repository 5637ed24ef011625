#include <thread>

#include "tests/bench/bench_list.h"
#include "tests/bench/model_peers.h"
#include "tests/bench/quiet_turns.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

// Limits of the ratios of our time to onnxruntime's: of a run, and of a whole
// process from its start to its first result.
constexpr double kRunLimit = 1.4;
constexpr double kColdLimit = 1;
// The most that the outputs may differ, relative to the largest number.
constexpr double kTolerance = 1e-4;
// OpenMP's threads go on spinning for a while when they are done.
constexpr std::chrono::milliseconds kRest(50);
constexpr int kTurns = 20;
constexpr int kColdTurns = 12;
constexpr int kInterpreterTurns = 5;

struct Net {
  std::string name;  // What the lines that are printed begin with.
  std::string stem;  // The path of the model's files, without ending.
  int runs;          // How often each side runs in a turn.
};

// A turn of `peer`, while `other` has nothing to do.
Turn TakeTurn(Peer& peer, const Peer& other, int runs) {
  std::this_thread::sleep_for(kRest);
  peer.Ask("run");  // Fills the caches, and wakes the processors up.
  const ThreadWaits before = WaitsOf(peer.process());
  const ThreadWaits before_other = WaitsOf(other.process());
  double time = 0;
  for (int run = 0; run < runs; ++run) time += peer.Ask("run");
  const double waited = WaitedBetween(before, WaitsOf(peer.process())) +
                        WaitedBetween(before_other, WaitsOf(other.process()));
  return {time / runs, waited / time};
}

bool BenchRuns(const Net& net, int threads) {
  SetThreadsOfPeers(threads);
  Peer ours(OurModelCommand("graph", net.stem));
  Peer theirs(TheirModelCommand("onnxruntime", net.stem));
  const std::string name =
      net.name + (threads == 1 ? "_1_thread" : "_2_threads");
  bool within =
      RunQuietContest({name, kRunLimit, kTurns,
                       [&] { return TakeTurn(ours, theirs, net.runs); },
                       [&] { return TakeTurn(theirs, ours, net.runs); }});
  within &= ReportValue(name + "_difference",
                        OutputDifference(ours, theirs, net.stem) / kTolerance,
                        1, "of the tolerance");
  return within;
}

bool BenchCold(const Net& net) {
  SetThreadsOfPeers(2);
  std::vector<std::string> theirs = TheirModelCommand("onnxruntime", net.stem);
  theirs.emplace_back("once");
  return RunQuietContest({net.name + "_cold", kColdLimit, kColdTurns,
                          [&] {
                            return TimeProgram({NODEWISE_BENCH_COMMAND, "run",
                                                net.stem + ".onnx",
                                                "--random-inputs", "1"});
                          },
                          [&] { return TimeProgram(theirs); }});
}

// The ratio says how good the interpreter is, too, so there is no limit.
bool BenchInterpreter(const Net& net) {
  SetThreadsOfPeers(2);
  Peer interpreter(OurModelCommand("interpreter", net.stem));
  Peer graph(OurModelCommand("graph", net.stem));
  return RunQuietContest({net.name + "_interpreter", kNoLimit,
                          kInterpreterTurns,
                          [&] { return TakeTurn(interpreter, graph, 1); },
                          [&] { return TakeTurn(graph, interpreter, 1); }});
}

bool Bench(const std::string& name, const std::string& model, int runs) {
  const std::string stem = PrepareBenchModel(name, model);
  if (stem.empty()) return true;
  const Net net = {name, stem, runs};
  bool within = BenchRuns(net, 1);
  within &= BenchRuns(net, 2);
  within &= BenchCold(net);
  within &= BenchInterpreter(net);
  return within;
}

}  // namespace

bool BenchOneDnnResidualNet(const std::string& name) {
  return Bench(name, "residual_net", 2);
}
bool BenchOneDnnEncoder(const std::string& name) {
  return Bench(name, "encoder", 5);
}

}  // namespace nodewise
