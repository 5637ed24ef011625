#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What passes did to a model, in their order.
struct PassesReport {
  struct Ran {
    std::string pass;
    std::string text;  // Lines about operations; empty if it tells nothing.
    size_t operations = 0;  // Of the network, after it.
  };
  std::vector<Ran> ran;
  std::vector<Finding> left;  // What they have cut off.
};

// Lists the passes that there are, each with what it does.
std::string PassHelp();

// Runs the passes of a list (nodewise/passes/pass_list.h). Fails as
// ParsePassList() and RunPasses() do.
absl::StatusOr<PassesReport> RunModelPasses(const std::string& list,
                                            Network* network);

// Returns the lines for people, and adds the array "passes" to the document.
std::string ShowPasses(const PassesReport& report, JsonWriter* json);

}  // namespace nodewise
