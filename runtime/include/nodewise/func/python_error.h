#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace nodewise {

// The exceptions of Python callbacks. TVM's Python package hands an exception
// to the runtime instead of a message (TVM 0.14 and later), and asks for it
// back when the call that it made ends in an error, so that the user sees it as
// it was raised. In between it travels with the status of its error, through
// all functions that the error passes. We never link Python: the package names
// the functions to count references with. Any thread may call these.

// Stores a function of Python's under its name: "Py_IncRef", "Py_DecRef",
// "PyGILState_Ensure" (TVM 0.15 and later), "PyGILState_Release" or
// "PyErr_CheckSignals", which nothing here calls. Fails with kInvalidArgument
// for any other name.
absl::Status SetPythonFunction(std::string_view name, void* address);

// Returns the error that `exception` caused. It holds a reference, which is
// given back with the last status that carries the exception. Returns
// kFailedPrecondition, without the exception, if references cannot be counted.
absl::Status PythonError(void* exception);

// Returns the exception that a status carries, or null. Valid while the status
// is.
void* PythonExceptionOf(const absl::Status& status);

// Leaks the reference that a status holds: a thread that ends cannot know
// whether Python still runs.
void AbandonPythonException(const absl::Status& status);

}  // namespace nodewise
