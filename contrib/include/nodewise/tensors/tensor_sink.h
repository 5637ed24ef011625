#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/tensors/bound_source.h"
#include "nodewise/tensors/tensor_key.h"

namespace nodewise {

// One tensor on its way, with what its producer knows about it. A producer
// fills in what it has at hand and calculates nothing for it: a live run has
// tensors and times, a dump of statistics has no tensors.
//
// All of it is lent for one call of TensorSink::Take(); a sink that keeps any
// of it makes a copy. The tensors of a run lie in memory that later nodes write
// over.
struct TensorItem {
  const TensorKey& key;
  // The contents, at any alignment, on any device, not to be written to. Null
  // if the producer does not have them; then `why_absent` says why.
  const DLTensor* tensor = nullptr;
  // That tensor, if it may be kept without a copy; otherwise undefined. It must
  // not be written to.
  NDArray lasting = {};
  // "only its statistics were recorded"; empty if there is a tensor.
  std::string_view why_absent = {};
  // The hash of the contents, if known. Old dumps have another kind than runs.
  std::optional<TensorHash> hash = {};
  // Null if not known. `hash` is set too if this is.
  const TensorStats* stats = nullptr;
  // When the node ran; both 0 if not known, or if no node made the tensor. What
  // a node reads is handed out before it runs where that is possible, so that
  // the time may be missing there.
  NodeTime time = {};
  // For kInput: the output that the node meant to read. Where its hash differs
  // from this one's, something has written over it. Null if not known.
  const TensorKey* origin = nullptr;
  // An input or a parameter of the network: no node made the tensor.
  bool is_network_input = false;
  // The network that was compiled has this tensor with the channels in side 1;
  // here they are last.
  bool has_channels_last = false;
  // How far a correct kernel may be off in each element: proved, and in
  // practice (Bounds of nodewise/op/evaluate.h). Empty if not known.
  absl::Span<const double> proved_bounds = {};
  absl::Span<const double> expected_bounds = {};
  // Works the bounds out when it is asked, where none stand above; null if they
  // are not known.
  BoundSource* bound_source = nullptr;

  // Returns the tensor as one that stays as it is: `lasting`, or a compact copy
  // in host memory. Fails with kNotFound, naming the key, if there is none.
  absl::StatusOr<NDArray> Keep() const;
};

// Takes tensors one after the other, in the order in which their producer makes
// them: by node, and of one node first what it read and then what it made.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // Called by one thread at a time, that of the producer. An error ends the
  // visit or the run, which returns it as it is; a sink that has seen enough
  // returns kCancelled.
  virtual absl::Status Take(const TensorItem& item) = 0;
};

}  // namespace nodewise
