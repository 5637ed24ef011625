#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/nodewise/option_list.h"

namespace nodewise {

// The ways of `run` that look into the run. A build without the debug executor
// accepts the options too, to say what it would need for them.
struct DebugRunOptions {
  std::string until;
  std::vector<std::string> patches;  // ENTRY=FILE
  std::vector<std::string> stop_on;  // nan, inf, abs>LIMIT
  bool sanitize = false;
  bool isolate = false;
  bool sweep = false;
  std::optional<uint64_t> time_limit_ms;

  // Returns one of the options that were given; empty if none was.
  std::string_view Given() const;
};

void AddDebugRunOptions(OptionList* options, DebugRunOptions* debug);

}  // namespace nodewise
