#include "nodewise/support/exceptions.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Later shortages often follow from the first one.
struct First {
  std::mutex mutex;
  std::optional<absl::Status> shortage;  // mutex
};

First& FirstShortageState() {
  static auto* const first = new First();
  return *first;
}

constexpr char kOutOfMemory[] =
    "memory ran out, expected more (free some, or raise the limit: ulimit -v)";
// What a library takes at once, for code that it makes, say.
constexpr size_t kLeastFree = size_t{1} << 20;

// Any object can be thrown in C++.
constexpr char kNoText[] = "threw something that is not a std::exception";

// The places of a thread are a list through its stack frames, so that entering
// one takes no memory.
thread_local const WorkingOn* innermost = nullptr;

// The place that an exception has left. It has to be kept without asking for
// memory.
struct LeftPlace {
  char text[256];
  size_t size = 0;
};
thread_local LeftPlace left_place;

const char* program_name = "";
int status_at_end = 0;

// What was thrown, for code that may not allocate a status.
enum class Thrown { kNothing, kOutOfMemory, kText, kUnknown };

struct Handled {
  Thrown kind = Thrown::kUnknown;
  const char* text = "";
};

// std::length_error is what a container says of a size that no memory has.
// `use` gets the text while the exception that owns it lives.
template <typename Use>
auto WithCurrentException(Use use) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return use(Handled{Thrown::kOutOfMemory, kOutOfMemory});
  } catch (const std::length_error&) {
    return use(Handled{Thrown::kOutOfMemory, kOutOfMemory});
  } catch (const std::exception& error) {
    return use(Handled{Thrown::kText, error.what()});
  } catch (...) {
    return use(Handled{});
  }
}

// There may be no memory to ask for, and other threads still run: hence write()
// and _exit().
[[noreturn]] void SayAndEnd(Handled handled) {
  char line[512];
  char* at = line;
  const char* const end = line + sizeof(line) - 1;
  const auto append = [&](std::string_view text) {
    const size_t size = std::min(text.size(), static_cast<size_t>(end - at));
    std::memcpy(at, text.data(), size);
    at += size;
  };
  append(program_name);
  append(": ");
  if (!WorkingOn::Place().empty()) {
    append(WorkingOn::Place());
    append(": ");
  }
  if (handled.kind == Thrown::kText) append("threw: ");
  if (handled.kind == Thrown::kUnknown) append(kNoText);
  append(handled.text);
  *at++ = '\n';
  // There is nothing to do about a stderr that takes no text.
  (void)!write(STDERR_FILENO, line, static_cast<size_t>(at - line));
  _exit(status_at_end);
}

// std::terminate() is called without an exception, too, by a thread that is
// destroyed while it runs, say.
[[noreturn]] void OnTerminate() {
  if (std::current_exception() == nullptr) {
    SayAndEnd({Thrown::kNothing, "came to its end without a reason"});
  }
  SayAndEnd(WithCurrentException([](Handled found) { return found; }));
}

// A library that does not look at what malloc returned crashes on a null
// pointer. Where there is memory, the crash has another reason, and ends the
// process as it would have.
void OnCrash(int signal_number) {
  if (MemoryIsShort()) SayAndEnd({Thrown::kOutOfMemory, kOutOfMemory});
  signal(signal_number, SIG_DFL);
  raise(signal_number);  // Blocked until this returns.
}

// The handler has a stack of its own, since a thread's cannot grow either when
// there is no memory.
alignas(16) char signal_stack[128 << 10];

void CatchCrashes() {
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof(signal_stack);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = &OnCrash;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGSEGV, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

absl::Status Shortage(std::string text) {
  absl::Status status = absl::ResourceExhaustedError(std::move(text));
  First& first = FirstShortageState();
  const std::lock_guard lock(first.mutex);
  if (!first.shortage.has_value()) {
    first.shortage =
        WorkingOn::Place().empty() ? status : At(WorkingOn::Place(), status);
  }
  return status;
}

std::optional<absl::Status> FirstShortage() {
  First& first = FirstShortageState();
  const std::lock_guard lock(first.mutex);
  return first.shortage;
}

// Asking for address space and giving it back changes nothing, and takes no
// memory that is not there.
bool MemoryIsShort() {
  static const size_t bytes = [] {
    size_t size = 0;
    pthread_attr_t usual;
    pthread_attr_init(&usual);
    pthread_attr_getstacksize(&usual, &size);
    pthread_attr_destroy(&usual);
    return size + kLeastFree;
  }();
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return true;
  munmap(data, bytes);
  return false;
}

WorkingOn::WorkingOn(std::string_view place)
    : place_(place),
      outer_(innermost),
      exceptions_(std::uncaught_exceptions()) {
  innermost = this;
}

// An exception has left this place if more are under way than when it was
// entered.
WorkingOn::~WorkingOn() {
  innermost = outer_;
  // Only the innermost place is kept of those that one exception leaves.
  if (std::uncaught_exceptions() <= exceptions_ || left_place.size > 0) return;
  left_place.size = std::min(place_.size(), sizeof(left_place.text));
  std::memcpy(left_place.text, place_.data(), left_place.size);
}

std::string_view WorkingOn::Place() {
  return innermost == nullptr ? std::string_view() : innermost->place_;
}

void ClearExceptionPlace() { left_place.size = 0; }

// Running out of memory counts as a shortage of the process, since what was
// worked on is missing in the results.
absl::Status OutOfMemory(std::string_view place) {
  std::string text(place);
  if (!text.empty()) text += ": ";
  return Shortage(text + kOutOfMemory);
}

// The place that was left is forgotten with this: it belongs to one exception.
absl::Status StatusOfHandled(std::string_view place) {
  std::string where(left_place.text, left_place.size);
  left_place.size = 0;
  if (where.empty()) where = place;
  return WithCurrentException([&](Handled handled) {
    if (handled.kind == Thrown::kOutOfMemory) return OutOfMemory(where);
    if (!where.empty()) where += ": ";
    if (handled.kind == Thrown::kText) {
      return absl::InternalError(where + "threw: " + handled.text);
    }
    return absl::InternalError(where + kNoText);
  });
}

void EndWithStatus(const char* program, int status) {
  program_name = program;
  status_at_end = status;
  (void)MemoryIsShort();  // Finds out how much, before a handler asks.
  std::set_terminate(&OnTerminate);
  CatchCrashes();
}

}  // namespace nodewise
