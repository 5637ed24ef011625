#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/align/layout.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/runner/runner.h"
#include "nodewise/tensors/tensor_source.h"
#include "nodewise/tensors/tensor_store.h"

namespace nodewise {

// Finds which tensors of a network each entry of a graph holds that was
// compiled from it. Compilers keep no such map: they fuse, rename and rewrite
// operations. But where what they made is right, an entry has the numbers of
// some tensor of the network, in another order maybe; and with several sets of
// inputs it has them by no chance.

// An input of the compiled graph, and the one of the network that it stands
// for.
struct PairedInput {
  std::string compiled;  // InputList::Key().
  std::string network;
};

// All that both sides made of the same inputs.
struct RecordedPair {
  std::vector<PairedInput> inputs;
  std::unique_ptr<TensorSpool> compiled;  // Keys of entries.
  std::unique_ptr<TensorSpool> network;   // Names of values.
  // The outputs of the compiled graph, in its order; empty if the tensors come
  // from a dump.
  std::vector<NDArray> outputs;
};

// Returns for each input of a compiled graph that a run needs the input of the
// network that it stands for: that of its name, or of its name as compilers
// write it, with underscores in the place of what no identifier has; else the
// one in the same place of the list if the types agree. `compiled` has no
// inputs but those that need be given. Fails with kInvalidArgument, naming the
// input, if there is none.
absl::StatusOr<std::vector<size_t>> PairInputs(const InputList& compiled,
                                               const InputList& network);

// Returns which of these pairs go by their place in the list alone.
std::vector<size_t> PairsByPlace(const InputList& compiled,
                                 const InputList& network,
                                 absl::Span<const size_t> pairs);

// Runs both sides once. `inputs` are the network's, by its names; `pairs` comes
// from PairInputs(). The runners have the capability kTensors. Fails as they
// and as writing to the disk do.
absl::StatusOr<RecordedPair> RecordPair(Runner* compiled, Runner* network,
                                        absl::Span<const size_t> pairs,
                                        absl::Span<const NamedTensor> inputs);

// Takes what a run of the compiled graph made from its dump, and runs the
// network once on what that run was given. Inputs of the graph that have no
// name of an input of the network are parameters. Fails with kInvalidArgument
// if the dump has not all inputs of the network, and as reading it does.
absl::StatusOr<RecordedPair> RecordFromDump(const GraphIndex& index,
                                            TensorSource* dump,
                                            Runner* network);

// A tensor of the network, as an entry holds it or should.
struct HeldTensor {
  ValueId value = kNoValue;
  Layout layout;
};

// A tensor of the network that an entry holds.
struct EntryMatch {
  ValueId value = kNoValue;
  Layout layout;
  // How far the two are apart: the largest difference over the largest number
  // of the network's tensor, in the worst of the sets of inputs.
  double distance = 0;
  // The entry holds these numbers, but in an order that no layout explains. So
  // it is when parts of a tensor stand in the wrong order.
  bool has_unknown_order = false;
  // The entry holds what the operation that makes the value would make without
  // this optional input, which some later node adds: a bias, say.
  std::optional<size_t> without_input = std::nullopt;
  // The entry holds the tensors of all matches, one behind the other, and not
  // each of them.
  bool is_joined = false;
};

struct AlignedEntry {
  EntryId entry{};
  // It depends on inputs of the network. Other entries are parameters, or made
  // of parameters alone, and are not looked at.
  bool varies = false;
  // Several where operations change nothing, or not the numbers. The nearest
  // come first.
  std::vector<EntryMatch> matches;
  // They are so only as nearly as numbers allow that were made of quantised
  // ones, or in a shorter type.
  bool is_rounded = false;
  // Where nothing matches: the operations of the network between what the
  // nearest entries before and behind it hold, in their order. It is inside of
  // them. Empty if nothing behind it matches.
  std::vector<OperationId> between;
};

struct Alignment {
  std::vector<AlignedEntry> entries;  // By entry.
  // Values that operations read and that the model has, but the network does
  // not. Code that knows of such values sets them: what a node makes of one may
  // be unknown without being wrong.
  std::vector<ValueId> open;

  // Return how many function nodes depend on inputs, and how many of these have
  // an output that is matched in a known order.
  size_t CountVarying(const Graph& graph) const;
  size_t CountMatched(const GraphIndex& index) const;
  // Returns how many more are between matched ones, with so many operations
  // between these at most.
  size_t CountBetween(const GraphIndex& index, size_t most_operations) const;
};

// Matches what was recorded with any number of sets of inputs. Operations with
// optional inputs are also computed without these where nothing else matches:
// compilers take such operations apart. Fails with
// kFailedPrecondition if nothing was recorded, or the two sides of a pair have
// no tensors, and as reading them back does.
absl::StatusOr<Alignment> Align(const GraphIndex& index, const Network& network,
                                absl::Span<const RecordedPair> pairs);

}  // namespace nodewise
