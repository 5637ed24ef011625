#include "nodewise/process/process_state.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ProcessStateTest, NothingChangesByLooking) {
  const ProcessState before = ProcessState::Capture();
  EXPECT_THAT(before.ChangesIn(ProcessState::Capture()), IsEmpty());
}

TEST(ProcessStateTest, OpenedFilesAreNotAChange) {
  const ProcessState before = ProcessState::Capture();
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_THAT(before.ChangesIn(ProcessState::Capture()), IsEmpty());
  close(file);
}

TEST(ProcessStateTest, WhatCanBePutBackIs) {
  const ProcessState before = ProcessState::Capture();
  ASSERT_EQ(chdir("/"), 0);
  umask(0777);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur -= 1;
  setrlimit(RLIMIT_NOFILE, &files);
  std::signal(SIGUSR1, SIG_IGN);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  const itimerval hour = {{0, 0}, {3600, 0}};
  setitimer(ITIMER_REAL, &hour, nullptr);
  EXPECT_THAT(
      before.ChangesIn(ProcessState::Capture()),
      ElementsAre(HasSubstr("working folder is /"), HasSubstr("Umask is 0777"),
                  HasSubstr("limit of open files"),
                  HasSubstr("has another action"), HasSubstr("blocked signals"),
                  "a timer runs"));
  before.Restore();
  EXPECT_THAT(before.ChangesIn(ProcessState::Capture()), IsEmpty());
}

TEST(ProcessStateTest, DescriptorsAreKnownByTheirFiles) {
  const int file = open("/dev/null", O_RDONLY);
  const ProcessState before = ProcessState::Capture();
  const int other = open("/dev/zero", O_RDONLY);
  dup2(other, file);
  EXPECT_THAT(before.ChangesIn(ProcessState::Capture()),
              ElementsAre(HasSubstr("is another file")));
  close(file);
  close(other);
  EXPECT_THAT(before.ChangesIn(ProcessState::Capture()),
              ElementsAre(HasSubstr("is closed")));
}

TEST(ProcessStateTest, AChangeThatLeavesNoDescriptorIsSeen) {
  // The list of descriptors cannot be read then.
  const ProcessState before = ProcessState::Capture();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  rlimit none = files;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &none);
  const ProcessState after = ProcessState::Capture();
  setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_THAT(before.ChangesIn(after),
              ElementsAre(HasSubstr("limit of open files"),
                          "no more file can be opened"));
}

}  // namespace
}  // namespace nodewise
