#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_inputs.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

absl::Status CheckPort(const char* what, size_t number, size_t count) {
  if (number < count) return absl::OkStatus();
  return OutOfRange("{} {}: the graph has {} {}s", what, number, count, what);
}

}  // namespace

// A port is an input or output of the graph, its name, and the tensor of the
// caller that is bound to it, if one is. Each entry has a slot of the plan; a
// bound tensor takes its place, or is copied from or to it around each run
// where the functions could not use it as it lies.

absl::StatusOr<size_t> GraphExecutor::InputIndex(std::string_view name) const {
  // Nearly all names are unique, and need no list of all inputs.
  const auto [first, last] = input_names_.equal_range(std::string(name));
  if (first != last && std::next(first) == last) return first->second;
  std::vector<GraphInput> inputs;
  inputs.reserve(inputs_.size());
  for (const Port& port : inputs_) {
    inputs.push_back(
        {port.name, NodeId{port.node}, port.is_read, port.is_param});
  }
  return FindInput(inputs, name);
}

std::optional<size_t> GraphExecutor::FindOutputByTvmName(
    std::string_view name) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const std::string& node = graph_.nodes[outputs_[i].node].name;
    if (fmt::format("{}:{}", node, i) == name) return i;
  }
  return std::nullopt;
}

absl::StatusOr<size_t> GraphExecutor::OutputIndex(std::string_view name) const {
  // The other names are needed for the hint alone, if no output has this one.
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].name == name) return i;
    names.push_back(outputs_[i].name);
  }
  const std::optional<size_t> tvms = FindOutputByTvmName(name);
  if (tvms.has_value()) return *tvms;
  return NotFound("output {}: the graph has no such output{}", name,
                  DidYouMean(name, names));
}

// A tensor of another shape with as many bytes would be read as it is, and give
// a wrong result without an error.
absl::Status GraphExecutor::CheckType(const Port& port,
                                      const DLTensor& tensor) const {
  const GraphEntry& entry = graph_.entries[port.entry];
  if (IsSameType(tensor.dtype, entry.dtype) &&
      ShapeOf(tensor) == absl::MakeConstSpan(entry.shape)) {
    return absl::OkStatus();
  }
  return InvalidArgument("tensor {} is {}, expected {}", port.name,
                         TypeToString(ShapeOf(tensor), tensor.dtype),
                         TypeToString(entry.shape, entry.dtype));
}

// The calls hold the addresses of these tensors, so that changing where one
// points changes all calls at once. Nodes with flatten_data see a twin, which
// follows.
void GraphExecutor::Repoint(uint32_t base, void* data) {
  for (const uint32_t entry : aliases_[base]) {
    tensors_[entry].data = data;
    const auto flat = flat_tensors_.find(entry);
    if (flat != flat_tensors_.end()) flat->second.second.data = data;
  }
}

// Changes are kept only for inputs that are alone in their memory: see
// MakeChanges().
TensorChanges* GraphExecutor::ChangesOf(uint32_t entry) const {
  const auto found = changes_.find(plan_.base_of[entry]);
  return found == changes_.end() ? nullptr : found->second.get();
}

void GraphExecutor::NoteChange(const Port& port) const {
  TensorChanges* const changes = ChangesOf(port.entry);
  if (changes == nullptr) return;
  ++changes->count;
  // A read-only tensor stays as it is wherever it lies.
  changes->is_bound = port.external.defined() && !port.external.is_read_only();
}

// Every way of setting an input ends here: kernels that keep something of its
// contents, a pass that is under way and the count of missing inputs hear of
// the change.
void GraphExecutor::MarkSet(Port* port) {
  ++input_changes_;
  NoteChange(*port);
  ValueWasSet(EntryId{port->entry});
  if (port->is_read && !port->is_set) --num_unset_;
  port->is_set = true;
}

// Puts the entry back into its slot, but not its contents: the user sets an
// input again, and those of an output are moved by the code that calls this.
void GraphExecutor::Unbind(Port* port) {
  if (!port->external.defined()) return;
  if (port->is_copied) {
    --num_copied_;
  } else {
    const uint32_t base = plan_.base_of[port->entry];
    Repoint(base, slots_[plan_.slot_of[base]].data());
  }
  port->external = NDArray();
  port->is_copied = false;
}

// Linked parameters lie in the library's read-only memory.
absl::Status GraphExecutor::CheckWritable(const Port& port) const {
  return CheckSettable({port.name, NodeId{port.node}, port.is_read,
                        port.is_param, is_linked_[plan_.slot_of[port.entry]]});
}

