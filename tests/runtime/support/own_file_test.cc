#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "nodewise/support/file.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::StartsWith;

class OwnFileTest : public testing::Test {
 protected:
  OwnFileTest() { fs::create_directories(folder_); }
  ~OwnFileTest() override { fs::remove_all(folder_); }

  std::string PathOf(const char* name) const { return folder_ + "/" + name; }
  size_t FilesInFolder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_),
                                             fs::directory_iterator()));
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ =
      testing::TempDir() + "own_file_" + std::to_string(getpid());
};

TEST_F(OwnFileTest, LinkIsReplacedAndNotFollowed) {
  const std::string victim = PathOf("victim");
  std::ofstream(victim) << "keep me";
  const std::string path = PathOf("graph.json");
  for (const std::string& target : {victim, PathOf("nowhere")}) {
    fs::remove(path);
    fs::create_symlink(target, path);
    ASSERT_THAT(ReplaceFile(path, "new"), IsOk());
    EXPECT_FALSE(fs::is_symlink(path));
    EXPECT_EQ(TextOf(path), "new");
  }
  EXPECT_EQ(TextOf(victim), "keep me");
  EXPECT_EQ(FilesInFolder(), 2u);
}

TEST_F(OwnFileTest, PipeIsReplacedAndNotWaitedFor) {
  const std::string path = PathOf("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_THAT(ReplaceFile(path, "new"), IsOk());
  EXPECT_TRUE(fs::is_regular_file(path));
}

TEST_F(OwnFileTest, FileKeepsTheModeOfTheOneThatItReplaces) {
  const std::string path = PathOf("file");
  ASSERT_THAT(ReplaceFile(path, "old"), IsOk());
  fs::permissions(path, fs::perms::owner_read);
  ASSERT_THAT(ReplaceFile(path, "new"), IsOk());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read);
}

TEST_F(OwnFileTest, ErrorSpeaksOfThePathAndLeavesTheOldFile) {
  const std::string path = PathOf("file.json");
  ASSERT_THAT(ReplaceFile(path, "old"), IsOk());
  const absl::Status status = ReplaceFile(path, [](const std::string& beside) {
    std::ofstream(beside) << "half";
    return absl::UnavailableError(beside + ": cannot write: no room");
  });
  EXPECT_EQ(status.message(), path + ": cannot write: no room");
  EXPECT_EQ(TextOf(path), "old");
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(OwnFileTest, FolderIsNotReplaced) {
  const std::string path = PathOf("folder");
  fs::create_directory(path);
  EXPECT_THAT(ReplaceFile(path, "new"),
              FailsWith(StatusCode::kUnavailable, StartsWith(path + ": ")));
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(OwnFileTest, WriterGetsANameOfTheSameKindThatIsNotTaken) {
  const std::string path = PathOf((std::string(240, 'n') + ".npz").c_str());
  ASSERT_THAT(ReplaceFile(path,
                          [](const std::string& beside) {
                            EXPECT_FALSE(fs::exists(beside));
                            EXPECT_EQ(fs::path(beside).extension(), ".npz");
                            EXPECT_TRUE(IsPartName(
                                fs::path(beside).filename().string()));
                            std::ofstream(beside) << "x";
                            return absl::OkStatus();
                          }),
              IsOk());
  EXPECT_EQ(TextOf(path), "x");
}

TEST(PartNameTest, NamesOfUnfinishedFilesAreKnown) {
  for (const char* name :
       {"graph.json.12_0.part", "graph.12_345.part.json",
        "graph.12_345.part.json.12_0.part", "lib.1_2.part.so"}) {
    EXPECT_TRUE(IsPartName(name)) << name;
  }
  for (const char* name :
       {"graph.json", "a.part", "notes.part", ".1_2.part", "a.1_.part",
        "a._2.part", "a.1_2.parts", "a.1_2.part.tar.gz", "1_2.part", ""}) {
    EXPECT_FALSE(IsPartName(name)) << name;
  }
}

TEST_F(OwnFileTest, WhatCannotBeSyncedIsNotAnError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_THAT(SyncDescriptor(ends[1], "pipe"), IsOk());
  close(ends[0]);
  close(ends[1]);
  EXPECT_THAT(SyncFile(PathOf("missing")),
              FailsWith(StatusCode::kNotFound, StartsWith(folder_)));
}

}  // namespace
}  // namespace nodewise
