// The named functions by which hosts of TVM time a function.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "nodewise/func/registry.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const PackedFunc& MakeEvaluator() {
  static const PackedFunc function = FindFunction("runtime.RPCTimeEvaluator");
  return function;
}

// Calls what the evaluator gave; the seconds of all repeats.
std::vector<double> Seconds(const absl::StatusOr<Value>& evaluator,
                            const std::vector<Value>& args) {
  EXPECT_THAT(evaluator, IsOk());
  if (!evaluator.ok()) return {};
  const auto function =
      evaluator->View().AsObject<FunctionObject>("function").value();
  const auto result = PackedFunc(function).CallValues(args);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return {};
  const std::string& bytes = result->Get<Value::Bytes>()->data;
  std::vector<double> seconds(bytes.size() / sizeof(double));
  std::memcpy(seconds.data(), bytes.data(), bytes.size());
  return seconds;
}

class TimeEvaluatorTest : public testing::Test {
 protected:
  TimeEvaluatorTest() {
    const auto count = [](int* counter) {
      return PackedFunc::FromBody([counter](PackedArgs args) {
        ++*counter;
        EXPECT_EQ(args.size(), 1);
        return absl::StatusOr<Value>(Value());
      });
    };
    EXPECT_THAT(RegisterFunction("test.timed", count(&calls_)), IsOk());
    EXPECT_THAT(RegisterFunction("test.before", count(&before_)), IsOk());
  }
  ~TimeEvaluatorTest() override {
    EXPECT_THAT(RemoveFunction("test.timed"), IsOk());
    EXPECT_THAT(RemoveFunction("test.before"), IsOk());
  }

  int calls_ = 0;
  int before_ = 0;
};

TEST_F(TimeEvaluatorTest, TakesTheArgumentsOfEveryTvm) {
  const Value none;
  const auto tvm_08 =
      MakeEvaluator().Call(none, "test.timed", 1, 0, 2, 3, 0, "");
  EXPECT_THAT(Seconds(tvm_08, {1}), SizeIs(3));
  EXPECT_EQ(calls_, 1 + 2 * 3);
  const auto tvm_09 =
      MakeEvaluator().Call(none, "test.timed", 1, 0, 2, 3, 0, 0, 1, "");
  EXPECT_THAT(Seconds(tvm_09, {1}), SizeIs(3));
  const auto tvm_10 =
      MakeEvaluator().Call(none, "test.timed", 1, 0, 2, 3, 0, 100, 0, 1, "");
  EXPECT_THAT(Seconds(tvm_10, {1}), SizeIs(3));
  const auto tvm_14 = MakeEvaluator().Call(none, "test.timed", 1, 0, 2, 3, 0,
                                           100, 0, 1, 1 << 16, "test.before");
  EXPECT_THAT(Seconds(tvm_14, {1}), SizeIs(3));
  EXPECT_EQ(calls_, 4 * (1 + 2 * 3));
  EXPECT_EQ(before_, 3);
}

TEST_F(TimeEvaluatorTest, TimesAFunctionOfAModuleOrItsImports) {
  const Ref<Object> factory = LoadTestLibrary("factory");
  const auto evaluator =
      MakeEvaluator().Call(factory, kAdd, 1, 0, 10, 2, 0, "");
  const NDArray x = Floats({1, 2, 3, 4});
  const NDArray sum = Floats({0, 0, 0, 0});
  EXPECT_THAT(Seconds(evaluator, {x, x, sum}), Each(Gt(0)));
  EXPECT_EQ(ValuesOf(sum)[3], 8);
}

TEST_F(TimeEvaluatorTest, WhatIsMissingIsNamed) {
  const Value none;
  const auto fails = [&](const absl::StatusOr<Value>& made, StatusCode code,
                         const char* text) {
    EXPECT_THAT(made, FailsWith(code, HasSubstr(text)));
  };
  fails(MakeEvaluator().Call(none, "test.nothing", 1, 0, 1, 1, 0, ""),
        StatusCode::kNotFound, "no function test.nothing is registered");
  fails(MakeEvaluator().Call(none, "test.timed", 1, 0, 1, 1, 0, "test.nothing"),
        StatusCode::kNotFound, "no function test.nothing is registered");
  fails(MakeEvaluator().Call(Ref<Object>(LoadTestLibrary("add_llvm")),
                             "nothing", 1, 0, 1, 1, 0, ""),
        StatusCode::kNotFound, "a module of kind library has no function");
  fails(MakeEvaluator().Call(none, "test.timed", 2, 0, 1, 1, 0, ""),
        StatusCode::kUnavailable, "cuda(0)");
  fails(MakeEvaluator().Call(none, "test.timed", 1, 0, 0, 1, 0, ""),
        StatusCode::kInvalidArgument, "number is 0");
  fails(MakeEvaluator().Call(none, "test.timed", 1, 0),
        StatusCode::kInvalidArgument,
        "got 4 arguments, expected 12 as in TVM 0.14");
}

TEST_F(TimeEvaluatorTest, FailureOfTheFunctionIsTheResult) {
  const auto evaluator = MakeEvaluator().Call(
      Ref<Object>(LoadTestLibrary("add_llvm")), kAdd, 1, 0, 1, 1, 0, "");
  ASSERT_THAT(evaluator, IsOk());
  const auto function =
      evaluator->View().AsObject<FunctionObject>("function").value();
  EXPECT_THAT(PackedFunc(function).Call(1, 2, 3),
              FailsWith(StatusCode::kInternal, HasSubstr("Assert fail")));
}

TEST(CacheFlushTest, AllArgumentsButTheFirstAreFlushedAndUnchanged) {
  const NDArray tensor = CopyAtOffset(Floats({1, 2, 3, 4, 5}), 4);
  const PackedFunc flush = FindFunction("cache_flush_cpu_non_first_arg");
  EXPECT_THAT(flush.Call("first", tensor, Floats({})), IsOk());
  EXPECT_THAT(ValuesOf(tensor), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(flush.Call(1, 2), FailsWith(StatusCode::kInvalidArgument,
                                          HasSubstr("expected tensor")));
}

}  // namespace
}  // namespace nodewise
