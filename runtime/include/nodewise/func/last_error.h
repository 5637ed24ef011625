#pragma once

#include "absl/status/status.h"

namespace nodewise {

// Sets the last error of this thread, which C code leaves and fetches. A status
// of ours keeps its code on the way through C. For the host the message begins
// with the kind of error, by which TVM's Python package chooses the exception:
// "InternalError: " as for a failed check of TVM's, unless it names one itself.
void SetLastError(absl::Status status);
// Sets it to what code outside has said, which is passed on as it is.
void SetLastErrorText(const char* message);

// Returns the message for the host, "" if there was none. Valid until the next
// error on the thread.
const char* LastErrorMessage();

// Returns whether there is an error that has not been taken.
bool HasLastError();

// Returns the error that made a C function return nonzero, and forgets it, so
// that it is never taken for the reason of a later failure. If the function
// failed without setting an error, the status says so.
absl::Status TakeLastError();

// Returns the Python exception of an error that has not been taken, or null.
// Valid until that error is taken or dropped, or another comes.
void* LastPythonException();

// Forgets an error that has not been taken, so that it is not taken for the
// reason why the next call fails. The message stays for the host.
void DropLastError();

}  // namespace nodewise
