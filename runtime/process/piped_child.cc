#include "nodewise/process/piped_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "nodewise/process/isolation.h"
#include "nodewise/support/check.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"
#include "runtime/process/child_process.h"

namespace nodewise {
namespace {

using Clock = std::chrono::steady_clock;

// The largest pipe that Linux lets every user have.
constexpr int kPipeBytes = 1 << 20;
// High enough to be out of the way, and below the usual limit of 1024.
constexpr int kHighDescriptor = 900;
// How often to look whether a child has ended that no descriptor tells of.
constexpr int64_t kLookMs = 20;

class Reader : public PipeReader {
 public:
  Reader(int descriptor, const RunningChild& child, int64_t limit_ms)
      : descriptor_(descriptor), child_(child), limit_ms_(limit_ms) {}

  enum class State { kOpen, kEnded, kSilent };
  State state() const { return state_; }

  // Waits until there is something to read. Returns false if there never will
  // be, or there was nothing for too long. The limit is one on silence, so the
  // clock starts anew with each message.
  bool WaitForBytes() {
    auto end = Clock::now() + std::chrono::milliseconds(limit_ms_);
    // How long the child had waited for a processor. It is read only once the
    // child has been silent for a while, since that takes longer than most
    // messages.
    std::optional<int64_t> waited_before;
    while (state_ == State::kOpen) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      const Polled polled = Poll(std::max<int64_t>(left.count(), 0));
      if (polled == Polled::kBytes) return true;
      if (polled == Polled::kEnd) {
        state_ = State::kEnded;
      } else if (left.count() <= 0) {
        ExtendDeadline(&end, &waited_before);
      }
    }
    return false;
  }

