// How compiled code of TVM-FFI finds and calls functions by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/ffi_function.h"
#include "nodewise/func/registry.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kLibraries[] = {"ffi_closure", "ffi_closure_25",
                                      "ffi_closure_21", "ffi_closure_c"};

// A registered function while this lives.
class Registered {
 public:
  Registered(const char* name, PackedBody body) : name_(name) {
    EXPECT_THAT(RegisterFunction(name, PackedFunc::FromBody(std::move(body))),
                IsOk());
  }
  ~Registered() { RemoveFunction(name_).IgnoreError(); }

 private:
  const char* name_;
};

absl::StatusOr<Value> Twice(PackedArgs args) {
  const auto number = args.At(0)->AsInt();
  if (!number.ok()) return number.status();
  return Value(2 * *number);
}

TEST(FfiClosureTest, CodeOfEveryEraCallsRegisteredFunctions) {
  const Registered twice("test.twice", &Twice);
  for (const char* name : kLibraries) {
    const Ref<Module> module = LoadTestLibrary(name);
    const PackedFunc call = FunctionOf(module, "calls_twice");
    EXPECT_EQ(IntOf(call.Call(21)), 42) << name;
    EXPECT_EQ(IntOf(call.Call(-1)), -2) << name;
  }
}

TEST(FfiClosureTest, MissingFunctionIsNamed) {
  for (const char* name : kLibraries) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_THAT(FunctionOf(module, "calls_twice").Call(1),
                FailsWith(StatusCode::kNotFound,
                          AllOf(HasSubstr("calls the function test.twice"),
                                HasSubstr("not registered"))));
  }
}

TEST(FfiClosureTest, ErrorOfTheFunctionIsThatOfTheCode) {
  const Registered twice("test.twice", &Twice);
  const Ref<Module> module = LoadTestLibrary("ffi_closure");
  EXPECT_THAT(FunctionOf(module, "calls_twice").Call("text"),
              FailsWith(StatusCode::kInvalidArgument,
                        "argument is string, expected int"));
}

TEST(FfiClosureTest, CodeIsGivenTheSortThatComesWithTheRuntime) {
  for (const char* name : kLibraries) {
    const NDArray values = MakeTensor<float>({2, 2}, {0, 0, 0, 0});
    const NDArray indices = MakeTensor<int64_t>({2, 2}, {0, 0, 0, 0});
    EXPECT_THAT(FunctionOf(LoadTestLibrary(name), "two_greatest")
                    .Call(MakeTensor<float>({2, 3}, {1, 3, 2, 6, 4, 5}), values,
                          indices),
                IsOk())
        << name;
    EXPECT_THAT(ValuesOf(values), ElementsAre(3, 2, 6, 5));
    EXPECT_THAT(ValuesOf<int64_t>(indices), ElementsAre(1, 2, 0, 2));
  }
}

TEST(FfiClosureTest, ValuesOfEveryKindArrive) {
  std::string codes;
  std::string texts;
  const Registered describe(
      "test.describe", [&](PackedArgs args) -> absl::StatusOr<Value> {
        for (int i = 0; i < args.size(); ++i) {
          const ArgView arg = *args.At(i);
          codes += std::string(TypeCodeName(arg.code())) + " ";
          if (arg.IsText()) texts += std::string(*arg.AsString()) + "|";
        }
        EXPECT_EQ(args.At(1)->AsInt().value(), -3);
        EXPECT_EQ(args.At(3)->AsDouble().value(), 2.5);
        EXPECT_EQ(args.At(6)->AsDevice()->device_id, 3);
        const DLTensor* tensor = *args.At(11)->AsTensor();
        EXPECT_TRUE(tensor->dtype == kBool);
        return Value("a text that is returned");
      });
  const Ref<Module> module = LoadTestLibrary("ffi_closure");
  const auto result = FunctionOf(module, "passes_all_kinds")
                          .Call(MakeTensor<uint8_t>({1}, {1}, kBool));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(*result->Get<std::string>(), "a text that is returned");
  EXPECT_EQ(codes,
            "null int bool float handle type device string bytes string string "
            "tensor ");
  EXPECT_EQ(texts, std::string("raw|b\0c|smaller|a text object|", 30));
}

TEST(FfiClosureTest, ValueWithoutAFormIsNamed) {
  const Registered describe("test.describe", [](PackedArgs) {
    ADD_FAILURE() << "was called";
    return absl::StatusOr<Value>();
  });
  const Ref<Module> module = LoadTestLibrary("ffi_closure");
  EXPECT_THAT(FunctionOf(module, "passes_an_array").Call(),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("argument 1: an array cannot pass")));
}

TEST(FfiClosureTest, ResultWithoutAFormIsRefused) {
  const Registered twice("test.twice", [](PackedArgs) {
    return absl::StatusOr<Value>(Value(Floats({1})));
  });
  const Ref<Module> module = LoadTestLibrary("ffi_closure");
  EXPECT_THAT(FunctionOf(module, "calls_twice").Call(1),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("result: NDArray cannot pass")));
}

TEST(FfiClosureTest, ContextOfAnotherRuntimeIsNotFollowed) {
  void* out = nullptr;
  int theirs = 0;
  EXPECT_EQ(TVMFFIEnvModLookupFromImports(&theirs, "test.twice", &out), -1);
  EXPECT_THAT(TakeFfiError(), FailsWith(StatusCode::kFailedPrecondition,
                                        HasSubstr("not of this runtime")));
}

TEST(FfiClosureTest, HandleIsMadeAgainAfterAFailure) {
  for (const char* name : kLibraries) {
    const Ref<Module> module = LoadTestLibrary(name);
    const PackedFunc call = FunctionOf(module, "calls_twice");
    EXPECT_THAT(call.Call(1), FailsWith(StatusCode::kNotFound, HasSubstr("")));
    const Registered twice("test.twice", &Twice);
    EXPECT_EQ(IntOf(call.Call(1)), 2) << name;
  }
}

}  // namespace
}  // namespace nodewise
