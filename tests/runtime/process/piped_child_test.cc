#include "nodewise/process/piped_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "nodewise/support/status.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;

using ChildWork = std::function<absl::Status(PipeWriter&)>;

struct Heard {
  absl::StatusOr<ChildEnd> end = absl::UnknownError("");
  std::string text;
};

// Reads byte by byte.
Heard Hear(const ChildWork& work, int64_t limit_ms = 60'000) {
  Heard heard;
  heard.end = RunPiped(
      work,
      [&](PipeReader& reader) {
        char byte = 0;
        NODEWISE_RETURN_IF_ERROR(reader.Read(&byte, 1));
        heard.text += byte;
        return absl::OkStatus();
      },
      limit_ms);
  return heard;
}

absl::Status Say(PipeWriter& writer, std::string_view text) {
  return writer.Write(text.data(), text.size());
}

TEST(PipedChildTest, WhatTheChildSaysIsHeardAndItsStatusReturned) {
  const Heard heard = Hear([](PipeWriter& writer) {
    NODEWISE_RETURN_IF_ERROR(Say(writer, "one "));
    NODEWISE_RETURN_IF_ERROR(Say(writer, "two"));
    return absl::NotFoundError("three");
  });
  ASSERT_THAT(heard.end, IsOk());
  EXPECT_EQ(heard.text, "one two");
  EXPECT_EQ(heard.end->kind, ChildEnd::Kind::kReturned);
  EXPECT_EQ(heard.end->status, absl::NotFoundError("three"));
}

TEST(PipedChildTest, WhatWasSaidBeforeACrashIsHeard) {
  const Heard heard = Hear([](PipeWriter& writer) {
    NODEWISE_RETURN_IF_ERROR(Say(writer, "last words"));
    std::raise(SIGSEGV);
    return absl::OkStatus();
  });
  ASSERT_THAT(heard.end, IsOk());
  EXPECT_EQ(heard.text, "last words");
  EXPECT_EQ(heard.end->kind, ChildEnd::Kind::kSignal);
  EXPECT_EQ(heard.end->ToString(1), "crashed with SIGSEGV");
}

TEST(PipedChildTest, OnlySilenceIsTooLong) {
  const auto pause = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
  };
  const Heard slow = Hear(
      [&](PipeWriter& writer) {
        for (int i = 0; i < 10; ++i) {
          pause();
          NODEWISE_RETURN_IF_ERROR(Say(writer, "."));
        }
        return absl::OkStatus();
      },
      500);
  ASSERT_THAT(slow.end, IsOk());
  EXPECT_EQ(slow.end->kind, ChildEnd::Kind::kReturned);
  EXPECT_EQ(slow.text, "..........");
  const Heard silent = Hear(
      [&](PipeWriter& writer) {
        NODEWISE_RETURN_IF_ERROR(Say(writer, "well"));
        for (;;) pause();
      },
      200);
  ASSERT_THAT(silent.end, IsOk());
  EXPECT_EQ(silent.end->kind, ChildEnd::Kind::kTimeout);
  EXPECT_EQ(silent.text, "well");
}

