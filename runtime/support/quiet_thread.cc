#include "nodewise/support/quiet_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

namespace nodewise {

std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>(std::move(work));
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace nodewise
