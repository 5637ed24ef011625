#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "nodewise/module/factory_module.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BlankFactoryTest, GraphAndParametersAreGoneAndTheCodeStillRuns) {
  for (const char* name : {"factory", "factory_c", "factory_07"}) {
    const auto blank = WithErasedFactories(LibraryPath(name));
    ASSERT_THAT(blank, IsOk()) << name;
    ASSERT_THAT(FileText(LibraryPath(name)), HasSubstr(AddGraphJson()));
    EXPECT_THAT(*blank, Not(HasSubstr(AddGraphJson()))) << name;
    EXPECT_THAT(*blank, Not(HasSubstr("tvm_op"))) << name;
    const LibraryCopy copy(name);
    std::ofstream(copy.path(), std::ios::binary) << *blank;
    const auto factory = LoadModule(copy.path());
    ASSERT_THAT(factory, IsOk()) << name;
    const auto params = FactoryParams(**factory);
    ASSERT_EQ(params.size(), 1U) << name;
    EXPECT_EQ(params[0].name, "__") << name;
    EXPECT_THAT(ValuesOf(params[0].tensor), ElementsAre(0, 0, 0, 0)) << name;
    EXPECT_THAT(Add(FunctionOf(*factory, kAdd), {1, 1, 1, 1}),
                ElementsAre(11, 21, 31, 41))
        << name;
  }
}

TEST(BlankFactoryTest, WhatHasNoFactoryStaysAsItIs) {
  for (const char* name : {"add_llvm", "ffi_add"}) {
    const auto blank = WithErasedFactories(LibraryPath(name));
    ASSERT_THAT(blank, IsOk()) << name;
    EXPECT_EQ(*blank, FileText(LibraryPath(name))) << name;
  }
}

TEST(BlankFactoryTest, WhatIsNotALibraryIsRefused) {
  const std::string graph =
      NODEWISE_SOURCE_DIR "/tests/data/libraries/add_graph.json";
  EXPECT_THAT(WithErasedFactories(graph),
              FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("ELF")));
}

}  // namespace
}  // namespace nodewise