// Writes to the slot even where a tensor is bound: that tensor is the caller's,
// may be the very one that is copied, and stays bound if the copy fails.
absl::Status GraphExecutor::CopyToSlot(const Port& port,
                                       const DLTensor& tensor) {
  DLTensor slot = tensors_[port.entry];
  slot.data = slots_[plan_.slot_of[port.entry]].data();
  NoteChange(port);  // Also if only half of it is copied.
  return At("input " + port.name, CopyTensor(tensor, slot));
}

absl::Status GraphExecutor::SetInput(size_t input, const DLTensor& tensor) {
  NODEWISE_RETURN_IF_ERROR(CheckPort("input", input, inputs_.size()));
  Port& port = inputs_[input];
  NODEWISE_RETURN_IF_ERROR(At("input", CheckType(port, tensor)));
  NODEWISE_RETURN_IF_ERROR(CheckWritable(port));
  NODEWISE_RETURN_IF_ERROR(CopyToSlot(port, tensor));
  Unbind(&port);
  MarkSet(&port);
  return absl::OkStatus();
}

absl::Status GraphExecutor::SetInput(std::string_view name,
                                     const DLTensor& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputIndex(name));
  return SetInput(input, tensor);
}

absl::StatusOr<size_t> GraphExecutor::CheckNamed(
    const NamedTensor& given) const {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, InputIndex(given.name));
  const Port& port = inputs_[input];
  if (!given.tensor.defined()) {
    return InvalidArgument("input: tensor {} is null", given.name);
  }
  NODEWISE_RETURN_IF_ERROR(At("input", CheckType(port, *given.tensor)));
  NODEWISE_RETURN_IF_ERROR(CheckWritable(port));
  // Copying from another device knows no strides; this is found out before
  // anything is set.
  const bool on_host = given.tensor.device() == kCpu;
  if (on_host || IsCompact(*given.tensor)) return input;
  return InvalidArgument("input: tensor {} has strides, expected a compact one",
                         given.name);
}

absl::Status GraphExecutor::SetInputs(absl::Span<const NamedTensor> tensors) {
  // Two passes: the first finds all that is wrong, and the second sets, so that
  // a wrong tensor leaves no other one set.
  std::vector<size_t> chosen;
  std::vector<bool> is_given(inputs_.size());
  std::string wrong;
  bool all_unknown = true;
  for (const NamedTensor& given : tensors) {
    auto input = CheckNamed(given);
    if (input.ok() && is_given[*input]) {
      input = InvalidArgument("input {}: was given twice", given.name);
    }
    if (input.ok()) {
      is_given[*input] = true;
      chosen.push_back(*input);
      continue;
    }
    all_unknown = all_unknown && absl::IsNotFound(input.status());
    wrong.append(wrong.empty() ? "" : "; ").append(MessageOf(input.status()));
  }
  if (!wrong.empty()) {
    return all_unknown ? absl::NotFoundError(wrong)
                       : absl::InvalidArgumentError(wrong);
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    NODEWISE_RETURN_IF_ERROR(SetInput(chosen[i], *tensors[i].tensor));
  }
  return absl::OkStatus();
}

// What is bound is used where it lies, so it must be on the device of the
// entry, while SetInput copies from any.
absl::Status GraphExecutor::CheckExternal(const Port& port,
                                          const NDArray& array) const {
  if (!array.defined()) return InvalidArgument("tensor {} is null", port.name);
  const DLTensor& tensor = *array;
  NODEWISE_RETURN_IF_ERROR(CheckType(port, tensor));
  const DLDevice wanted = tensors_[port.entry].device;
  if (tensor.device == wanted) return absl::OkStatus();
  return InvalidArgument("tensor {} is on {}, expected {}", port.name,
                         ToString(tensor.device), ToString(wanted));
}

// Compiled code assumes an alignment of the library's and that of an element,
// and computes addresses as if a tensor were compact.
bool GraphExecutor::UsableInPlace(const DLTensor& tensor) const {
  const size_t alignment =
      std::max({alignment_, ElementBytes(tensor.dtype), size_t{1}});
  return IsCompact(tensor) &&
         reinterpret_cast<uintptr_t>(DataOf(tensor)) % alignment == 0;
}

absl::Status GraphExecutor::SetInputZeroCopy(size_t input,
                                             const NDArray& tensor) {
  NODEWISE_RETURN_IF_ERROR(CheckPort("input", input, inputs_.size()));
  Port& port = inputs_[input];
  NODEWISE_RETURN_IF_ERROR(At("input", CheckExternal(port, tensor)));
  // The first copy is made now, so that an error of it is reported here and not
  // by a run.
  const bool is_copied = !UsableInPlace(*tensor);
  if (is_copied) {
    NODEWISE_RETURN_IF_ERROR(CheckWritable(port));
    NODEWISE_RETURN_IF_ERROR(CopyToSlot(port, *tensor));
  }
  Unbind(&port);
  port.external = tensor;
  port.is_copied = is_copied;
  if (is_copied) {
    ++num_copied_;
  } else {
    Repoint(port.entry, tensor.data());
  }
  MarkSet(&port);
  return absl::OkStatus();
}

