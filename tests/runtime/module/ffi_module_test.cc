// Libraries to the ABI of TVM-FFI (TVM 0.21 and later), loaded and called; see
// tests/data/libraries.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/c_errors.h"
#include "nodewise/func/ffi_function.h"
#include "nodewise/module/library_summary.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAddLibraries[] = {"ffi_add", "ffi_add_now", "ffi_add_22",
                                         "ffi_add_21"};

TEST(FfiModuleTest, FunctionsOfEveryEraCompute) {
  for (const char* name : kAddLibraries) {
    const Ref<Module> module = LoadTestLibrary(name);
    EXPECT_EQ(module->kind(), "library");
    EXPECT_THAT(Add(FunctionOf(module, kAdd), {1, 2, 3, 4}),
                ElementsAre(11, 22, 33, 44))
        << name;
  }
}

TEST(FfiModuleTest, ErrorsHaveTheirKindAndAllParts) {
  for (const char* name : kAddLibraries) {
    const Ref<Module> module = LoadTestLibrary(name);
    const PackedFunc add = FunctionOf(module, kAdd);
    const NDArray four = Floats({1, 2, 3, 4});
    EXPECT_THAT(add.Call(four),
                FailsWith(StatusCode::kInternal,
                          "TypeError: Expected 3 arguments when calling: add"));
    EXPECT_THAT(add.Call(four, Floats({1}), four),
                FailsWith(StatusCode::kInternal,
                          "ValueError: Invalid x.shape[0] on argument, "
                          "expected 4"));
    EXPECT_THAT(add.Call(four, 1, four),
                FailsWith(StatusCode::kInternal, HasSubstr("Mismatched type")));
  }
}

TEST(FfiModuleTest, FailureWithoutAMessageSaysSo) {
  const Ref<Module> module = LoadTestLibrary("ffi_add");
  TVMFFIErrorSetRaisedFromCStr("ValueError", "of long ago");
  EXPECT_THAT(FunctionOf(module, "fails_silently").Call(),
              FailsWith(StatusCode::kInternal,
                        "the function failed without saying why"));
}

TEST(FfiModuleTest, KernelsAreListedByTheNamesThatGraphsUse) {
  EXPECT_THAT(LoadTestLibrary("ffi_add")->FunctionNames(),
              ElementsAre("fails_silently", kAdd));
}

TEST(FfiModuleTest, WrapperOfTheEntryFunctionIsThereForWhoAsks) {
  const Ref<Module> module = LoadTestLibrary("ffi_add");
  EXPECT_THAT(Add(FunctionOf(module, "main"), {1, 2, 3, 4}),
              ElementsAre(11, 22, 33, 44));
}

TEST(FfiModuleTest, EntryFunctionCalledMainIsListed) {
  const Ref<Module> module = LoadTestLibrary("ffi_returns");
  EXPECT_THAT(module->FunctionNames(), testing::Contains("main"));
}

TEST(FfiModuleTest, MissingFunctionIsNullAndNamesTheNearestWhenBound) {
  const Ref<Module> module = LoadTestLibrary("ffi_add");
  const auto function = module->GetFunction("no_such_function");
  ASSERT_THAT(function, IsOk());
  EXPECT_FALSE(*function);
  KernelRequest request;
  request.function = "tvmgen_default_fused_ad";
  EXPECT_THAT(LibraryOf(module)->Bind(request),
              FailsWith(StatusCode::kNotFound,
                        HasSubstr("did you mean tvmgen_default_fused_add?")));
}

TEST(FfiModuleTest, ScratchMemoryIsAligned) {
  const NDArray out = Floats({0, 0, 0});
  EXPECT_THAT(FunctionOf(LoadTestLibrary("ffi_workspace"), "reverse")
                  .Call(Floats({1, 2, 3}), out),
              IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(3, 2, 1));
}

TEST(FfiModuleTest, ParallelLoopsHaveBarriers) {
  const NDArray out = Floats({0, 0, 0, 0});
  EXPECT_THAT(
      FunctionOf(LoadTestLibrary("ffi_workspace"), "add_neighbours_square")
          .Call(Floats({1, 2, 3, 4}), out),
      IsOk());
  EXPECT_THAT(ValuesOf(out), ElementsAre(5, 13, 25, 17));
}

TEST(FfiModuleTest, ErrorOfATaskIsTheErrorOfTheLoop) {
  const Ref<Module> module = LoadTestLibrary("ffi_workspace");
  EXPECT_THAT(FunctionOf(module, "fails_in_task_one").Call(),
              FailsWith(StatusCode::kInternal,
                        "task 1 of 4: RuntimeError: task one is out of luck"));
}

TEST(FfiModuleTest, ReturnedValuesAreTaken) {
  const Ref<Module> module = LoadTestLibrary("ffi_returns");
  EXPECT_EQ(IntOf(FunctionOf(module, "returns_int").Call()), 42);
  const auto small = FunctionOf(module, "returns_small_text").Call();
  ASSERT_THAT(small, IsOk());
  EXPECT_EQ(*small->Get<std::string>(), "small");
  const auto text = FunctionOf(module, "returns_text").Call();
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(*text->Get<std::string>(), "a longer text");
  EXPECT_EQ(IntOf(FunctionOf(module, "texts_alive").Call()), 0);
}

