// How compiled code finds the functions that it calls by name.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/c_api.h"
#include "nodewise/func/registry.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

// "test.twice" gives back twice its argument while this lives.
class TwiceFunction {
 public:
  TwiceFunction() {
    const auto twice = [](PackedArgs args) -> absl::StatusOr<Value> {
      return Value(2 * args.At(0)->AsInt().value());
    };
    EXPECT_THAT(RegisterFunction("test.twice", PackedFunc::FromBody(twice)),
                IsOk());
  }
  ~TwiceFunction() { RemoveFunction("test.twice").IgnoreError(); }
};

TEST(CallContextTest, CodeOfBothTargetsCallsRegisteredFunctions) {
  const TwiceFunction twice;
  for (const char* name : {"closure_llvm", "closure_c"}) {
    const Ref<Module> module = LoadTestLibrary(name);
    const PackedFunc call = FunctionOf(module, "calls_twice");
    EXPECT_EQ(IntOf(call.Call(21)), 42) << name;
    EXPECT_EQ(IntOf(call.Call(-1)), -2) << name;
  }
}

TEST(CallContextTest, MissingFunctionIsNamed) {
  for (const char* name : {"closure_llvm", "closure_c"}) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_THAT(FunctionOf(module, "calls_twice").Call(1),
                FailsWith(StatusCode::kNotFound,
                          AllOf(HasSubstr("calls the function test.twice"),
                                HasSubstr("not registered"))));
  }
}

TEST(CallContextTest, HandleInTheCodesCacheOutlivesTheRegistration) {
  const Ref<Module> module = LoadTestLibrary("closure_llvm");
  const PackedFunc call = FunctionOf(module, "calls_twice");
  {
    const TwiceFunction twice;
    EXPECT_EQ(IntOf(call.Call(1)), 2);
  }
  EXPECT_EQ(IntOf(call.Call(2)), 4);
}

TEST(CallContextTest, HandleOutlivesTheModuleThatFoundIt) {
  const TwiceFunction twice;
  Ref<Module> first = LoadTestLibrary("closure_llvm");
  const Ref<Module> second = LoadTestLibrary("closure_llvm");
  EXPECT_EQ(IntOf(FunctionOf(first, "calls_twice").Call(1)), 2);
  first = nullptr;
  EXPECT_EQ(IntOf(FunctionOf(second, "calls_twice").Call(2)), 4);
}

// The host has the library open itself, so that its cache stays.
TEST(CallContextTest, HandleStaysValidForAsLongAsTheCodeIsLoaded) {
  const LibraryCopy copy("closure_c");
  void* const host = dlopen(copy.path().c_str(), RTLD_LAZY);
  ASSERT_NE(host, nullptr) << dlerror();
  {
    const TwiceFunction twice;
    const Ref<Module> module = LoadModule(copy.path()).value();
    EXPECT_EQ(IntOf(FunctionOf(module, "calls_twice").Call(1)), 2);
  }
  auto* const code =
      reinterpret_cast<TVMBackendPackedCFunc>(dlsym(host, "calls_twice"));
  ASSERT_NE(code, nullptr);
  EXPECT_EQ(IntOf(PackedFunc::FromAddress(code, nullptr, nullptr).Call(4)), 8);
  // Not closed: the cache in the code is what still holds the function.
}

TEST(CallContextTest, FunctionsOfImportsComeBeforeRegisteredOnes) {
  const TwiceFunction twice;
  const auto thrice = [](PackedArgs args) -> absl::StatusOr<Value> {
    return Value(3 * args.At(0)->AsInt().value());
  };
  // A module of one function.
  class ThriceModule final : public Module {
   public:
    explicit ThriceModule(PackedBody body) : body_(std::move(body)) {}
    std::string_view kind() const override { return "test"; }
    absl::StatusOr<PackedFunc> GetFunction(std::string_view name) override {
      if (name != "test.twice") return PackedFunc();
      return PackedFunc::FromBody(body_);
    }

   private:
    PackedBody body_;
  };
  const Ref<Module> module = LoadTestLibrary("closure_llvm");
  ASSERT_THAT(module->Import(MakeRef<ThriceModule>(thrice)), IsOk());
  EXPECT_EQ(IntOf(FunctionOf(module, "calls_twice").Call(5)), 15);
}

TEST(CallContextTest, KernelsBelowTheLibraryAreFoundByTheHostCode) {
  for (const char* name : {"opencl", "imports_06"}) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_THAT(FunctionOf(module, "launches_kernel").Call(Floats({1})),
                FailsWith(StatusCode::kUnavailable,
                          HasSubstr("function the_kernel is ")))
        << name;
  }
}

TEST(CallContextTest, CodeCallsTheFunctionItIsGiven) {
  const Ref<Module> module = LoadTestLibrary("closure_llvm");
  const PackedFunc negate =
      PackedFunc::FromBody([](PackedArgs args) -> absl::StatusOr<Value> {
        return Value(-args.At(0)->AsInt().value());
      });
  const Ref<Object> function = negate.object();
  EXPECT_EQ(IntOf(FunctionOf(module, "calls_argument").Call(function, 3)), -3);
}

TEST(CallContextTest, ErrorOfACalledFunctionKeepsItsCode) {
  const Ref<Module> module = LoadTestLibrary("closure_llvm");
  const PackedFunc fail =
      PackedFunc::FromBody([](PackedArgs) -> absl::StatusOr<Value> {
        return absl::OutOfRangeError("too far");
      });
  const Ref<Object> function = fail.object();
  EXPECT_THAT(FunctionOf(module, "calls_argument").Call(function),
              FailsWith(StatusCode::kOutOfRange, "too far"));
}

TEST(CallContextTest, CodeWithoutAContextIsToldSo) {
  TVMFunctionHandle out = nullptr;
  EXPECT_EQ(TVMBackendGetFuncFromEnv(nullptr, "test.twice", &out), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("its module context was never set"));
}

}  // namespace
}  // namespace nodewise
