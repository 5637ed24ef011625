#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace nodewise {

// A program that is run to its end, with everything that it starts.
struct ForeignProcess {
  std::string name;  // What messages begin with.
  // The program, looked for in PATH unless it has a slash, and its arguments.
  // No shell sees them.
  std::vector<std::string> arguments;
  int64_t time_limit_ms = 0;
  uint64_t most_printed_bytes = 0;  // On stdout and stderr together.
  uint64_t most_file_bytes = 0;     // In any single file, in any folder.
  // A folder that it writes to, and how much it may hold.
  std::string folder;
  uint64_t most_folder_bytes = 0;
  size_t most_folder_files = 0;
};

// Runs it in a process group of its own, with nothing to read on stdin, and
// returns OK if it ended with the exit status 0 within its limits. Processes
// left in the group are killed then, and at once where a limit is exceeded; the
// program itself also if this process ends. A process that makes a group of its
// own escapes this.
//
// Fails with kNotFound for a program that is not there, and with kUnavailable
// for one that ended by a signal, with another exit status or was stopped; the
// message quotes the end of what it wrote to stderr. Any thread may call.
absl::Status RunForeignProcess(const ForeignProcess& process);

}  // namespace nodewise
