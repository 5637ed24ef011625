#pragma once

#include <string>
#include <vector>

#include "tests/bench/peer.h"

namespace nodewise {

// What the benchmarks of models have in common: the models, and the processes
// that run them. Both kinds of process take these lines:
//   run         runs the model; how many nanoseconds that took
//   bounds      the same, with bounds on all rounding errors; our interpreter
//               alone
//   PATH.npy    the same as run, and writes its first output there
//   memory      the peak memory of the process, in bytes

// The files of a model of bench_models.py, which is made if it is not there
// yet: STEM.onnx and STEM.npz, its inputs. "" if ONNX's package is not
// installed, which is said then with the name of the benchmark.
std::string PrepareBenchModel(const std::string& bench,
                              const std::string& model);

// The commands of the processes. `kind` is that of model_child.cc and
// model_child.py.
std::vector<std::string> OurModelCommand(const std::string& kind,
                                         const std::string& stem);
std::vector<std::string> TheirModelCommand(const std::string& kind,
                                           const std::string& stem);

// Processes that are started from now on have that many threads, whichever
// library counts them.
void SetThreadsOfPeers(int threads);

// The largest difference of the first outputs, relative to the largest number;
// infinite if they are of different sizes or there is a NaN.
double OutputDifference(Peer& ours, Peer& theirs, const std::string& stem);

}  // namespace nodewise
