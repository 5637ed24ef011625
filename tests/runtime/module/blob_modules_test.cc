// The modules that a library's blob stands for: factories, constants and code
// for devices; see tests/data/libraries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/containers.h"
#include "nodewise/graph/executor_module.h"
#include "nodewise/module/factory_module.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BlobModulesTest, FactoryImportsItsCode) {
  for (const char* name : {"factory", "factory_c", "factory_07"}) {
    const Ref<Module> factory = LoadTestLibrary(name);
    EXPECT_EQ(factory->kind(), "GraphExecutorFactory") << name;
    ASSERT_EQ(factory->imports().size(), 1u) << name;
    EXPECT_EQ(factory->imports()[0]->kind(), "library") << name;
    EXPECT_THAT(Add(FunctionOf(factory, kAdd), {1, 1, 1, 1}),
                ElementsAre(11, 21, 31, 41))
        << name;
  }
}

// TV-27.
TEST(BlobModulesTest, FactoryHandsOutGraphAndParameters) {
  const Ref<Module> factory = LoadTestLibrary("factory");
  const auto json = FunctionOf(factory, "get_graph_json").Call();
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ(*json->Get<std::string>(), AddGraphJson());
  const auto params = FactoryParams(*factory);
  ASSERT_EQ(params.size(), 1u);
  EXPECT_EQ(params[0].name, "p0");
  EXPECT_THAT(ValuesOf(params[0].tensor), ElementsAre(10, 20, 30, 40));
  const auto map = FunctionOf(factory, "get_graph_params").Call();
  ASSERT_THAT(map, IsOk());
  const auto held = map->View().AsObject<MapObject>("map");
  ASSERT_THAT(held, IsOk());
  EXPECT_THAT(ValuesOf(*(*held)->Find("p0")->Get<NDArray>()),
              ElementsAre(10, 20, 30, 40));
}

// Sets x, runs, and returns the output.
std::vector<float> RunExecutor(const Ref<Module>& executor,
                               const std::vector<float>& x) {
  EXPECT_THAT(FunctionOf(executor, "set_input").Call("x", Floats(x)), IsOk());
  EXPECT_THAT(FunctionOf(executor, "run").Call(), IsOk());
  const NDArray out = Floats({0, 0, 0, 0});
  EXPECT_THAT(FunctionOf(executor, "get_output").Call(0, out), IsOk());
  return ValuesOf(out);
}

TEST(BlobModulesTest, FactoryMakesExecutorsWithItsParameters) {
  for (const char* name : {"factory", "factory_c", "factory_07", "two_libs"}) {
    const Ref<Module> factory = LoadTestLibrary(name);
    const Ref<Module> executor =
        ModuleOf(FunctionOf(factory, "default").Call(kCpu));
    EXPECT_EQ(executor->kind(), "GraphExecutor");
    EXPECT_THAT(RunExecutor(executor, {1, 2, 3, 4}),
                ElementsAre(11, 22, 33, 44))
        << name;
  }
}

TEST(BlobModulesTest, FactoryWithoutParametersLeavesThemUnset) {
  const Ref<Module> factory = LoadTestLibrary("factory");
  const Ref<Module> bare =
      ModuleOf(FunctionOf(factory, "remove_params").Call());
  const Ref<Module> executor = ModuleOf(FunctionOf(bare, "default").Call(kCpu));
  ASSERT_THAT(FunctionOf(executor, "set_input").Call("x", Floats({1, 2, 3, 4})),
              IsOk());
  EXPECT_THAT(FunctionOf(executor, "run").Call(),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("p0")));
}

TEST(BlobModulesTest, FactoryRefusesWhatItCannotMake) {
  const Ref<Module> factory = LoadTestLibrary("factory");
  EXPECT_THAT(FunctionOf(factory, "default").Call(1),
              FailsWith(StatusCode::kInvalidArgument,
                        "argument is int, expected device"));
  EXPECT_THAT(FunctionOf(factory, "default").Call(DLDevice{kDLCUDA, 0}),
              FailsWith(StatusCode::kUnavailable, HasSubstr("cuda")));
  EXPECT_THAT(FunctionOf(factory, "debug_create").Call("other", kCpu),
              FailsWith(StatusCode::kNotFound,
                        HasSubstr("holds the module default, not other")));
  EXPECT_THAT(FunctionOf(factory, "cuda_graph_create").Call(kCpu),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("CUDA graphs")));
}

TEST(BlobModulesTest, ExecutorOutlivesItsFactory) {
  const LibraryCopy copy("factory");
  Ref<Module> factory = LoadModule(copy.path()).value();
  const Ref<Module> executor =
      ModuleOf(FunctionOf(factory, "default").Call(kCpu));
  factory = nullptr;
  EXPECT_THAT(RunExecutor(executor, {0, 0, 0, 0}), ElementsAre(10, 20, 30, 40));
}