// Keeps one processor busy beside all else that runs there.
class BusyProcess {
 public:
  explicit BusyProcess(int processor) : pid_(fork()) {
    if (pid_ != 0) return;
    StayOn(processor);
    for (;;) {
    }
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;
  ~BusyProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  static void StayOn(int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
  }

 private:
  const pid_t pid_;
};

TEST(PipedChildTest, WaitingForAProcessorIsNotSilence) {
  if (!std::ifstream("/proc/self/schedstat").good()) {
    GTEST_SKIP() << "the system does not say how long threads wait";
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  const BusyProcess first(processor);
  const BusyProcess second(processor);
  const BusyProcess third(processor);
  // Alone it would need 400 ms, but it gets a quarter of the processor.
  const Heard heard = Hear(
      [&](PipeWriter& writer) {
        BusyProcess::StayOn(processor);
        const std::clock_t begin = std::clock();
        while (std::clock() - begin < CLOCKS_PER_SEC * 4 / 10) {
        }
        return Say(writer, "done");
      },
      1000);
  ASSERT_THAT(heard.end, IsOk());
  EXPECT_EQ(heard.end->kind, ChildEnd::Kind::kReturned);
  EXPECT_EQ(heard.text, "done");
}

TEST(PipedChildTest, MoreThanThePipeHoldsIsHeard) {
  const std::string much(10 << 20, 'x');
  std::string heard(much.size(), ' ');
  const auto end =
      RunPiped([&](PipeWriter& writer) { return Say(writer, much); },
               [&](PipeReader& reader) {
                 return reader.Read(heard.data(), heard.size());
               },
               60'000);
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, ChildEnd::Kind::kReturned);
  EXPECT_TRUE(heard == much);
}

TEST(PipedChildTest, WhoHearsEnoughEndsTheChild) {
  const auto end = RunPiped(
      [](PipeWriter& writer) -> absl::Status {
        for (;;) NODEWISE_RETURN_IF_ERROR(Say(writer, "and so on "));
      },
      [](PipeReader&) { return absl::CancelledError("enough"); }, 60'000);
  EXPECT_EQ(end.status(), absl::CancelledError("enough"));
}

TEST(PipedChildTest, AMessageThatIsCutIsToldByHowTheChildEnded) {
  const auto end = RunPiped(
      [](PipeWriter& writer) -> absl::Status {
        NODEWISE_RETURN_IF_ERROR(Say(writer, "ab"));
        _exit(7);
      },
      [](PipeReader& reader) {
        char bytes[4];
        return reader.Read(bytes, sizeof(bytes));
      },
      60'000);
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->kind, ChildEnd::Kind::kExit);
  EXPECT_EQ(end->exit_status, 7);
}

TEST(PipedChildTest, ProcessesThatAreLeftBehindAreNotWaitedFor) {
  const auto start = std::chrono::steady_clock::now();
  const Heard heard = Hear([](PipeWriter& writer) {
    if (fork() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(30));
      _exit(0);
    }
    return Say(writer, "bye");
  });
  ASSERT_THAT(heard.end, IsOk());
  EXPECT_EQ(heard.end->kind, ChildEnd::Kind::kReturned);
  EXPECT_EQ(heard.text, "bye");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Each waits for a byte that only the other one's end lets this process send.
TEST(PipedChildTest, ChildrenWorkAtTheSameTimeAndAreHeardInAnyOrder) {
  int to_first[2];
  ASSERT_EQ(pipe(to_first), 0);
  const auto first = PipedRun::Start(
      [&](PipeWriter& writer) -> absl::Status {
        char byte = 0;
        if (read(to_first[0], &byte, 1) != 1) return absl::DataLossError("");
        return Say(writer, std::string(1, byte));
      },
      60'000);
  const auto second = PipedRun::Start(
      [](PipeWriter& writer) { return Say(writer, "b"); }, 60'000);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  std::string heard;
  const auto hear = [&](PipeReader& reader) {
    char byte = 0;
    NODEWISE_RETURN_IF_ERROR(reader.Read(&byte, 1));
    heard += byte;
    return absl::OkStatus();
  };
  ASSERT_THAT((*second)->Finish(hear), IsOk());
  ASSERT_EQ(write(to_first[1], "a", 1), 1);
  ASSERT_THAT((*first)->Finish(hear), IsOk());
  EXPECT_EQ(heard, "ba");
  close(to_first[0]);
  close(to_first[1]);
}

TEST(PipedChildTest, AChildThatIsNotWaitedForIsEnded) {
  int from_child[2];
  ASSERT_EQ(pipe(from_child), 0);
  auto run = PipedRun::Start(
      [](PipeWriter&) {
        std::this_thread::sleep_for(std::chrono::seconds(30));
        return absl::OkStatus();
      },
      60'000);
  ASSERT_THAT(run, IsOk());
  close(from_child[1]);
  const auto start = std::chrono::steady_clock::now();
  run->reset();
  char byte = 0;
  EXPECT_EQ(read(from_child[0], &byte, 1), 0);  // No process holds the end.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  close(from_child[0]);
}

TEST(PipedChildTest, LimitsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(
      Hear([](PipeWriter&) { return absl::OkStatus(); }, 0).end,
      FailsWith(absl::StatusCode::kInvalidArgument, HasSubstr("found 0 ms")));
}

}  // namespace
}  // namespace nodewise
