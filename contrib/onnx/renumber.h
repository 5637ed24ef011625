#pragma once

#include "nodewise/ir/network.h"

namespace nodewise {

// Returns the network with the numbers that it would have if made in one go:
// inputs, constants as they are read, then the outputs of each operation.
// Importing adds and removes items, but reading an exported model again gives
// exactly these numbers.
Network Renumbered(Network network);

}  // namespace nodewise
