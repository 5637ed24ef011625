#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/func/prepared_call.h"
#include "nodewise/graph/graph_index.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/graph/params.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/support/run_mark.h"

namespace nodewise {

// The name and type of an input or output of a graph.
struct TensorInfo {
  std::string name;
  absl::Span<const int64_t> shape;  // Valid while the executor is.
  DLDataType dtype{};
  bool is_param = false;  // Set by SetParam, LoadParams or ShareParams.
};

// What LoadParams did: each name is counted in one of these.
struct LoadedParams {
  size_t set = 0;  // Inputs and parameters that were set.
  // Keys of a dump that mean what a node of the graph makes: passed over.
  size_t computed = 0;
  std::vector<std::string> unknown;  // Names that the graph does not have.
};

// With this variable at 1, inputs that were never set are zeros when a graph
// runs, instead of an error.
inline constexpr char kAllowUnsetVariable[] = "NODEWISE_ALLOW_UNSET";

// Runs a graph's nodes in order with the compiled functions of a library. The
// tensors live where the compiler's plan puts them, so results are those of
// TVM's own executor, bit for bit.
//
// Inputs are numbered as in arg_nodes and known by name. Where several have one
// name, the name means the one that is not a parameter; `name#node` means one
// for certain.
//
// Not thread-safe; different executors may run at the same time, also on one
// library.
class GraphExecutor {
 public:
  struct Options {
    // The first is where entries without a device_index live; the others are
    // chosen by their type.
    std::vector<DLDevice> devices = {kCpu};
    // Asked for the constant data of a storage id, as TVM's lookup function is:
    // null if there is none. Without it the library is asked (TVM 0.8).
    std::function<absl::StatusOr<NDArray>(int64_t storage_id,
                                          const DLTensor& like)>
        linked_param;
    // Where entries live, instead of where the graph's storage ids put them.
    // kInvalidArgument if it is not one for this graph, or if a slot is smaller
    // than an entry and there is no `allocate`.
    std::optional<StoragePlan> plan;
    // Gives the memory of a slot: one-dimensional, uint8, of at least `bytes`
    // (never less than its largest entry), aligned to kTensorAlignment. Without
    // it the device is asked.
    std::function<absl::StatusOr<NDArray>(uint32_t slot, size_t bytes,
                                          DLDevice device)>
        allocate;
    // Where it is true, a run ends before its next node, with kCancelled. A
    // handler of signals or any thread may set it. Null: runs go to their end.
    const std::atomic<bool>* cancel = nullptr;
  };

  // Allocates the storage and binds every node to its function.
  // Fails with kNotFound (a function the library lacks, with the node and the
  // nearest name), kUnavailable (a device that is not built in or not given),
  // kResourceExhausted (memory), kDataLoss (an unsound graph).
  static absl::StatusOr<std::unique_ptr<GraphExecutor>> Create(
      Graph graph, Ref<Library> library, Options options);
  static absl::StatusOr<std::unique_ptr<GraphExecutor>> Create(
      Graph graph, Ref<Library> library) {
    return Create(std::move(graph), std::move(library), Options());
  }

  virtual ~GraphExecutor() = default;
  GraphExecutor(const GraphExecutor&) = delete;
  GraphExecutor& operator=(const GraphExecutor&) = delete;

  const Graph& graph() const { return graph_; }
  const StoragePlan& plan() const { return plan_; }

  size_t NumInputs() const { return inputs_.size(); }
  size_t NumOutputs() const { return outputs_.size(); }
  TensorInfo InputInfo(size_t input) const { return InfoOf(inputs_[input]); }
  // Outputs are named after their nodes; `name:output` where a node or a name
  // gives several.
  TensorInfo OutputInfo(size_t output) const {
    return InfoOf(outputs_[output]);
  }
  // kNotFound, with the nearest name, or kInvalidArgument if the name is that
  // of several. An output's is that of OutputInfo(), or else TVM's.
  absl::StatusOr<size_t> InputIndex(std::string_view name) const;
  absl::StatusOr<size_t> OutputIndex(std::string_view name) const;
  // TVM calls an output by its node's name and its place among the graph's
  // outputs, `name:place`, which may look like the name of another one here.
  std::optional<size_t> FindOutputByTvmName(std::string_view name) const;

