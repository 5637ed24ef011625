// The reference in the place of nodes, in builds that have operators.

#include <set>
#include <utility>

#include "apps/nodewise/stand_in_option.h"
#include "fmt/format.h"
#include "nodewise/ops/ops.h"
#include "nodewise/runner/node_choice.h"
#include "nodewise/runner/stand_in.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status StandIn(const std::vector<std::string>& expressions,
                     LoadedTarget* loaded) {
  if (expressions.empty()) return absl::OkStatus();
  if (loaded->target == nullptr) {
    return absl::InvalidArgumentError(
        "--stand-in: the interpreter runs the whole model, expected a model or "
        "an artefact that becomes a graph");
  }
  auto nodes = ChooseNodes(loaded->target->index(), expressions);
  if (!nodes.ok()) return At("--stand-in", nodes.status());
  const std::set<std::string> chosen(nodes->begin(), nodes->end());
  NODEWISE_ASSIGN_OR_RETURN(loaded->target,
                            WithStandIns(*loaded->target, AllOperators(),
                                         [chosen](const std::string& node) {
                                           return chosen.count(node) > 0;
                                         }));
  loaded->stand_ins = *std::move(nodes);
  return absl::OkStatus();
}

}  // namespace nodewise
