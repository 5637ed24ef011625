// TVM's C API as a host program must not use it: whatever it is given, it
// answers with an error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "nodewise/runtime/c_api.h"
#include "tests/support/c_calls.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;

TEST(CApiMisuseTest, NegativeNumberOfArgumentsIsRefused) {
  TVMFunctionHandle function = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.NumThreads", &function), 0);
  EXPECT_EQ(TVMFuncCall(function, nullptr, nullptr, -1, nullptr, nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(), "TVMFuncCall: num_args is -1");
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
  EXPECT_STREQ(TVMGetLastError(), "TVMFuncCall: threw: from the host");
  const HostFunction throws_a_number(
      [](TVMValue*, int*, int, TVMRetValueHandle, void*) -> int { throw 1; });
  EXPECT_EQ(throws_a_number.Call(), -1);
  EXPECT_STREQ(TVMGetLastError(), "TVMFuncCall: threw something unknown");
}

TEST(CApiCopyTest, MalformedTensorsAreNotCopied) {
  const NDArray to = Floats({1, 2});
  DLTensor from = *to;
  from.data = nullptr;
  EXPECT_EQ(TVMDeviceCopyDataFromTo(&from, to.tensor(), nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(), "copy: from: the tensor's data is null");
  EXPECT_EQ(TVMArrayCopyFromTo(to.tensor(), &from, nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(), "copy: to: the tensor's data is null");
}

}  // namespace
}  // namespace nodewise
