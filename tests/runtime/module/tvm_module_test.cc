// Libraries to TVM's ABI, loaded and called; see tests/data/libraries.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "nodewise/func/c_api.h"
#include "nodewise/ndarray/short_float.h"
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
using ::testing::Not;

// Returns whether this process has mapped a file whose path contains `part`.
bool IsMapped(std::string_view part) {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find(part) != std::string::npos;
}

TEST(TvmModuleTest, FunctionsOfBothTargetsCompute) {
  for (const char* name : {"add_llvm", "add_c"}) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_EQ(module->kind(), "library");
    EXPECT_THAT(Add(FunctionOf(module, kAdd), {1, 2, 3, 4}),
                ElementsAre(11, 22, 33, 44))
        << name;
  }
}

TEST(TvmModuleTest, FailedCheckOfTheCodeIsTheStatus) {
  const Ref<Module> module = LoadTestLibrary("add_llvm");
  const PackedFunc add = FunctionOf(module, kAdd);
  const NDArray four = Floats({1, 2, 3, 4});
  const NDArray doubles = MakeTensor<double>({4}, {1, 2, 3, 4});
  struct Case {
    absl::StatusOr<Value> result;
    const char* message;
  };
  const Case cases[] = {
      {add.Call(four), "tvmgen_default_fused_add: num_args should be 3"},
      {add.Call(four, four, 1), "Expect arg to be pointer"},
      {add.Call(four, Floats({1}), four), "shape[0] should be 4"},
      {add.Call(four, doubles, four), "dtype should be float32"},
      {add.Call(MakeTensor<float>({2, 2}, {1, 2, 3, 4}), four, four),
       "ndim should be 1"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(c.result, FailsWith(StatusCode::kInternal,
                                    HasSubstr(std::string(c.message))));
  }
}

TEST(TvmModuleTest, ThreadsOfOpenMpOutliveTheLibraryThatMadeThem) {
  if (!std::filesystem::exists(LibraryPath("openmp"))) {
    GTEST_SKIP() << "no OpenMP with this compiler";
  }
  const NDArray four = Floats({1, 2, 3, 4});
  for (int i = 0; i < 5; ++i) {
    const NDArray squares = Floats({0, 0, 0, 0});
    const LibraryCopy copy("openmp");
    {
      const Ref<Module> module = LoadModule(copy.path()).value();
      ASSERT_TRUE(FunctionOf(module, "openmp_square").Call(four, squares).ok());
    }
    EXPECT_THAT(ValuesOf(squares), ElementsAre(1, 4, 9, 16));
    // Without its code they would crash, now or when they next wake up.
    EXPECT_EQ(dlopen(copy.path().c_str(), RTLD_LAZY | RTLD_NOLOAD), nullptr);
    EXPECT_TRUE(IsMapped("/libgomp") || IsMapped("/libomp"));
  }
}

TEST(TvmModuleTest, FailureWithoutAMessageSaysSo) {
  const Ref<Module> module = LoadTestLibrary("returns");
  const absl::StatusOr<Value> result =
      FunctionOf(module, "fails_silently").Call();
  EXPECT_THAT(result, FailsWith(StatusCode::kInternal,
                                "the function failed without saying why"));
}

TEST(TvmModuleTest, SilentFailureDoesNotTakeAnEarlierReason) {
  const Ref<Module> module = LoadTestLibrary("returns");
  // Left behind by a C function whose caller did not ask.
  TVMAPISetLastError("of long ago");
  EXPECT_THAT(FunctionOf(module, "fails_silently").Call(),
              FailsWith(StatusCode::kInternal, Not(HasSubstr("long ago"))));
}

TEST(TvmModuleTest, ReturnedValuesAreTaken) {
  const Ref<Module> module = LoadTestLibrary("returns");
  EXPECT_TRUE(FunctionOf(module, "returns_nothing").Call()->IsNull());
  EXPECT_EQ(IntOf(FunctionOf(module, "returns_int").Call()), 42);
  EXPECT_EQ(IntOf(FunctionOf(module, "counts_arguments").Call(1, "a", 2.5)), 3);
  const auto text = FunctionOf(module, "returns_text").Call();
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(*text->Get<std::string>(), "static text");
}

TEST(TvmModuleTest, MissingFunctionIsNullAndNoError) {
  const Ref<Module> module = LoadTestLibrary("add_llvm");
  const auto function = module->GetFunction("no_such_function");
  ASSERT_THAT(function, IsOk());
  EXPECT_FALSE(*function);
}

TEST(TvmModuleTest, BindingAMissingFunctionNamesTheNearest) {
  const Ref<Library> library = LibraryOf(LoadTestLibrary("add_llvm"));
  KernelRequest request;
  request.function = "tvmgen_default_fused_ad";
  EXPECT_THAT(library->Bind(request),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr("no function tvmgen_default_fused_ad"),
                              HasSubstr("did you mean "
                                        "tvmgen_default_fused_add?"))));
}

