#include "nodewise/process/child_end.h"

#include <signal.h>

#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

std::string SignalName(int signal_number) {
  static constexpr std::pair<int, const char*> kNames[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
      {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},
      {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"},
      {SIGSYS, "SIGSYS"},   {SIGTERM, "SIGTERM"},
      {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
      {SIGXCPU, "SIGXCPU"}, {SIGHUP, "SIGHUP"},
      {SIGINT, "SIGINT"},   {SIGKILL, "SIGKILL (out of memory?)"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal_number) return name;
  }
  return fmt::format("signal {}", signal_number);
}

}  // namespace

std::string ChildEnd::ToString(int64_t limit_ms) const {
  switch (kind) {
    case Kind::kReturned:
      return std::string(MessageOf(status));
    case Kind::kSignal:
      return fmt::format(
          "crashed with {}{}", SignalName(signal),
          has_address ? " at address " + AddressText(address) : "");
    case Kind::kTimeout:
      return fmt::format("had not returned after {} ms and was stopped",
                         limit_ms);
    case Kind::kExit:
      return fmt::format("ended the process with exit status {}", exit_status);
    case Kind::kVanished:
      break;
  }
  return "its process ended, and something else in this one collected its exit "
         "status";
}

}  // namespace nodewise
