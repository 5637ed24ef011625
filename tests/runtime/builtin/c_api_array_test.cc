// TVM's C API as a host program uses it: arrays, devices and objects.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "nodewise/func/c_api.h"
#include "tests/support/c_calls.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TVMArrayHandle AllocFloats(int64_t count) {
  TVMArrayHandle array = nullptr;
  EXPECT_EQ(TVMArrayAlloc(&count, 1, kDLFloat, 32, 1, kDLCPU, 0, &array), 0)
      << TVMGetLastError();
  return array;
}

TEST(CApiArrayTest, ArrayHasTheShapeAndTypeAskedFor) {
  const int64_t shape[] = {2, 3};
  TVMArrayHandle array = nullptr;
  ASSERT_EQ(TVMArrayAlloc(shape, 2, kDLInt, 16, 1, kDLCPU, 0, &array), 0);
  EXPECT_EQ(array->ndim, 2);
  EXPECT_EQ(array->shape[1], 3);
  EXPECT_EQ(ToString(array->dtype), "int16");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array->data) % 64, 0u);
  EXPECT_EQ(TVMArrayFree(array), 0);
}

TEST(CApiArrayTest, ScalarHasNoShape) {
  TVMArrayHandle array = nullptr;
  ASSERT_EQ(TVMArrayAlloc(nullptr, 0, kDLFloat, 64, 1, kDLCPU, 0, &array), 0);
  double value = 2.5;
  EXPECT_EQ(TVMArrayCopyFromBytes(array, &value, sizeof(value)), 0);
  value = 0;
  EXPECT_EQ(TVMArrayCopyToBytes(array, &value, sizeof(value)), 0);
  EXPECT_EQ(value, 2.5);
  TVMArrayFree(array);
}

TEST(CApiArrayTest, WhatCannotBeAllocatedIsRefused) {
  const int64_t four = 4;
  const int64_t negative = -4;
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  TVMArrayHandle array = nullptr;
  EXPECT_EQ(TVMArrayAlloc(&four, -1, 2, 32, 1, 1, 0, &array), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("ndim is -1"));
  EXPECT_EQ(TVMArrayAlloc(&four, 1, 2, 300, 1, 1, 0, &array), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("out of range"));
  EXPECT_EQ(TVMArrayAlloc(&four, 1, 2, 33, 1, 1, 0, &array), -1);
  EXPECT_EQ(TVMArrayAlloc(&four, 1, 2, 32, 0, 1, 0, &array), -1);
  EXPECT_EQ(TVMArrayAlloc(&negative, 1, 2, 32, 1, 1, 0, &array), -1);
  EXPECT_EQ(TVMArrayAlloc(huge, 2, 2, 32, 1, 1, 0, &array), -1);
  EXPECT_EQ(TVMArrayAlloc(&four, 1, 2, 32, 1, kDLCUDA, 0, &array), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("cuda(0): this build has no such"));
}

TEST(CApiArrayTest, BytesMustFillTheArrayExactly) {
  TVMArrayHandle const array = AllocFloats(2);
  float values[3] = {1, 2, 3};
  EXPECT_EQ(TVMArrayCopyFromBytes(array, values, 8), 0);
  EXPECT_THAT(ValuesOf(*array), ElementsAre(1, 2));
  EXPECT_EQ(TVMArrayCopyFromBytes(array, values, 12), -1);
  EXPECT_EQ(TVMArrayCopyToBytes(array, values, 4), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("4"));
  TVMArrayFree(array);
}

TEST(CApiArrayTest, CopyLooksAtSizesOnly) {
  TVMArrayHandle const from = AllocFloats(2);
  float values[2] = {1, 2};
  TVMArrayCopyFromBytes(from, values, 8);
  const int64_t shape[] = {2, 1};
  TVMArrayHandle to = nullptr;
  ASSERT_EQ(TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &to), 0);
  EXPECT_EQ(TVMArrayCopyFromTo(from, to, nullptr), 0);
  EXPECT_THAT(ValuesOf(*to), ElementsAre(1, 2));
  TVMArrayHandle const three = AllocFloats(3);
  EXPECT_EQ(TVMArrayCopyFromTo(from, three, nullptr), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: copy: got 8 bytes, expected 12");
  EXPECT_EQ(TVMArrayCopyFromTo(from, nullptr, nullptr), -1);
  for (TVMArrayHandle array : {from, to, three}) TVMArrayFree(array);
}

TEST(CApiArrayTest, ArrayOutlivesItsHandleInDlpack) {
  TVMArrayHandle const array = AllocFloats(2);
  float values[2] = {1, 2};
  TVMArrayCopyFromBytes(array, values, 8);
  DLManagedTensor* managed = nullptr;
  ASSERT_EQ(TVMArrayToDLPack(array, &managed), 0);
  TVMArrayFree(array);
  EXPECT_THAT(ValuesOf(managed->dl_tensor), ElementsAre(1, 2));
  TVMDLManagedTensorCallDeleter(managed);
}

