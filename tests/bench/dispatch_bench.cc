#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/runtime/graph_executor.h"
#include "nodewise/runtime/module.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/chain.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr double kLimit = 1.10;
constexpr int kRounds = 201;
constexpr int kRepeats = 20;
constexpr uint32_t kNodes = 1000;
constexpr int64_t kFloats = 16;

// x + p + p + ...
Graph AddChain(uint32_t functions) {
  return ChainGraph(
      {kNodes, kFloats, /*reads_parameter=*/true,
       [functions](uint32_t call) { return AddFunction(call, functions); }});
}

// The same calls by hand, with nothing around them. Tensors, shapes and
// arguments are as many and as large as the graph's: what the caches make of
// them is not what is measured.
class PlainLoop {
 public:
  PlainLoop(Module& module, uint32_t functions)
      : values_(3 * kNodes), codes_(3 * kNodes, kTVMDLTensorHandle) {
    for (NDArray& block : blocks_) block = Ones(kFloats);
    for (uint32_t n = 0; n < kNodes + 2; ++n) {
      tensors_.push_back(*blocks_[n < 2 ? n : 2 + n % 2]);
      tensors_.back().shape = shapes_.emplace_back(1, kFloats).data();
    }
    for (uint32_t call = 0; call < kNodes; ++call) {
      functions_.push_back(
          module.FindFunction(AddFunction(call, functions)).value());
      NODEWISE_CHECK(static_cast<bool>(functions_.back()));
      addresses_.push_back(functions_.back().object()->address());
      values_[3 * call].v_handle = &tensors_[call == 0 ? 0 : call + 1];
      values_[3 * call + 1].v_handle = &tensors_[1];
      values_[3 * call + 2].v_handle = &tensors_[call + 2];
    }
  }

  void Run() {
    TVMValue* values = values_.data();
    int* codes = codes_.data();
    for (const TVMBackendPackedCFunc function : addresses_) {
      TVMValue ret;
      int ret_code = kTVMNullptr;
      const int rc = function(values, codes, 3, &ret, &ret_code, nullptr);
      NODEWISE_CHECK(rc == 0);
      values += 3;
      codes += 3;
    }
  }

 private:
  std::array<NDArray, 4> blocks_;
  std::vector<DLTensor> tensors_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<PackedFunc> functions_;
  std::vector<TVMBackendPackedCFunc> addresses_;
  std::vector<TVMValue> values_;
  std::vector<int> codes_;
};

bool BenchDispatch(const std::string& name, uint32_t functions) {
  const auto module = LoadModule(NODEWISE_BENCH_KERNELS);
  NODEWISE_CHECK(module.ok());
  PlainLoop loop(**module, functions);
  const auto executor =
      GraphExecutor::Create(AddChain(functions), LibraryOf(*module));
  NODEWISE_CHECK(executor.ok());
  FillWithOnes(**executor);
  const auto run = [&] { NODEWISE_CHECK((*executor)->Run().ok()); };
  return RunContest(
      {name, kLimit, kRounds, [&] { return NanosecondsOfEach(kRepeats, run); },
       [&] { return NanosecondsOfEach(kRepeats, [&] { loop.Run(); }); }});
}

}  // namespace

bool BenchDispatchOne(const std::string& name) {
  return BenchDispatch(name, 1);
}

bool BenchDispatchTwo(const std::string& name) {
  return BenchDispatch(name, 2);
}

bool BenchDispatchThousand(const std::string& name) {
  return BenchDispatch(name, 1000);
}

}  // namespace nodewise
