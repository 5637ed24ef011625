#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/align/tensor_match.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/layout.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Returns a tensor of these numbers, rounded to the type. Fails as
// NDArray::Empty(), and with kInvalidArgument for a type without numbers.
absl::StatusOr<NDArray> TensorOfNumbers(const std::vector<double>& numbers,
                                        absl::Span<const int64_t> shape,
                                        DLDataType dtype);

// Returns the tensor itself if it has the type, else its numbers in that type.
absl::StatusOr<NDArray> InType(const NDArray& tensor, DLDataType dtype);

// Returns how coarsely the numbers of a tensor of floats are rounded, relative
// to the largest: as the type has it; or more, if they are all numbers of a
// shorter type, or multiples of one step. Numbers that were made in float16 or
// with eight bits are so wherever they are kept. 0 if they are not floats.
// `numbers` are by set of inputs.
double RoundoffOfNumbers(DLDataType dtype,
                         absl::Span<const std::vector<double>> numbers);

// How far two tensors may be apart that are made of the same numbers by one or
// a few operations, if both are right: the largest difference over the largest
// number. The roundoff is the unit roundoff of the types, or what is known to
// be larger.
double CleanDistance(double roundoff);
double CleanDistance(DLDataType source, DLDataType compiled);

// Puts the elements of a compiled tensor into the order of the network's.
absl::StatusOr<NDArray> UndoLayout(const Layout& layout,
                                   const NDArray& compiled,
                                   absl::Span<const int64_t> shape,
                                   DLDataType dtype);

// The things that are examined; all of them outlive what looks at them.
struct WalkScene {
  const GraphIndex& index;
  const Network& network;
  absl::Span<const RecordedPair> pairs;
  const Alignment& alignment;
};

// How coarsely a compiled graph calculates where its network does not: in
// shorter types, or with quantised numbers. Not thread-safe.
class GraphPrecision {
 public:
  explicit GraphPrecision(const WalkScene& scene);

  // Returns the largest roundoff of what the node reads where it is larger than
  // in the network: no result of the node can be nearer. 0 if there is none.
  // Fails as TensorSpool::Load().
  absl::StatusOr<double> ReadBy(NodeId node);
  // Returns the roundoff of the entry's own numbers or, if it holds no tensor
  // of the network, that of all that it was made of.
  absl::StatusOr<double> RoundoffFor(EntryId entry);
  // Returns the largest roundoff of the entry's numbers and of all that they
  // were made of, regardless of the network's own roundoff. Needs matches of
  // those alone.
  absl::StatusOr<double> Inherited(EntryId entry);

 private:
  // Facts about an entry that were found already.
  struct Known {
    std::optional<double> roundoff;
    std::optional<double> inherited;
    std::optional<bool> is_left;
  };

  // How coarse the numbers of an entry are: as they look, unless they are
  // what sums have left that cancelled. These are a few of the last bits, and
  // so numbers of shorter types, though nothing was rounded to these.
  double RoundoffOfEntry(EntryId entry,
                         absl::Span<const std::vector<double>> numbers);
  // Returns whether the entry is that, or no tensor of the network and made of
  // nothing else.
  bool IsCancellationResidue(EntryId entry);
  double RoundoffOfConstant(EntryId entry) const;

  const WalkScene scene_;
  // The network has weights of eight bits itself.
  bool has_short_weights_ = false;
  std::vector<Known> known_;  // By entry.
};

}  // namespace nodewise
