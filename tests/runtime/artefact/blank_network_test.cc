#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "nodewise/artefact/artefact.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BlankNetworkTest, ConstantsOfBytecodeAreZerosAndItStillRuns) {
  for (const char* name : {"vm_classic", "vm_ffi_21", "vm_ffi"}) {
    const auto blank = WithErasedNetwork(LibraryPath(name));
    ASSERT_THAT(blank, IsOk()) << name;
    const LibraryCopy copy(name);
    std::ofstream(copy.path(), std::ios::binary) << *blank;
    const auto executor = CreateExecutor({"", copy.path(), "", name}, {});
    ASSERT_THAT(executor, IsOk()) << name;
    ASSERT_THAT((*executor)->SetInput("_", *Floats({1, 2, 3, 4})), IsOk());
    ASSERT_THAT((*executor)->Run(), IsOk());
    EXPECT_THAT(ValuesOf((*executor)->GetOutput(0).value()),
                ElementsAre(1, 2, 3, 4))
        << name;
  }
}

TEST(BlankNetworkTest, WhatAFactoryHasBesideItsCodeIsBlank) {
  const auto blank = WithErasedNetwork(LibraryPath("factory"));
  ASSERT_THAT(blank, IsOk());
  EXPECT_THAT(*blank, Not(HasSubstr(AddGraphJson())));
}

TEST(BlankNetworkTest, WhatHasCodeAloneStaysAsItIs) {
  const auto blank = WithErasedNetwork(LibraryPath("ffi_add"));
  ASSERT_THAT(blank, IsOk());
  EXPECT_EQ(*blank, FileText(LibraryPath("ffi_add")));
}

}  // namespace
}  // namespace nodewise