// A foreign tensor that counts how often its deleter was called.
struct ForeignTensor {
  ForeignTensor() {
    managed.dl_tensor.data = values;
    managed.dl_tensor.device = kCpu;
    managed.dl_tensor.ndim = 1;
    managed.dl_tensor.dtype = kFloat32;
    managed.dl_tensor.shape = &count;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<ForeignTensor*>(self->manager_ctx)->deleted;
    };
  }
  float values[2] = {3, 4};
  int64_t count = 2;
  int deleted = 0;
  DLManagedTensor managed{};
};

TEST(CApiArrayTest, TensorFromDlpackIsGivenBackOnce) {
  ForeignTensor foreign;
  TVMArrayHandle array = nullptr;
  ASSERT_EQ(TVMArrayFromDLPack(&foreign.managed, &array), 0);
  EXPECT_EQ(array->data, foreign.values);
  EXPECT_THAT(ValuesOf(*array), ElementsAre(3, 4));
  EXPECT_EQ(foreign.deleted, 0);
  TVMArrayFree(array);
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(CApiArrayTest, RefusedDlpackTensorStaysItsOwners) {
  ForeignTensor foreign;
  foreign.managed.dl_tensor.ndim = -1;
  TVMArrayHandle array = nullptr;
  EXPECT_EQ(TVMArrayFromDLPack(&foreign.managed, &array), -1);
  EXPECT_EQ(foreign.deleted, 0);
  EXPECT_EQ(TVMArrayFromDLPack(nullptr, &array), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("DLPack"));
}

TEST(CApiArrayTest, ManagedTensorMayHaveNoDeleter) {
  ForeignTensor foreign;
  foreign.managed.deleter = nullptr;
  TVMDLManagedTensorCallDeleter(&foreign.managed);
  EXPECT_EQ(foreign.deleted, 0);
}

TEST(CApiDeviceTest, MemoryIsAllocatedCopiedAndFreed) {
  void* data = nullptr;
  ASSERT_EQ(TVMDeviceAllocDataSpace(kCpu, 8, 256, kFloat32, &data), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
  const NDArray from = Floats({5, 6});
  DLTensor to = *from;
  to.data = data;
  EXPECT_EQ(TVMDeviceCopyDataFromTo(from.tensor(), &to, nullptr), 0);
  EXPECT_THAT(ValuesOf(to), ElementsAre(5, 6));
  EXPECT_EQ(TVMDeviceFreeDataSpace(kCpu, data), 0);
}

TEST(CApiDeviceTest, OnlyGlobalMemoryIsThere) {
  const int64_t shape[] = {2, 2};
  for (const char* scope : {static_cast<const char*>(nullptr), "", "global"}) {
    void* data = nullptr;
    ASSERT_EQ(TVMDeviceAllocDataSpaceWithScope(kCpu, 2, shape, kFloat32, scope,
                                               &data),
              0);
    std::memset(data, 1, 16);
    EXPECT_EQ(TVMDeviceFreeDataSpace(kCpu, data), 0);
  }
  void* data = nullptr;
  EXPECT_EQ(TVMDeviceAllocDataSpaceWithScope(kCpu, 2, shape, kFloat32,
                                             "global.texture", &data),
            -1);
  EXPECT_STREQ(
      TVMGetLastError(),
      "InternalError: cpu(0): memory scope global.texture is not supported");
}

TEST(CApiDeviceTest, WhatCannotBeAllocatedIsRefused) {
  void* data = nullptr;
  EXPECT_EQ(TVMDeviceAllocDataSpace(kCpu, 8, 192, kFloat32, &data), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("expected a power of two"));
  EXPECT_EQ(TVMDeviceAllocDataSpace({kDLOpenCL, 0}, 8, 64, kFloat32, &data),
            -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("opencl(0)"));
  EXPECT_EQ(TVMDeviceFreeDataSpace({kDLOpenCL, 0}, nullptr), -1);
}

TEST(CApiDeviceTest, CpuHasOneStreamWhichIsNull) {
  int other = 0;
  TVMStreamHandle stream = &other;
  EXPECT_EQ(TVMStreamCreate(kDLCPU, 0, &stream), 0);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(TVMSetStream(kDLCPU, 0, stream), 0);
  EXPECT_EQ(TVMSynchronize(kDLCPU, 0, stream), 0);
  EXPECT_EQ(TVMStreamStreamSynchronize(kDLCPU, 0, stream, stream), 0);
  EXPECT_EQ(TVMStreamFree(kDLCPU, 0, stream), 0);
  EXPECT_EQ(TVMSetStream(kDLCPU, 0, &other), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("cpu(0) has no streams"));
  EXPECT_EQ(TVMSynchronize(kDLCUDA, 0, nullptr), -1);
}

TEST(CApiObjectTest, TypesHaveNamesAndNumbers) {
  for (const char* key :
       {"runtime.Object", "runtime.Module", "runtime.NDArray", "runtime.String",
        "Array", "Map", "runtime.ShapeTuple", "runtime.PackedFunc"}) {
    unsigned index = 99;
    ASSERT_EQ(TVMObjectTypeKey2Index(key, &index), 0) << key;
    char* name = nullptr;
    ASSERT_EQ(TVMObjectTypeIndex2Key(index, &name), 0) << key;
    EXPECT_STREQ(name, key);
    std::free(name);
  }
}

TEST(CApiObjectTest, UnknownTypesAreRefused) {
  unsigned index = 0;
  EXPECT_EQ(TVMObjectTypeKey2Index("relax.Expr", &index), -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: object type relax.Expr is not known here");
  char* name = nullptr;
  EXPECT_EQ(TVMObjectTypeIndex2Key(12345, &name), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("12345"));
  EXPECT_EQ(TVMObjectGetTypeIndex(nullptr, &index), -1);
}

TEST(CApiObjectTest, ObjectsKnowTheirTypes) {
  const CValue array = CallGlobal("runtime.Array", {});
  unsigned of_object = 0;
  unsigned of_key = 1;
  EXPECT_EQ(TVMObjectGetTypeIndex(array.value.v_handle, &of_object), 0);
  EXPECT_EQ(TVMObjectTypeKey2Index("Array", &of_key), 0);
  EXPECT_EQ(of_object, of_key);
  TVMObjectFree(array.value.v_handle);
  TVMArrayHandle const tensor = AllocFloats(1);
  EXPECT_EQ(TVMArrayGetTypeIndex(tensor, &of_object), 0);
  EXPECT_EQ(TVMObjectTypeKey2Index("runtime.NDArray", &of_key), 0);
  EXPECT_EQ(of_object, of_key);
  TVMArrayFree(tensor);
}

TEST(CApiObjectTest, RetainedObjectNeedsAsManyFrees) {
  const CValue text = CallGlobal("runtime.String", {CText("kept")});
  EXPECT_EQ(TVMObjectRetain(text.value.v_handle), 0);
  EXPECT_EQ(TVMObjectFree(text.value.v_handle), 0);
  EXPECT_STREQ(CallGlobal("runtime.GetFFIString", {text}).value.v_str, "kept");
  EXPECT_EQ(TVMObjectFree(text.value.v_handle), 0);
}

TEST(CApiObjectTest, FreeingNothingIsAllowed) {
  EXPECT_EQ(TVMObjectFree(nullptr), 0);
  EXPECT_EQ(TVMObjectRetain(nullptr), 0);
  EXPECT_EQ(TVMModFree(nullptr), 0);
  EXPECT_EQ(TVMFuncFree(nullptr), 0);
  EXPECT_EQ(TVMArrayFree(nullptr), 0);
}

TEST(CApiObjectTest, TypesDeriveFromThemselvesAndFromObject) {
  int is_derived = -1;
  EXPECT_EQ(TVMObjectDerivedFrom(4, 4, &is_derived), 0);
  EXPECT_EQ(is_derived, 1);
  EXPECT_EQ(TVMObjectDerivedFrom(4, 0, &is_derived), 0);
  EXPECT_EQ(is_derived, 1);
  EXPECT_EQ(TVMObjectDerivedFrom(4, 5, &is_derived), 0);
  EXPECT_EQ(is_derived, 0);
}

TEST(CApiObjectTest, WhatIsNotSupportedSaysSo) {
  EXPECT_EQ(TVMByteArrayFree(nullptr), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("TVMByteArrayFree"));
  EXPECT_EQ(TVMExtTypeFree(nullptr, 17), -1);
  EXPECT_THAT(TVMGetLastError(), HasSubstr("extension type 17"));
}

TEST(CApiContainerTest, MapsKeepTheirOrder) {
  const CValue map = CallGlobal(
      "runtime.Map", {CText("b"), CInt(1), CText("a"), CText("two")});
  EXPECT_EQ(CallGlobal("runtime.MapSize", {map}).value.v_int64, 2);
  EXPECT_EQ(CallGlobal("runtime.MapCount", {map, CText("a")}).value.v_int64, 1);
  EXPECT_EQ(CallGlobal("runtime.MapCount", {map, CText("c")}).value.v_int64, 0);
  const CValue items = CallGlobal("runtime.MapItems", {map});
  EXPECT_EQ(CallGlobal("runtime.ArraySize", {items}).value.v_int64, 4);
  const CValue key = CallGlobal("runtime.ArrayGetItem", {items, CInt(0)});
  EXPECT_STREQ(CallGlobal("runtime.GetFFIString", {key}).value.v_str, "b");
  const CValue last = CallGlobal("runtime.ArrayGetItem", {items, CInt(3)});
  EXPECT_STREQ(last.value.v_str, "two");
  for (const CValue& held : {map, items, key}) {
    TVMObjectFree(held.value.v_handle);
  }
}

TEST(CApiContainerTest, IndexOutOfRangeIsAnError) {
  const CValue array = CallGlobal("runtime.Array", {CInt(1)});
  TVMFunctionHandle get_item = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.ArrayGetItem", &get_item), 0);
  for (const int64_t index : {-1, 1}) {
    int rc = 0;
    CallC(get_item, {array, CInt(index)}, &rc);
    EXPECT_EQ(rc, -1);
    EXPECT_THAT(TVMGetLastError(), HasSubstr("out of range, there are 1"));
  }
  TVMFuncFree(get_item);
  TVMObjectFree(array.value.v_handle);
}

}  // namespace
}  // namespace nodewise
