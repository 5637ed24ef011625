#include "nodewise/graph/graph_executor.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "nodewise/func/c_errors.h"
#include "nodewise/graph/graph_inputs.h"
#include "nodewise/support/check.h"
#include "nodewise/support/float_environment.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Copies the bytes of one tensor to another of the same size, regardless of
// their shapes: a __nop whose slots differ. It runs only if the plan keeps
// input and output of a __nop apart, or for __copy.
absl::StatusOr<Value> CopyAnyShape(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* from, args.TensorAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const DLTensor* to, args.TensorAt(1));
  DLTensor reshaped = *from;
  reshaped.ndim = to->ndim;
  reshaped.shape = to->shape;
  reshaped.dtype = to->dtype;
  NODEWISE_RETURN_IF_ERROR(CopyTensor(reshaped, *to));
  return Value();
}

// Reads "1=3 2=256". Places must rise, and all of them be among the arguments:
// CallMemory takes a tensor for every place that has no number.
bool ParseCallNumbers(const std::string& text, size_t tensors,
                      std::vector<CallNumber>* numbers) {
  for (const absl::string_view part :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    CallNumber number;
    if (!absl::SimpleAtoi(sides.first, &number.place) ||
        !absl::SimpleAtoi(sides.second, &number.value) ||
        (!numbers->empty() && number.place <= numbers->back().place)) {
      return false;
    }
    numbers->push_back(number);
  }
  return numbers->empty() || numbers->back().place < tensors + numbers->size();
}

}  // namespace

// All that can be found wrong is found here, so that a run is a loop of calls
// without checks: the graph, the plan, the memory, each node's function and the
// layout of its arguments.
absl::StatusOr<std::unique_ptr<GraphExecutor>> GraphExecutor::Create(
    Graph graph, Ref<Library> library, Options options) {
  std::unique_ptr<GraphExecutor> executor(
      new GraphExecutor(std::move(graph), std::move(options)));
  NODEWISE_RETURN_IF_ERROR(executor->Init(*library));
  return executor;
}

absl::Status GraphExecutor::Init(Library& library) {
  // A graph may have been made or changed by hand since it was parsed.
  DiagnosticList diagnostics;
  CheckGraph(graph_, &diagnostics);
  LocateDiagnostics(graph_.text, &diagnostics);
  NODEWISE_RETURN_IF_ERROR(diagnostics.ToStatus());
  if (options_.devices.empty()) {
    return InvalidArgument("no device was given to run on");
  }
  // The order matters: tensors point into slots, ports into tensors, calls to
  // both.
  alignment_ = library.NeededAlignment();
  NODEWISE_RETURN_IF_ERROR(MakePlan());
  NODEWISE_RETURN_IF_ERROR(AllocateSlots(library));
  MakeTensors();
  MakePorts();
  MakeChanges();
  return BindCalls(library);
}

absl::Status GraphExecutor::MakePlan() {
  if (!options_.plan.has_value()) {
    NODEWISE_ASSIGN_OR_RETURN(
        plan_, PlanStorage(graph_, DeviceTypeOf(options_.devices[0])));
    return absl::OkStatus();
  }
  NODEWISE_RETURN_IF_ERROR(At("storage plan", CheckGivenPlan(*options_.plan)));
  plan_ = *std::move(options_.plan);
  return absl::OkStatus();
}

// A plan of a caller's is checked like one from a file: a wrong one would have
// nodes write over each other's memory, or beyond it.
absl::Status GraphExecutor::CheckGivenPlan(const StoragePlan& plan) const {
  const size_t count = graph_.entries.size();
  if (plan.slot_of.size() != count || plan.base_of.size() != count) {
    return InvalidArgument(
        "has {} slot numbers and {} bases, expected {} (one per entry)",
        plan.slot_of.size(), plan.base_of.size(), count);
  }
  for (uint32_t e = 0; e < count; ++e) {
    const uint32_t base = plan.base_of[e];
    if (plan.slot_of[e] >= plan.slots.size() || base > e ||
        plan.base_of[base] != base || plan.slot_of[base] != plan.slot_of[e]) {
      return InvalidArgument(
          "entry {} is in slot {} with base {}, expected one of {} slots and "
          "an earlier base in the same",
          e, plan.slot_of[e], base, plan.slots.size());
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const size_t bytes,
        TensorBytes(graph_.entries[e].shape, graph_.entries[e].dtype));
    const StorageSlot& slot = plan.slots[plan.slot_of[e]];
    if (slot.bytes < bytes && !options_.allocate) {
      return InvalidArgument(
          "storage {} has {} bytes, expected at least {} for entry {}",
          slot.storage_id, slot.bytes, bytes, e);
    }
  }
  return absl::OkStatus();
}

