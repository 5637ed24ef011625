// Google Benchmark chooses what is run; what is printed are ratios, see
// ratio.h. With --check the exit status is 1 if one is above its limit.

#include <benchmark/benchmark.h>

#include <cstring>

#include "tests/bench/bench_list.h"

namespace nodewise {
namespace {

struct BenchRow {
  const char* name;
  bool (*run)(const std::string& name);
};

constexpr BenchRow kBenches[] = {
    {"runtime/dispatch_1_function", &BenchDispatchOne},
    {"runtime/dispatch_2_functions", &BenchDispatchTwo},
    {"runtime/dispatch_1000_functions", &BenchDispatchThousand},
    {"runtime/dispatch_ffi_1_function", &BenchFfiDispatchOne},
    {"runtime/dispatch_ffi_2_functions", &BenchFfiDispatchTwo},
    {"runtime/dispatch_ffi_1000_functions", &BenchFfiDispatchThousand},
    {"runtime/load_40_mib", &BenchLoad40},
    {"runtime/load_160_mib", &BenchLoad160},
    {"runtime/load_160_mib_huge_pages", &BenchLoadHugePages},
    {"runtime/load_memory", &BenchLoadMemory},
    {"runtime/parse_100000_nodes", &BenchParse},
    {"runtime/parallel_run", &BenchParallelRun},
    {"runtime/parallel_launch", &BenchParallelLaunch},
    {"runtime/float_look", &BenchFloatLook},
    {"runtime/debug_fixture", &BenchDebugFixture},
    {"runtime/debug_512_mb", &BenchDebugLarge},
    {"runtime/debug_chain", &BenchDebugChain},
    {"runtime/debug_fixed_cost", &BenchDebugFixedCost},
#if NODEWISE_BENCH_CONTRIB
    {"contrib/interpreter_residual_net", &BenchInterpreterResidualNet},
    {"contrib/interpreter_encoder", &BenchInterpreterEncoder},
    {"contrib/interpreter_chain", &BenchInterpreterChain},
    {"contrib/interpreter_packaged", &BenchInterpreterPackaged},
    {"contrib/judged_residual_net", &BenchJudgedResidualNet},
    {"contrib/judged_encoder", &BenchJudgedEncoder},
#if NODEWISE_USE_ONEDNN
    {"contrib/onednn_residual_net", &BenchOneDnnResidualNet},
    {"contrib/onednn_encoder", &BenchOneDnnEncoder},
    {"contrib/locate_residual_net", &BenchLocateResidualNet},
    {"contrib/locate_polygraphy", &BenchLocatePolygraphy},
    {"contrib/recursive_memory", &BenchRecursiveMemory},
    {"contrib/folder", &BenchFolder},
#endif
    {"contrib/autotest_built_in", &BenchAutotestBuiltIn},
    {"contrib/autotest_gradients", &BenchAutotestGradients},
#if NODEWISE_USE_ONEDNN
    {"contrib/autotest_onednn", &BenchAutotestOneDnn},
#endif
    {"contrib/compare_float32", &BenchCompareFloat32},
    {"contrib/compare_float16", &BenchCompareFloat16},
    {"contrib/compare_bfloat16", &BenchCompareBfloat16},
    {"contrib/compare_int8", &BenchCompareInt8},
    {"contrib/compare_numpy", &BenchCompareNumpy},
    {"contrib/python_run", &BenchPythonRun},
    {"contrib/python_dump", &BenchPythonDump},
#endif
    {"modern/chain", &BenchModernChain},
    {"modern/convnet", &BenchModernConvnet},
};

// The lines are printed as they are found.
class SilentReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Takes --check out of the arguments; Google Benchmark reads the others.
bool TakeCheck(int* argc, char** argv) {
  int kept = 0;
  for (int i = 0; i < *argc; ++i) {
    if (std::strcmp(argv[i], "--check") != 0) argv[kept++] = argv[i];
  }
  const bool found = kept < *argc;
  *argc = kept;
  return found;
}

int Main(int argc, char** argv) {
  const bool check = TakeCheck(&argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  bool within_limits = true;
  for (const BenchRow& row : kBenches) {
    benchmark::RegisterBenchmark(row.name, [&](benchmark::State& state) {
      for (auto _ : state) within_limits &= row.run(row.name);
    })->Iterations(1);
  }
  SilentReporter reporter;
  // It has said so if none matched.
  if (benchmark::RunSpecifiedBenchmarks(&reporter) == 0) return 2;
  return check && !within_limits ? 1 : 0;
}

}  // namespace
}  // namespace nodewise

int main(int argc, char** argv) { return nodewise::Main(argc, argv); }
