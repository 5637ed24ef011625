// What the shared library gives to programs and to compiled code, by name.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>

#include "nodewise/func/c_api.h"
#include "nodewise/support/file.h"
#include "runtime/module/elf.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

// All that TVM 0.6 to 0.19 export for compiled code and for hosts in C.
constexpr const char* kFunctions[] = {
    "TVMBackendGetFuncFromEnv",
    "TVMBackendRegisterSystemLibSymbol",
    "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace",
    "TVMBackendRegisterEnvCAPI",
    "TVMBackendParallelLaunch",
    "TVMBackendParallelBarrier",
    "TVMBackendRunOnce",
    "TVMAPISetLastError",
    "TVMGetLastError",
    "TVMModLoadFromFile",
    "TVMModImport",
    "TVMModGetFunction",
    "TVMModFree",
    "TVMFuncFree",
    "TVMFuncCall",
    "TVMCFuncSetReturn",
    "TVMCbArgToReturn",
    "TVMFuncCreateFromCFunc",
    "TVMFuncRegisterGlobal",
    "TVMFuncGetGlobal",
    "TVMFuncListGlobalNames",
    "TVMFuncRemoveGlobal",
    "TVMArrayAlloc",
    "TVMArrayFree",
    "TVMArrayCopyFromBytes",
    "TVMArrayCopyToBytes",
    "TVMArrayCopyFromTo",
    "TVMArrayFromDLPack",
    "TVMArrayToDLPack",
    "TVMDLManagedTensorCallDeleter",
    "TVMArrayGetTypeIndex",
    "TVMStreamCreate",
    "TVMStreamFree",
    "TVMSetStream",
    "TVMSynchronize",
    "TVMStreamStreamSynchronize",
    "TVMObjectGetTypeIndex",
    "TVMObjectTypeKey2Index",
    "TVMObjectTypeIndex2Key",
    "TVMObjectRetain",
    "TVMObjectFree",
    "TVMObjectDerivedFrom",
    "TVMByteArrayFree",
    "TVMDeviceAllocDataSpace",
    "TVMDeviceAllocDataSpaceWithScope",
    "TVMDeviceFreeDataSpace",
    "TVMDeviceCopyDataFromTo",
    "TVMExtTypeFree",
    "TVMAPISetLastPythonError",
    "TVMGetLastPythonError",
    "TVMGetLastBacktrace",
    "TVMDropLastPythonError",
    "TVMThrowLastError",
    "__gnu_f2h_ieee",
    "__gnu_h2f_ieee",
    "__truncdfhf2",
};

// The shared library in which TVMFuncCall lies.
std::string RuntimePath() {
  Dl_info info;
  EXPECT_NE(dladdr(reinterpret_cast<void*>(&TVMFuncCall), &info), 0);
  return info.dli_fname;
}

// TV-24.
TEST(ExportsTest, EveryFunctionOfTvmCanBeFound) {
  void* const library = dlopen(RuntimePath().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const char* name : kFunctions) {
    void* const address = dlsym(library, name);
    ASSERT_NE(address, nullptr) << name;
    Dl_info info;
    ASSERT_NE(dladdr(address, &info), 0) << name;
    EXPECT_EQ(info.dli_fname, RuntimePath()) << name;
  }
  dlclose(library);
}

// libgcc has one of these too, with another way to return its result; it must
// not have taken the place of ours.
TEST(ExportsTest, HalfConversionsReturnBits) {
  void* const library = dlopen(RuntimePath().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto from_float =
      reinterpret_cast<uint16_t (*)(float)>(dlsym(library, "__gnu_f2h_ieee"));
  const auto to_float =
      reinterpret_cast<float (*)(uint16_t)>(dlsym(library, "__gnu_h2f_ieee"));
  const auto from_double =
      reinterpret_cast<uint16_t (*)(double)>(dlsym(library, "__truncdfhf2"));
  EXPECT_EQ(from_float(1.5f), 0x3e00);
  EXPECT_EQ(to_float(0x3e00), 1.5f);
  EXPECT_EQ(from_double(1.5), 0x3e00);
  dlclose(library);
}

#ifdef __x86_64__
// Code of newer compilers, which is what TVM's own is today, wants it there.
TEST(ExportsTest, HalfOfADoubleIsAlsoReturnedAsAVector) {
  void* const library = dlopen(RuntimePath().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto from_double =
      reinterpret_cast<double (*)(double)>(dlsym(library, "__truncdfhf2"));
  EXPECT_EQ(std::bit_cast<uint64_t>(from_double(1.5)), 0x3e00u);
  dlclose(library);
}
#endif

// A weak variable of a model would be bound to one of ours.
TEST(ExportsTest, NoVariableOfModelsIsExported) {
  const auto file = MappedFile::Open(RuntimePath());
  ASSERT_THAT(file, IsOk());
  const auto elf = ParseElf(file->bytes(), "runtime");
  ASSERT_THAT(elf, IsOk());
  EXPECT_NE(FindSymbol(*elf, "TVMFuncCall"), nullptr);
  for (const ElfSymbol& symbol : elf->symbols) {
    if (!symbol.defined || symbol.local) continue;
    EXPECT_FALSE(symbol.name.starts_with("__TVM") ||
                 symbol.name.starts_with("__tvm"))
        << symbol.name;
  }
}

TEST(ExportsTest, OnlyTheApiAndTheNamespaceAreExported) {
  const auto file = MappedFile::Open(RuntimePath());
  ASSERT_THAT(file, IsOk());
  const auto elf = ParseElf(file->bytes(), "runtime");
  ASSERT_THAT(elf, IsOk());
  for (const ElfSymbol& symbol : elf->symbols) {
    if (!symbol.defined || symbol.local) continue;
    const std::string name(symbol.name);
    const bool is_ours =
        name.starts_with("TVM") || name.find("8nodewise") != std::string::npos;
    const bool is_half = name.starts_with("__gnu_") || name == "__truncdfhf2";
    EXPECT_TRUE(is_ours || is_half) << name;
  }
}

}  // namespace
}  // namespace nodewise