// A slot names a type of device; which device of that type it is, only the
// caller knows.
absl::StatusOr<DLDevice> GraphExecutor::DeviceOf(const StorageSlot& slot,
                                                 uint32_t entry) const {
  std::string given;
  for (const DLDevice device : options_.devices) {
    if (DeviceTypeOf(device) == slot.device_type) return device;
    given += (given.empty() ? "" : ", ") + ToString(device);
  }
  // TVM would silently take the first device.
  const DLDevice missing = MakeDevice(slot.device_type, 0);
  const absl::Status status = GraphError(
      graph_, fmt::format("/attrs/device_index/1/{}", entry),
      fmt::format("an entry on {}", DeviceTypeName(slot.device_type)),
      fmt::format("one of the devices given: {}", given),
      FindDevice(missing).ok() ? "name it with the others"
                               : fmt::format("this build has no {} device",
                                             DeviceTypeName(slot.device_type)));
  return absl::UnavailableError(status.message());
}

// A slot is as large as the largest tensor in it. Linked data are looked for
// first: they are in the library already.
absl::Status GraphExecutor::AllocateSlots(Library& library) {
  slots_.resize(plan_.slots.size());
  is_linked_.resize(plan_.slots.size(), false);
  std::vector<size_t> largest(plan_.slots.size());
  for (uint32_t e = 0; e < graph_.entries.size(); ++e) {
    const GraphEntry& entry = graph_.entries[e];
    NODEWISE_ASSIGN_OR_RETURN(const size_t bytes,
                              TensorBytes(entry.shape, entry.dtype));
    const uint32_t slot = plan_.slot_of[e];
    largest[slot] = std::max({largest[slot], bytes, plan_.slots[slot].bytes});
  }
  for (uint32_t e = 0; e < graph_.entries.size(); ++e) {
    const uint32_t slot = plan_.slot_of[e];
    if (slots_[slot].defined()) continue;
    NODEWISE_ASSIGN_OR_RETURN(slots_[slot], LinkedParam(library, slot, e));
    is_linked_[slot] = slots_[slot].defined();
    if (is_linked_[slot]) continue;
    NODEWISE_ASSIGN_OR_RETURN(slots_[slot],
                              AllocateSlot(slot, e, largest[slot]));
  }
  return absl::OkStatus();
}

// `largest` is what the slot must hold, which a given plan may understate.
absl::StatusOr<NDArray> GraphExecutor::AllocateSlot(uint32_t slot,
                                                    uint32_t entry,
                                                    size_t largest) {
  const StorageSlot& wanted = plan_.slots[slot];
  NODEWISE_ASSIGN_OR_RETURN(const DLDevice device, DeviceOf(wanted, entry));
  const int64_t bytes[] = {static_cast<int64_t>(largest)};
  auto memory = options_.allocate
                    ? options_.allocate(slot, largest, device)
                    : NDArray::Empty(bytes, DLDataType{kDLUInt, 8, 1}, device);
  if (memory.ok()) return memory;
  return At(fmt::format("storage {}", wanted.storage_id), memory.status());
}

// TVM 0.8 can link parameters into the library, which then has a function that
// gives the address of the data of a storage id.
absl::StatusOr<NDArray> GraphExecutor::LinkedParam(Library& library,
                                                   uint32_t slot,
                                                   uint32_t entry) {
  const int64_t id = plan_.slots[slot].storage_id;
  const size_t wanted = plan_.slots[slot].bytes;
  if (options_.linked_param) {
    const DLTensor like =
        TensorOfEntry(graph_.entries[entry], options_.devices[0]);
    NODEWISE_ASSIGN_OR_RETURN(NDArray given, options_.linked_param(id, like));
    if (!given.defined()) return given;
    if (given.bytes() >= wanted && IsCompact(*given)) return given;
    return InvalidArgument(
        "storage {}: the linked data is {}, expected {} compact bytes", id,
        TypeToString(given.shape(), given.dtype()), wanted);
  }
  NODEWISE_ASSIGN_OR_RETURN(LinkedData linked, FindLinkedData(library, id));
  if (linked.data == nullptr) return NDArray();
  return NDArray::BorrowBytes(
      linked.data, wanted, options_.devices[0],
      std::make_shared<PackedFunc>(std::move(linked.lookup)));
}

// A tensor borrows its shape from graph_, which never changes from here on.
void GraphExecutor::MakeTensors() {
  tensors_.resize(graph_.entries.size());
  aliases_.resize(graph_.entries.size());
  for (uint32_t e = 0; e < graph_.entries.size(); ++e) {
    const NDArray& slot = slots_[plan_.slot_of[e]];
    tensors_[e] = TensorOfEntry(graph_.entries[e], slot.device(), slot.data());
    aliases_[plan_.base_of[e]].push_back(e);
  }
}

