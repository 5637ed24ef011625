#include "runtime/memcheck/access_trap.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>

#include "nodewise/support/check.h"

namespace nodewise {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};

std::atomic<AccessTrapListener*> current_listener{nullptr};
// Indexed as kSignals. Written before our handler is in place.
struct sigaction previous_actions[2];

TrappedAccess AccessOf([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  // Bit 1 of the page fault's error code, which the kernel passes on.
  constexpr greg_t kWriteBit = 2;
  const auto* machine = static_cast<const ucontext_t*>(context);
  const greg_t error = machine->uc_mcontext.gregs[REG_ERR];
  return (error & kWriteBit) != 0 ? TrappedAccess::kWrite
                                  : TrappedAccess::kRead;
#else
  return TrappedAccess::kUnknown;
#endif
}

void Forward(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction& previous =
      previous_actions[signal_number == kSignals[0] ? 0 : 1];
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_number, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal_number);
    return;
  }
  // A trapped access recurs on return and then ends the process; a signal sent
  // with kill() does not, so it is sent once more.
  sigaction(signal_number, &previous, nullptr);
  if (info->si_code <= 0) raise(signal_number);
}

void OnSignal(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  AccessTrapListener* const listener =
      current_listener.load(std::memory_order_acquire);
  const bool is_handled =
      listener != nullptr && info->si_code > 0 &&
      listener->OnTrap(static_cast<uint8_t*>(info->si_addr), AccessOf(context));
  if (!is_handled) Forward(signal_number, info, context);
  errno = saved_errno;
}

}  // namespace

AccessTrap::AccessTrap(AccessTrapListener* listener) {
  NODEWISE_CHECK(current_listener.exchange(listener) == nullptr);
  struct sigaction action {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) {
    sigaction(kSignals[i], nullptr, &previous_actions[i]);
    sigaction(kSignals[i], &action, nullptr);
  }
}

AccessTrap::~AccessTrap() {
  for (int i = 0; i < 2; ++i) {
    sigaction(kSignals[i], &previous_actions[i], nullptr);
  }
  current_listener.store(nullptr, std::memory_order_release);
}

}  // namespace nodewise
