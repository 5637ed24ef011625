#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/region.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// The operations of the network where a compiled graph has a node, as a network
// of its own: so the node can be judged alone, on the inputs that it reads.

// The nodes of a compiled graph that make an entry of what is known: the node
// that makes it, and those before it that hold no tensor of the network, since
// the compiler took an operation apart.
struct CompiledPart {
  std::vector<NodeId> nodes;  // In the order of the graph.
  // What they read of others, each once, in the order of the nodes. It holds
  // tensors of the network, or does not depend on inputs.
  std::vector<EntryId> reads;
};

// `located` comes from LocateByValue() for the graph. Fails with kUnimplemented
// if too many nodes before it hold no tensor of the network.
absl::StatusOr<CompiledPart> FindPart(const GraphIndex& index,
                                      const ValueLocateResult& located,
                                      EntryId entry);

// An input of the part when it is alone. Several may be of one entry.
struct PartInput {
  EntryId entry{};
  std::string name;
};

struct SourceRegion {
  // Its inputs are those of the part, in their order, names, shapes and
  // layouts, and its output is the entry: what the network makes of them. The
  // network's own constants are in it. `covers` names the network's operations.
  Region region;
  // The output has elements that mean nothing, which are 0 here: by element;
  // empty if there are none.
  std::vector<bool> is_padding;
  // The output as the network has it, in its own shape and order; in the
  // entry's if it is not blocks alone in which that differs.
  Network in_own_layout;
  // How far the entry may be off if it is right: a share of its largest number.
  double clean_distance = 0;
};

// Returns what the network makes of what the part of the entry reads. Fails
// with kNotFound if it is unknown what the entry should hold, or if the network
// makes that of something else than what the part reads; and with
// kUnimplemented for layouts that operations cannot express.
absl::StatusOr<SourceRegion> RegionOfPart(const GraphIndex& index,
                                          const Network& network,
                                          const ValueLocateResult& located,
                                          EntryId entry,
                                          absl::Span<const PartInput> inputs,
                                          const OpSet& operators);

}  // namespace nodewise
