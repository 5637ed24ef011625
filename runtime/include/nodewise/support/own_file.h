#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace nodewise {

// Files whose names are ours, in folders that others may write to as well. An
// OutputFile follows a link under its name, as a user who gives that name wants
// it; another user's link under a name of ours would have a file written over
// that neither of us has named.

// Makes a file in place of anything that stands at `path`, which is neither
// followed nor written to. `write` gets a path beside it, with its extension,
// makes a complete file there, and may use an OutputFile for that. A regular
// file's mode is kept. Returns the error of `write`, which speaks of `path`
// then. Any thread may call.
absl::Status ReplaceFile(
    const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& beside)> write);
absl::Status ReplaceFile(const std::string& path, std::string_view text);

// Returns whether a file's name is one that files have until they are complete:
// a process that was killed has left it, or another one is writing it.
bool IsPartName(std::string_view name);

// Waits until what was written to a file is on the disk.
absl::Status SyncFile(const std::string& path);
// Does so for an open file; `path` is for the message. What cannot be synced,
// such as a pipe, is left as it is.
absl::Status SyncDescriptor(int descriptor, const std::string& path);

}  // namespace nodewise
