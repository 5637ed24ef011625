#include "nodewise/support/exceptions.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nodewise/support/machine.h"
#include "nodewise/support/thread_pool.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <typename Throw>
absl::Status Handled(Throw does_throw) {
  try {
    does_throw();
  } catch (...) {
    return StatusOfHandled("otherwise");
  }
  return absl::OkStatus();
}

TEST(ExceptionsTest, MemoryThatRanOutIsSaidOfTheInnermostPlace) {
  const WorkingOn net("net");
  const auto status = Handled([] {
    const WorkingOn file("net/params.params");
    const WorkingOn node("conv1");
    throw std::bad_alloc();
  });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kResourceExhausted,
                                StartsWith("conv1: memory ran out, expected")));
  EXPECT_EQ(WorkingOn::Place(), "net");
}

TEST(ExceptionsTest, PlaceOfAnExceptionIsForgottenWithIt) {
  (void)Handled([] {
    const WorkingOn node("conv1");
    throw std::bad_alloc();
  });
  EXPECT_THAT(Handled([] { throw std::bad_alloc(); }),
              FailsWith(absl::StatusCode::kResourceExhausted,
                        StartsWith("otherwise: ")));
}

TEST(ExceptionsTest, PlaceThatNoExceptionLeavesIsNotKept) {
  (void)Handled([] {
    { const WorkingOn node("done"); }
    const WorkingOn node("conv1");
    try {
      throw std::runtime_error("is handled");
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_THAT(Handled([] { throw std::bad_alloc(); }),
              FailsWith(absl::StatusCode::kResourceExhausted,
                        StartsWith("otherwise: ")));
}

TEST(ExceptionsTest, SizeThatNoContainerTakesIsMemoryThatRanOut) {
  EXPECT_THAT(
      Handled([] { std::vector<char> v(std::string::npos, '\0'); }),
      FailsWith(absl::StatusCode::kResourceExhausted, HasSubstr("ran out")));
}

TEST(ExceptionsTest, OtherExceptionsAreSaidWithTheirTexts) {
  EXPECT_THAT(
      Handled([] { throw std::runtime_error("no luck"); }),
      FailsWith(absl::StatusCode::kInternal, "otherwise: threw: no luck"));
  EXPECT_THAT(
      Handled([] { throw 1; }),
      FailsWith(absl::StatusCode::kInternal, HasSubstr("threw something")));
}

TEST(ExceptionsTest, TaskOfThePoolSaysWhatItsLauncherWorksOn) {
  const WorkingOn node("conv1");
  const auto status = ParallelRun(
      2, [](int, TaskGroup&) -> absl::Status { throw std::bad_alloc(); });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kResourceExhausted,
                                StartsWith("conv1: task 0 of 2: memory ran")));
}

void ThrowNoLuck() { throw std::runtime_error("no luck"); }

TEST(ExceptionsDeathTest, ThreadThatNothingCatchesForEndsWithOneLine) {
  EXPECT_EXIT(
      {
        EndWithStatus("prog", 2);
        std::thread([] {
          const WorkingOn node("conv1");
          throw std::bad_alloc();
        }).join();
      },
      testing::ExitedWithCode(2), "^prog: conv1: memory ran out, [^\n]*\n$");
}

TEST(ExceptionsDeathTest, ExceptionWhereNoneMayPassEndsWithItsText) {
  EXPECT_EXIT(
      {
        EndWithStatus("prog", 2);
        [](auto fail) noexcept { fail(); }(&ThrowNoLuck);
      },
      testing::ExitedWithCode(2), "^prog: threw: no luck\n$");
}

void LeaveNoMemory() {
  const rlimit none = {1, 1};
  setrlimit(RLIMIT_AS, &none);
}

TEST(ExceptionsDeathTest, CrashWithoutMemoryIsSaidToBeForLackOfIt) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need memory of their own";
  EXPECT_EXIT(
      {
        EndWithStatus("prog", 2);
        const WorkingOn node("conv1");
        LeaveNoMemory();
        *static_cast<volatile int*>(std::malloc(size_t{1} << 30)) = 1;
      },
      testing::ExitedWithCode(2), "^prog: conv1: memory ran out, [^\n]*\n$");
}

TEST(ExceptionsDeathTest, OtherCrashesStaySignals) {
  if (kSanitized) GTEST_SKIP() << "sanitizers report it themselves";
  EXPECT_EXIT(
      {
        EndWithStatus("prog", 2);
        std::raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), "^$");
}

}  // namespace
}  // namespace nodewise
