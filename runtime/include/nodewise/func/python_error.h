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

// Keeps a function of Python's under its name: "Py_IncRef", "Py_DecRef",
// "PyGILState_Ensure" (TVM 0.15 and later), "PyGILState_Release" or
// "PyErr_CheckSignals", which nothing here calls. kInvalidArgument if it is
// none of them.
absl::Status SetPythonFunction(std::string_view name, void* address);

// The error that `exception` caused. It holds a reference, which is given back
// with the last status that carries the exception.
// kFailedPrecondition, without the exception, if references cannot be counted.
absl::Status PythonError(void* exception);

// The exception that a status carries, or null. Valid while the status is.
void* PythonExceptionOf(const absl::Status& status);

// Gives up the reference that a status holds without giving it back: a thread
// that ends cannot know whether there still is a Python.
void AbandonPythonException(const absl::Status& status);

}  // namespace nodewise