TEST(BlobModulesTest, ModulesFollowTheImportTree) {
  const Ref<Module> factory = LoadTestLibrary("factory_cuda");
  std::vector<std::string> kinds;
  for (const Module* module : factory->Tree()) {
    kinds.emplace_back(module->kind());
  }
  EXPECT_THAT(kinds, ElementsAre("GraphExecutorFactory", "library", "cuda"));
  EXPECT_EQ(factory->imports()[0]->imports()[0]->kind(), "cuda");
  EXPECT_THAT(factory->AllFunctionNames(), Contains("the_kernel"));
}

TEST(BlobModulesTest, WithoutAnImportTreeItemsAreImportsOfTheLibrary) {
  const Ref<Module> library = LoadTestLibrary("imports_06");
  EXPECT_EQ(library->kind(), "library");
  ASSERT_EQ(library->imports().size(), 1u);
  EXPECT_EQ(library->imports()[0]->kind(), "cuda");
}

TEST(BlobModulesTest, EmptyBlobMeansTheLibraryItself) {
  const Ref<Module> library = LoadTestLibrary("no_modules");
  EXPECT_EQ(library->kind(), "library");
  EXPECT_TRUE(library->imports().empty());
}

TEST(BlobModulesTest, DeviceCodeIsRefusedOnlyWhenCalled) {
  const Ref<Module> library = LoadTestLibrary("opencl");
  const auto kernel = library->FindFunction("the_kernel");
  ASSERT_THAT(kernel, IsOk());
  ASSERT_TRUE(*kernel);
  EXPECT_THAT(kernel->Call(),
              FailsWith(StatusCode::kUnavailable,
                        "function the_kernel is opencl code, and this build "
                        "has no opencl device"));
}

TEST(BlobModulesTest, BrokenBlobsAreRefusedWithTheirPlace) {
  struct Case {
    const char* name;
    StatusCode code;
    const char* message;
  };
  const Case cases[] = {
      {"unknown_kind", StatusCode::kUnimplemented, "kind \"dnnl_json\""},
      {"child_out_of_range", StatusCode::kDataLoss,
       "module 0 imports module 7, but there are 2 modules"},
      {"circle", StatusCode::kDataLoss, "import each other in a circle"},
      {"truncated", StatusCode::kDataLoss, " are left"},
      {"too_long", StatusCode::kDataLoss, "module blob needs 4294967296 bytes"},
  };
  for (const Case& c : cases) {
    const std::string where = std::string(c.name) + ".so: __tvm_dev_mblob: ";
    EXPECT_THAT(LoadModule(LibraryPath(c.name)),
                FailsWith(c.code, AllOf(HasSubstr(where + "byte "),
                                        HasSubstr(std::string(c.message)))))
        << c.name;
  }
}

TEST(BlobModulesTest, ConstantsAreHandedOverOnceBeforeFirstUse) {
  for (const char* name : {"const_loader", "metadata"}) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_EQ(module->kind(), name);
    const PackedFunc inits = FunctionOf(module, "counts_inits");
    EXPECT_EQ(IntOf(inits.Call()), 0) << name;
    for (int i = 0; i < 2; ++i) {
      const auto scaled = FunctionOf(module, "scale").Call(4.0);
      ASSERT_THAT(scaled, IsOk());
      EXPECT_EQ(*scaled->Get<double>(), 10.0) << name;
    }
    EXPECT_EQ(IntOf(inits.Call()), 1) << name;
  }
}

TEST(BlobModulesTest, FailedInitIsTheErrorOfTheFunction) {
  const Ref<Module> module = LoadTestLibrary("const_loader");
  EXPECT_THAT(module->FindFunction("blocked"),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("__init_blocked did not return 0")));
}

TEST(BlobModulesTest, MissingConstantIsNamed) {
  const Ref<Module> module = LoadTestLibrary("const_loader");
  EXPECT_THAT(module->FindFunction("starved"),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("starved wants the constant const_9")));
}

TEST(BlobModulesTest, LinkedParametersNeedNotBeSet) {
  const Ref<Module> code = LoadTestLibrary("add_llvm");
  ASSERT_THAT(code->Import(LoadTestLibrary("linked_params")), IsOk());
  const auto executor =
      PackedFunc::FromBody(&CreateGraphExecutor)
          .Call(AddGraphJson(), Ref<Object>(code), int{kDLCPU}, 0);
  EXPECT_THAT(RunExecutor(ModuleOf(executor), {1, 2, 3, 4}),
              ElementsAre(11, 22, 33, 44));
}

}  // namespace
}  // namespace nodewise
