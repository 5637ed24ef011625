#pragma once

#include "absl/status/status.h"

namespace nodewise {

// The error of this thread, as C code leaves and fetches it. A status of ours
// keeps its code on the way through C.
void SetLastError(absl::Status status);

// The message, "" if there was none. Valid until the next error on the thread.
const char* LastErrorMessage();

// Whether there is an error that nobody took.
bool HasLastError();

// The error that made a C function return nonzero, and forgets it, so that it
// is never taken for the reason of a later failure. A function that failed
// without a word gets a status that says so.
absl::Status TakeLastError();

// The Python exception of an error that nobody took; null if there is none.
// Valid until that error is taken or dropped, or another comes.
void* LastPythonException();

// Forgets an error that nobody took, before a call whose failure must not be
// given that reason. The message stays for the host.
void DropLastError();

}  // namespace nodewise
