#include "nodewise/process/child_end.h"

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {
std::string ChildEnd::ToString(int64_t limit_ms) const {
  switch (kind) {
    case Kind::kReturned:
      return std::string(MessageOf(status));
    case Kind::kSignal:
      return fmt::format(
          "crashed with {}{}", SignalText(signal),
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
