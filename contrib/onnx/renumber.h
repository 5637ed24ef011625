#pragma once

#include "nodewise/ir/network.h"

namespace nodewise {

// The same network with the numbers that it has when it is made in one go:
// inputs, constants as they are read, then what each operation makes. Importing
// adds and removes in between, and a model that was written from the result
// gives those numbers.
Network Renumbered(Network network);

}  // namespace nodewise
