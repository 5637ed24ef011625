// What a library says about itself, read without loading it.

#include "nodewise/module/library_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/matchers.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LibrarySummary SummaryOf(const std::string& name) {
  return SummariseLibrary(LibraryPath(name)).value();
}

TEST(LibrarySummaryTest, EraIsToldByWhatTheCodeCalls) {
  const struct {
    const char* library;
    const char* abi;
    const char* era;
  } rows[] = {
      {"ffi_add", "TVM-FFI", "0.24 to 0.27"},
      {"ffi_add_22", "TVM-FFI", "0.22 to 0.23"},
      {"ffi_add_21", "TVM-FFI", "0.21"},
      {"ffi_closure", "TVM-FFI", "0.26 to 0.27"},
      {"ffi_closure_25", "TVM-FFI", "0.22 to 0.25"},
      {"ffi_closure_21", "TVM-FFI", "0.21"},
      {"add_llvm", "TVM packed C functions", "0.8 to 0.20"},
  };
  for (const auto& row : rows) {
    const LibrarySummary summary = SummaryOf(row.library);
    EXPECT_EQ(summary.abi, row.abi) << row.library;
    EXPECT_EQ(summary.era, row.era) << row.library;
  }
}

TEST(LibrarySummaryTest, FunctionsHaveTheNamesThatGraphsUse) {
  for (const char* name : {"ffi_add", "ffi_add_22", "ffi_add_21"}) {
    EXPECT_THAT(SummaryOf(name).functions, ElementsAre("fails_silently", kAdd))
        << name;
  }
}

TEST(LibrarySummaryTest, TargetIsToldByHowTheRuntimeIsCalled) {
  EXPECT_EQ(SummaryOf("ffi_closure").target, "llvm");
  EXPECT_EQ(SummaryOf("ffi_closure_c").target, "c");
  EXPECT_EQ(SummaryOf("closure_llvm").target, "llvm");
  EXPECT_EQ(SummaryOf("closure_c").target, "c");
  EXPECT_EQ(SummaryOf("ffi_add").target, "");  // Raises errors as both do.
}

TEST(LibrarySummaryTest, ContextListsWhatTheRuntimeFillsIn) {
  const LibrarySummary summary = SummaryOf("ffi_closure");
  EXPECT_THAT(
      summary.context,
      ElementsAre("__TVMFFIEnvModLookupFromImports", "__TVMFFIFunctionCall",
                  "__TVMFFIHandleInitOnce", "__tvm_ffi__library_ctx"));
  EXPECT_THAT(summary.runtime_calls, IsEmpty());
}

TEST(LibrarySummaryTest, CodeForTheVirtualMachineSaysThatItCannotRun) {
  const LibrarySummary summary = SummaryOf("ffi_compiled_vm");
  EXPECT_THAT(summary.run_status,
              FailsWith(absl::StatusCode::kUnimplemented,
                        HasSubstr("exec_mode=\"compiled\"")));
  EXPECT_THAT(summary.runtime_calls, Contains("TVMBackendAnyListSetPackedArg"));
  EXPECT_THAT(SummaryOf("ffi_add").run_status, IsOk());
}

}  // namespace
}  // namespace nodewise
