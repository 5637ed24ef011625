#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/peer.h"

namespace nodewise {

// A Python with today's TVM, which waits for what to run while others are
// timed: tests/bench/tvm_process.py. Errors after it has started end the
// program.
class TvmProcess {
 public:
  // Null if TVM is not installed, and says so, with the name of the benchmark.
  static std::unique_ptr<TvmProcess> Start(const std::string& name);

  // A folder with vm.so, a chain of that many operators of 16 floats, and
  // inputs.params. It may take a minute, and is kept.
  std::string Chain(int operators);
  // The nanoseconds of a run of TVM's VM with the vm.so and inputs.params of a
  // folder: the mean of `runs`.
  double Run(const std::string& folder, int runs);
  // Like Run(), but every output is copied as the network runs.
  double RunWithCopies(const std::string& folder, int runs);

 private:
  explicit TvmProcess(const std::vector<std::string>& command)
      : peer_(command) {}

  Peer peer_;
};

}  // namespace nodewise