absl::Status GraphExecutor::SetOutputZeroCopy(size_t output,
                                              const NDArray& tensor) {
  NODEWISE_RETURN_IF_ERROR(CheckPort("output", output, outputs_.size()));
  Port& port = outputs_[output];
  NODEWISE_RETURN_IF_ERROR(At("output", CheckExternal(port, tensor)));
  // The entry's contents are copied to where the entry will be, and to the
  // caller: nodes may still read them, and the output shows them until the next
  // run. All aliases of the entry move, also one whose __nop has not run yet.
  const uint32_t base = plan_.base_of[port.entry];
  const bool is_computed = IsComputed(EntryId{base});
  const NDArray before = EntryArray(port.entry);
  if (is_computed) NODEWISE_RETURN_IF_ERROR(CopyTensor(*before, *tensor));
  Unbind(&port);
  // No node writes an input that is handed on, and a tensor can be in one place
  // only: where it cannot be moved to the caller's memory, it is copied there.
  const NodeId maker = graph_.NodeOf(EntryId{base});
  const bool is_input = graph_.node(maker).kind == GraphNode::Kind::kInput;
  const bool is_taken = std::ranges::any_of(outputs_, [&](const Port& other) {
    return other.external.defined() && !other.is_copied &&
           plan_.base_of[other.entry] == base;
  });
  port.external = tensor;
  port.is_copied = is_input || is_taken || !UsableInPlace(*tensor);
  if (!port.is_copied) {
    Repoint(base, tensor.data());
    if (!is_computed) ValueWasDropped(EntryId{base});
    return absl::OkStatus();
  }
  ++num_copied_;
  if (!is_computed || tensors_[port.entry].data == before.data()) {
    return absl::OkStatus();
  }
  NODEWISE_RETURN_IF_ERROR(CopyTensor(*before, tensors_[port.entry]));
  ValueWasSet(EntryId{base});
  return absl::OkStatus();
}

bool GraphExecutor::IsInSlot(EntryId entry) const {
  const NDArray& slot = slots_[plan_.slot_of[Index(entry)]];
  return tensors_[Index(entry)].data == slot.data();
}

bool GraphExecutor::MayChangeUnseen() const {
  return is_input_lent_ ||
         std::ranges::any_of(inputs_, &NDArray::defined, &Port::external);
}

NDArray GraphExecutor::EntryArray(uint32_t entry) const {
  if (TensorChanges* const changes = ChangesOf(entry)) changes->is_lent = true;
  // Keeps alive what the entry points at now: a bound tensor or its slot.
  const uint32_t base = plan_.base_of[entry];
  for (const std::vector<Port>* ports : {&inputs_, &outputs_}) {
    for (const Port& port : *ports) {
      if (port.external.defined() && !port.is_copied &&
          plan_.base_of[port.entry] == base) {
        return NDArray::Borrow(tensors_[entry],
                               std::make_shared<NDArray>(port.external));
      }
    }
  }
  return NDArray::Borrow(
      tensors_[entry], std::make_shared<NDArray>(slots_[plan_.slot_of[base]]));
}

absl::StatusOr<NDArray> GraphExecutor::GetInput(size_t input) {
  NODEWISE_RETURN_IF_ERROR(CheckPort("input", input, inputs_.size()));
  Port& port = inputs_[input];
  // An input that is copied from the caller's memory lives there.
  if (port.external.defined()) return port.external;
  // The caller may write through the array at any time.
  is_input_lent_ = true;
  if (port.is_set) {
    ++input_changes_;
  } else {
    MarkSet(&port);
  }
  return EntryArray(port.entry);
}

// A bound tensor is the output's memory, also where it is a copy of the entry.
absl::StatusOr<NDArray> GraphExecutor::GetOutput(size_t output) const {
  NODEWISE_RETURN_IF_ERROR(CheckPort("output", output, outputs_.size()));
  const Port& port = outputs_[output];
  if (port.external.defined()) return port.external;
  return EntryArray(port.entry);
}

absl::Status GraphExecutor::CopyOutput(size_t output,
                                       const DLTensor& to) const {
  NODEWISE_RETURN_IF_ERROR(CheckPort("output", output, outputs_.size()));
  const Port& port = outputs_[output];
  NODEWISE_RETURN_IF_ERROR(At("output", CheckType(port, to)));
  // Memory that no node has written holds anything, and must not be shown as a
  // result.
  if (!IsComputed(EntryId{port.entry})) {
    return FailedPrecondition("output {}: the graph has not been run{}",
                              port.name, has_run_ ? " to its end since" : "");
  }
  return CopyTensor(tensors_[port.entry], to);
}