  absl::Status Read(void* data, size_t bytes) override {
    auto* to = static_cast<uint8_t*>(data);
    while (bytes > 0) {
      if (!WaitForBytes()) return WhyNot();
      const ssize_t got = read(descriptor_, to, bytes);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) {
        state_ = State::kEnded;
        return WhyNot();
      }
      to += got;
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  enum class Polled { kBytes, kEnd, kNothing };

  // Puts `end` off by the time that the child has waited for a processor;
  // without such a wait, the child counts as silent. How long it had waited
  // before its last message is not known, and that time may be given once, too.
  void ExtendDeadline(Clock::time_point* end,
                      std::optional<int64_t>* waited_before) {
    const int64_t waited = child_.CpuWaitMs();
    const int64_t more =
        std::min(waited - waited_before->value_or(0),
                 waited_before->has_value() ? kMostTimeLimitMs : limit_ms_);
    *waited_before = waited;
    if (more <= 0) {
      state_ = State::kSilent;
    } else {
      *end += std::chrono::milliseconds(more);
    }
  }

  Polled Poll(int64_t wait_ms) {
    if (child_.descriptor() < 0) wait_ms = std::min(wait_ms, kLookMs);
    const Polled first = PollOnce(std::min<int64_t>(wait_ms, INT32_MAX));
    if (first != Polled::kEnd) return first;
    // The child may have written its last between the looks at its two
    // descriptors.
    return PollOnce(0) == Polled::kBytes ? Polled::kBytes : Polled::kEnd;
  }

  // Bytes count before an end: all that the child has sent is read, however it
  // ended.
  Polled PollOnce(int64_t wait_ms) {
    pollfd wanted[] = {{descriptor_, POLLIN, 0},
                       {child_.descriptor(), POLLIN, 0}};
    (void)poll(wanted, 2, static_cast<int>(wait_ms));
    if ((wanted[0].revents & POLLIN) != 0) return Polled::kBytes;
    // The pipe has no writer any more, or the child has ended while processes
    // that it has left behind keep the pipe open.
    const bool has_ended = wanted[0].revents != 0 || wanted[1].revents != 0 ||
                           (child_.descriptor() < 0 && child_.HasEnded());
    return has_ended ? Polled::kEnd : Polled::kNothing;
  }

  absl::Status WhyNot() const {
    if (state_ == State::kSilent) {
      return DeadlineExceeded("child: sent nothing for {} ms", limit_ms_);
    }
    return DataLoss("child: ended within a message");
  }

  const int descriptor_;
  const RunningChild& child_;
  const int64_t limit_ms_;
  State state_ = State::kOpen;
};

}  // namespace

// The device and the inode tell the pipe from a file that the work opens under
// its number later.
PipeWriter::PipeWriter(int descriptor)
    : descriptor_(descriptor), process_(getpid()) {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

bool PipeWriter::IsStillOpen() const {
  struct stat status {};
  return fstat(descriptor_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

absl::Status PipeWriter::Write(const void* data, size_t bytes) {
  // The work has forked, and both have come here.
  if (getpid() != process_) _exit(0);
  // The work may have closed it, and have opened a file in its place.
  if (!IsStillOpen()) {
    return Unavailable(
        "closed descriptors that are not its own, and the pipe to this process "
        "with them");
  }
  const auto* from = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t written = write(descriptor_, from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return Unavailable("pipe: {}", std::strerror(errno));
    }
    from += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

struct PipedRun::Child {
  const OpenDescriptor read_end;
  const ChildRunner runner;  // Has what the child says of its end.
  RunningChild child;
  const int64_t limit_ms;
};

absl::StatusOr<std::unique_ptr<PipedRun>> PipedRun::Start(
    absl::FunctionRef<absl::Status(PipeWriter&)> work,
    int64_t silence_limit_ms) {
  NODEWISE_RETURN_IF_ERROR(CheckTimeLimit(silence_limit_ms));
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return ResourceExhausted("child process: no pipe: {}",
                             std::strerror(errno));
  }
  OpenDescriptor read_end(ends[0]);
  const OpenDescriptor write_end(ends[1]);
  // With a large pipe the two processes take turns less often; a smaller one
  // works, too.
  (void)fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  NODEWISE_ASSIGN_OR_RETURN(ChildRunner runner, ChildRunner::Create());
  NODEWISE_ASSIGN_OR_RETURN(RunningChild child, runner.Start([&] {
    close(ends[0]);
    // Code that closes descriptors by number rarely goes so far.
    const int high = fcntl(ends[1], F_DUPFD_CLOEXEC, kHighDescriptor);
    if (high >= 0) close(ends[1]);
    PipeWriter writer(high >= 0 ? high : ends[1]);
    return work(writer);
  }));
  return std::unique_ptr<PipedRun>(new PipedRun(
      std::unique_ptr<Child>(new Child{std::move(read_end), std::move(runner),
                                       std::move(child), silence_limit_ms})));
}

PipedRun::PipedRun(std::unique_ptr<Child> child) : child_(std::move(child)) {}

PipedRun::~PipedRun() = default;

// After silence the child gets no more time, for it has had it.
absl::StatusOr<ChildEnd> PipedRun::Finish(
    absl::FunctionRef<absl::Status(PipeReader&)> take) {
  NODEWISE_CHECK(child_ != nullptr);
  const std::unique_ptr<Child> run = std::move(child_);
  Reader reader(run->read_end.get(), run->child, run->limit_ms);
  while (reader.WaitForBytes()) {
    absl::Status status = take(reader);
    // How the child ended says more than that its last message is cut.
    if (reader.state() != Reader::State::kOpen) break;
    NODEWISE_RETURN_IF_ERROR(status);
  }
  const bool is_silent = reader.state() == Reader::State::kSilent;
  return run->child.Wait(is_silent ? 0 : run->limit_ms);
}

absl::StatusOr<ChildEnd> RunPiped(
    absl::FunctionRef<absl::Status(PipeWriter&)> work,
    absl::FunctionRef<absl::Status(PipeReader&)> take,
    int64_t silence_limit_ms) {
  NODEWISE_ASSIGN_OR_RETURN(const auto run,
                            PipedRun::Start(work, silence_limit_ms));
  return run->Finish(take);
}

}  // namespace nodewise
