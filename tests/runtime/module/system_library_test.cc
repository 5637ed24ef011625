// Code that is part of the process: its constructors register its symbols.

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

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Loads the code as the system's loader would at the start of the process, and
// leaves it there.
class SystemLibraryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"system_lib", "system_lib_prefixed"}) {
      ASSERT_NE(dlopen(LibraryPath(name).c_str(), RTLD_NOW), nullptr)
          << dlerror();
    }
  }
};

TEST_F(SystemLibraryTest, FunctionsAreFoundByName) {
  const auto module = SystemLibrary();
  ASSERT_THAT(module, IsOk());
  EXPECT_EQ(IntOf(FunctionOf(*module, "system_answer").Call()), 1);
  const auto missing = (*module)->FindFunction("no_such_function");
  ASSERT_THAT(missing, IsOk());
  EXPECT_FALSE(*missing);
}

TEST_F(SystemLibraryTest, PrefixedFunctionsComeFirst) {
  const auto module = SystemLibrary("net_");
  ASSERT_THAT(module, IsOk());
  EXPECT_EQ(IntOf(FunctionOf(*module, "system_answer").Call()), 2);
  // Both without the prefix and with it.
  EXPECT_EQ(IntOf(FunctionOf(*module, "net_system_answer").Call()), 2);
  EXPECT_TRUE(*(*module)->FindFunction("tvmgen_default_fused_add"));
}

TEST_F(SystemLibraryTest, OneModuleStandsForAPrefix) {
  EXPECT_EQ(SystemLibrary()->get(), SystemLibrary()->get());
  EXPECT_NE(SystemLibrary()->get(), SystemLibrary("net_")->get());
}

TEST_F(SystemLibraryTest, FunctionNamesLeaveOutVariables) {
  const auto module = SystemLibrary();
  ASSERT_THAT(module, IsOk());
  const auto names = (*module)->AllFunctionNames();
  EXPECT_THAT(names, Contains("system_answer"));
  EXPECT_THAT(names, Not(Contains(HasSubstr("__tvm_"))));
}

TEST_F(SystemLibraryTest, VariablesAreNotFunctions) {
  for (const char* prefix : {"", "net_"}) {
    const auto module = SystemLibrary(prefix);
    ASSERT_THAT(module, IsOk());
    for (const char* name : {"__tvm_module_ctx", "__tvm_dev_mblob"}) {
      const auto function = (*module)->FindFunction(name);
      ASSERT_THAT(function, IsOk());
      EXPECT_FALSE(*function) << prefix << name;
    }
  }
}

TEST_F(SystemLibraryTest, BlobMakesAFactory) {
  for (const char* prefix : {"", "net_"}) {
    const auto factory = SystemLibrary(prefix);
    ASSERT_THAT(factory, IsOk());
    EXPECT_EQ((*factory)->kind(), "GraphExecutorFactory");
    const Ref<Module> executor =
        ModuleOf(FunctionOf(*factory, "default").Call(kCpu));
    ASSERT_THAT(
        FunctionOf(executor, "set_input").Call("x", Floats({1, 2, 3, 4})),
        IsOk());
    ASSERT_THAT(FunctionOf(executor, "run").Call(), IsOk());
    const auto sum = FunctionOf(executor, "get_output").Call(0);
    ASSERT_THAT(sum, IsOk());
    EXPECT_THAT(ValuesOf(*sum->Get<NDArray>()), ElementsAre(11, 22, 33, 44));
  }
}

TEST_F(SystemLibraryTest, CodeCallsRegisteredFunctions) {
  const auto twice = [](PackedArgs args) -> absl::StatusOr<Value> {
    return Value(2 * args.At(0)->AsInt().value());
  };
  ASSERT_THAT(RegisterFunction("test.twice", PackedFunc::FromBody(twice)),
              IsOk());
  for (const char* prefix : {"", "net_"}) {
    const auto module = SystemLibrary(prefix);
    ASSERT_THAT(module, IsOk());
    EXPECT_EQ(IntOf(FunctionOf(*module, "calls_twice").Call(4)), 8) << prefix;
  }
  EXPECT_THAT(RemoveFunction("test.twice"), IsOk());
}

TEST_F(SystemLibraryTest, LaterSymbolReplacesAnEarlierOne) {
  const auto one = [](TVMValue*, int*, int, TVMValue* ret, int* ret_code,
                      void*) {
    ret->v_int64 = 1;
    *ret_code = kTVMArgInt;
    return 0;
  };
  const auto two = [](TVMValue*, int*, int, TVMValue* ret, int* ret_code,
                      void*) {
    ret->v_int64 = 2;
    *ret_code = kTVMArgInt;
    return 0;
  };
  const TVMBackendPackedCFunc functions[] = {one, two};
  const auto module = SystemLibrary();
  ASSERT_THAT(module, IsOk());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(TVMBackendRegisterSystemLibSymbol(
                  "replaced_symbol", reinterpret_cast<void*>(functions[i])),
              0);
    EXPECT_EQ(IntOf(FunctionOf(*module, "replaced_symbol").Call()), i + 1);
  }
}

TEST_F(SystemLibraryTest, IsARegisteredFunctionToo) {
  const PackedFunc system_lib = FindFunction("runtime.SystemLib");
  ASSERT_TRUE(system_lib);
  EXPECT_EQ(ModuleOf(system_lib.Call()).get(), SystemLibrary()->get());
  EXPECT_EQ(ModuleOf(system_lib.Call("net_")).get(),
            SystemLibrary("net_")->get());
}

}  // namespace
}  // namespace nodewise
