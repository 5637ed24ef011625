#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// What the command line of Glow's network debugger says.
struct DebuggerFlags {
  std::string model;
  std::vector<std::string> inputs;
  std::string backend = "Interpreter";
  bool is_recursive = false;
  double threshold = 1e-5;
  bool dump_tensors = false;
  std::string dump_dir = ".";
  bool fp16 = false;
  bool fuse = true;
  bool wants_help = false;
};

// Reads the arguments without the program's name. Flags may begin with one dash
// or two, and have their values behind "=" or in the next argument. Fails with
// kInvalidArgument, naming the flag.
absl::StatusOr<DebuggerFlags> ParseFlags(
    absl::Span<const std::string> arguments);

std::string FlagsHelp();

}  // namespace nodewise