TEST(TvmModuleTest, FunctionsOfOtherLibrariesAreNotTheModels) {
  const Ref<Module> module = LoadTestLibrary("uses_libm");
  const auto cosine = FunctionOf(module, "cosine").Call(0.0);
  ASSERT_THAT(cosine, IsOk());
  EXPECT_EQ(*cosine->Get<double>(), 1.0);
  for (const char* name : {"cos", "sin", "malloc", "TVMFuncCall"}) {
    const auto function = module->GetFunction(name);
    ASSERT_THAT(function, IsOk());
    EXPECT_FALSE(*function) << name;
  }
}

TEST(TvmModuleTest, VariablesAreNotFunctions) {
  const Ref<Module> module = LoadTestLibrary("closure_llvm");
  for (const char* name : {"__TVMFuncCall", "__tvm_module_ctx"}) {
    const auto function = module->GetFunction(name);
    ASSERT_THAT(function, IsOk());
    EXPECT_FALSE(*function) << name;
  }
  EXPECT_THAT(module->FunctionNames(), Contains("calls_twice"));
  EXPECT_THAT(module->FunctionNames(), Not(Contains("__TVMFuncCall")));
}

TEST(TvmModuleTest, EntryNameMayBeAStringOrAFunction) {
  EXPECT_EQ(
      IntOf(FunctionOf(LoadTestLibrary("main_llvm"), "__tvm_main__").Call()),
      7);
  EXPECT_EQ(IntOf(FunctionOf(LoadTestLibrary("main_c"), "__tvm_main__").Call()),
            8);
  const auto none = LoadTestLibrary("add_c")->GetFunction("__tvm_main__");
  ASSERT_THAT(none, IsOk());
  EXPECT_FALSE(*none);
}

TEST(TvmModuleTest, FunctionsOfThreeParametersRun) {
  const Ref<Module> module = LoadTestLibrary("three_parameters");
  const NDArray in = Floats({1, -2});
  const NDArray out = Floats({0, 0});
  const DLTensor* tensors[] = {&*in, &*out};
  TVMValue values[2];
  const int codes[] = {kTVMDLTensorHandle, kTVMDLTensorHandle};
  for (int i = 0; i < 2; ++i) {
    values[i].v_handle = const_cast<DLTensor*>(tensors[i]);
  }
  EXPECT_THAT(FunctionOf(module, "fused_negative")
                  .CallPacked(PackedArgs(values, codes, 2)),
              IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(-1, 2));
}

TEST(TvmModuleTest, FunctionsMayHaveSeveralOutputs) {
  const Ref<Module> module = LoadTestLibrary("split");
  const NDArray first = Floats({0, 0});
  const NDArray second = Floats({0, 0});
  EXPECT_THAT(
      FunctionOf(module, "split").Call(Floats({1, 2, 3, 4}), first, second),
      IsOk());
  EXPECT_THAT(ValuesOf(first), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(second), ElementsAre(3, 4));
}

TEST(TvmModuleTest, WorkspacesNest) {
  const Ref<Module> module = LoadTestLibrary("workspace_llvm");
  const NDArray out = Floats({0, 0, 0});
  EXPECT_THAT(FunctionOf(module, "reverse").Call(Floats({1, 2, 3}), out),
              IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(3, 2, 1));
}

TEST(TvmModuleTest, WorkspaceOfAMissingDeviceIsRefusedByName) {
  const Ref<Module> module = LoadTestLibrary("workspace_llvm");
  EXPECT_THAT(FunctionOf(module, "wants_cuda_memory").Call(),
              FailsWith(StatusCode::kUnavailable,
                        HasSubstr("cuda memory is not built in")));
}

