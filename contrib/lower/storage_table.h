#pragma once

#include "nodewise/ir/network.h"
#include "nodewise/lower/lowering_plan.h"

namespace nodewise {

// Lets what nodes make share memory where it is not needed at the same time:
// no node writes where it reads, and what is an output of the network shares
// with nothing that is made later.
StorageTable ShareStorage(const Network& network, const NodeTable& nodes);

}  // namespace nodewise
