// What it costs to look at the floating-point environment after a node, against
// reading its two registers, which is the least that must be done.

#include <benchmark/benchmark.h>

#include "nodewise/support/float_environment.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr int kRounds = 101;
constexpr int kRepeats = 2000;

}  // namespace

bool BenchFloatLook(const std::string& name) {
  const DefaultFloatEnvironment floats;
  const auto floor = [] {
    return NanosecondsOfEach(kRepeats, [] {
      FloatEnvironment read = ReadFloatEnvironment();
      benchmark::DoNotOptimize(read);
    });
  };
  const auto ours = [] {
    return NanosecondsOfEach(kRepeats, [] {
      FloatWatch watch(/*puts_back=*/true);
      const auto change = watch.Finish();
      benchmark::DoNotOptimize(change.has_value());
    });
  };
  return RunContest({name, kNoLimit, kRounds, ours, floor});
}

}  // namespace nodewise
