#pragma once

#include <memory>

#include "nodewise/lower/lower.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

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
