#include "nodewise/support/quiet_thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include "nodewise/support/float_environment.h"

namespace nodewise {

std::unique_ptr<std::thread> StartQuietThread(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::unique_ptr<std::thread> thread;
  try {
    thread = std::make_unique<std::thread>([work = std::move(work)] {
      // It may be made while compiled code runs.
      const DefaultFloatEnvironment floats;
      work();
    });
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace nodewise