// An output is called after the value of the network that it is, if the graph
// says so, else after its node; where that is not unique, after its entry.
void GraphExecutor::MakePorts() {
  for (const GraphInput& input : InputsOf(graph_)) {
    Port port{std::string(input.name), Index(input.node),
              Index(graph_.EntryOf(input.node, 0))};
    port.is_read = input.is_read;
    port.is_set = port.is_param = is_linked_[plan_.slot_of[port.entry]];
    if (port.is_read && !port.is_set) ++num_unset_;
    input_names_.emplace(port.name, inputs_.size());
    inputs_.push_back(std::move(port));
  }
  std::unordered_map<std::string_view, int> heads_named;
  for (const EntryRef& head : graph_.heads) {
    ++heads_named[graph_.nodes[head.node].name];
  }
  std::optional<GraphIndex> index;  // Few graphs need one for their names.
  for (const EntryRef& head : graph_.heads) {
    Port port{graph_.nodes[head.node].name, head.node};
    port.entry = Index(graph_.EntryOf(head));
    if (auto value = ValueNameOf(graph_, head); value.has_value()) {
      port.name = *std::move(value);
    } else if (heads_named[port.name] > 1) {
      if (!index.has_value()) index.emplace(graph_);
      port.name = index->KeyOf(graph_.EntryOf(head));
    }
    outputs_.push_back(std::move(port));
  }
}

// Where entries share memory, a node may write over an input.
void GraphExecutor::MakeChanges() {
  std::vector<int> bases(plan_.slots.size());
  for (uint32_t e = 0; e < plan_.base_of.size(); ++e) {
    if (plan_.base_of[e] == e) ++bases[plan_.slot_of[e]];
  }
  for (const Port& port : inputs_) {
    const uint32_t slot = plan_.slot_of[port.entry];
    if (plan_.base_of[port.entry] != port.entry || bases[slot] != 1) continue;
    auto changes = std::make_shared<TensorChanges>();
    // The code that gave the memory still has it.
    changes->is_lent = options_.allocate != nullptr || is_linked_[slot];
    changes_.emplace(port.entry, std::move(changes));
  }
}

// Calls hold the addresses of the flat tensors, which are nodes of a hash table
// and stay in place when it grows.
DLTensor* GraphExecutor::ArgumentOf(uint32_t entry, bool flatten) {
  DLTensor& tensor = tensors_[entry];
  if (!flatten) return &tensor;
  auto& [elements, flat] = flat_tensors_[entry];
  elements = NumElements(ShapeOf(tensor)).value_or(0);
  flat = tensor;
  flat.ndim = 1;
  flat.shape = &elements;
  return &flat;
}

// Arguments are the inputs and then the outputs, as TVM's compiled functions
// take them.
absl::Status GraphExecutor::BindCalls(Library& library) {
  calls_.reserve(graph_.nodes.size());
  std::vector<const DLTensor*> tensors;
  std::vector<std::shared_ptr<const TensorChanges>> changes;
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.kind == GraphNode::Kind::kInput) continue;
    tensors.clear();
    changes.clear();
    const auto add = [&](uint32_t entry) {
      tensors.push_back(ArgumentOf(entry, node.flatten));
      const auto known = changes_.find(plan_.base_of[entry]);
      changes.push_back(known == changes_.end() ? nullptr : known->second);
    };
    for (const EntryRef& ref : node.inputs) add(Index(graph_.EntryOf(ref)));
    for (uint32_t o = 0; o < node.num_outputs; ++o) {
      add(Index(graph_.EntryOf(NodeId{n}, o)));
    }
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function,
                              BindNode(library, NodeId{n}, tensors, changes));
    if (!function) continue;  // Nothing to do at run time.
    NODEWISE_ASSIGN_OR_RETURN(const std::vector<CallNumber> numbers,
                              CallNumbersOf(graph_, NodeId{n}, tensors.size()));
    calls_.push_back(
        {call_memory_.Prepare(std::move(function), tensors, numbers),
         NodeId{n}});
  }
  return absl::OkStatus();
}

// A __nop that shares its input's tensor has nothing to do; a null function
// says so.
absl::StatusOr<PackedFunc> GraphExecutor::BindNode(
    Library& library, NodeId id, absl::Span<const DLTensor* const> args,
    absl::Span<const std::shared_ptr<const TensorChanges>> changes) {
  const GraphNode& node = graph_.node(id);
  if (node.function == kNopFunction || node.function == kCopyFunction) {
    const uint32_t input = Index(graph_.EntryOf(node.inputs[0]));
    const uint32_t output = Index(graph_.EntryOf(id, 0));
    if (node.function == kNopFunction && plan_.base_of[output] != output) {
      return PackedFunc();
    }
    NODEWISE_CHECK(input != output);
    return PackedFunc::FromBody(&CopyAnyShape);
  }
  auto function = library.Bind(
      {node.function, node.attrs, args, node.num_outputs, changes});
  if (function.ok()) return function;
  const absl::Status located = GraphError(
      graph_, fmt::format("/nodes/{}/attrs/func_name", Index(id)),
      fmt::format("node {}: {}", node.name, MessageOf(function.status())));
  return WithMessage(function.status(), std::string(located.message()));
}

