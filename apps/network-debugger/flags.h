#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace nodewise {

// What Glow's debugger takes for the largest error where nothing is said.
inline constexpr double kGlowThreshold = 1e-5;

// What the command line of Glow's network debugger says.
struct DebuggerFlags {
  std::string model;
  std::vector<std::string> inputs;
  std::string backend = "Interpreter";
  bool is_recursive = false;
  double threshold = kGlowThreshold;
  bool dump_tensors = true;  // Glow's debugger always dumps them.
  std::string dump_dir = ".";
  bool fp16 = false;
  bool clip_fp16 = false;
  bool fused_fp16 = false;  // Scales of fused rows in float16.
  bool sls_fp16 = false;    // Sums of rows in float16.
  bool all_alone = false;   // Every layer is tried alone.
  std::string python;       // What runs adapters; empty: python3.
  std::string compiler = "cc -O2";
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
