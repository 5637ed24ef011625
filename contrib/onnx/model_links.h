#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "contrib/onnx/onnx_types.h"

namespace nodewise {

struct ImportState;

// Why a node cannot read a name that a node makes.
struct LateMaker {
  std::string node;  // Which makes it, and runs no earlier than its reader.
  // Both are on a cycle, which has been reported.
  bool is_in_cycle = false;
};
// By reader and name.
using LateMakers =
    std::map<std::pair<const proto::Node*, std::string>, LateMaker>;

// The nodes of a list in an order in which they can run, by the list; those
// that are not here can run as they stand.
using NodeOrders = std::map<const void*, std::vector<int>>;

// Returns the node that runs at that place.
template <typename Nodes>
int NodeAtPlace(const NodeOrders& orders, const Nodes& nodes, int place) {
  const auto order = orders.find(&nodes);
  return order == orders.end() ? place
                               : order->second[static_cast<size_t>(place)];
}

// Looks at the links of a whole model, its functions and bodies too, before any
// operator is known: reports every cycle as the path along which it runs and,
// if the options ask for it, what no output depends on. Fills in
// ImportState::late_makers and ImportState::orders, and says of which lists the
// nodes had to be sorted.
void CheckLinks(const proto::Model& model, ImportState* state);

}  // namespace nodewise
