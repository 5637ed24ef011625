#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// While it exists, its thread works on `place`, a file or a node, say: if
// memory runs out, the message names the innermost such place. `place` must
// live as long. Costs a few nanoseconds; the objects of a thread nest.
class WorkingOn {
 public:
  explicit WorkingOn(std::string_view place);
  WorkingOn(const WorkingOn&) = delete;
  WorkingOn& operator=(const WorkingOn&) = delete;
  ~WorkingOn();

  // What this thread works on, or "".
  static std::string_view Place();

 private:
  const std::string_view place_;
  const WorkingOn* const outer_;
  const int exceptions_;  // That were under way before.
};

// Returns what the exception that is being handled says: kResourceExhausted and
// the place where memory ran out, if it did, and otherwise kInternal with its
// text. `place` is what it was worked on if no WorkingOn says so. Called from
// within `catch`.
absl::Status StatusOfHandled(std::string_view place);

// Forgets the place that an exception has left which was handled without
// StatusOfHandled(). Called before `try`, where that may have happened.
void ClearExceptionPlace();

// Returns what is said of memory that ran out while this thread worked on
// something: kResourceExhausted, with its place.
absl::Status OutOfMemory(std::string_view place = WorkingOn::Place());

// Whether this process can hardly have more memory, not even the stack of a
// thread. What crashes or gives up then does so for lack of it, since few
// libraries look at what they are given. Signal handlers may call it.
bool MemoryIsShort();

// From now on, an exception that nothing catches, be it in a thread or where
// none may pass, prints one line "PROGRAM: PLACE: ..." to stderr and ends the
// process with `status`, not with a signal; so does a crash when memory is
// short. Other crashes end it as before. For programs, not for libraries: all
// this is the process's own.
void EndWithStatus(const char* program, int status);

// A lack of memory is often only the reason why a part of the work was left
// out. The findings are then not complete: code that shows results asks whether
// there was such a shortage, since silence is not success.

// Notes it, and returns it as kResourceExhausted.
absl::Status Shortage(std::string text);

// Returns the first shortage of this process, with what was worked on where it
// was noted; none if there was none. Forked children have their own.
std::optional<absl::Status> FirstShortage();

}  // namespace nodewise
