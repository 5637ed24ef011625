#include "nodewise/func/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::Contains;
using ::testing::Not;

PackedFunc Returning(int value) {
  return PackedFunc::FromBody(
      [value](PackedArgs) -> absl::StatusOr<Value> { return Value(value); });
}

int64_t Answer(const std::string& name) {
  const PackedFunc function = FindFunction(name);
  if (!function) return -1;
  return *function.Call()->Get<int64_t>();
}

TEST(RegistryTest, FunctionIsFoundUntilItIsRemoved) {
  ASSERT_THAT(RegisterFunction("test.one", Returning(1)), IsOk());
  EXPECT_EQ(Answer("test.one"), 1);
  EXPECT_THAT(FunctionNames(), Contains("test.one"));
  ASSERT_THAT(RemoveFunction("test.one"), IsOk());
  EXPECT_FALSE(FindFunction("test.one"));
  EXPECT_THAT(FunctionNames(), Not(Contains("test.one")));
}

TEST(RegistryTest, TakenNameIsReplacedOnlyOnRequest) {
  ASSERT_THAT(RegisterFunction("test.one", Returning(1)), IsOk());
  EXPECT_THAT(RegisterFunction("test.one", Returning(2)),
              FailsWith(StatusCode::kAlreadyExists,
                        "function test.one is registered already (ask to "
                        "replace it)"));
  EXPECT_EQ(Answer("test.one"), 1);
  ASSERT_THAT(RegisterFunction("test.one", Returning(2), true), IsOk());
  EXPECT_EQ(Answer("test.one"), 2);
  ASSERT_THAT(RemoveFunction("test.one"), IsOk());
}

TEST(RegistryTest, RemovingWhatIsNotThereIsAnError) {
  EXPECT_THAT(RemoveFunction("test.nothing"),
              FailsWith(StatusCode::kNotFound,
                        "no function test.nothing is "
                        "registered"));
}

TEST(RegistryTest, FunctionInUseOutlivesItsRemoval) {
  ASSERT_THAT(RegisterFunction("test.one", Returning(1)), IsOk());
  const PackedFunc function = FindFunction("test.one");
  ASSERT_THAT(RemoveFunction("test.one"), IsOk());
  EXPECT_EQ(*function.Call()->Get<int64_t>(), 1);
}

TEST(RegistryTest, NamesAreSorted) {
  const std::vector<std::string> names = FunctionNames();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, Contains("tvm.graph_executor.create"));
}

// A callback whose finalizer calls the registry again.
int DoNothing(TVMValue*, int*, int, TVMRetValueHandle, void*) { return 0; }
void LookIntoRegistry(void* seen) {
  *static_cast<bool*>(seen) = !FunctionNames().empty();
}

TEST(RegistryTest, FinalizerOfADroppedFunctionMayCallTheRegistry) {
  for (const bool replace : {false, true}) {
    bool seen = false;
    ASSERT_THAT(
        RegisterFunction("test.one", PackedFunc::FromCallback(
                                         &DoNothing, &seen, &LookIntoRegistry)),
        IsOk());
    if (replace) {
      ASSERT_THAT(RegisterFunction("test.one", Returning(1), true), IsOk());
      EXPECT_TRUE(seen);
    }
    ASSERT_THAT(RemoveFunction("test.one"), IsOk());
    EXPECT_TRUE(seen);
  }
}

TEST(RegistryTest, ThreadsMayUseItAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      const std::string name = "test.thread" + std::to_string(i);
      for (int round = 0; round < 50; ++round) {
        ASSERT_THAT(RegisterFunction(name, Returning(i)), IsOk());
        EXPECT_EQ(Answer(name), i);
        ASSERT_THAT(RemoveFunction(name), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nodewise
