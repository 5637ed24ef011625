#include "nodewise/support/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() { fs::create_directories(folder_); }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string PathOf(const char* name) const { return folder_ + "/" + name; }
  size_t FilesInFolder() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_),
                                             fs::directory_iterator()));
  }

 private:
  const std::string folder_ =
      testing::TempDir() + "output_file_" + std::to_string(getpid());
};

absl::Status WriteText(const std::string& path, const std::string& text) {
  auto file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  const absl::Status status = file->Write(text);
  return status.ok() ? file->Commit() : status;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(OutputFileTest, FileKeepsTheModeOfTheOneThatItReplaces) {
  const std::string path = PathOf("file");
  ASSERT_THAT(WriteText(path, "old"), IsOk());
  const auto mode =
      fs::perms::owner_read | fs::perms::owner_write | fs::perms::others_write;
  fs::permissions(path, mode);
  ASSERT_THAT(WriteText(path, "new"), IsOk());
  EXPECT_EQ(fs::status(path).permissions(), mode);
  EXPECT_EQ(TextOf(path), "new");
}

TEST_F(OutputFileTest, NewFileHasTheModeThatTheProcessGivesItsFiles) {
  const std::string path = PathOf("file");
  const mode_t before = umask(0027);
  const absl::Status status = WriteText(path, "x");
  umask(before);
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(OutputFileTest, NameMayBeAsLongAsTheSystemTakes) {
  const std::string path = PathOf(std::string(255, 'n').c_str());
  ASSERT_THAT(WriteText(path, "x"), IsOk());
  EXPECT_EQ(TextOf(path), "x");
}

TEST_F(OutputFileTest, FileIsReplacedOnlyWhenItIsWhole) {
  const std::string path = PathOf("file");
  ASSERT_THAT(WriteText(path, "old"), IsOk());
  {
    auto file = OutputFile::Create(path);
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT(file->Write("new"), IsOk());
  }
  EXPECT_EQ(TextOf(path), "old");
  EXPECT_EQ(FilesInFolder(), 1u);
  ASSERT_THAT(WriteText(path, "new"), IsOk());
  EXPECT_EQ(TextOf(path), "new");
}

TEST_F(OutputFileTest, LinkStaysAndItsFileIsReplaced) {
  const std::string file = PathOf("file");
  const std::string link = PathOf("link");
  ASSERT_THAT(WriteText(file, "old"), IsOk());
  fs::create_symlink("file", link);
  ASSERT_THAT(WriteText(link, "new"), IsOk());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(TextOf(file), "new");
}

TEST_F(OutputFileTest, LinkToNothingIsRefused) {
  const std::string link = PathOf("link");
  fs::create_symlink("nothing", link);
  EXPECT_THAT(WriteText(link, "x"),
              FailsWith(StatusCode::kNotFound,
                        AllOf(HasSubstr(link), HasSubstr("is a link to"))));
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(OutputFileTest, PipeIsWrittenToAndStays) {
  const std::string path = PathOf("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(WriteText(path, "x"),
              FailsWith(StatusCode::kUnavailable, HasSubstr(path)))
      << "it has no reader";
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_THAT(WriteText(path, "text"), IsOk());
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(OutputFileTest, DeviceIsWrittenToAndStays) {
  const std::string link = PathOf("full");
  fs::create_symlink("/dev/full", link);
  EXPECT_THAT(WriteText(link, "x"), FailsWith(StatusCode::kResourceExhausted,
                                              HasSubstr("No space left")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(OutputFileTest, FolderIsRefusedAtOnce) {
  EXPECT_THAT(OutputFile::Create(PathOf(".")).status(),
              FailsWith(StatusCode::kUnavailable, HasSubstr("Is a directory")));
}

}  // namespace
}  // namespace nodewise
