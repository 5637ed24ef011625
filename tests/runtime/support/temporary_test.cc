#include "nodewise/support/temporary.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "nodewise/support/file.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class TemporaryTest : public testing::Test {
 protected:
  TemporaryTest() {
    fs::create_directories(root_);
    setenv("TMPDIR", root_.c_str(), 1);
  }
  ~TemporaryTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(root_);
  }

  // Runs `work` in a child that cleans up on signals and waits for one; sends
  // it, and returns how the child ended.
  static int EndBy(int signal_number, const std::function<void()>& work,
                   bool cleans_up = true) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      signal(signal_number, SIG_DFL);  // nohup has it ignored.
      if (cleans_up) CleanUpOnSignals();
      work();
      (void)!write(ready[1], "x", 1);
      while (true) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    kill(child, signal_number);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
  }

  // Makes a folder that nothing destroys, with folders, links and a pipe in it.
  static void MakeFullFolder() {
    auto* const folder =
        new TemporaryFolder(TemporaryFolder::Create("test").value());
    const fs::path path = folder->path();
    fs::create_directories(path / "a/b/c");
    for (int i = 0; i < 100; ++i) {
      std::ofstream(path / "a/b" / (std::string(200, 'n') + std::to_string(i)))
          << "x";
    }
    fs::create_symlink("/usr", path / "a/link");
    fs::create_symlink("nowhere", path / "dangling");
    mkfifo((path / "pipe").c_str(), 0600);
  }

  const std::string root_ =
      testing::TempDir() + "temporary_test_" + std::to_string(getpid());
};

TEST_F(TemporaryTest, FolderIsGoneWithItsObject) {
  std::string path;
  {
    auto folder = TemporaryFolder::Create("test");
    ASSERT_THAT(folder, IsOk());
    path = folder->path();
    EXPECT_THAT(path, StartsWith(root_ + "/test_"));
    std::ofstream(path + "/file") << "x";
    const TemporaryFolder moved = *std::move(folder);
    EXPECT_TRUE(fs::exists(path + "/file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TemporaryTest, KeptFolderStays) {
  std::string path;
  {
    TemporaryFolder folder = TemporaryFolder::Create("test").value();
    path = folder.Keep();
  }
  EXPECT_TRUE(fs::is_directory(path));
}

TEST_F(TemporaryTest, SignalsThatEndProgramsRemoveFolders) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    EXPECT_EQ(EndBy(signal_number, MakeFullFolder), signal_number);
    EXPECT_TRUE(fs::is_empty(root_)) << signal_number;
  }
}

TEST_F(TemporaryTest, HostThatAskedForNothingKeepsItsSignals) {
  EXPECT_EQ(EndBy(SIGTERM, MakeFullFolder, /*cleans_up=*/false), SIGTERM);
  EXPECT_FALSE(fs::is_empty(root_));
}

TEST_F(TemporaryTest, IgnoredSignalStaysIgnored) {
  const auto work = [] {
    signal(SIGHUP, SIG_IGN);
    CleanUpOnSignals();
    raise(SIGHUP);
  };
  EXPECT_EQ(EndBy(SIGTERM, work, /*cleans_up=*/false), SIGTERM);
}

TEST_F(TemporaryTest, HalfWrittenFileIsRemovedAndTheOldOneStays) {
  const std::string path = root_ + "/file";
  std::ofstream(path) << "old";
  EXPECT_EQ(EndBy(SIGTERM,
                  [&] {
                    auto* const file =
                        new OutputFile(OutputFile::Create(path).value());
                    (void)file->Write(std::string(1 << 20, 'x'));
                  }),
            SIGTERM);
  EXPECT_EQ(
      std::distance(fs::directory_iterator(root_), fs::directory_iterator()),
      1);
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "old");
}

TEST_F(TemporaryTest, ProcessGroupsAreKilledBeforeAnythingIsRemoved) {
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  EndBy(SIGTERM, [&] {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      setpgid(0, 0);
      while (true) pause();
    }
    setpgid(grandchild, grandchild);
    new LeftBehind(LeftBehind::ProcessGroup(grandchild));
  });
  close(alive[1]);
  char byte = 0;
  // The end comes when no process has the pipe open any more.
  EXPECT_EQ(read(alive[0], &byte, 1), 0);
  close(alive[0]);
}

TEST_F(TemporaryTest, ForkedChildLeavesWhatIsItsParents) {
  const TemporaryFolder folder = TemporaryFolder::Create("test").value();
  EXPECT_EQ(EndBy(SIGTERM, [] {}), SIGTERM);
  EXPECT_TRUE(fs::exists(folder.path()));
  const pid_t child = fork();
  if (child == 0) {
    {
      const TemporaryFolder copy(
          std::move(const_cast<TemporaryFolder&>(folder)));
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST_F(TemporaryTest, WhatWasForgottenStays) {
  EXPECT_EQ(EndBy(SIGTERM,
                  [&] {
                    fs::create_directory(root_ + "/kept");
                    LeftBehind left = LeftBehind::Path(root_ + "/kept");
                    left.Forget();
                    fs::create_directory(root_ + "/gone");
                    new LeftBehind(LeftBehind::Path(root_ + "/gone"));
                  }),
            SIGTERM);
  EXPECT_TRUE(fs::exists(root_ + "/kept"));
  EXPECT_FALSE(fs::exists(root_ + "/gone"));
}

TEST_F(TemporaryTest, UnsetOrEmptyRootIsTheSystems) {
  setenv("TMPDIR", "", 1);
  EXPECT_EQ(TemporaryRoot().value(), "/tmp");
  unsetenv("TMPDIR");
  EXPECT_EQ(TemporaryRoot().value(), "/tmp");
}

TEST_F(TemporaryTest, RootThatIsNotAFolderIsNamed) {
  const std::string file = root_ + "/file";
  std::ofstream(file) << "x";
  const std::string long_path = root_ + "/" + std::string(5000, 'n');
  for (const std::string& bad : {file, root_ + "/missing", long_path}) {
    setenv("TMPDIR", bad.c_str(), 1);
    const absl::Status status = TemporaryFolder::Create("test").status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith(bad + ": "), HasSubstr("(set TMPDIR")));
  }
}

TEST_F(TemporaryTest, RootWithAnyNameServes) {
  const std::string odd = root_ + "/ 'a\"$(b)\n;\xff";
  fs::create_directory(odd);
  setenv("TMPDIR", odd.c_str(), 1);
  EXPECT_THAT(TemporaryFolder::Create("test"), IsOk());
}

TEST_F(TemporaryTest, RelativeRootIsGivenWhole) {
  setenv("TMPDIR", ".", 1);
  EXPECT_EQ(TemporaryRoot().value()[0], '/');
}

}  // namespace
}  // namespace nodewise