  // Copies the tensor into the input. Its shape and type must be the input's
  // (kInvalidArgument); its strides may be any. A tensor that was bound stays
  // bound if this fails.
  absl::Status SetInput(size_t input, const DLTensor& tensor);
  absl::Status SetInput(std::string_view name, const DLTensor& tensor);
  // Sets many inputs by their names; none if one does not fit. The error then
  // names each that is wrong: unknown, of another type, given twice, linked
  // into the library. kNotFound if all of them are unknown, else
  // kInvalidArgument.
  absl::Status SetInputs(absl::Span<const NamedTensor> tensors);
  // Lets the graph read the tensor's own memory, and keeps it alive. Memory
  // that the compiled code could not use as it lies (unaligned) is copied at
  // the start of each run instead.
  absl::Status SetInputZeroCopy(size_t input, const NDArray& tensor);
  // The input's memory. The next run reads what is written there; the input
  // counts as set from then on.
  absl::StatusOr<NDArray> GetInput(size_t input);

  // The output's memory, which the next run overwrites.
  absl::StatusOr<NDArray> GetOutput(size_t output) const;
  // Copies the output of the last run. kFailedPrecondition before the first.
  absl::Status CopyOutput(size_t output, const DLTensor& to) const;
  // Lets the graph write the output into the tensor's own memory, and keeps it
  // alive; where that cannot be, it is copied at the end of each run.
  absl::Status SetOutputZeroCopy(size_t output, const NDArray& tensor);

  absl::Status SetParam(std::string_view name, const DLTensor& tensor);
  // Sets every parameter that the graph has; nothing if one does not fit. Given
  // a dump's tensors (output_tensors.params), sets the inputs and parameters
  // among its keys (NodeOfDumpKey).
  absl::StatusOr<LoadedParams> LoadParams(const Params& params) {
    return SetAllParams(params, /*in_place=*/false);
  }
  // Does the same, but lets the graph read the parameters' own memory, and
  // keeps it alive, wherever that lies as the functions need it. A parameter
  // that shares its memory in the plan with other tensors is copied there.
  absl::StatusOr<LoadedParams> BindParams(const Params& params) {
    return SetAllParams(params, /*in_place=*/true);
  }
  // Uses the memory of another executor's inputs of these names, which stays
  // alive. Names that one of them lacks are passed over; kFailedPrecondition if
  // the other's was never set.
  absl::Status ShareParams(GraphExecutor& other,
                           absl::Span<const std::string> names);

  // Runs all nodes. kFailedPrecondition if an input that is read was never
  // set; the message names those inputs. With kAllowUnsetVariable=1 in the
  // environment they are zeros instead, until they are set, and stderr says so
  // once. An error of a function names its node.
  virtual absl::Status Run();

 protected:
  // Running is a loop of these.
  struct Call {
    PreparedCall function;
    NodeId node;
  };
  // An input or output of the graph and what is bound to it.
  struct Port {
    std::string name;
    uint32_t node = 0;
    uint32_t entry = 0;
    bool is_set = false;
    bool is_param = false;
    bool is_read = false;    // By a node, or as an output of the graph.
    NDArray external = {};   // The caller's tensor, if one is bound.
    bool is_copied = false;  // It is copied instead of being used in place.
  };

  GraphExecutor(Graph graph, Options options)
      : graph_(std::move(graph)), options_(std::move(options)) {}

  // `is_param` is never set for an output.
  TensorInfo InfoOf(const Port& port) const {
    const GraphEntry& entry = graph_.entries[port.entry];
    return {port.name, entry.shape, entry.dtype, port.is_param};
  }

  // Checks and allocates; what Create does after making the object.
  absl::Status Init(Library& library);

  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  // What compiled code sees of an entry.
  const DLTensor& tensor(EntryId entry) const { return tensors_[Index(entry)]; }
  // The entry's memory as it is now; kept alive by the array. Kernels are told
  // that who has it may write to it.
  NDArray EntryArray(uint32_t entry) const;
  // True if the entry lies in its slot and not in a caller's memory.
  bool IsInSlot(EntryId entry) const;
  // Whether the entry holds its value: of the last run, or of the pass that is
  // under way.
  virtual bool IsComputed(EntryId) const { return has_run_; }
  // A base entry has got its value where it is now, from the caller and not
  // from a node.
  virtual void ValueWasSet(EntryId) {}
  // A base entry lies in the caller's memory, which does not hold its value.
  virtual void ValueWasDropped(EntryId) {}
  // Moves a base entry and its aliases to other memory.
  void Repoint(uint32_t base, void* data);
  // Grows whenever an input is set or bound. Memory that the caller may write
  // at any time makes MayChangeUnseen() true.
  uint64_t input_changes() const { return input_changes_; }
  bool MayChangeUnseen() const;
  absl::Status PrepareRun();
  absl::Status ZeroUnset();
  absl::Status FinishRun();
  absl::Status CallError(const Call& call) const;
  bool IsCancelled() const {
    return options_.cancel != nullptr &&
           options_.cancel->load(std::memory_order_relaxed);
  }
  // The error of a run that is cancelled before a node.
  absl::Status CancelledAt(NodeId node) const;

