#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Returns the graph of a network in which each of these values is a tensor of
// its own, as something that hands them out has it, and no memory is shared by
// a plan of ours. `name` is for messages. Fails as Lower().
absl::StatusOr<std::shared_ptr<const Lowered>> LowerObserved(
    const Network& network, const std::string& name,
    const std::vector<std::string>& observed);

// Returns a runner of a network as one of the graph that Lower() has made of
// it: what it hands out is called as the nodes and their outputs are, node by
// node, each with what it read, and patches are named so, too. Thus what knows
// graphs (CheckNodes(), Locate()) can examine something that runs networks. A
// tensor that the runner does not hand out is missing here, too; parameters
// come from the graph. `runner` must be able to hand out tensors; what else it
// can do, this one can.
std::unique_ptr<Runner> ViewAsGraph(std::unique_ptr<Runner> runner,
                                    std::shared_ptr<const Lowered> graph);

}  // namespace nodewise
