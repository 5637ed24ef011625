#include "nodewise/foreign/foreign_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "nodewise/support/machine.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class ForeignProcessTest : public testing::Test {
 protected:
  ForeignProcessTest() {
    folder_ = testing::TempDir() + "/foreign_process_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ForeignProcessTest() override { std::filesystem::remove_all(folder_); }

  ForeignProcess Shell(const std::string& script) const {
    ForeignProcess process;
    process.name = "shell";
    process.arguments = {"sh", "-c", script};
    process.time_limit_ms = 20'000;
    process.most_printed_bytes = 1 << 20;
    process.most_file_bytes = 1 << 20;
    process.folder = folder_;
    process.most_folder_bytes = 1 << 16;
    process.most_folder_files = 5;
    return process;
  }

  std::string folder_;
};

TEST_F(ForeignProcessTest, AProgramThatEndsWellIsFine) {
  EXPECT_THAT(RunForeignProcess(Shell("exit 0")), IsOk());
}

TEST_F(ForeignProcessTest, AnExitStatusIsQuotedWithTheEndOfStderr) {
  EXPECT_THAT(
      RunForeignProcess(
          Shell("echo no >&2; for i in 1 2 3; do echo line $i >&2; done; "
                "echo out; exit 3")),
      FailsWith(kUnavailable,
                AllOf(HasSubstr("shell: ended with status 3, expected 0; the "
                                "last that it printed: line 1 / line 2 / "
                                "line 3"),
                      Not(HasSubstr("no /")), Not(HasSubstr("out")))));
}

TEST_F(ForeignProcessTest, WhatWasPrintedCannotControlATerminal) {
  EXPECT_THAT(RunForeignProcess(Shell("printf 'a\\033[2Jb' >&2; exit 1")),
              FailsWith(kUnavailable, HasSubstr("a\\x1b[2Jb")));
}

TEST_F(ForeignProcessTest, ASignalIsNamed) {
  EXPECT_THAT(RunForeignProcess(Shell("kill -SEGV $$")),
              FailsWith(kUnavailable, HasSubstr("was ended by SIGSEGV")));
}

TEST_F(ForeignProcessTest, AProgramThatDoesNotExistIsNotFound) {
  for (const char* const name : {"/no/such/program", "no_such_program_"}) {
    ForeignProcess process = Shell("");
    process.arguments = {name};
    EXPECT_THAT(RunForeignProcess(process),
                FailsWith(absl::StatusCode::kNotFound, HasSubstr(name)));
  }
}

TEST_F(ForeignProcessTest, AFileThatIsNotAProgramIsAnError) {
  const std::string path = folder_ + "/program";
  std::ofstream(path) << "\x7f"
                         "ELF, but nothing else";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  ForeignProcess process = Shell("");
  process.arguments = {path};
  EXPECT_THAT(RunForeignProcess(process),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("cannot run")));
}

TEST_F(ForeignProcessTest, TimeIsLimited) {
  ForeignProcess process = Shell("sleep 100");
  process.time_limit_ms = 100;
  EXPECT_THAT(
      RunForeignProcess(process),
      FailsWith(kUnavailable, HasSubstr("had not ended after 100 ms and was "
                                        "stopped")));
}

TEST_F(ForeignProcessTest, WhatItPrintsIsLimited) {
  EXPECT_THAT(RunForeignProcess(Shell("yes")),
              FailsWith(kUnavailable, HasSubstr("printed more than 1048576")));
}

TEST_F(ForeignProcessTest, WhatItWritesIsLimited) {
  const std::string target = " > " + folder_ + "/x";
  EXPECT_THAT(RunForeignProcess(Shell("yes" + target)),
              FailsWith(kUnavailable, HasSubstr("shell: ")));
  EXPECT_LE(std::filesystem::file_size(folder_ + "/x"), 1 << 20);
  EXPECT_THAT(
      RunForeignProcess(Shell("head -c 70000 /dev/zero" + target)),
      FailsWith(kUnavailable, HasSubstr("wrote 70000 bytes, expected 65536")));
}

TEST_F(ForeignProcessTest, TheNumberOfFilesIsLimited) {
  EXPECT_THAT(RunForeignProcess(Shell("cd " + folder_ + "; touch 1 2 3 4 5 6")),
              FailsWith(kUnavailable, HasSubstr("wrote more than 5 files")));
}

// A child that has left the program's session stays in its group.
TEST_F(ForeignProcessTest, WhatItStartedIsKilledWithIt) {
  const std::string file = folder_ + "/pid";
  ForeignProcess process =
      Shell("(trap '' TERM HUP; echo $$ > " + file +
            "; exec sleep 100) & while [ ! -s " + file + " ]; do :; done");
  const int64_t start_ns = ClockNanoseconds();
  EXPECT_THAT(RunForeignProcess(process), IsOk());
  EXPECT_LT(ClockNanoseconds() - start_ns, int64_t{15'000'000'000});
  process = Shell("sleep 100 & echo $! > " + file + "; exit 0");
  EXPECT_THAT(RunForeignProcess(process), IsOk());
  pid_t child = 0;
  std::ifstream(file) >> child;
  ASSERT_GT(child, 0);
  // Its new parent collects it a little later.
  int tries = 0;
  for (; kill(child, 0) == 0 && tries < 500; ++tries) usleep(10'000);
  std::ifstream status("/proc/" + std::to_string(child) + "/stat");
  std::string number, name, state;
  status >> number >> name >> state;
  EXPECT_TRUE(state.empty() || state == "Z") << state;
}

TEST_F(ForeignProcessTest, ThereIsNothingToReadOnStdin) {
  EXPECT_THAT(RunForeignProcess(Shell("if read x; then exit 1; fi")), IsOk());
}

}  // namespace
}  // namespace nodewise
