// TVM's C API used as a host program must not use it: each such call is
// answered with an error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/func/c_api.h"
#include "nodewise/func/packed_func.h"
#include "tests/support/c_calls.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;

TEST(CApiMisuseTest, NegativeNumberOfArgumentsIsRefused) {
  TVMFunctionHandle function = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.NumThreads", &function), 0);
  EXPECT_EQ(TVMFuncCall(function, nullptr, nullptr, -1, nullptr, nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(), "InternalError: TVMFuncCall: num_args is -1");
  TVMFuncFree(function);
}

TEST(CApiMisuseTest, RankOfAShapeIsChecked) {
  const int64_t shape[] = {1};
  for (const int ndim : {-1, 65, 1 << 30}) {
    void* data = nullptr;
    EXPECT_EQ(TVMDeviceAllocDataSpaceWithScope(kCpu, ndim, shape, kFloat32, "",
                                               &data),
              -1);
    EXPECT_THAT(TVMGetLastError(), HasSubstr(std::to_string(ndim)));
    TVMArrayHandle array = nullptr;
    EXPECT_EQ(TVMArrayAlloc(shape, ndim, 2, 32, 1, kDLCPU, 0, &array), -1);
    EXPECT_THAT(TVMGetLastError(), HasSubstr(std::to_string(ndim)));
  }
}

// A function of a host that calls `body`.
class HostFunction {
 public:
  explicit HostFunction(TVMPackedCFunc body) {
    EXPECT_EQ(TVMFuncCreateFromCFunc(body, nullptr, nullptr, &handle_), 0);
  }
  ~HostFunction() { TVMFuncFree(handle_); }
  HostFunction(const HostFunction&) = delete;

  int Call() const {
    return TVMFuncCall(handle_, nullptr, nullptr, 0, nullptr, nullptr);
  }

 private:
  TVMFunctionHandle handle_ = nullptr;
};

TEST(CApiMisuseTest, ExceptionOfACallbackIsAnError) {
  const HostFunction throws(
      [](TVMValue*, int*, int, TVMRetValueHandle, void*) -> int {
        throw std::runtime_error("from the host");
      });
  EXPECT_EQ(throws.Call(), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: TVMFuncCall: threw: from the host");
  const HostFunction throws_a_number(
      [](TVMValue*, int*, int, TVMRetValueHandle, void*) -> int { throw 1; });
  EXPECT_EQ(throws_a_number.Call(), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: TVMFuncCall: threw something unknown");
}

// Python ends its daemon threads in this way. The C library aborts if that is
// stopped.
TEST(CApiMisuseTest, ThreadMayEndWithinACallback) {
  static const auto* const ends =
      new HostFunction([](TVMValue*, int*, int, TVMRetValueHandle,
                          void*) -> int { pthread_exit(nullptr); });
  const auto calls = [](void* argument) -> void* {
    const auto outer = PackedFunc::FromBody([](PackedArgs) {
      ends->Call();
      return absl::StatusOr<Value>(Value());
    });
    EXPECT_THAT(outer.Call(), IsOk());
    return argument;
  };
  pthread_t thread;
  int argument = 0;
  void* result = &argument;
  ASSERT_EQ(pthread_create(&thread, nullptr, calls, &argument), 0);
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, nullptr);
}

TEST(CApiMisuseTest, FailureWithoutAMessageIsNotGivenAnEarlierOne) {
  EXPECT_EQ(TVMFuncRemoveGlobal("test.nothing"), -1);
  const HostFunction fails(
      [](TVMValue*, int*, int, TVMRetValueHandle, void*) { return -1; });
  EXPECT_EQ(fails.Call(), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: the function failed without saying why");
}

// The error of tvm.graph_executor.create with the numbers given for devices.
std::string CreateError(const std::vector<CValue>& devices) {
  TVMModuleHandle library = nullptr;
  EXPECT_EQ(TVMModLoadFromFile(LibraryPath("add_llvm").c_str(), "so", &library),
            0);
  TVMFunctionHandle create = nullptr;
  EXPECT_EQ(TVMFuncGetGlobal("tvm.graph_executor.create", &create), 0);
  const std::string json = AddGraphJson();
  std::vector<CValue> args = {CText(json.c_str()), CModule(library)};
  args.insert(args.end(), devices.begin(), devices.end());
  int rc = 0;
  CallC(create, args, &rc);
  EXPECT_EQ(rc, -1);
  TVMFuncFree(create);
  TVMModFree(library);
  return TVMGetLastError();
}

TEST(CApiMisuseTest, MissingArgumentIsCountedAsTheCallerCounts) {
  EXPECT_EQ(
      CreateError({CInt(kDLCPU)}),
      "InternalError: not enough arguments: 3 passed, argument 3 is needed");
}

TEST(CApiMisuseTest, DeviceNumbersAreNotCutTo32Bits) {
  constexpr int64_t kHigh = int64_t{1} << 32;
  EXPECT_EQ(
      CreateError({CInt(kHigh + kDLCPU), CInt(0)}),
      "InternalError: argument 2 is 4294967297, expected a 32-bit number");
  EXPECT_EQ(
      CreateError({CInt(kDLCPU), CInt(kHigh)}),
      "InternalError: argument 3 is 4294967296, expected a 32-bit number");
}

TEST(CApiMisuseTest, NumberOfThreadsIsNotCutTo32Bits) {
  TVMFunctionHandle config = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.config_threadpool", &config), 0);
  int rc = 0;
  CallC(config, {CInt(1), CInt((int64_t{1} << 32) + 3)}, &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_STREQ(
      TVMGetLastError(),
      "InternalError: argument 1 is 4294967299, expected a 32-bit number");
  TVMFuncFree(config);
}

// An executor of one addition, x of four floats.
class CApiTensorTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        TVMModLoadFromFile(LibraryPath("factory").c_str(), "so", &library_), 0);
    executor_ = CallMethod(library_, "default", {CDevice(kCpu)}).value.v_handle;
    const NDArray x = Floats({1, 2, 3, 4});
    CallMethod(executor_, "set_input", {CText("x"), CTensor(&*x)});
    CallMethod(executor_, "run", {});
  }
  void TearDown() override {
    TVMModFree(executor_);
    TVMModFree(library_);
  }

  TVMModuleHandle library_ = nullptr;
  TVMModuleHandle executor_ = nullptr;
};

TEST_F(CApiTensorTest, MalformedTensorsAreRefused) {
  int64_t negative[] = {-4};
  int64_t far[] = {int64_t{1} << 60};
  const struct {
    std::function<void(DLTensor*)> spoil;
    const char* message;
  } rows[] = {
      {[](DLTensor* t) { t->data = nullptr; }, "the tensor's data is null"},
      {[](DLTensor* t) { t->shape = nullptr; }, "the tensor's shape is null"},
      {[](DLTensor* t) { t->ndim = -1; }, "the tensor's rank is -1"},
      {[](DLTensor* t) { t->ndim = 1 << 30; }, "rank is 1073741824"},
      {[&](DLTensor* t) { t->shape = negative; }, "(-4,) has a negative"},
      {[](DLTensor* t) { t->byte_offset = UINT64_MAX; }, "byte offset 1844"},
      {[](DLTensor* t) { t->byte_offset = uint64_t{1} << 50; }, "too far"},
      {[&](DLTensor* t) { t->strides = far; }, "too far apart"},
  };
  const std::pair<const char*, CValue> calls[] = {
      {"set_input", CText("x")},
      {"set_input_zero_copy", CText("x")},
      {"set_output_zero_copy", CInt(0)},
      {"get_output", CInt(0)}};
  const NDArray memory = Floats({1, 2, 3, 4});
  for (const auto& row : rows) {
    for (const auto& [method, key] : calls) {
      DLTensor tensor = *memory;
      row.spoil(&tensor);
      EXPECT_THAT(MethodError(executor_, method, {key, CTensor(&tensor)}),
                  HasSubstr(row.message))
          << method;
    }
  }
}

TEST_F(CApiTensorTest, DeviceOfRunFromInputsIsNotCutTo32Bits) {
  const NDArray x = Floats({1, 2, 3, 4});
  EXPECT_EQ(
      MethodError(executor_, "run_from_inputs",
                  {CInt((int64_t{1} << 32) + kDLCPU), CInt(0), CText("x"),
                   CTensor(&*x)}),
      "InternalError: argument 0 is 4294967297, expected a 32-bit number");
}

TEST(CApiCopyTest, MalformedTensorsAreNotCopied) {
  const NDArray to = Floats({1, 2});
  DLTensor from = *to;
  from.data = nullptr;
  EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, to.tensor(), nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: copy: from: the tensor's data is null");
  EXPECT_EQ(TVMArrayCopyFromTo(to.tensor(), &from, nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: copy: to: the tensor's data is null");
}

}  // namespace
}  // namespace nodewise