// An input and a parameter may have one name; ChooseParam() tells them apart.
absl::StatusOr<size_t> GraphExecutor::ParamIndex(std::string_view name,
                                                 const DLTensor& tensor) const {
  std::vector<size_t> named;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].name == name) named.push_back(i);
  }
  if (named.empty()) {
    return NotFound("parameter {}: the graph has no such input", name);
  }
  return ChooseParam(graph_, named, ShapeOf(tensor), tensor.dtype);
}

absl::Status GraphExecutor::SetParam(std::string_view name,
                                     const DLTensor& tensor) {
  NODEWISE_ASSIGN_OR_RETURN(const size_t input, ParamIndex(name, tensor));
  NODEWISE_RETURN_IF_ERROR(SetInput(input, tensor));
  inputs_[input].is_param = true;
  return absl::OkStatus();
}

// All are checked before the first is set, so that nothing is set if one of
// them does not fit.
absl::StatusOr<LoadedParams> GraphExecutor::SetAllParams(const Params& params,
                                                         bool in_place) {
  LoadedParams loaded;
  std::vector<std::pair<size_t, const NDArray*>> work;
  const ParamNames names(graph_);
  for (const NamedTensor& param : params.tensors) {
    const ParamNames::Meaning meaning =
        names.Find(param.name, param.tensor.shape(), param.tensor.dtype());
    if (meaning.kind == ParamNames::Kind::kComputed) ++loaded.computed;
    if (meaning.kind == ParamNames::Kind::kUnknown) {
      loaded.unknown.push_back(param.name);
    }
    if (meaning.kind != ParamNames::Kind::kInput) continue;
    const Port& port = inputs_[meaning.input];
    NODEWISE_RETURN_IF_ERROR(At("params", CheckType(port, *param.tensor)));
    NODEWISE_RETURN_IF_ERROR(At("params", CheckWritable(port)));
    work.emplace_back(meaning.input, &param.tensor);
  }
  for (const auto& [input, tensor] : work) {
    Port& port = inputs_[input];
    // Changes are only known of inputs that are alone in their memory. Memory
    // that a caller hands out for them is meant to be used: it may be guarded.
    const bool is_bound = in_place && !options_.allocate &&
                          ChangesOf(port.entry) != nullptr &&
                          tensor->device() == tensors_[port.entry].device &&
                          UsableInPlace(**tensor);
    NODEWISE_RETURN_IF_ERROR(is_bound ? SetInputZeroCopy(input, *tensor)
                                      : SetInput(input, **tensor));
    port.is_param = true;
    ++loaded.set;
  }
  return loaded;
}

// Executors over one network, for several threads say, need the parameters
// once. Both then keep the memory alive.
absl::Status GraphExecutor::ShareParams(GraphExecutor& other,
                                        absl::Span<const std::string> names) {
  for (const std::string& name : names) {
    // If several have that name, the parameter is meant, or else the last.
    Port* from = nullptr;
    for (Port& port : other.inputs_) {
      if (port.name != name) continue;
      if (from == nullptr || port.is_param || !from->is_param) from = &port;
    }
    if (from == nullptr || input_names_.count(name) == 0) continue;
    const std::string where = "shared parameter " + name;
    if (!from->is_set) {
      return FailedPrecondition(
          "{}: the other executor's was never set (set it first)", where);
    }
    NODEWISE_ASSIGN_OR_RETURN(
        const NDArray shared,
        other.GetInput(static_cast<size_t>(from - other.inputs_.data())));
    NODEWISE_ASSIGN_OR_RETURN(const size_t to, ParamIndex(name, *shared));
    NODEWISE_RETURN_IF_ERROR(At(where, SetInputZeroCopy(to, shared)));
    inputs_[to].is_param = from->is_param = true;
  }
  return absl::OkStatus();
}

// Copies, since the next run writes to the same memory.
absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor) {
  std::vector<NamedTensor> outputs;
  for (size_t i = 0; i < executor.NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor.GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, output.CopyToHost());
    outputs.push_back({executor.OutputInfo(i).name, std::move(copy)});
  }
  MakeNamesUnique(&outputs);
  return outputs;
}

void MakeNamesUnique(std::vector<NamedTensor>* tensors) {
  std::set<std::string> taken;
  for (NamedTensor& entry : *tensors) {
    const std::string name = entry.name;
    for (int n = 2; !taken.insert(entry.name).second; ++n) {
      entry.name = fmt::format("{}_{}", name, n);
    }
  }
}

}  // namespace nodewise
