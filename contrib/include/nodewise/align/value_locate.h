#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/layout.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/op/op_def.h"
#include "nodewise/support/machine.h"

namespace nodewise {

// Names the node of a compiled graph that makes something else than the network
// that it was compiled from, though the graph does not say what its nodes
// compute: by the values alone.

// The verdict about an entry of the graph. The state of a node is the last
// one, in this order, of those of its entries.
enum class EntryState {
  kConstant,  // It does not depend on inputs.
  // It holds no tensor of the network, and all that is made of it is healthy:
  // part of an operation that the compiler took apart.
  kOnTheWay,
  kHealthy,  // It holds what the network makes of what its node has read.
  // It lies behind a broken one, or is made of what is open in the alignment,
  // so what it should hold is unknown.
  kUnknown,
  kBroken,  // It should hold a tensor of the network and does not.
};

struct LocatedEntry {
  EntryState state = EntryState::kConstant;
  // The tensors of the network that it holds, or should hold.
  std::vector<HeldTensor> tensors;
  // How far it is from what the network makes of the graph's own numbers, as
  // EntryMatch::distance: what its node made wrong itself.
  double distance = 0;
  // Distances from the tensors of the network's own run: `received` is the
  // largest among what the node read, `passed_on` that of the entry, or
  // `received` if the entry holds no tensor.
  double received = 0;
  double passed_on = 0;

  // Returns how many times larger the error became; 0 if it received none.
  double gain() const { return received == 0 ? 0 : passed_on / received; }
};

// A change of an operation with which the network makes what the node has made.
struct Explanation {
  OperationId operation = kNoOperation;
  std::string what;  // "alpha 0.2 instead of 0.7"
};

// A node that is to blame.
struct ValueCulprit {
  NodeId node{};
  EntryId entry{};
  // Others that hold no tensor of the network and that the entry is made by:
  // any of them may be wrong instead of the node. In the order of the graph.
  std::vector<NodeId> parts;
  // The tensor that the entry should hold; kNoValue if unknown.
  ValueId expected = kNoValue;
  double distance = 0;  // Infinite if it is far away.
  // The operations of the network that make it of what the node has read, in
  // the order of the network: one of them was compiled wrongly.
  std::vector<OperationId> region;
  // Those of the region that are to blame, the likeliest first, a few at most:
  // those that a small change explains, or where there are none any.
  std::vector<OperationId> operations;
  // The changes that explain what the node has made, the best first.
  std::vector<Explanation> explanations;
  // How many changes were tried; and whether there are more changes, or other
  // tensors that it may be meant to be, for which there was no time.
  size_t edits_tried = 0;
  bool gave_up = false;
  // The share of the next nodes that are right if the entry should have held
  // that tensor: the evidence for it. 0 where explanations alone are.
  double share_explained = 0;
  // Tensors that are made of the same numbers in the same way, of which the
  // entry may be meant to hold any: the values do not say which.
  std::vector<ValueId> alike;
  // The entry holds what another one should, and that one what it should.
  bool is_exchanged = false;
  // The shape of an output that should have the network's and has not; empty
  // for all else.
  std::vector<int64_t> output_shape;
  // The sets of inputs with which the entry is wrong, by number. Empty if that
  // is not known.
  std::vector<size_t> sets;
  // False if only elements are wrong that are, or should be, NaN or infinite.
  bool differs_in_finite = true;
};

struct ValueLocateResult {
  std::vector<LocatedEntry> entries;   // By entry.
  std::vector<ValueCulprit> culprits;  // In the order of the graph.
};

// How much is tried for one culprit: a person waits.
struct SearchLimits {
  // For the tensor that it should have made.
  int64_t most_guess_ns = 20'000'000'000;
  // For the changes that explain what it has made instead.
  size_t most_edits = 300;
  int64_t most_edit_ns = 10'000'000'000;
  int64_t (*clock)() = &ClockNanoseconds;
};

// Examines what was recorded. `alignment` comes from Align() of the same;
// `operators` are those that may have been taken for another.
// Fails as reading back what was recorded does.
absl::StatusOr<ValueLocateResult> LocateByValue(
    const GraphIndex& index, const Network& network,
    absl::Span<const RecordedPair> pairs, const Alignment& alignment,
    const OpSet& operators, const SearchLimits& limits = {});

}  // namespace nodewise
