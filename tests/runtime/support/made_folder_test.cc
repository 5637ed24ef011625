#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nodewise/support/file.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A place of the test's own where nothing is.
std::string EmptyPlace() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string path = testing::TempDir() + test->name();
  fs::remove_all(path);
  return path;
}

void WriteAt(const std::string& path) { std::ofstream(path) << "x"; }

TEST(MadeFolderTest, IsGoneWithAllInItUnlessItIsKept) {
  const std::string path = EmptyPlace();
  {
    const auto folder = MadeFolder::Make(path);
    ASSERT_THAT(folder, IsOk());
    fs::create_directory(path + "/data");
    WriteAt(path + "/data/a");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(MadeFolderTest, StaysWhenItIsKept) {
  const std::string path = EmptyPlace();
  {
    auto folder = MadeFolder::Make(path);
    ASSERT_THAT(folder, IsOk());
    WriteAt(path + "/a");
    folder->Keep();
  }
  EXPECT_TRUE(fs::exists(path + "/a"));
}

TEST(MadeFolderTest, WhatLayThereBeforeStays) {
  const std::string path = EmptyPlace();
  fs::create_directory(path);
  WriteAt(path + "/before");
  {
    const auto folder = MadeFolder::Make(path);
    ASSERT_THAT(folder, IsOk());
    WriteAt(path + "/after");
  }
  EXPECT_TRUE(fs::exists(path + "/before"));
  EXPECT_FALSE(fs::exists(path + "/after"));
}

TEST(MadeFolderTest, PlaceWithoutAParentIsNamed) {
  const std::string path = EmptyPlace() + "/deeper";
  EXPECT_THAT(MadeFolder::Make(path),
              FailsWith(absl::StatusCode::kNotFound,
                        testing::StartsWith(path + ": cannot make")));
}

TEST(PathKindTest, PlaceThatCannotBeLookedAtIsNotOneWhereNothingIs) {
  const std::string path = EmptyPlace();
  EXPECT_EQ(*KindOfPath(path), PathKind::kNothing);
  EXPECT_EQ(*KindOfPath(testing::TempDir()), PathKind::kFolder);
  EXPECT_EQ(*KindOfPath("/dev/null"), PathKind::kOther);
  fs::create_symlink(path, path);  // Leads to itself.
  EXPECT_THAT(KindOfPath(path),
              FailsWith(absl::StatusCode::kUnavailable,
                        testing::StartsWith(path + ": cannot look")));
}

}  // namespace
}  // namespace nodewise
