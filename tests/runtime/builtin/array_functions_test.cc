// The named functions of arrays and devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/call_function.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DLDataType kFloat{kDLFloat, 32, 1};

Ref<Object> Shape(const std::vector<int64_t>& dims) {
  return MakeRef<ShapeObject>(dims);
}

TEST(ArrayFunctionsTest, ArrayIsAllocatedForAShapeOfEitherForm) {
  int64_t dims[] = {2, 3};
  for (const auto& made :
       {Call("runtime.TVMArrayAllocWithScope", Shape({2, 3}), "float32", kCpu,
             Value()),
        Call("runtime.TVMArrayAllocWithScope", Shape({2, 3}), kFloat, kCpu,
             "global"),
        Call("runtime.TVMArrayAllocWithScope", Value::Handle(dims), 2,
             "float32", kCpu, Value())}) {
    ASSERT_THAT(made, IsOk());
    const NDArray& array = *made->Get<NDArray>();
    EXPECT_THAT(array.shape(), ElementsAre(2, 3));
    EXPECT_TRUE(array.dtype() == kFloat);
  }
}

TEST(ArrayFunctionsTest, WhatCannotBeAllocatedIsNamed) {
  EXPECT_THAT(Call("runtime.TVMArrayAllocWithScope", Shape({2}), "float33",
                   kCpu, Value()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("float33")));
  EXPECT_THAT(Call("runtime.TVMArrayAllocWithScope", Shape({-2}), "float32",
                   kCpu, Value()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("-2")));
  EXPECT_THAT(Call("runtime.TVMArrayAllocWithScope", Shape({2}), "float32",
                   kCpu, "texture"),
              FailsWith(StatusCode::kUnimplemented,
                        "cpu(0): memory scope texture is not supported"));
  EXPECT_THAT(Call("runtime.TVMArrayAllocWithScope", Value::Handle(nullptr), 2,
                   "float32", kCpu, Value()),
              FailsWith(StatusCode::kInvalidArgument,
                        "TVMArrayAllocWithScope: shape is null"));
}

// TVM 0.13 to 0.20 had codes of their own for 8-bit floats.
TEST(ArrayFunctionsTest, EightBitFloatsHaveTheCodesOfTheirTvm) {
  for (const auto& [name, code] :
       {std::pair{"e4m3_float8", 6}, std::pair{"e5m2_float8", 7}}) {
    const auto made =
        Call("runtime.TVMArrayAllocWithScope", Shape({2}), name, kCpu, Value());
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(made->Get<NDArray>()->dtype().code, code);
    const auto view =
        Call("runtime.TVMArrayCreateView", *made, Shape({2}), name, 0);
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->Get<NDArray>()->dtype().code, code);
  }
}

TEST(ArrayFunctionsTest, ViewSharesTheMemory) {
  const NDArray array = Floats({1, 2, 3, 4, 5, 6});
  const auto view = Call("runtime.TVMArrayCreateView", array, Shape({3, 2}));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->Get<NDArray>()->data(), array.data());
  EXPECT_THAT(view->Get<NDArray>()->shape(), ElementsAre(3, 2));
}

TEST(ArrayFunctionsTest, ViewMayBeginLaterAndHaveAnotherType) {
  const NDArray array = Floats({1, 2, 3, 4});
  const auto view =
      Call("runtime.TVMArrayCreateView", array, Shape({2}), "float32", 8);
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(ValuesOf(*view->Get<NDArray>()), ElementsAre(3, 4));
  const auto bytes =
      Call("runtime.TVMArrayCreateView", array, Shape({16}), "uint8", 0);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ((*bytes->Get<NDArray>())->dtype.bits, 8);
}

TEST(ArrayFunctionsTest, ViewStaysInsideTheArray) {
  const NDArray array = Floats({1, 2, 3, 4});
  EXPECT_THAT(Call("runtime.TVMArrayCreateView", array, Shape({5})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("20 bytes")));
  EXPECT_THAT(
      Call("runtime.TVMArrayCreateView", array, Shape({1}), "float32", 16),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("from byte 16 on")));
  EXPECT_THAT(
      Call("runtime.TVMArrayCreateView", array, Shape({1}), "float32", -4),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("from byte -4 on")));
}

TEST(ArrayFunctionsTest, ArrayWithStridesHasNoView) {
  DLTensor tensor = *Floats({1, 2, 3, 4});
  int64_t shape[] = {2}, strides[] = {2};
  tensor.shape = shape;
  tensor.strides = strides;
  EXPECT_THAT(Call("runtime.TVMArrayCreateView",
                   NDArray::Borrow(tensor, nullptr), Shape({2})),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("strides")));
}

TEST(ArrayFunctionsTest, OnlyTheCpuIsThere) {
  constexpr int kExist = 0, kWarpSize = 2;
  EXPECT_EQ(*Call("runtime.GetDeviceAttr", 1, 0, kExist)->Get<int64_t>(), 1);
  EXPECT_EQ(*Call("runtime.GetDeviceAttr", 2, 0, kExist)->Get<int64_t>(), 0);
  EXPECT_TRUE(Call("runtime.GetDeviceAttr", 1, 0, kWarpSize)->IsNull());
  EXPECT_THAT(Call("runtime.GetDeviceAttr", 2, 0, kWarpSize),
              FailsWith(StatusCode::kUnavailable, HasSubstr("cuda(0)")));
}

TEST(ArrayFunctionsTest, CpuHasOneStream) {
  int stream = 0;
  EXPECT_THAT(Call("runtime.TVMSetStream", 1, 0, Value()), IsOk());
  EXPECT_THAT(Call("runtime.TVMSetStream", 1, 0, Value::Handle(&stream)),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("cpu(0)")));
}

}  // namespace
}  // namespace nodewise
