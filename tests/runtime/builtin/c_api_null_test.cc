// TVM's C API given null where it needs something: an error that names the
// function and the argument.

#include <gtest/gtest.h>

#include <functional>

#include "absl/types/span.h"
#include "nodewise/func/c_api.h"
#include "nodewise/func/ffi_function.h"
#include "tests/support/c_calls.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

// Something that is not null, of which nothing is read.
struct NotNull {
  int64_t memory[16] = {};
  void* any() { return memory; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(memory);
  }
};

int NoCallback(TVMValue*, int*, int, TVMRetValueHandle, void*) { return 0; }

struct NullCase {
  const char* message;
  std::function<int(NotNull&)> call;
};

const NullCase kModuleCases[] = {
    {"TVMModLoadFromFile: file_name is null",
     [](NotNull& p) {
       return TVMModLoadFromFile(nullptr, "so", p.as<TVMModuleHandle>());
     }},
    {"TVMModLoadFromFile: out is null",
     [](NotNull&) { return TVMModLoadFromFile("a.so", "so", nullptr); }},
    {"TVMModImport: module is null",
     [](NotNull& p) { return TVMModImport(nullptr, p.any()); }},
    {"TVMModImport: dependency is null",
     [](NotNull& p) { return TVMModImport(p.any(), nullptr); }},
    {"TVMModGetFunction: module is null",
     [](NotNull& p) {
       return TVMModGetFunction(nullptr, "f", 0, p.as<TVMFunctionHandle>());
     }},
    {"TVMModGetFunction: name is null",
     [](NotNull& p) {
       return TVMModGetFunction(p.any(), nullptr, 0, p.as<TVMFunctionHandle>());
     }},
    {"TVMModGetFunction: out is null",
     [](NotNull& p) { return TVMModGetFunction(p.any(), "f", 0, nullptr); }},
};

const NullCase kFunctionCases[] = {
    {"TVMFuncCall: function is null",
     [](NotNull&) {
       return TVMFuncCall(nullptr, nullptr, nullptr, 0, nullptr, nullptr);
     }},
    {"TVMFuncCall: args is null",
     [](NotNull& p) {
       return TVMFuncCall(p.any(), nullptr, p.as<int>(), 1, nullptr, nullptr);
     }},
    {"TVMFuncCall: type_codes is null",
     [](NotNull& p) {
       return TVMFuncCall(p.any(), p.as<TVMValue>(), nullptr, 1, nullptr,
                          nullptr);
     }},
    {"TVMCFuncSetReturn: ret is null",
     [](NotNull& p) {
       return TVMCFuncSetReturn(nullptr, p.as<TVMValue>(), p.as<int>(), 1);
     }},
    {"TVMCFuncSetReturn: value is null",
     [](NotNull& p) {
       return TVMCFuncSetReturn(p.any(), nullptr, p.as<int>(), 1);
     }},
    {"TVMCFuncSetReturn: type_code is null",
     [](NotNull& p) {
       return TVMCFuncSetReturn(p.any(), p.as<TVMValue>(), nullptr, 1);
     }},
    {"TVMCbArgToReturn: value is null",
     [](NotNull& p) { return TVMCbArgToReturn(nullptr, p.as<int>()); }},
    {"TVMCbArgToReturn: code is null",
     [](NotNull& p) { return TVMCbArgToReturn(p.as<TVMValue>(), nullptr); }},
    {"TVMFuncCreateFromCFunc: function is null",
     [](NotNull& p) {
       return TVMFuncCreateFromCFunc(nullptr, nullptr, nullptr,
                                     p.as<TVMFunctionHandle>());
     }},
    {"TVMFuncCreateFromCFunc: out is null",
     [](NotNull&) {
       return TVMFuncCreateFromCFunc(&NoCallback, nullptr, nullptr, nullptr);
     }},
    {"TVMFuncRegisterGlobal: name is null",
     [](NotNull& p) { return TVMFuncRegisterGlobal(nullptr, p.any(), 0); }},
    {"TVMFuncRegisterGlobal: function is null",
     [](NotNull&) { return TVMFuncRegisterGlobal("test.f", nullptr, 0); }},
    {"TVMFuncGetGlobal: name is null",
     [](NotNull& p) {
       return TVMFuncGetGlobal(nullptr, p.as<TVMFunctionHandle>());
     }},
    {"TVMFuncGetGlobal: out is null",
     [](NotNull&) { return TVMFuncGetGlobal("test.f", nullptr); }},
    {"TVMFuncListGlobalNames: out_size is null",
     [](NotNull& p) {
       return TVMFuncListGlobalNames(nullptr, p.as<const char**>());
     }},
    {"TVMFuncListGlobalNames: out_array is null",
     [](NotNull& p) { return TVMFuncListGlobalNames(p.as<int>(), nullptr); }},
    {"TVMFuncRemoveGlobal: name is null",
     [](NotNull&) { return TVMFuncRemoveGlobal(nullptr); }},
};

