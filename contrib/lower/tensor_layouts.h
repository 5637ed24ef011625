#pragma once

#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/lower/lower.h"

namespace nodewise {

// Chooses the tensors between regions that have their channels last: those
// around the operations that gain by it, and those behind and in front of them
// as far as all that touches them takes it. Returns it by value; inputs,
// constants and outputs of the network stay as they are.
std::vector<bool> ChooseChannelsLast(
    const Network& network,
    const std::vector<std::vector<OperationId>>& regions,
    const LayoutPreferenceOf& preference_of);

}  // namespace nodewise