TEST(TvmModuleTest, ParallelLoopDoesEveryElementOnce) {
  const Ref<Module> module = LoadTestLibrary("parallel_llvm");
  std::vector<float> in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  const NDArray out = Floats(std::vector<float>(1000));
  EXPECT_THAT(FunctionOf(module, "square").Call(Floats(in), out), IsOk());
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(out.As<float>()[i], in[i] * in[i]) << i;
  }
}

TEST(TvmModuleTest, TasksSeeWhatWasWrittenBeforeABarrier) {
  const Ref<Module> module = LoadTestLibrary("parallel_llvm");
  const NDArray out = Floats({0, 0, 0, 0});
  EXPECT_THAT(FunctionOf(module, "add_neighbours_square")
                  .Call(Floats({1, 2, 3, 4}), out),
              IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(5, 13, 25, 17));
}

TEST(TvmModuleTest, ErrorOfAParallelTaskNamesTheTask) {
  const Ref<Module> module = LoadTestLibrary("parallel_llvm");
  EXPECT_THAT(FunctionOf(module, "fails_in_task_one").Call(),
              FailsWith(StatusCode::kInternal,
                        AllOf(HasSubstr("task 1 of 4"),
                              HasSubstr("task one is out of luck"))));
}

TEST(TvmModuleTest, SetUpCodeRunsOnce) {
  const Ref<Module> module = LoadTestLibrary("run_once");
  const PackedFunc count = FunctionOf(module, "counts_set_ups");
  EXPECT_EQ(IntOf(count.Call()), 1);
  EXPECT_EQ(IntOf(count.Call()), 1);
}

TEST(TvmModuleTest, HalvesAreConvertedByTheRuntime) {
  const Ref<Module> module = LoadTestLibrary("half");
  const std::vector<uint16_t> in = {FloatToHalf(1), FloatToHalf(-3)};
  const DLDataType half{kDLFloat, 16, 1};
  const NDArray out = MakeTensor<uint16_t>({2}, {0, 0}, half);
  EXPECT_THAT(FunctionOf(module, "halve_halves")
                  .Call(MakeTensor<uint16_t>({2}, in, half), out),
              IsOk());
  EXPECT_THAT(ValuesOf<uint16_t>(out),
              ElementsAre(FloatToHalf(0.5f), FloatToHalf(-1.5f)));
}

TEST(TvmModuleTest, CodeThatWantsAnUnknownRuntimeFunctionIsRefused) {
  // Twice: the first try must not leave anything behind.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(LoadModule(LibraryPath("unknown_pointer")),
                FailsWith(StatusCode::kUnimplemented,
                          AllOf(HasSubstr("unknown_pointer.so: "),
                                HasSubstr("not known here: "
                                          "__TVMBackendFuture"))));
  }
}

TEST(TvmModuleTest, WhatIsNotALibraryIsRefused) {
  const std::string source = NODEWISE_SOURCE_DIR "/tests/data/libraries/";
  struct Case {
    absl::StatusOr<Ref<Module>> module;
    StatusCode code;
    const char* message;
  };
  const Case cases[] = {
      {LoadModule("/nowhere/net.so"), StatusCode::kNotFound, "/nowhere/net.so"},
      {LoadModule(source + "README.md"), StatusCode::kInvalidArgument,
       "ends in \"md\", expected a shared library"},
      {LoadModule(source + "README.md", "so"), StatusCode::kInvalidArgument,
       "README.md: is not an ELF file"},
      {LoadModule(source, "so"), StatusCode::kInvalidArgument, "libraries"},
      {LoadModule(NODEWISE_TEST_BINARIES "/nodewise_c_host", "so"),
       StatusCode::kInvalidArgument, "\"program\""},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(c.module, FailsWith(c.code, HasSubstr(std::string(c.message))));
  }
}

TEST(TvmModuleTest, LibraryCutShortIsDamaged) {
  const LibraryCopy copy("add_llvm");
  std::filesystem::resize_file(copy.path(), 1000);
  EXPECT_THAT(LoadModule(copy.path()),
              FailsWith(StatusCode::kDataLoss, HasSubstr(copy.path())));
}

TEST(TvmModuleTest, FormatGivenStandsForTheEnding) {
  const LibraryCopy copy("returns");
  const std::string renamed = copy.path() + ".1";
  std::filesystem::copy_file(copy.path(), renamed);
  EXPECT_THAT(LoadModule(renamed), FailsWith(StatusCode::kInvalidArgument,
                                             HasSubstr("ends in \"1\"")));
  EXPECT_THAT(LoadModule(renamed, "so"), IsOk());
  std::filesystem::remove(renamed);
}