// An array that is one.
DLTensor* Scalar() {
  static const NDArray scalar = Floats({1});
  return scalar.tensor();
}

const NullCase kArrayCases[] = {
    {"TVMArrayAlloc: shape is null",
     [](NotNull& p) {
       return TVMArrayAlloc(nullptr, 1, kDLFloat, 32, 1, kDLCPU, 0,
                            p.as<TVMArrayHandle>());
     }},
    {"TVMArrayAlloc: out is null",
     [](NotNull& p) {
       return TVMArrayAlloc(p.memory, 1, kDLFloat, 32, 1, kDLCPU, 0, nullptr);
     }},
    {"TVMArrayCopyFromBytes: handle is null",
     [](NotNull& p) { return TVMArrayCopyFromBytes(nullptr, p.any(), 4); }},
    {"TVMArrayCopyFromBytes: data is null",
     [](NotNull&) { return TVMArrayCopyFromBytes(Scalar(), nullptr, 4); }},
    {"TVMArrayCopyToBytes: handle is null",
     [](NotNull& p) { return TVMArrayCopyToBytes(nullptr, p.any(), 4); }},
    {"TVMArrayCopyToBytes: data is null",
     [](NotNull&) { return TVMArrayCopyToBytes(Scalar(), nullptr, 4); }},
    {"TVMArrayCopyFromTo: from is null",
     [](NotNull&) { return TVMArrayCopyFromTo(nullptr, Scalar(), nullptr); }},
    {"TVMArrayCopyFromTo: to is null",
     [](NotNull&) { return TVMArrayCopyFromTo(Scalar(), nullptr, nullptr); }},
    {"TVMArrayFromDLPack: from is null",
     [](NotNull& p) {
       return TVMArrayFromDLPack(nullptr, p.as<TVMArrayHandle>());
     }},
    {"TVMArrayFromDLPack: out is null",
     [](NotNull& p) {
       return TVMArrayFromDLPack(p.as<DLManagedTensor>(), nullptr);
     }},
    {"TVMArrayToDLPack: from is null",
     [](NotNull& p) {
       return TVMArrayToDLPack(nullptr, p.as<DLManagedTensor*>());
     }},
    {"TVMArrayToDLPack: out is null",
     [](NotNull&) { return TVMArrayToDLPack(Scalar(), nullptr); }},
    {"TVMArrayGetTypeIndex: handle is null",
     [](NotNull& p) {
       return TVMArrayGetTypeIndex(nullptr, p.as<unsigned>());
     }},
    {"TVMArrayGetTypeIndex: out_index is null",
     [](NotNull&) { return TVMArrayGetTypeIndex(Scalar(), nullptr); }},
};

const NullCase kDeviceCases[] = {
    {"TVMDeviceAllocDataSpace: out is null",
     [](NotNull&) {
       return TVMDeviceAllocDataSpace(kCpu, 8, 64, kFloat32, nullptr);
     }},
    {"TVMDeviceAllocDataSpaceWithScope: shape is null",
     [](NotNull& p) {
       return TVMDeviceAllocDataSpaceWithScope(kCpu, 1, nullptr, kFloat32, "",
                                               p.as<void*>());
     }},
    {"TVMDeviceAllocDataSpaceWithScope: out is null",
     [](NotNull& p) {
       return TVMDeviceAllocDataSpaceWithScope(kCpu, 1, p.memory, kFloat32, "",
                                               nullptr);
     }},
    {"TVMDeviceCopyDataFromTo: from is null",
     [](NotNull&) {
       return TVMDeviceCopyDataFromTo(nullptr, Scalar(), nullptr);
     }},
    {"TVMDeviceCopyDataFromTo: to is null",
     [](NotNull&) {
       return TVMDeviceCopyDataFromTo(Scalar(), nullptr, nullptr);
     }},
    {"TVMStreamCreate: out is null",
     [](NotNull&) { return TVMStreamCreate(kDLCPU, 0, nullptr); }},
};

const NullCase kObjectCases[] = {
    {"TVMObjectGetTypeIndex: object is null",
     [](NotNull& p) {
       return TVMObjectGetTypeIndex(nullptr, p.as<unsigned>());
     }},
    {"TVMObjectGetTypeIndex: out_index is null",
     [](NotNull& p) { return TVMObjectGetTypeIndex(p.any(), nullptr); }},
    {"TVMObjectTypeKey2Index: type_key is null",
     [](NotNull& p) {
       return TVMObjectTypeKey2Index(nullptr, p.as<unsigned>());
     }},
    {"TVMObjectTypeKey2Index: out_index is null",
     [](NotNull&) { return TVMObjectTypeKey2Index("Array", nullptr); }},
    {"TVMObjectTypeIndex2Key: out_type_key is null",
     [](NotNull&) { return TVMObjectTypeIndex2Key(0, nullptr); }},
    {"TVMObjectDerivedFrom: is_derived is null",
     [](NotNull&) { return TVMObjectDerivedFrom(1, 0, nullptr); }},
};

