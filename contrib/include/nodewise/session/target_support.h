#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// What a target that networks are lowered for does with a network, by the table
// that lowering and binding use (nodewise/lower/kernel_table.h). Nothing is
// lowered for it.
struct TargetSupport {
  std::string target;
  size_t operations = 0;
  size_t nodes = 0;
  std::vector<std::pair<std::string, size_t>> by;  // Operations, by kernel.
  // Why the target was not asked, since its sizes are not known, say; "".
  std::string why_not;
  // What the target does not do, or not at its best, or all of it.
  std::vector<Finding> findings;
};

// The targets that can be asked, beside those of nodewise/ir/target.h.
inline constexpr std::string_view kLoweringTargets[] = {"onednn", "c"};

// The name that texts have of a kernel: "the reference", "oneDNN".
inline std::string TitleOfKernel(const std::string& kernel) {
  return kernel == "reference" ? "the reference" : kernel;
}

// REQUIRES: the target is one of them. Fails in a build without operators.
absl::StatusOr<TargetSupport> QueryTarget(const Network& network,
                                          const std::string& target);

// Writes the functions of a model's graph as C.
absl::StatusOr<EmittedC> EmitModelC(const Graph& graph);

}  // namespace nodewise
