#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/runner/input_list.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {

// A runner is the one door to anything that runs a network: a compiled
// artefact, the reference, later a foreign runtime or a dump played back. Code
// that compares, locates or tests runs works with runners and asks what one can
// do; it never needs to know the class.

// What a runner may be asked for beyond the outputs of a run.
enum class Capability {
  kTensors,        // RunOptions::sink gets what every node makes.
  kNodeInputs,     // RunOptions::with_node_inputs.
  kNodeTimes,      // TensorItem::time.
  kBounds,         // RunOptions::with_bounds.
  kPatches,        // RunOptions::patches.
  kSteps,          // RunOptions::stop.
  kDeterministic,  // Equal inputs give equal bits in every run.
};
// Returns what messages call it: "patches", "stops between nodes", ...
std::string_view NameOf(Capability capability);

// A tensor that a run uses in place of what it computes.
struct TensorPatch {
  // As GraphIndex::FindEntry() takes it for a graph: "conv1:0", or "conv1" for
  // output 0; a value's name for a network.
  std::string entry;
  NDArray tensor;
  std::string from;   // Its file, for messages.
  std::string where;  // What messages about it begin with: "--patch".
};

// When a run ends early: after a node, or after the first node that makes one
// of some values, whichever comes first.
struct StopRule {
  // The node, as GraphIndex::FindNode() takes it for a graph: a name, a key or
  // "#7"; an operation's name for a network. Empty: none.
  std::string node;
  std::string where;  // What messages about `node` begin with: "--until".
  std::optional<StopValues> values;
};

struct RunOptions {
  // Gets the inputs of the network and then what each node makes, in the order
  // of the run and lent for the call alone; null: no tensors are handed out.
  // Its error ends the run and is returned as it is.
  TensorSink* sink = nullptr;
  // Returns whether the tensors whose TensorKey has this `node` go to the sink;
  // null: all do.
  std::function<bool(const std::string& node)> select;
  bool with_node_inputs = false;  // The sink gets what nodes read, too.
  bool with_bounds = false;       // The sink gets bounds on rounding errors.
  // The sink needs no more of a tensor than TensorItem::hash, or the contents
  // to make it of: where they are far away, they stay there.
  bool hashes_suffice = false;
  // How long a node may take, for runners whose nodes run in another process:
  // from 1 to kMostTimeLimitMs of nodewise/process/isolation.h.
  int64_t node_limit_ms = 60'000;
  // What nodes free goes back to the system at once, where it would be kept for
  // later otherwise, and kernels keep nothing that they can make again
  // (LittleMemory): the run takes longer, and not more memory than it needs.
  bool in_little_memory = false;
  std::vector<TensorPatch> patches;
  std::optional<StopRule> stop;
  // What a node leaves of the floating-point environment stays as it is for the
  // next one, as in a plain run; else it is put back, so that each node can be
  // judged by itself.
  bool leaves_floats = false;
  // How often to run, to time it. The sink sees every run; only the last one's
  // outputs are returned. 1 where there is a stop.
  uint64_t repeats = 1;
};

// A node where a run ended.
struct StopPlace {
  std::string key;          // "conv1", unique in the graph.
  std::string title;        // "node 3 (conv1)".
  std::string function;     // Empty for an input.
  bool made_value = false;  // It was the first to make one of the values.
};

// A node that left the floating-point environment changed.
struct NodeFloats {
  std::string key;  // "conv1"
  FloatChange change;
};

// An output of a node that was not searched for values, since they cannot be
// read.
struct UnreadTensor {
  std::string name;  // "conv1:0".
  DLDataType dtype{};
};

struct RunResult {
  // Host copies, which belong to the caller alone: the outputs in the order of
  // Runner::outputs(), or where the run stopped early those of the node there,
  // called "conv1:0".
  std::vector<NamedTensor> outputs;
  std::optional<StopPlace> stopped;  // Where it ended early.
  std::vector<UnreadTensor> unread;  // Only with StopRule::values.
  // What one should know about the run: "--patch: entry a shares its memory
  // with b (patched with it)".
  std::vector<std::string> notes;
  // How long each repeat took, without setting inputs and copying outputs.
  std::vector<int64_t> durations_ns;
  // The nodes that left the floating-point environment changed, each once; only
  // of runners whose nodes can be looked at.
  std::vector<NodeFloats> floats;
  // What another process in which the nodes ran took at most, beside what it
  // shared with this one (MostPrivateBytes()); 0 if there was none.
  uint64_t bytes_beside = 0;
  // What another program that ran it calls itself: "onnxruntime 1.32.0, ...".
  std::string runtime;
};

// A run that has begun, or will when it is asked for.
class PendingRun {
 public:
  // Ends a run that has not been finished.
  virtual ~PendingRun() = default;
  // Waits for the end of the run, in which the sink gets all that it was to
  // get. Called once.
  virtual absl::StatusOr<RunResult> Finish() = 0;
};

// Not thread-safe; different runners, also of one target, may run at the same
// time. Nothing remains from one run to the next.
class Runner {
 public:
  virtual ~Runner() = default;

  // Returns the runner's and its target's name, for messages: "plain net".
  virtual const std::string& name() const = 0;
  // Valid while the runner is.
  virtual const InputList& inputs() const = 0;
  // Returns the names of the outputs, all different.
  virtual const std::vector<std::string>& outputs() const = 0;

  virtual bool Can(Capability capability) const = 0;

  // Runs from the first node on. `inputs` are named as InputList::Find()
  // accepts; all that are needed must be there. Fails as MatchInputs() for
  // inputs, with kUnimplemented for options that it has no capability for,
  // with kNotFound or kInvalidArgument for patches and stops that name nothing
  // or do not fit. An error of a node names it.
  absl::StatusOr<RunResult> Run(absl::Span<const NamedTensor> inputs,
                                const RunOptions& options = {});

  // Begins such a run, and leaves it to itself until it is finished, if the
  // runner's nodes run in another process; otherwise it begins when it is
  // finished. Others may run meanwhile, also of this runner, which must outlive
  // it, as must the sink. Fails as Run() does before the first node.
  absl::StatusOr<std::unique_ptr<PendingRun>> Start(
      absl::Span<const NamedTensor> inputs, const RunOptions& options = {});

 protected:
  // As Run(). `tensors` are by input, undefined where none is given; the
  // options are such as the runner can do.
  virtual absl::StatusOr<RunResult> RunChecked(std::vector<NDArray> tensors,
                                               const RunOptions& options) = 0;
  // As Start().
  virtual absl::StatusOr<std::unique_ptr<PendingRun>> StartChecked(
      std::vector<NDArray> tensors, const RunOptions& options);

 private:
  class LaterRun;

  absl::StatusOr<std::vector<NDArray>> Check(
      absl::Span<const NamedTensor> inputs, const RunOptions& options) const;
};

// Makes one more runner of the same kind and target, with nothing in common
// that a run changes. Fails as making the first could have failed.
using RunnerMaker = std::function<absl::StatusOr<std::unique_ptr<Runner>>()>;

}  // namespace nodewise