const NullCase kBackendCases[] = {
    {"TVMBackendGetFuncFromEnv: name is null",
     [](NotNull& p) {
       return TVMBackendGetFuncFromEnv(p.any(), nullptr,
                                       p.as<TVMFunctionHandle>());
     }},
    {"TVMBackendGetFuncFromEnv: out is null",
     [](NotNull& p) {
       return TVMBackendGetFuncFromEnv(p.any(), "f", nullptr);
     }},
    {"TVMBackendRegisterSystemLibSymbol: name is null",
     [](NotNull& p) {
       return TVMBackendRegisterSystemLibSymbol(nullptr, p.any());
     }},
    {"TVMBackendRegisterSystemLibSymbol: address is null",
     [](NotNull&) { return TVMBackendRegisterSystemLibSymbol("f", nullptr); }},
    {"TVMBackendRegisterEnvCAPI: name is null",
     [](NotNull& p) { return TVMBackendRegisterEnvCAPI(nullptr, p.any()); }},
    {"TVMBackendRegisterEnvCAPI: address is null",
     [](NotNull&) { return TVMBackendRegisterEnvCAPI("F", nullptr); }},
    {"TVMBackendParallelLaunch: lambda is null",
     [](NotNull&) { return TVMBackendParallelLaunch(nullptr, nullptr, 0); }},
    {"TVMBackendParallelBarrier: env is null",
     [](NotNull&) { return TVMBackendParallelBarrier(0, nullptr); }},
    {"TVMBackendRunOnce: handle is null",
     [](NotNull&) {
       return TVMBackendRunOnce(
           nullptr, [](void*) { return 0; }, nullptr, 0);
     }},
    {"TVMBackendRunOnce: function is null",
     [](NotNull& p) {
       return TVMBackendRunOnce(p.as<void*>(), nullptr, nullptr, 0);
     }},
    {"TVMFFIFunctionCall: function is null",
     [](NotNull& p) {
       return TVMFFIFunctionCall(nullptr, nullptr, 0, p.as<TVMFFIAny>());
     }},
    {"TVMFFIEnvModLookupFromImports: name is null",
     [](NotNull& p) {
       return TVMFFIEnvModLookupFromImports(p.any(), nullptr, p.as<void*>());
     }},
    {"TVMFFIEnvModLookupFromImports: out is null",
     [](NotNull& p) {
       return TVMFFIEnvModLookupFromImports(p.any(), "f", nullptr);
     }},
    {"TVMFFIHandleInitOnce: handle is null",
     [](NotNull&) {
       return TVMFFIHandleInitOnce(nullptr, [](void**) { return 0; });
     }},
    {"TVMFFIHandleInitOnce: init is null",
     [](NotNull& p) { return TVMFFIHandleInitOnce(p.as<void*>(), nullptr); }},
};

void ExpectRefused(absl::Span<const NullCase> cases) {
  for (const NullCase& row : cases) {
    NotNull some;
    EXPECT_EQ(row.call(some), -1) << row.message;
    EXPECT_EQ(TVMGetLastError(), std::string("InternalError: ") + row.message);
  }
}

TEST(CApiNullTest, NullIsRefusedWithTheNamesOfFunctionAndArgument) {
  ExpectRefused(kModuleCases);
  ExpectRefused(kFunctionCases);
  ExpectRefused(kArrayCases);
  ExpectRefused(kDeviceCases);
  ExpectRefused(kObjectCases);
  ExpectRefused(kBackendCases);
}

TEST(CApiNullTest, NothingIsCopiedWithoutMemory) {
  const NDArray empty = Floats({});
  EXPECT_EQ(TVMArrayCopyFromBytes(empty.tensor(), nullptr, 0), 0);
  EXPECT_EQ(TVMArrayCopyToBytes(empty.tensor(), nullptr, 0), 0);
}

TEST(CApiNullTest, ErrorWithoutPartsHasItsKind) {
  TVMFFIErrorSetRaisedFromCStrParts("ValueError", nullptr, 2);
  EXPECT_STREQ(TVMGetLastError(), "ValueError: ");
}

TEST(CApiNullTest, DeletingNoManagedTensorDoesNothing) {
  TVMDLManagedTensorCallDeleter(nullptr);
}

TEST(CApiNullTest, BytesWithoutDataAreNotText) {
  TVMByteArray bytes{nullptr, 8};
  TVMFunctionHandle load = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.LoadParams", &load), 0);
  int rc = 0;
  CallC(load, {CHandle(&bytes, kTVMBytes)}, &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_STREQ(TVMGetLastError(),
               "InternalError: argument is bytes, expected string");
  TVMFuncFree(load);
}

}  // namespace
}  // namespace nodewise
