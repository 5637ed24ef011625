#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/runner/graph_target.h"

namespace nodewise {

// Returns a compiled graph as a network, for use as the model of another
// compiled graph: the nodes are its operations and have their keys for names,
// the entries are its values, and parameters are constants. An operation
// computes what the node's function does, alone and on any inputs. The first
// time it has a process of its own, where there are such: a node that crashes
// or hangs then fails with a status that names it.
//
// Fails as making executors of the target does, and with kUnimplemented for a
// target that runs on another device than CPUs.
absl::StatusOr<Network> NetworkOfBuild(
    const std::shared_ptr<const GraphTarget>& target);

}  // namespace nodewise