TEST(TvmModuleTest, FunctionKeepsItsLibraryLoaded) {
  const LibraryCopy copy("add_llvm");
  PackedFunc add = FunctionOf(LoadModule(copy.path()).value(), kAdd);
  EXPECT_THAT(Add(add, {1, 1, 1, 1}), ElementsAre(11, 21, 31, 41));
}

TEST(TvmModuleTest, FreeingOneOfTwoModulesOfAFileLeavesTheOther) {
  Ref<Module> first = LoadTestLibrary("add_llvm");
  const Ref<Module> second = LoadTestLibrary("add_llvm");
  EXPECT_EQ(FunctionOf(first, kAdd).object()->address(),
            FunctionOf(second, kAdd).object()->address());
  first = nullptr;
  EXPECT_THAT(Add(FunctionOf(second, kAdd), {0, 0, 0, 0}),
              ElementsAre(10, 20, 30, 40));
}

TEST(TvmModuleTest, ManyThreadsMayLoadOneFile) {
  const LibraryCopy copy("add_llvm");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&copy] {
      for (int round = 0; round < 20; ++round) {
        const auto module = LoadModule(copy.path());
        ASSERT_THAT(module, IsOk());
        // Fails through a pointer that loading must have filled.
        EXPECT_THAT(FunctionOf(*module, kAdd).Call(),
                    FailsWith(StatusCode::kInternal, HasSubstr("num_args")));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TvmModuleTest, FileReplacedWhileLoadedIsRefusedUntilReleased) {
  LibraryCopy copy("main_llvm");
  auto old = LoadModule(copy.path());
  ASSERT_THAT(old, IsOk());
  copy.ReplaceBy("returns");
  EXPECT_THAT(LoadModule(copy.path()),
              FailsWith(StatusCode::kFailedPrecondition,
                        HasSubstr("replaced while its old content is loaded")));
  EXPECT_EQ(IntOf(FunctionOf(*old, "the_only_function").Call()), 7);
  *old = nullptr;
  const auto renewed = LoadModule(copy.path());
  ASSERT_THAT(renewed, IsOk());
  EXPECT_EQ(IntOf(FunctionOf(*renewed, "returns_int").Call()), 42);
}

TEST(TvmModuleTest, FileReplacedWhileItLoadsGivesOneContentOrNone) {
  LibraryCopy copy("add_llvm");
  std::atomic<bool> is_done = false;
  std::thread compiler([&] {
    while (!is_done) {
      copy.ReplaceBy("returns");
      copy.ReplaceBy("add_llvm");
    }
  });
  for (int round = 0; round < 300; ++round) {
    const auto module = LoadModule(copy.path());
    if (!module.ok()) {
      EXPECT_THAT(module, FailsWith(StatusCode::kFailedPrecondition,
                                    HasSubstr("replaced while")));
      continue;
    }
    for (const std::string& name : (*module)->FunctionNames()) {
      EXPECT_TRUE(*(*module)->GetFunction(name)) << name;
    }
  }
  is_done = true;
  compiler.join();
}

TEST(TvmModuleTest, ImportsFindTheFunctionsOfOtherLibraries) {
  const Ref<Module> module = LoadTestLibrary("returns");
  EXPECT_FALSE(*module->FindFunction(kAdd));
  ASSERT_THAT(module->Import(LoadTestLibrary("add_llvm")), IsOk());
  EXPECT_TRUE(*module->FindFunction(kAdd));
  EXPECT_FALSE(*module->GetFunction(kAdd));
  module->ClearImports();
  EXPECT_FALSE(*module->FindFunction(kAdd));
}

TEST(TvmModuleTest, ModulesMayNotImportEachOther) {
  const Ref<Module> first = LoadTestLibrary("returns");
  const Ref<Module> second = LoadTestLibrary("add_llvm");
  ASSERT_THAT(first->Import(second), IsOk());
  EXPECT_THAT(second->Import(first), FailsWith(StatusCode::kInvalidArgument,
                                               HasSubstr("cannot import")));
  EXPECT_FALSE(first->Import(first).ok());
  EXPECT_EQ(first->Tree().size(), 2u);
}

}  // namespace
}  // namespace nodewise
