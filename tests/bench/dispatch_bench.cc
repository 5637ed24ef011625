#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/func/ffi_function.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/module/module.h"
#include "nodewise/support/check.h"
#include "tests/bench/bench_list.h"
#include "tests/bench/chain.h"
#include "tests/bench/ratio.h"

namespace nodewise {
namespace {

constexpr double kLimit = 1.10;
constexpr double kFfiLimit = 1.15;
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

// The graph's calls by hand, with nothing around them. Tensors, shapes and
// arguments are as many and as large as the graph's, so that the effects of
// caches are not what is measured.
class PlainLoop {
 public:
  virtual ~PlainLoop() = default;
  virtual void Run() = 0;

 protected:
  PlainLoop(Module& module, uint32_t functions) {
    for (NDArray& block : blocks_) block = Ones(kFloats);
    for (uint32_t n = 0; n < kNodes + 2; ++n) {
      tensors_.push_back(*blocks_[n < 2 ? n : 2 + n % 2]);
      tensors_.back().shape = shapes_.emplace_back(1, kFloats).data();
    }
    for (uint32_t call = 0; call < kNodes; ++call) {
      functions_.push_back(
          module.FindFunction(AddFunction(call, functions)).value());
      NODEWISE_CHECK(static_cast<bool>(functions_.back()));
    }
  }

  const FunctionObject& function(uint32_t call) const {
    return *functions_[call].object();
  }
  // Returns one of the three tensors of a call.
  DLTensor* tensor(uint32_t call, uint32_t argument) {
    if (argument == 1) return &tensors_[1];
    return &tensors_[argument == 0 && call == 0 ? 0 : call + 1 + argument / 2];
  }

 private:
  std::array<NDArray, 4> blocks_;
  std::vector<DLTensor> tensors_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<PackedFunc> functions_;
};

class PackedLoop final : public PlainLoop {
 public:
  PackedLoop(Module& module, uint32_t functions)
      : PlainLoop(module, functions),
        values_(3 * kNodes),
        codes_(3 * kNodes, kTVMDLTensorHandle) {
    for (uint32_t call = 0; call < kNodes; ++call) {
      addresses_.push_back(function(call).address());
      for (uint32_t i = 0; i < 3; ++i) {
        values_[3 * call + i].v_handle = tensor(call, i);
      }
    }
  }

  void Run() override {
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
  std::vector<TVMBackendPackedCFunc> addresses_;
  std::vector<TVMValue> values_;
  std::vector<int> codes_;
};

class FfiLoop final : public PlainLoop {
 public:
  FfiLoop(Module& module, uint32_t functions)
      : PlainLoop(module, functions), args_(3 * kNodes) {
    for (uint32_t call = 0; call < kNodes; ++call) {
      const auto* ffi = dynamic_cast<const FfiFunction*>(&function(call));
      NODEWISE_CHECK(ffi != nullptr);
      addresses_.push_back(ffi->safe_call());
      for (uint32_t i = 0; i < 3; ++i) {
        args_[3 * call + i].type_index = kTVMFFIDLTensorPtr;
        args_[3 * call + i].v_ptr = tensor(call, i);
      }
    }
  }

  void Run() override {
    const TVMFFIAny* args = args_.data();
    for (const TVMFFISafeCallType function : addresses_) {
      TVMFFIAny result;
      result.type_index = kTVMFFINone;
      result.small_len = 0;
      const int rc = function(nullptr, args, 3, &result);
      NODEWISE_CHECK(rc == 0);
      args += 3;
    }
  }

 private:
  std::vector<TVMFFISafeCallType> addresses_;
  std::vector<TVMFFIAny> args_;
};

template <typename Loop>
bool BenchDispatch(const std::string& name, const char* kernels, double limit,
                   uint32_t functions) {
  const auto module = LoadModule(kernels);
  NODEWISE_CHECK(module.ok());
  Loop loop(**module, functions);
  const auto executor =
      GraphExecutor::Create(AddChain(functions), LibraryOf(*module));
  NODEWISE_CHECK(executor.ok());
  FillWithOnes(**executor);
  const auto run = [&] { NODEWISE_CHECK((*executor)->Run().ok()); };
  return RunContest(
      {name, limit, kRounds, [&] { return NanosecondsOfEach(kRepeats, run); },
       [&] { return NanosecondsOfEach(kRepeats, [&] { loop.Run(); }); }});
}

bool BenchPacked(const std::string& name, uint32_t functions) {
  return BenchDispatch<PackedLoop>(name, NODEWISE_BENCH_KERNELS, kLimit,
                                   functions);
}

bool BenchFfi(const std::string& name, uint32_t functions) {
  return BenchDispatch<FfiLoop>(name, NODEWISE_BENCH_FFI_KERNELS, kFfiLimit,
                                functions);
}

}  // namespace

bool BenchDispatchOne(const std::string& name) { return BenchPacked(name, 1); }
bool BenchDispatchTwo(const std::string& name) { return BenchPacked(name, 2); }
bool BenchDispatchThousand(const std::string& name) {
  return BenchPacked(name, 1000);
}

bool BenchFfiDispatchOne(const std::string& name) { return BenchFfi(name, 1); }
bool BenchFfiDispatchTwo(const std::string& name) { return BenchFfi(name, 2); }
bool BenchFfiDispatchThousand(const std::string& name) {
  return BenchFfi(name, 1000);
}

}  // namespace nodewise