 private:
  absl::StatusOr<DLDevice> DeviceOf(const StorageSlot& slot,
                                    uint32_t entry) const;
  absl::Status MakePlan();
  absl::Status CheckGivenPlan(const StoragePlan& plan) const;
  absl::Status AllocateSlots(Library& library);
  absl::StatusOr<NDArray> LinkedParam(Library& library, uint32_t slot,
                                      uint32_t entry);
  absl::StatusOr<NDArray> AllocateSlot(uint32_t slot, uint32_t entry,
                                       size_t largest);
  void MakeTensors();
  void MakePorts();
  void MakeChanges();
  TensorChanges* ChangesOf(uint32_t entry) const;
  void NoteChange(const Port& port) const;
  absl::Status BindCalls(Library& library);
  absl::StatusOr<PackedFunc> BindNode(
      Library& library, NodeId node, absl::Span<const DLTensor* const> args,
      absl::Span<const std::shared_ptr<const TensorChanges>> changes);
  DLTensor* ArgumentOf(uint32_t entry, bool flatten);
  absl::Status CheckExternal(const Port& port, const NDArray& array) const;
  bool UsableInPlace(const DLTensor& tensor) const;
  absl::StatusOr<LoadedParams> SetAllParams(const Params& params,
                                            bool in_place);
  void Unbind(Port* port);
  absl::Status CheckWritable(const Port& port) const;
  absl::Status CopyToSlot(const Port& port, const DLTensor& tensor);
  void MarkSet(Port* port);
  absl::StatusOr<size_t> ParamIndex(std::string_view name,
                                    const DLTensor& tensor) const;
  absl::StatusOr<size_t> CheckNamed(const NamedTensor& given) const;
  absl::Status CheckType(const Port& port, const DLTensor& tensor) const;

  Graph graph_;
  Options options_;
  StoragePlan plan_;
  std::vector<NDArray> slots_;     // One-dimensional, of bytes.
  std::vector<bool> is_linked_;    // By slot: constant data of the library.
  std::vector<DLTensor> tensors_;  // By entry.
  // One-dimensional twins of tensors for nodes with flatten_data, by entry.
  std::unordered_map<uint32_t, std::pair<int64_t, DLTensor>> flat_tensors_;
  // By entry that is a base: the entries that are its tensor.
  std::vector<std::vector<uint32_t>> aliases_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  std::unordered_multimap<std::string, size_t> input_names_;
  // What kernels are told of the inputs that are alone in their memory, by
  // entry.
  std::unordered_map<uint32_t, std::shared_ptr<TensorChanges>> changes_;
  CallMemory call_memory_;
  std::vector<Call> calls_;
  size_t alignment_ = 0;   // What the library needs of addresses.
  size_t num_unset_ = 0;   // Inputs that are read and were never set.
  size_t num_copied_ = 0;  // Ports that are copied around each run.
  bool has_run_ = false;
  uint64_t input_changes_ = 0;
  bool is_input_lent_ = false;  // GetInput handed its memory out.
  const uint64_t mark_owner_ = RunMark::NewOwner();
};

// Returns host copies of the outputs, which later runs do not change, under
// names that all differ, even where one entry is an output twice.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor);

// Appends a number to each name that an earlier tensor has: "y", "y_2", "y_3".
void MakeNamesUnique(std::vector<NamedTensor>* tensors);

// The attribute of a node whose function takes numbers besides tensors, as in
// "1=3 2=256": argument 1 is 3, argument 2 is 256.
inline constexpr std::string_view kCallNumbers = "call_numbers";

std::string CallNumbersText(absl::Span<const CallNumber> numbers);

// Returns the numbers of a node that has `tensors` tensors. Fails with
// kInvalidArgument, located, if they cannot be read or leave out an argument.
absl::StatusOr<std::vector<CallNumber>> CallNumbersOf(const Graph& graph,
                                                      NodeId node,
                                                      size_t tensors);

}  // namespace nodewise
