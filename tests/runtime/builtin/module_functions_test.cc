// The named functions that tell about modules and about this build.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/call_function.h"
#include "tests/support/matchers.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

template <typename... Args>
int64_t Number(const char* name, const Args&... args) {
  const auto result = Call(name, args...);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? result->View().AsInt().value_or(-1) : -1;
}

TEST(ModuleFunctionsTest,
     ModuleImplementsWhatItHasItselfUnlessAskedForImports) {
  const Ref<Object> factory = LoadTestLibrary("factory");
  constexpr char kName[] = "runtime.ModuleImplementsFunction";
  EXPECT_EQ(Number(kName, factory, "default"), 1);
  EXPECT_EQ(Number(kName, factory, kAdd), 0);
  EXPECT_EQ(Number(kName, factory, kAdd, 0), 0);
  EXPECT_EQ(Number(kName, factory, kAdd, 1), 1);
  // A host that knows bool gets one.
  const auto answer = Call(kName, factory, kAdd, Value::Bool(true));
  EXPECT_EQ(answer->View().code(), kTVMArgBool);
}

TEST(ModuleFunctionsTest, FunctionIsFoundAsInTheCApi) {
  const Ref<Object> factory = LoadTestLibrary("factory");
  EXPECT_TRUE(Call("runtime.ModuleGetFunction", factory, kAdd, 0)->IsNull());
  EXPECT_EQ(Call("runtime.ModuleGetFunction", factory, kAdd, 1)->View().code(),
            kTVMPackedFuncHandle);
}

TEST(ModuleFunctionsTest, PropertiesAreThoseOfTvm) {
  const Ref<Module> factory = LoadTestLibrary("factory");
  constexpr char kName[] = "runtime.ModuleGetPropertyMask";
  EXPECT_EQ(Number(kName, Ref<Object>(factory)), kModuleIsSerializable);
  EXPECT_EQ(Number(kName, Ref<Object>(factory->imports()[0])),
            kModuleIsSerializable | kModuleIsRunnable);
  const auto executor = FunctionOf(factory, "default").Call(kCpu);
  EXPECT_EQ(Number(kName, *executor), kModuleIsRunnable);
  EXPECT_EQ(Number("runtime.ModuleIsDSOExportable", Ref<Object>(factory)), 0);
}

TEST(ModuleFunctionsTest, LoadedModuleIsNotSaved) {
  EXPECT_THAT(Call("runtime.ModuleSaveToFile",
                   Ref<Object>(LoadTestLibrary("factory")), "net.so", "so"),
              FailsWith(StatusCode::kUnimplemented,
                        HasSubstr("net.so: a loaded module of kind "
                                  "GraphExecutorFactory cannot be saved")));
}

TEST(ModuleFunctionsTest, NoCompilerIsEnabled) {
  constexpr char kName[] = "runtime.RuntimeEnabled";
  EXPECT_EQ(Number(kName, "cpu"), 1);
  for (const char* target : {"llvm", "llvm -mcpu=haswell", "cuda", "rpc"}) {
    EXPECT_EQ(Number(kName, target), 0) << target;
  }
}

TEST(LibInfoTest, TellsWhatTheBuildHas) {
  const auto info = Call("support.GetLibInfo");
  ASSERT_THAT(info, IsOk());
  const auto map = info->View().AsObject<MapObject>("map").value();
  const auto text = [&](const char* key) {
    const Value* value = map->Find(key);
    return value != nullptr ? std::string(*value->View().AsString()) : "absent";
  };
  const bool profiles{FindFunction("runtime.profiling.AsTable")};
  EXPECT_EQ(text("USE_PROFILER"), profiles ? "ON" : "OFF");
  EXPECT_EQ(text("USE_GRAPH_EXECUTOR"), "ON");
  EXPECT_EQ(text("USE_LLVM"), "OFF");
  EXPECT_EQ(text("LLVM_VERSION"), "NOT-FOUND");
}

}  // namespace
}  // namespace nodewise