TEST(FfiModuleTest, ArgumentsOfEveryKindAreConverted) {
  const Ref<Module> module = LoadTestLibrary("ffi_returns");
  const PackedFunc type_index = FunctionOf(module, "type_index");
  int place = 0;
  EXPECT_EQ(IntOf(type_index.Call(Value())), kTVMFFINone);
  EXPECT_EQ(IntOf(type_index.Call(7)), kTVMFFIInt);
  EXPECT_EQ(IntOf(type_index.Call(0.5)), kTVMFFIFloat);
  EXPECT_EQ(IntOf(type_index.Call("text")), kTVMFFIRawStr);
  EXPECT_EQ(IntOf(type_index.Call(kFloat32)), kTVMFFIDataType);
  EXPECT_EQ(IntOf(type_index.Call(kCpu)), kTVMFFIDevice);
  EXPECT_EQ(IntOf(type_index.Call(Value::Handle(&place))), kTVMFFIOpaquePtr);
  EXPECT_EQ(IntOf(type_index.Call(Floats({1}))), kTVMFFIDLTensorPtr);
  EXPECT_EQ(IntOf(FunctionOf(module, "length_of_text").Call("four")), 4);
}

TEST(FfiModuleTest, ArgumentWithoutAFormIsNamed) {
  const Ref<Module> module = LoadTestLibrary("ffi_returns");
  EXPECT_THAT(FunctionOf(module, "type_index").Call(1, Ref<Object>(module)),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("argument 1: module cannot pass"),
                              HasSubstr("expected a number"))));
}

TEST(FfiModuleTest, BoolsAreShownAsTheCodeWantsThem) {
  const NDArray x = MakeTensor<uint8_t>({3}, {1, 0, 1}, kBool);
  const NDArray y = MakeTensor<uint8_t>({3}, {7, 7, 7}, kBool);
  EXPECT_THAT(FunctionOf(LoadTestLibrary("ffi_bool"), "not").Call(x, y),
              IsOk());
  EXPECT_THAT(ValuesOf<uint8_t>(y), ElementsAre(0, 1, 0));
}

// A tensor of TVM-FFI's whose shape is missing.
struct BadTensor {
  TVMFFIObject head{(uint64_t{1} << 32) + 1, kTVMFFITensor, 0, nullptr};
  DLTensor tensor{};
};

TEST(FfiModuleTest, MalformedTensorIsNotAResult) {
  static BadTensor bad;
  bad.tensor.ndim = 1;
  const PackedFunc function = FfiFunction::Make(
      [](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
        result->type_index = kTVMFFITensor;
        result->v_ptr = &bad;
        return 0;
      },
      nullptr, nullptr);
  EXPECT_THAT(function.Call(), FailsWith(StatusCode::kInvalidArgument,
                                         "result: the tensor's shape is null"));
}

TEST(FfiModuleTest, VariablesWithItsNamesDoNotMakeALibraryOne) {
  const Ref<Module> module = LoadTestLibrary("stray_names");
  EXPECT_THAT(Add(FunctionOf(module, kAdd), {1, 2, 3, 4}),
              ElementsAre(11, 22, 33, 44));
  const auto summary = SummariseLibrary(LibraryPath("stray_names"));
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->abi, "TVM packed C functions");
  EXPECT_THAT(summary->functions, ElementsAre(kAdd));
}

TEST(FfiModuleTest, PointerThatCannotBeFilledInIsRefusedByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"stray_constant", "__TVMFuncCall is not a variable"},
      {"stray_small", "__tvm_ffi__library_ctx is not a variable"}};
  for (const auto& [name, message] : rows) {
    EXPECT_THAT(LoadModule(LibraryPath(name)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
    const auto summary = SummariseLibrary(LibraryPath(name));
    ASSERT_THAT(summary, IsOk());
    EXPECT_THAT(summary->run_status,
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(FfiModuleTest, UnknownPointerIsRefusedByName) {
  EXPECT_THAT(LoadModule(LibraryPath("ffi_unknown_pointer")),
              FailsWith(StatusCode::kUnimplemented,
                        AllOf(HasSubstr("ffi_unknown_pointer.so: "),
                              HasSubstr("__TVMFFIFuture"))));
}

TEST(FfiModuleTest, UnknownFunctionIsRefusedByName) {
  EXPECT_THAT(LoadModule(LibraryPath("ffi_unknown_name")),
              FailsWith(StatusCode::kUnimplemented,
                        AllOf(HasSubstr("ffi_unknown_name.so: "),
                              HasSubstr("TVMFFIFuture"))));
}

TEST(FfiModuleTest, CodeForTheVirtualMachineIsRefusedWithTheReason) {
  EXPECT_THAT(LoadModule(LibraryPath("ffi_compiled_vm")),
              FailsWith(StatusCode::kUnimplemented,
                        AllOf(HasSubstr("exec_mode=\"compiled\""),
                              HasSubstr("exec_mode=\"bytecode\""))));
}

}  // namespace
}  // namespace nodewise