// An input that was never set is an error, or zeros where the environment says
// so: a user who only times a network need not feed it.
absl::Status GraphExecutor::ZeroUnset() {
  // The message names all of them, so that a user need not find them one by
  // one.
  std::vector<Port*> unset;
  std::string names;
  for (Port& port : inputs_) {
    if (port.is_set || !port.is_read) continue;
    unset.push_back(&port);
    names += (names.empty() ? "" : ", ") + port.name;
  }
  const char* const allowed = std::getenv(kAllowUnsetVariable);
  if (allowed == nullptr || std::string_view(allowed) != "1") {
    return FailedPrecondition(
        "cannot run: {} of {} inputs were never set: {} (set them, or have "
        "zeros in their place with {}=1 in the environment)",
        unset.size(), inputs_.size(), names, kAllowUnsetVariable);
  }
  for (Port* const port : unset) {
    DLTensor& tensor = tensors_[port->entry];
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray zeros,
        NDArray::Empty(ShapeOf(tensor), tensor.dtype, kCpu));
    std::memset(zeros.data(), 0, zeros.bytes());
    NODEWISE_RETURN_IF_ERROR(CopyTensor(*zeros, tensor));
    MarkSet(port);
  }
  std::fprintf(stderr, "nodewise: inputs that were never set are zeros: %s\n",
               names.c_str());
  return absl::OkStatus();
}

absl::Status GraphExecutor::PrepareRun() {
  if (num_unset_ > 0) NODEWISE_RETURN_IF_ERROR(ZeroUnset());
  // An error that a host left unread must not be taken for that of a node.
  DropLastError();
  RunMark::Current()->NameNodes(
      mark_owner_, graph_.nodes.size(),
      [this](uint32_t node) { return NodeTitle(graph_, NodeId{node}); });
  if (num_copied_ == 0) return absl::OkStatus();
  for (const Port& port : inputs_) {
    if (!port.is_copied) continue;
    NODEWISE_RETURN_IF_ERROR(CopyTensor(*port.external, tensors_[port.entry]));
  }
  return absl::OkStatus();
}

// Outputs that could not be written in place come to the caller's memory now.
absl::Status GraphExecutor::FinishRun() {
  has_run_ = true;
  if (num_copied_ == 0) return absl::OkStatus();
  for (const Port& port : outputs_) {
    if (!port.is_copied) continue;
    NODEWISE_RETURN_IF_ERROR(CopyTensor(tensors_[port.entry], *port.external));
  }
  return absl::OkStatus();
}

absl::Status GraphExecutor::CallError(const Call& call) const {
  return At(NodeTitle(graph_, call.node),
            At(graph_.node(call.node).function, call.function.Error()));
}

absl::Status GraphExecutor::CancelledAt(NodeId node) const {
  return At(NodeTitle(graph_, node),
            Cancelled("the run was cancelled before it"));
}

absl::Status GraphExecutor::Run() {
  NODEWISE_RETURN_IF_ERROR(PrepareRun());
  // The loop is what a user times: one try around all calls, one store for the
  // mark, and no status unless a call fails.
  const CandidateFloatEnvironment floats;
  auto call = calls_.begin();
  MarkedRun mark;
  try {
    for (; call != calls_.end(); ++call) {
      if (IsCancelled()) [[unlikely]]
        return CancelledAt(call->node);
      mark.BeginNode(Index(call->node));
      if (call->function.RunUncaught() != 0) [[unlikely]] {
        return CallError(*call);
      }
    }
  } catch (...) {
    PreparedCall::KeepException();
    return CallError(*call);
  }
  return FinishRun();
}

std::string CallNumbersText(absl::Span<const CallNumber> numbers) {
  std::string text;
  for (const CallNumber& number : numbers) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", number.place,
                        number.value);
  }
  return text;
}

absl::StatusOr<std::vector<CallNumber>> CallNumbersOf(const Graph& graph,
                                                      NodeId node,
                                                      size_t tensors) {
  std::vector<CallNumber> numbers;
  for (const auto& [key, text] : graph.node(node).attrs) {
    if (key != kCallNumbers) continue;
    if (ParseCallNumbers(text, tensors, &numbers)) continue;
    return absl::InvalidArgumentError(
        GraphError(graph,
                   fmt::format("/nodes/{}/attrs/{}", Index(node), kCallNumbers),
                   fmt::format("\"{}\"", text),
                   "place=number for arguments in rising order")
            .message());
  }
  return numbers;
}

}  // namespace nodewise
