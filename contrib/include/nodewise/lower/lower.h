#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Turns a network into a graph JSON that executors run node by node, as if a
// compiler had made it. Every node is a region of the network (region.h), and a
// LoweredLibrary has its functions.

class KernelMaker;
class KernelTable;

// Which order in memory an operation wants its tensors to have.
enum class LayoutPreference {
  kPlain,         // As the network has them.
  kAny,           // The order of its neighbours, one for all its tensors.
  kChannelsLast,  // Side 1 last: then it is faster.
};
using LayoutPreferenceOf =
    std::function<LayoutPreference(const Network&, OperationId)>;

// Which values can be seen from outside while a network runs.
using IsObserved = std::function<bool(const Network&, ValueId)>;

struct LowerOptions {
  // Puts operations that compilers compute together into one node.
  bool fuse = true;
  // Lets tensors share memory that are not needed at the same time.
  bool reuse_storage = true;
  // Gives tensors between nodes their channels last where operations are faster
  // so. Such a tensor is called as the network's with ".channels_last" behind,
  // and has the type that it has in memory; the regions that make and read it
  // say so with a Transpose (of `operators`), which costs nothing if the kernel
  // does without. Null: all tensors are as the network has them.
  LayoutPreferenceOf preference_of = nullptr;
  OpSet operators = {};
  // Instead of fusing, puts operations into one node that pass values to each
  // other which cannot be seen; such a node may have several outputs. For
  // graphs that describe what something else runs. Null: `fuse` decides.
  IsObserved is_observed = nullptr;
  // The makers that are asked, in this order, for the kernel of each node.
  // Empty: none is chosen until the nodes are bound.
  std::vector<std::shared_ptr<const KernelMaker>> makers = {};
};

struct Lowered {
  // Sound, and read from its own text. Its inputs are those of the network and
  // then `params`; its outputs are called as the network's.
  Graph graph;
  // The network's constants that nodes read, by their names; shared with it.
  std::vector<NamedTensor> params;
  // What computes the nodes, for the library that they are bound by; null if
  // the options name no makers.
  std::shared_ptr<const KernelTable> kernels;
};

// Plans the network and makes the graph (lowering_plan.h). `name` is what
// messages call the graph's text. Fails with kUnimplemented,
// naming the value, for a network that no graph can express: with sizes that
// are not known before it runs (the message says how to give them), or with
// types that executors do not have.
absl::StatusOr<Lowered> Lower(const Network& network, const std::string& name,
                              const LowerOptions& options = {});

}  // namespace nodewise
