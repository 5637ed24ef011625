#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "nodewise/graph/by_node.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"

namespace nodewise {

// Says whether its node made a tensor or read it.
enum class TensorRole {
  // The node made it. The inputs and parameters of a network count as nodes
  // that make what they were given.
  kOutput,
  // The node read it: these are the bytes that lay there when it began. They
  // differ from what was made where something has written over them.
  kInput,
};

// The name of a tensor on its way from a dump, a file or a run to a comparison,
// a file or a report. A plain value.
struct TensorKey {
  // The key of the node (GraphIndex::KeyOf()): its name, or `name#index`
  // if another node has that name. For tensors of a network, the value's name;
  // for those of a file, the whole name that they have there.
  std::string node;
  // Which of the node's outputs, or for kInput which of its inputs.
  uint32_t slot = 0;
  TensorRole role = TensorRole::kOutput;
  // Where the tensor is from (TensorSource::name()), for messages. It says
  // nothing about which tensor it is and is not compared.
  std::string source = {};

  // Returns the name in files and messages: "conv1" for output 0, "conv1:1" for
  // output 1, "conv1:input:0" for what it read first. A file keeps no more than
  // this name, so it alone decides which keys are equal: a file's tensor
  // "conv1:1" has the key of output 1 of conv1.
  std::string Name() const;

  friend bool operator==(const TensorKey& a, const TensorKey& b) {
    return a.slot == b.slot && a.role == b.role ? a.node == b.node
                                                : a.Name() == b.Name();
  }
};

// How far a correct kernel may be off in each element of one tensor: proved,
// and in practice (Bounds of nodewise/op/evaluate.h). They are valid for as
// long as the object that handed them out says.
struct BoundSpans {
  absl::Span<const double> proved;
  absl::Span<const double> expected;
};

// How far an element may be off if no bound is known for it:
// |actual - expected| up to absolute + relative * |expected|.
struct UnboundedLimit {
  double absolute = std::numeric_limits<double>::infinity();
  double relative = 0;
};

// The bounds of one tensor of a reference, worked out when they are asked for.
// All of them may cost several times what the tensor did, and whether another
// tensor keeps within them can mostly be told for much less. Lives as long as
// what the tensor was made of. Not thread-safe.
class BoundSource {
 public:
  virtual ~BoundSource() = default;

  // Returns true only if it is certain that no element of `actual` is further
  // from the reference's than both bounds allow, as far as they are known for
  // it, and that a proved one is known for each that is off by more than
  // `unbounded` says: All() would say so, too. False says nothing. REQUIRES:
  // `actual` has the shape and type of the reference's tensor, is compact, in
  // host memory, and differs only in elements that are finite on both sides.
  virtual absl::StatusOr<bool> IsProvablyWithin(
      const DLTensor& actual, const UnboundedLimit& unbounded) = 0;

  // Returns the bounds of all elements, valid as long as this is.
  virtual absl::StatusOr<BoundSpans> All() = 0;
};

// One tensor on its way, with what its producer knows about it. A producer
// fills in what it has at hand and calculates nothing for it: a live run has
// tensors and times, a dump of statistics has no tensors.
//
// All of it is lent for one call of TensorSink::Consume(); a sink that keeps
// any of it makes a copy. The tensors of a run lie in memory that later nodes
// write over.
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
  virtual absl::Status Consume(const TensorItem& item) = 0;
};

}  // namespace nodewise

// Equal keys have equal hashes, in std's and Abseil's containers.
template <>
struct std::hash<nodewise::TensorKey> {
  size_t operator()(const nodewise::TensorKey& key) const {
    return std::hash<std::string>()(key.Name());
  }
};
