#include "nodewise/func/prepared_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PreparedCallTest, CallsFunctionsOfEitherConvention) {
  for (const char* name : {"add_llvm", "ffi_add", "ffi_add_21"}) {
    CallMemory memory;
    const NDArray sum = Floats({0, 0, 0, 0});
    const NDArray first = Floats({1, 2, 3, 4});
    DLTensor x = *first;
    const NDArray y = Floats({10, 20, 30, 40});
    const PreparedCall call = memory.Prepare(
        FunctionOf(LoadTestLibrary(name), kAdd), {&x, &*y, &*sum});
    EXPECT_EQ(call.Run(), 0) << name;
    EXPECT_THAT(ValuesOf(sum), ElementsAre(11, 22, 33, 44));
    x.data = y.data();  // What a tensor holds may move.
    EXPECT_EQ(call.Run(), 0) << name;
    EXPECT_THAT(ValuesOf(sum), ElementsAre(20, 40, 60, 80));
  }
}

TEST(PreparedCallTest, NumbersStandWhereTheyAreWanted) {
  std::vector<int> codes;
  std::vector<int64_t> numbers;
  const PackedFunc look =
      PackedFunc::FromBody([&](PackedArgs args) -> absl::StatusOr<Value> {
        for (int i = 0; i < args.size(); ++i) {
          codes.push_back(args.codes()[i]);
          if (codes.back() == kTVMArgInt) {
            numbers.push_back(args.values()[i].v_int64);
          }
        }
        return Value();
      });
  CallMemory memory;
  const NDArray x = Floats({1});
  const CallNumber wanted[] = {{0, -1}, {2, 256}, {4, 7}};
  ASSERT_EQ(memory.Prepare(look, {&*x, &*x}, wanted).Run(), 0);
  EXPECT_THAT(codes, ElementsAre(kTVMArgInt, kTVMDLTensorHandle, kTVMArgInt,
                                 kTVMDLTensorHandle, kTVMArgInt));
  EXPECT_THAT(numbers, ElementsAre(-1, 256, 7));
}

// Writes its number to its tensor.
int FillWithNumber(void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  if (count != 2 || args[0].type_index != kTVMFFIInt) return -1;
  auto* const tensor = static_cast<DLTensor*>(args[1].v_ptr);
  *static_cast<float*>(tensor->data) = static_cast<float>(args[0].v_int64);
  return 0;
}

TEST(PreparedCallTest, NumbersAreThoseOfTvmFfiThere) {
  CallMemory memory;
  const NDArray x = Floats({1});
  const CallNumber number[] = {{0, 42}};
  const PackedFunc fill = FfiFunction::Make(&FillWithNumber, nullptr, {});
  ASSERT_EQ(memory.Prepare(fill, {&*x}, number).Run(), 0);
  EXPECT_THAT(ValuesOf(x), ElementsAre(42));
}

TEST(PreparedCallTest, ErrorIsThatOfTheFunction) {
  const NDArray x = Floats({1, 2, 3, 4});
  for (const char* name : {"add_llvm", "ffi_add"}) {
    CallMemory memory;
    const PreparedCall call =
        memory.Prepare(FunctionOf(LoadTestLibrary(name), kAdd), {&*x});
    ASSERT_NE(call.Run(), 0);
    EXPECT_THAT(call.Error(), FailsWith(StatusCode::kInternal, HasSubstr("3")))
        << name;
  }
}

TEST(PreparedCallTest, BoolsFollowTheirTensors) {
  CallMemory memory;
  const NDArray first = MakeTensor<uint8_t>({2}, {1, 0}, kBool);
  const NDArray second = MakeTensor<uint8_t>({2}, {0, 0}, kBool);
  const NDArray y = MakeTensor<uint8_t>({2}, {7, 7}, kBool);
  DLTensor x = *first;
  const PreparedCall call =
      memory.Prepare(FunctionOf(LoadTestLibrary("ffi_bool"), "not"), {&x, &*y});
  ASSERT_EQ(call.Run(), 0);
  EXPECT_THAT(ValuesOf<uint8_t>(y), ElementsAre(0, 1));
  x.data = second.data();
  ASSERT_EQ(call.Run(), 0);
  EXPECT_THAT(ValuesOf<uint8_t>(y), ElementsAre(1, 1));
  EXPECT_TRUE(x.dtype == kBool);
}

TEST(PreparedCallTest, ClassicFunctionsAreShownClassicNumbers) {
  std::vector<DLDataType> seen;
  const PackedFunc look =
      PackedFunc::FromBody([&](PackedArgs args) -> absl::StatusOr<Value> {
        for (int i = 0; i < args.size(); ++i) {
          seen.push_back((*args.At(i)->AsTensor())->dtype);
        }
        return Value();
      });
  CallMemory memory;
  const NDArray x = MakeTensor<uint8_t>({1}, {0}, kFfiBool);
  const NDArray y = Floats({1});
  const NDArray z = MakeTensor<uint8_t>({1}, {0}, {kDTypeE4M3, 8, 1});
  ASSERT_EQ(memory.Prepare(look, {&*x, &*y, &*z}).Run(), 0);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_TRUE(seen[0] == kBool);
  EXPECT_TRUE(seen[1] == kFloat32);
  EXPECT_TRUE(seen[2] == (DLDataType{6, 8, 1}));
}

TEST(PreparedCallTest, ObjectsThatAFunctionReturnsAreFreed) {
  CallMemory memory;
  const Ref<Module> module = LoadTestLibrary("ffi_returns");
  const PreparedCall call =
      memory.Prepare(FunctionOf(module, "returns_text"), {});
  ASSERT_EQ(call.Run(), 0);
  EXPECT_EQ(IntOf(FunctionOf(module, "texts_alive").Call()), 0);
}

TEST(PreparedCallTest, CallsStayWhereTheyAre) {
  CallMemory memory;
  const PackedFunc add = FunctionOf(LoadTestLibrary("ffi_add"), kAdd);
  const NDArray x = Floats({1, 2, 3, 4});
  const NDArray sum = Floats({0, 0, 0, 0});
  const PreparedCall first = memory.Prepare(add, {&*x, &*x, &*sum});
  const std::vector<const DLTensor*> many(100'000, &*x);
  const PreparedCall last = memory.Prepare(add, many);
  EXPECT_EQ(first.Run(), 0);
  EXPECT_THAT(ValuesOf(sum), ElementsAre(2, 4, 6, 8));
  EXPECT_NE(last.Run(), 0);
  EXPECT_THAT(last.Error(), FailsWith(StatusCode::kInternal,
                                      HasSubstr("Expected 3 arguments")));
}

int ThrowClassic(TVMValue*, int*, int, TVMValue*, int*, void*) {
  throw std::runtime_error("the code threw this");
}
int ThrowFfi(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  throw std::runtime_error("the code threw this");
}

TEST(PreparedCallTest, WhatTheFunctionThrowsIsItsError) {
  for (const PackedFunc& function :
       {PackedFunc::FromAddress(&ThrowClassic, nullptr, {}),
        FfiFunction::Make(&ThrowFfi, nullptr, {})}) {
    CallMemory memory;
    const NDArray x = Floats({1});
    const PreparedCall call = memory.Prepare(function, {&*x});
    ASSERT_NE(call.Run(), 0);
    EXPECT_THAT(call.Error(),
                FailsWith(StatusCode::kInternal,
                          "the function threw: the code threw this"));
  }
}

}  // namespace
}  // namespace nodewise
