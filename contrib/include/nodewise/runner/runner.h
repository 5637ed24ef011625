#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/graph/graph_inputs.h"
#include "nodewise/ir/network.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/ndarray/tensor_stats.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// The inputs of what is to be run, known before anything has been made to run
// it: they are checked here, so that nothing is made for inputs that would not
// fit. Inputs are numbered from 0. REQUIRES of all functions: input < size().
// Any thread may call.
class InputList {
 public:
  virtual ~InputList() = default;

  virtual size_t size() const = 0;
  // Several inputs may have one name.
  virtual std::string Name(size_t input) const = 0;
  // Returns the unique name that Find() accepts.
  virtual std::string Key(size_t input) const { return Name(input); }
  virtual TensorType Type(size_t input) const = 0;
  // Returns the type as messages show it: "float32 (1, 64)".
  virtual std::string TypeText(size_t input) const = 0;
  // True if a run cannot do without the input.
  virtual bool IsNeeded(size_t input) const = 0;
  // Fails with kNotFound, suggesting the nearest name, or with kInvalidArgument
  // if several inputs have that name.
  virtual absl::StatusOr<size_t> Find(const std::string& name) const = 0;
  virtual bool Fits(size_t input, const NDArray& tensor) const = 0;
  // Fails with kFailedPrecondition for an input that cannot be set.
  virtual absl::Status CheckSettable(size_t) const { return absl::OkStatus(); }
};

// Returns the inputs of a graph, whose parameters need not be given. `inputs`
// comes from InputsOf(graph), with its parameters marked. The graph must
// outlive the result.
std::unique_ptr<InputList> ListInputs(const Graph& graph,
                                      std::vector<GraphInput> inputs);
// Returns the inputs of a network, which must outlive the result.
std::unique_ptr<InputList> ListInputs(const Network& network);

// Returns the given tensors by input, undefined where none was given. Fails
// with the status of Find() or CheckSettable(), or with kInvalidArgument for an
// input that is given twice, does not fit or is missing.
absl::StatusOr<std::vector<NDArray>> MatchInputs(
    const InputList& list, absl::Span<const NamedTensor> given);

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
  std::function<bool(const std::string& node)> select = nullptr;
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
  // (LowMemoryScope): the run takes longer, and not more memory than it needs.
  bool in_little_memory = false;
  std::vector<TensorPatch> patches = {};
  std::optional<StopRule> stop = std::nullopt;
  // What a node leaves of the floating-point environment stays as it is for the
  // next one, as in a plain run; else it is put back, so that each node can be
  // judged by itself.
  bool leaves_floats = false;
  // How often to run, to time it. The sink sees every run; only the last one's
  // outputs are returned. 1 where there is a stop.
  uint64_t repeats = 1;

  bool Selects(const std::string& node) const {
    return !select || select(node);
  }
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

// Returns the tensor of that name; null if there is none.
const NDArray* FindTensor(absl::Span<const NamedTensor> tensors,
                          std::string_view name);

// --- For classes of runners.

// Returns the tensors of a run, which are by input, as Runner::Run() takes
// them: those that are given, with the names of their inputs.
std::vector<NamedTensor> NameGivenTensors(const InputList& list,
                                          std::vector<NDArray> tensors);
// Returns the names with numbers behind those that an earlier one has
// (MakeNamesUnique()).
std::vector<std::string> UniqueNames(const std::vector<std::string>& names);
// Returns the item by which a sink gets a tensor that may be kept, or none if
// it is undefined. The key must outlive it.
TensorItem ItemOf(const TensorKey& key, const NDArray& tensor);
// Fails with kInvalidArgument for a patch of a constant, or of another type
// than the value.
absl::Status CheckPatch(const TensorPatch& patch, const NetworkValue& value);

// --- Other programs.

// What a program is to run.
struct ProgramRequest {
  // Must not change any more.
  std::shared_ptr<const Network> network;
  // The file that it was read from; empty if it was changed since, by a frozen
  // input say, so that the file would be another network.
  std::string model_file = {};
  // The values that are handed to a sink, beside inputs and outputs; none: all
  // that there are. Others count as not there.
  std::optional<std::vector<std::string>> observed = std::nullopt;
  // Each of them is had as the only output of a model that ends at it. Makers
  // that do not know how leave it.
  bool ends_at_each = false;
};

// How often a program was started, by what it was given to run, and for how
// long in all.
struct ProgramRuns {
  uint64_t as_read = 0;   // The user's file.
  uint64_t observed = 0;  // A model with further outputs.
  uint64_t changed = 0;   // One in which values are exchanged, or that ends
                          // before the end.
  int64_t nanoseconds = 0;

  uint64_t count() const { return as_read + observed + changed; }
  friend ProgramRuns operator+(const ProgramRuns& a, const ProgramRuns& b) {
    return {a.as_read + b.as_read, a.observed + b.observed,
            a.changed + b.changed, a.nanoseconds + b.nanoseconds};
  }
  friend ProgramRuns operator-(const ProgramRuns& a, const ProgramRuns& b) {
    return {a.as_read - b.as_read, a.observed - b.observed,
            a.changed - b.changed, a.nanoseconds - b.nanoseconds};
  }
};

// Something else that runs networks: another program, or a runner of your own.
struct NetworkProgram {
  std::string name;  // What reports call it: "ort:model.onnx".
  // Makes a runner with the capabilities kTensors and kPatches. It is called
  // more than once, for the whole network and for parts of it.
  std::function<absl::StatusOr<std::unique_ptr<Runner>>(ProgramRequest)> make;
  std::vector<std::string> command = {};  // For reports; may be empty.
  // What its runners have done up to now. May be empty; any thread may call it.
  std::function<ProgramRuns()> runs = nullptr;
};

// A node that ended its run, or spoils the memory of what runs beside it.
// Runners whose nodes run in another process ("guarded") survive the former,
// and say so with a status that carries this.
struct NodeFailure {
  enum class Kind : uint8_t {
    kCrash,       // A signal.
    kHang,        // It did not return in time.
    kExit,        // It ended the process.
    kError,       // It returned an error, or threw.
    kStrayWrite,  // It wrote to memory that is not its own.
    kSideEffect,  // It left something changed that all code shares.
  };
  Kind kind = Kind::kCrash;
  std::string node;  // Its key.
  std::string what;  // "crashed with SIGSEGV at address 0x10"
  // For a side effect that shows only in a later node: that node's key.
  std::string victim = {};
};
// Returns "crash", "hang", "exit", "error", "stray write" or "side effect".
std::string_view NameOf(NodeFailure::Kind kind);

// Returns the status that carries the failure: its message begins with `title`
// ("node 3 (conv1)"), and goes on with what the node did. REQUIRES: `code` is
// an error's.
absl::Status StatusOf(const NodeFailure& failure, std::string_view title,
                      absl::StatusCode code);

// Returns the failure that a status carries; none for any other status.
std::optional<NodeFailure> FailureOf(const absl::Status& status);

}  // namespace nodewise
